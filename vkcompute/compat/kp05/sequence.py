"""A sequence: operations recorded between `begin` and `end`, and evaluated as often as wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.compat import kp
from vkcompute.compat.kp05.operations import OPERATIONS
from vkcompute.errors import KomputeError

FOREVER = (1 << 64) - 1


def _recording(name: str) -> Callable[..., bool]:
    """The method that records an operation."""

    def record(self: Sequence, tensors: Any, *args: Any, **named: Any) -> bool:
        self.require_recording()
        return self.record(OPERATIONS[name](self._manager, tensors, *args, **named))

    record.__name__, record.__doc__ = f"record_{name}", OPERATIONS[name].__doc__
    return record


class Sequence:
    """Made by `Manager.create_sequence`. Operations are ordered by what they touch, between sequences, too.

    The `record_` methods take a list of tensors, and what the operation takes besides; they raise KomputeError outside
    of `begin` and `end`, and where a tensor has no memory on the device.
    """

    def __init__(self, manager: kp.Manager, queue_index: int) -> None:
        self._manager, self._current = manager, manager.sequence(queue_index)
        self._recording = False

    record_tensor_create = _recording("tensor_create")
    record_tensor_copy = _recording("tensor_copy")
    record_tensor_sync_device = _recording("tensor_sync_device")
    record_tensor_sync_local = _recording("tensor_sync_local")
    record_algo_mult = _recording("algo_mult")
    record_algo_file = _recording("algo_file")
    record_algo_str = _recording("algo_str")
    record_algo_data = _recording("algo_data")

    def begin(self) -> bool:
        """Forgets what was recorded, and records from now on; True.

        Raises:
            KomputeError: it records already, is running, or is destroyed.
        """
        self._demand(not self._recording, "begins, and is recording already; call end() first")
        self._demand(not self.is_running(), "begins, and is running; call eval_await() first")
        self._current.clear()
        self._recording = True
        return True

    def record(self, operation: kp.OpBase) -> bool:
        """Adds an operation; True."""
        self.require_recording()
        self._current.record(operation)
        return True

    def require_recording(self) -> None:
        """Raises KomputeError outside of `begin` and `end`."""
        self._demand(self._recording, "records between begin() and end(); call begin() first")

    def end(self) -> bool:
        """Ends the recording; True."""
        self._demand(self._recording, "ends, and is not recording; call begin() first")
        self._recording = False
        return True

    def eval(self) -> bool:
        """Runs what is recorded, and waits for it; True."""
        return self.eval_async() and self.eval_await()

    def eval_async(self) -> bool:
        """Starts what is recorded; True.

        Raises:
            KomputeError: it is recording, running or destroyed, or a tensor that it uses is.
        """
        self._demand(not self._recording, "is evaluated, and is recording; call end() first")
        self._current.eval_async()
        return True

    def eval_await(self, waitFor: int = FOREVER) -> bool:
        """Waits for at most so many ns; whether something ran and has finished."""
        return self.is_running() and not self._current.eval_await(waitFor).is_running()

    def is_rec(self) -> bool:
        """Whether it is between `begin` and `end`."""
        return self._recording and self.is_init()

    def is_running(self) -> bool:
        """Whether it has been started and not been awaited to its end."""
        return self._current.is_running()

    def is_init(self) -> bool:
        """Whether it can be used: neither it nor its manager has been destroyed."""
        return self._current.is_init()

    def destroy(self) -> None:
        """Lets go of what it holds; twice is once."""
        self._current.destroy()

    def evaluate(self, operation: kp.OpBase, *, wait: bool) -> bool:
        """Runs an operation in place of what is recorded."""
        self.begin()
        try:
            self.record(operation)
        finally:
            self.end()
        return self.eval() if wait else self.eval_async()

    def _demand(self, condition: bool, rule: str) -> None:
        if not condition:
            raise KomputeError(f"a Sequence {rule}")

    def __repr__(self) -> str:
        state = "recording" if self._recording else "running" if self.is_running() else "idle"
        return f"<kp.Sequence, {state if self.is_init() else 'destroyed'}>"
