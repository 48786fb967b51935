"""Sequences: operations that are recorded between `begin` and `end`, and evaluated any number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkcompute.compat import kp
from vkcompute.compat.kp05.operations import OPERATIONS, operation
from vkcompute.errors import KomputeError

FOREVER = (1 << 64) - 1


class Sequence:
    """A list of operations, made by `Manager.create_sequence`.

    Operations are ordered by the memory that they use, within a sequence and between sequences. The `record_` methods
    take a list of tensors, and the operation's own arguments. They raise KomputeError outside of `begin` and `end`, and
    for tensors without device memory.
    """

    def __init__(self, manager: kp.Manager, queue_index: int) -> None:
        self._manager, self._current = manager, manager.sequence(queue_index)
        self._recording = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., bool]: ...  # the methods that _add_method adds

    def init(self) -> None:
        """Does nothing: the manager initializes its sequences.

        Raises:
            KomputeError: the sequence or its manager is destroyed.
        """
        self._current.require_init()

    def begin(self) -> bool:
        """Removes all operations and begins a recording; returns True.

        Raises:
            KomputeError: the sequence is recording already, running, or destroyed.
        """
        self._require(not self._recording, "cannot begin: it is recording already; call end() first")
        self._require(not self.is_running(), "cannot begin: it is running; call eval_await() first")
        self._current.clear()
        self._recording = True
        return True

    def record(self, op: kp.OpBase) -> bool:
        """Adds an operation; returns True."""
        self.require_recording()
        self._current.record(op)
        return True

    def require_recording(self) -> None:
        """Raises KomputeError outside of `begin` and `end`."""
        self._require(self._recording, "records between begin() and end(); call begin() first")

    def end(self) -> bool:
        """Ends the recording; returns True."""
        self._require(self._recording, "cannot end: it is not recording; call begin() first")
        self._recording = False
        return True

    def eval(self) -> bool:
        """Runs the operations and waits for them; returns True."""
        return self.eval_async() and self.eval_await()

    def eval_async(self) -> bool:
        """Submits the operations; returns True.

        Raises:
            KomputeError: the sequence is recording, running or destroyed, or one of its tensors is destroyed.
        """
        self._require(not self._recording, "cannot be evaluated: it is recording; call end() first")
        self._current.eval_async()
        return True

    def eval_await(self, waitFor: int = FOREVER) -> bool:
        """Waits at most `waitFor` ns; returns True if an evaluation was running and has finished."""
        return self.is_running() and not self._current.eval_await(waitFor).is_running()

    def is_rec(self) -> bool:
        """Returns True between `begin` and `end`."""
        return self._recording and self.is_init()

    def is_running(self) -> bool:
        """Returns True if an evaluation was submitted and not awaited to its end."""
        return self._current.is_running()

    def is_init(self) -> bool:
        """Returns True if the sequence can be used: neither it nor its manager is destroyed."""
        return self._current.is_init()

    def destroy(self) -> None:
        """Releases the operations. May be called twice."""
        self._current.destroy()

    def evaluate(self, op: kp.OpBase, *, wait: bool) -> bool:
        """Replaces all operations by one, and submits it or runs it to its end."""
        self.begin()
        try:
            self.record(op)
        finally:
            self.end()
        return self.eval() if wait else self.eval_async()

    def _require(self, condition: bool, rule: str) -> None:
        if not condition:
            raise KomputeError(f"a Sequence {rule}")

    def __repr__(self) -> str:
        state = "recording" if self._recording else "running" if self.is_running() else "idle"
        return f"<kp.Sequence, {state if self.is_init() else 'destroyed'}>"


def _add_method(operation_name: str) -> None:
    """Adds the method to record an operation."""

    def record(self: Sequence, tensors: Any, *args: Any, **named: Any) -> bool:
        self.require_recording()
        return self.record(operation(operation_name, self._manager, tensors, *args, **named))

    record.__name__, record.__doc__ = f"record_{operation_name}", OPERATIONS[operation_name].__doc__
    setattr(Sequence, record.__name__, record)


for _name in OPERATIONS:
    _add_method(_name)
