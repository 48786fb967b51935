"""Managers: an open device, its named sequences, and the evaluation of single operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy.typing as npt

from vkcompute.compat import kp
from vkcompute.compat.kp05.operations import OPERATIONS, operation
from vkcompute.compat.kp05.sequence import FOREVER, Sequence
from vkcompute.compat.kp05.tensor import Tensor, TensorTypes
from vkcompute.errors import KomputeError

_NAMED = " Uses the sequence of this name, which is made if there is none.\n"
_ANONYMOUS = " Uses a new sequence.\n"
_ASYNC = " Returns at once; `eval_await` waits.\n"


def _anonymous(name: str, *, wait: bool = True) -> Callable[..., bool]:
    """Returns the method that evaluates an operation in a new sequence."""

    def evaluate(self: Manager, tensors: Any, *args: Any, **named: Any) -> bool:
        op = operation(name, self.current, tensors, *args, **named)
        return self.create_sequence().evaluate(op, wait=wait)

    return _described(evaluate, name, f"eval_{'' if wait else 'async_'}{name}_def", _ANONYMOUS + _ASYNC * (not wait))


def _named(name: str, *, wait: bool = True) -> Callable[..., bool]:
    """Returns the method that evaluates an operation in a named sequence."""

    def evaluate(self: Manager, tensors: Any, sequence_name: str, *args: Any, **named: Any) -> bool:
        op = operation(name, self.current, tensors, *args, **named)
        return self.get_create_sequence(sequence_name).evaluate(op, wait=wait)

    return _described(evaluate, name, f"eval_{'' if wait else 'async_'}{name}", _NAMED + _ASYNC * (not wait))


def _described(method: Callable[..., bool], name: str, title: str, more: str) -> Callable[..., bool]:
    method.__name__ = title
    method.__doc__ = (OPERATIONS[name].__doc__ or "").replace("\n", more, 1) or None
    return method


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

    eval_tensor_create = _named("tensor_create")
    eval_tensor_create_def = _anonymous("tensor_create")
    eval_async_tensor_create = _named("tensor_create", wait=False)
    eval_async_tensor_create_def = _anonymous("tensor_create", wait=False)
    eval_tensor_copy = _named("tensor_copy")
    eval_tensor_copy_def = _anonymous("tensor_copy")
    eval_async_tensor_copy = _named("tensor_copy", wait=False)
    eval_async_tensor_copy_def = _anonymous("tensor_copy", wait=False)
    eval_tensor_sync_device = _named("tensor_sync_device")
    eval_tensor_sync_device_def = _anonymous("tensor_sync_device")
    eval_async_tensor_sync_device = _named("tensor_sync_device", wait=False)
    eval_async_tensor_sync_device_def = _anonymous("tensor_sync_device", wait=False)
    eval_tensor_sync_local = _named("tensor_sync_local")
    eval_tensor_sync_local_def = _anonymous("tensor_sync_local")
    eval_async_tensor_sync_local = _named("tensor_sync_local", wait=False)
    eval_async_tensor_sync_local_def = _anonymous("tensor_sync_local", wait=False)
    eval_algo_mult = _named("algo_mult")
    eval_algo_mult_def = _anonymous("algo_mult")
    eval_async_algo_mult = _named("algo_mult", wait=False)
    eval_async_algo_mult_def = _anonymous("algo_mult", wait=False)
    eval_algo_file = _named("algo_file")
    eval_algo_file_def = _anonymous("algo_file")
    eval_async_algo_file = _named("algo_file", wait=False)
    eval_async_algo_file_def = _anonymous("algo_file", wait=False)
    eval_algo_str = _named("algo_str")
    eval_algo_str_def = _anonymous("algo_str")
    eval_async_algo_str = _named("algo_str", wait=False)
    eval_async_algo_str_def = _anonymous("algo_str", wait=False)
    eval_algo_data = _named("algo_data")
    eval_algo_data_def = _anonymous("algo_data")
    eval_async_algo_data = _named("algo_data", wait=False)
    eval_async_algo_data_def = _anonymous("algo_data", wait=False)
    eval_algo_lro = _named("algo_lro")
    eval_algo_lro_def = _anonymous("algo_lro")
    eval_async_algo_lro = _named("algo_lro", wait=False)
    eval_async_algo_lro_def = _anonymous("algo_lro", wait=False)

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
        for each in given:
            each.create(self.current)
        if syncDataToGPU and given:
            self.eval_tensor_sync_device_def(given)

    def destroy(self, what: Tensor | Sequence | str | Iterable[Tensor | Sequence | str] | None = None) -> None:
        """Destroys tensors, sequences, and sequences by name; by default, all objects of the manager.

        Raises:
            KomputeError: no sequence has that name.
        """
        if what is None:
            return self.current.destroy()
        for each in [what] if isinstance(what, (Tensor, Sequence, str)) else list(what):
            found = self._sequences.get(each) if isinstance(each, str) else each
            if found is None:
                raise KomputeError(f"no sequence is called {each!r}; there are {sorted(self._sequences)}")
            found.destroy()
            self._sequences = {name: kept for name, kept in self._sequences.items() if kept is not found}
        return None

    def __repr__(self) -> str:
        return repr(self.current)
