"""State of a manager that its objects share."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.runtime.runtime import Runtime


class ManagerBase:
    """Base class of `Manager`: an open runtime, and the objects to destroy with it.

    Attributes:
        runtime: of vkcompute; all objects of the manager use it.
        n_destroyed: number of memory objects and algorithms destroyed so far.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.n_destroyed = runtime, 0
        self._children: WeakSet[Child] = WeakSet()

    def require_open(self) -> Runtime:
        """Returns the runtime.

        Raises:
            KomputeError: the manager is destroyed.
        """
        if self.runtime.closed:
            raise KomputeError("this Manager is destroyed; make a new one")
        return self.runtime

    def register(self, child: Child) -> None:
        """Adds an object that `destroy` destroys."""
        self._children.add(child)

    def require_own(self, child: Child) -> None:
        """Raises KomputeError if an object belongs to another manager, or is destroyed."""
        if child.manager is not self:
            raise KomputeError(
                f"this {type(child).__name__} belongs to another Manager; make one with the Manager in use"
            )
        child.require_init()

    def destroy(self) -> None:
        """Destroys all objects of the manager, once the device has finished with them. May be called twice."""
        for child in list(self._children):
            child.destroy()
        self.runtime.close()


class Child:
    """Base class of a manager's objects.

    Attributes:
        manager: the manager that made the object.
    """

    manager: ManagerBase

    def is_init(self) -> bool:
        """Returns True if the object can be used: neither it nor its manager is destroyed."""
        raise NotImplementedError

    def destroy(self) -> None:
        """Releases the object's resources. May be called twice."""
        raise NotImplementedError

    def require_init(self) -> None:
        """Raises KomputeError if the object is destroyed."""
        if not self.is_init():
            raise KomputeError(f"this {type(self).__name__} is destroyed; make a new one with its manager")
