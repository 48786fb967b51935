"""Sequences: operations that are recorded once and evaluated any number of times."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from vkcompute.compat.kp.context import Child, ManagerBase
from vkcompute.compat.kp.memory_objects import Command
from vkcompute.compat.kp.operations import OpBase
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.compat.kp.timestamps import Timestamps
    from vkcompute.runtime.graphs.graph import Graph
    from vkcompute.runtime.scheduling.future import Future

logger = logging.getLogger("kp")
_FOREVER = (1 << 64) - 1
_EAGER_EVALS, _EAGER_EVALS_OF_ONE = 1, 3
"""Evaluations before commands are recorded as a graph, and those of a single operation: recording costs as much"""


class Sequence(Child):
    """A list of operations, made by `Manager.sequence`.

    The first operation recorded after an evaluation discards the earlier ones. Operations are ordered by the memory
    that they use, within a sequence and between sequences.

    The first evaluation submits the operations one by one; later ones replay them as a graph. An operation that is
    evaluated alone becomes a graph, too, after some evaluations in a row.
    """

    def __init__(self, manager: ManagerBase, total_timestamps: int) -> None:
        self.manager = manager
        self._operations: list[OpBase] = []  # since clear()
        self._recorded: list[OpBase] = []  # since the recording began
        self._commands: list[Command] = []
        self._graph: Graph | None = None
        self._futures: list[Future] = []
        self._timestamps: Timestamps | None = None
        self._recording = self._running = self._has_images = False
        self._n_eager = 0  # evaluations without a graph
        self._single_key: Any = None  # key of the operation that was evaluated alone
        self._open = True
        self._n_destroyed_checked = manager.n_destroyed
        if total_timestamps:
            from vkcompute.compat.kp.timestamps import Timestamps  # here, because it imports the vulkan package

            self._timestamps = Timestamps(manager.require_open(), total_timestamps)
        manager.register(self)

    # -- recording ----------------------------------------------------------------------------------------------------

    def record(self, op: OpBase) -> Sequence:
        """Adds an operation; returns the sequence.

        Raises:
            KomputeError: the sequence is running; or an object of the operation is destroyed, belongs to another
                manager, or does not fit.
            TypeError: `op` is not an operation.
        """
        self._require_idle("record")
        _require_operation(op)
        self._single_key = None
        self._require_own_objects([op])
        commands = op.commands()
        n_operations = 1 if not self._recording else len(self._recorded) + 1
        if self._timestamps is not None:
            commands = self._timestamps.wrapped(commands, n_operations)
        if not self._recording:
            self._begin()
        self._operations.append(op)
        self._recorded.append(op)
        self._has_images |= op.has_images
        self._commands += commands
        return self

    def _begin(self) -> None:
        self._recorded, self._commands = [], []
        self._close_graph()
        self._recording, self._n_eager, self._has_images = True, 0, False

    def rerecord(self) -> None:
        """Records all operations since the last `clear` anew, for their objects in their present state.

        Raises:
            KomputeError: as `record`.
        """
        self._require_idle("rerecord")
        operations = self._operations
        self._require_own_objects(operations)  # before clear(), so that an error leaves the sequence unchanged
        self.clear()
        for op in operations:
            self.record(op)

    def clear(self) -> None:
        """Removes all operations and ends the recording."""
        self.require_init()
        self._operations, self._recorded, self._commands = [], [], []
        self._recording, self._n_eager, self._single_key = False, 0, None
        self._close_graph()

    def _close_graph(self) -> None:
        if self._graph is not None:
            self._graph.close()
            self._graph = None

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def eval(self, op: OpBase | None = None) -> Sequence:
        """Calls `eval_async`, then `eval_await`; returns the sequence."""
        return self.eval_async(op).eval_await()

    def eval_async(self, op: OpBase | None = None) -> Sequence:
        """Submits the recorded operations, or replaces them by `op` and submits that; returns the sequence.

        Raises:
            KomputeError: the sequence is running already, or an object that it uses is destroyed.
        """
        self._require_idle("evaluate")
        if op is not None:
            _require_operation(op)
            if self._single_key is None or op.commands_key() != self._single_key:
                self.clear()
                self.record(op)
                self._single_key = op.commands_key()
        self._recording = False
        if self._n_destroyed_checked != self.manager.n_destroyed:
            self._require_own_objects(self._recorded)
            self._n_destroyed_checked = self.manager.n_destroyed
        if self._commands:
            self._futures = self._submit()
        self._running = True
        return self

    def _submit(self) -> list[Future]:
        n_eager = _EAGER_EVALS if self._single_key is None else _EAGER_EVALS_OF_ONE
        if self._timestamps is not None:
            self._timestamps.reset()
        elif self._n_eager < n_eager and not self._has_images:
            self._n_eager += 1
            futures = [command() for command in self._commands]
            for future in futures:
                future.point()  # submits it
            return futures
        if self._graph is None:
            with self.manager.require_open().record() as graph:
                for command in self._commands:
                    command()
            self._graph = graph
        return [self._graph.submit()]

    def eval_await(self, wait_for: int = _FOREVER) -> Sequence:
        """Waits at most `wait_for` ns for the evaluation; returns the sequence.

        After a timeout the sequence is still running, as `is_running` tells, and can be awaited again. Returns at once
        if nothing is running. The log "kp" has a warning in both cases.

        Raises:
            KomputeError: `wait_for` is negative.
            VulkanError: the work failed.
        """
        self.require_init()
        if wait_for < 0:
            raise KomputeError(f"wait_for is a number of ns, 0 or more; got {wait_for}")
        if not self._running:
            logger.warning("eval_await of a sequence that is not running")
            return self
        try:
            for future in self._futures:
                future.result(None if wait_for >= _FOREVER else wait_for / 1e9)
        except TimeoutError:
            logger.warning("eval_await: not finished after %d ns; the sequence is still running", wait_for)
            return self
        except Exception:
            self._running = False
            raise
        self._futures, self._running = [], False
        return self

    # -- state --------------------------------------------------------------------------------------------------------

    def is_recording(self) -> bool:
        """Returns True if an operation was recorded since the last evaluation or `clear`."""
        return self._recording

    def is_running(self) -> bool:
        """Returns True if an evaluation was submitted and not awaited to its end."""
        return self._running

    def is_init(self) -> bool:
        """Returns True if the sequence can be used: neither it nor its manager is destroyed."""
        return self._open and not self.manager.runtime.closed

    def get_timestamps(self) -> list[int]:
        """Returns device timestamps of the last evaluation: before the first operation, and after each; in ticks.

        Raises:
            KomputeError: the sequence was made without timestamps, or was not evaluated to its end.
        """
        return self._require_timestamps().ticks(len(self._recorded) + 1)

    def get_timestamps_ns(self) -> list[float]:
        """Returns the timestamps in ns since the first one; raises as `get_timestamps`."""
        return self._require_timestamps().ns(len(self._recorded) + 1)

    def _require_timestamps(self) -> Timestamps:
        self._require_idle("read timestamps of")
        if self._timestamps is None:
            raise KomputeError("this sequence has no timestamps; make it with Manager.sequence(total_timestamps=n)")
        return self._timestamps

    def destroy(self) -> None:
        """Releases the operations and the graph once the device has finished with them. May be called twice."""
        if self._open:
            self._open = self._running = self._recording = False
            self._operations, self._recorded, self._commands, self._futures = [], [], [], []
            self._single_key = None
            self._close_graph()
            if self._timestamps is not None:
                self._timestamps.close()

    def _require_own_objects(self, operations: list[OpBase]) -> None:
        for op in operations:
            for operand in op.objects:
                self.manager.require_own(operand)

    def _require_idle(self, action: str) -> None:
        self.require_init()
        if self._running:
            raise KomputeError(f"cannot {action} a sequence that is running; call eval_await() first")

    def __repr__(self) -> str:
        state = "running" if self._running else "recording" if self._recording else "idle"
        return f"<kp.Sequence of {len(self._recorded)} operations, {state if self.is_init() else 'destroyed'}>"


def _require_operation(op: object) -> None:
    if not isinstance(op, OpBase):
        raise TypeError(f"a sequence records operations such as kp.OpAlgoDispatch(algorithm); got {op!r}")
