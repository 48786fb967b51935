"""What sequences record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from vkcompute.compat.kp.algorithm import Algorithm, memory_only
from vkcompute.compat.kp.image import Image
from vkcompute.compat.kp.memory import Command, Memory
from vkcompute.errors import KomputeError


class OpBase:
    """An operation.

    Attributes:
        objects: what it uses: memory objects, or an algorithm.
    """

    objects: tuple[Memory | Algorithm, ...] = ()

    @property
    def has_images(self) -> bool:
        """Whether an image is among what it uses."""
        return any(
            isinstance(each, Image) or (isinstance(each, Algorithm) and each.has_images) for each in self.objects
        )

    def commands(self) -> list[Command]:
        """What the operation does, as it stands now.

        Raises:
            KomputeError: the objects do not fit each other.
        """
        raise NotImplementedError(f"{type(self).__name__} does nothing; record one of the operations derived from it")

    def state(self) -> Any:
        """What the commands follow from: of operations with equal ones they are the same. None if that is not known."""
        return None


class _OnMemory(OpBase):
    """An operation that memory objects are all there is to."""

    least = 1

    def __init__(self, memory: Iterable[Memory]) -> None:
        self.objects = self._memory = memory_only(type(self).__name__, memory)
        if len(self._memory) < self.least:
            found = f"at least {self.least} memory objects; got {len(self._memory)}"
            raise KomputeError(f"{type(self).__name__} takes {found}")

    def state(self) -> Any:
        return type(self), self._memory


class OpSyncDevice(_OnMemory):
    """Copies memory objects from the host's side to the device's."""

    def commands(self) -> list[Command]:
        return [command for each in self._memory for command in each.to_device()]


class OpSyncLocal(_OnMemory):
    """Copies memory objects from the device's side to the host's."""

    def commands(self) -> list[Command]:
        return [command for each in self._memory for command in each.to_host()]


class OpCopy(_OnMemory):
    """Copies the first memory object to all others, both sides of it."""

    least = 2

    def commands(self) -> list[Command]:
        first, *others = self._memory
        return [command for other in others for command in first.copy_to(other)]


class OpAlgoDispatch(OpBase):
    """Runs an algorithm, with its push constants or with others of the same size."""

    def __init__(self, algorithm: Algorithm, push_consts: Any = ()) -> None:
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"{type(self).__name__} takes an Algorithm; got {type(algorithm).__name__}")
        self.objects, self._push_consts, self._algorithm = (algorithm,), push_consts, algorithm

    def commands(self) -> list[Command]:
        return self._algorithm.dispatch(self._push_consts)

    def state(self) -> Any:
        return None if np.size(self._push_consts) else (self._algorithm, *self._algorithm.state())


class OpMult(OpAlgoDispatch):
    """Multiplies the first tensor by the second into the third, element by element; the algorithm becomes that one."""

    def __init__(self, tensors: Iterable[Memory], algorithm: Algorithm) -> None:
        super().__init__(algorithm)
        algorithm.become_product(list(tensors))
