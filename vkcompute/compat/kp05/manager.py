"""Managers: an open device, its named sequences, and the evaluation of single operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from vkcompute.compat import kp
from vkcompute.compat.kp05.operations import OPERATIONS, operation
from vkcompute.compat.kp05.sequence import FOREVER, Sequence
from vkcompute.compat.kp05.tensor import Tensor, TensorTypes
from vkcompute.errors import KomputeError


class Manager:
    """Opens a device.

    `eval_X_def(tensors, …)` evaluates one operation and waits for it; `eval_X(tensors, name, …)` does so in a named
    sequence. `eval_async_X_def` and `eval_async_X` submit the operation; `eval_await_def` and `eval_await` wait.

    Args:
        physicalDeviceIndex: index in the loader's order, or part of the name.
        familyQueueIndices: one queue is opened for each.

    Attributes:
        current: the `vkcompute.compat.kp.Manager` that this manager uses.

    Raises:
        KomputeError: no device fits.
    """

    def __init__(self, physicalDeviceIndex: int | str = 0, familyQueueIndices: Collection[int] = ()) -> None:
        self.current = kp.Manager(physicalDeviceIndex, familyQueueIndices)
        self._sequences: dict[str, Sequence] = {}
        self._last: Sequence | None = None  # of the anonymous sequences

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., bool]: ...  # the methods that _add_methods adds

    # -- sequences ----------------------------------------------------------------------------------------------------

    def create_sequence(self, name: str = "", queueIndex: int = 0) -> Sequence:
        """Makes a sequence, and gives it the name if no other sequence has it.

        Raises:
            KomputeError: the manager has no such queue, or is destroyed.
        """
        sequence = Sequence(self.current, queueIndex)
        if name:
            self._sequences.setdefault(name, sequence)
        else:
            self._last = sequence
        return sequence

    def get_create_sequence(self, name: str, queueIndex: int = 0) -> Sequence:
        """Returns the sequence of this name; makes it if there is none."""
        return self._sequences.get(name) or self.create_sequence(name, queueIndex)

    def sequence(self, name: str = "", queueIndex: int = 0) -> Sequence:
        """Returns `get_create_sequence(name)`, or without a name `create_sequence()`."""
        return self.get_create_sequence(name, queueIndex) if name else self.create_sequence("", queueIndex)

    def eval_await(self, sequenceName: str, waitFor: int = FOREVER) -> bool:
        """Waits at most `waitFor` ns for a named sequence; returns True if it was running and has finished.

        Raises:
            KomputeError: no sequence has this name.
        """
        if sequenceName not in self._sequences:
            raise KomputeError(f"no sequence is called {sequenceName!r}; there are {sorted(self._sequences)}")
        return self._sequences[sequenceName].eval_await(waitFor)

    def eval_await_def(self, waitFor: int = FOREVER) -> bool:
        """Waits for the last anonymous sequence as `eval_await` does; returns False if there is none."""
        return self._last is not None and self._last.eval_await(waitFor)

    # -- tensors ------------------------------------------------------------------------------------------------------

    def build_tensor(self, data: npt.ArrayLike, tensorType: TensorTypes = TensorTypes.device) -> Tensor:
        """Makes a tensor, allocates its device memory, and copies the data to it."""
        tensor = Tensor(data, tensorType)
        self.rebuild(tensor)
        return tensor

    def tensor(
        self, data: npt.ArrayLike, tensorType: TensorTypes = TensorTypes.device, syncDataToGPU: bool = True
    ) -> Tensor:
        """Makes a tensor and allocates its device memory.

        Args:
            syncDataToGPU: copy the data to the device; else the device side is undefined.
        """
        tensor = Tensor(data, tensorType)
        self.rebuild(tensor, syncDataToGPU)
        return tensor

    def rebuild(self, tensors: Tensor | Iterable[Tensor], syncDataToGPU: bool = True) -> None:
        """Allocates device memory for tensors, in place of earlier allocations.

        Args:
            syncDataToGPU: copy the data to the device; else the device side is undefined.
        """
        given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        for tensor in given:
            tensor.create(self.current)
        if syncDataToGPU and given:
            self.eval_tensor_sync_device_def(given)

    def destroy(self, what: Tensor | Sequence | str | Iterable[Tensor | Sequence | str] | None = None) -> None:
        """Destroys tensors, sequences, and sequences by name; by default, all objects of the manager.

        Raises:
            KomputeError: no sequence has that name.
        """
        if what is None:
            return self.current.destroy()
        for item in [what] if isinstance(what, (Tensor, Sequence, str)) else list(what):
            sequence = self._sequences.get(item) if isinstance(item, str) else item
            if sequence is None:
                raise KomputeError(f"no sequence is called {item!r}; there are {sorted(self._sequences)}")
            sequence.destroy()
            self._sequences = {name: kept for name, kept in self._sequences.items() if kept is not sequence}
        return None

    def __repr__(self) -> str:
        return repr(self.current)


def _add_methods(operation_name: str, prefix: str, *, wait: bool) -> None:
    """Adds the methods to evaluate an operation in a named sequence, and in a new one."""

    def in_named(self: Manager, tensors: Any, sequence_name: str, *args: Any, **named: Any) -> bool:
        op = operation(operation_name, self.current, tensors, *args, **named)
        return self.get_create_sequence(sequence_name).evaluate(op, wait=wait)

    def in_new(self: Manager, tensors: Any, *args: Any, **named: Any) -> bool:
        op = operation(operation_name, self.current, tensors, *args, **named)
        return self.create_sequence().evaluate(op, wait=wait)

    summary, newline, details = (OPERATIONS[operation_name].__doc__ or "").partition("\n")
    waiting = "" if wait else " Returns at once; `eval_await` waits."
    for method, suffix, sequence in (
        (in_named, "", "the sequence of this name, which is made if there is none"),
        (in_new, "_def", "a new sequence"),
    ):
        method.__name__ = f"{prefix}{operation_name}{suffix}"
        method.__doc__ = f"{summary} Uses {sequence}.{waiting}{newline}{details}"
        setattr(Manager, method.__name__, method)


for _name in OPERATIONS:
    _add_methods(_name, "eval_", wait=True)
    _add_methods(_name, "eval_async_", wait=False)
