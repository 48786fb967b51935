"""A sequence: operations recorded, and evaluated as often as wanted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from vkcompute.compat.kp.algorithm import require_own
from vkcompute.compat.kp.memory import Command
from vkcompute.compat.kp.operations import OpBase
from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.compat.kp.manager import Manager
    from vkcompute.compat.kp.timestamps import Timestamps
    from vkcompute.runtime.future import Future
    from vkcompute.runtime.graph import Graph

logger = logging.getLogger("kp")
_FOREVER = (1 << 64) - 1
_FEW = 3  # evaluations of an operation alone before it is recorded, which takes longer than they do


class Sequence:
    """Made by `Manager.sequence`.

    The first operation recorded after an evaluation begins the recording anew: then only what is recorded from there on
    is evaluated. Operations are ordered by what they touch, within a sequence and between sequences.

    The first evaluation of a recording gives its operations to the runtime one by one; from the second on they are
    replayed as a graph. So is an operation that is evaluated alone some times in a row.
    """

    def __init__(self, manager: Manager, total_timestamps: int) -> None:
        self._manager = manager
        self._operations: list[OpBase] = []  # since clear()
        self._recorded: list[OpBase] = []  # since the recording began
        self._commands: list[Command] = []
        self._graph: Graph | None = None
        self._futures: list[Future] = []
        self._timestamps: Timestamps | None = None
        self._recording = self._running = self._has_images = False
        self._n_given = 0  # evaluations, one by one
        self._alone: Any = None  # the state of the operation that was evaluated alone
        self._open = True
        self._seen = manager.n_destroyed
        if total_timestamps:
            from vkcompute.compat.kp.timestamps import Timestamps

            self._timestamps = Timestamps(manager.opened(), total_timestamps)
        manager.add(self)

    # -- recording ----------------------------------------------------------------------------------------------------

    def record(self, op: OpBase) -> Sequence:
        """Adds an operation; gives the sequence itself.

        Raises:
            KomputeError: the sequence is running, or an object of the operation is destroyed or another manager's, or
                does not fit.
            TypeError: `op` is no operation.
        """
        self._require_idle("record")
        _require_operation(op)
        self._alone = None
        self._require_objects([op])
        commands = op.commands()
        n_operations = 1 if not self._recording else len(self._recorded) + 1
        if self._timestamps is not None:
            commands = self._timestamps.around(commands, n_operations)
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
        self._recording, self._n_given, self._has_images = True, 0, False

    def rerecord(self) -> None:
        """Records all operations since the last `clear` anew, with their objects as they are now.

        Raises:
            KomputeError: as `record`.
        """
        self._require_idle("rerecord")
        operations = self._operations
        self._require_objects(operations)  # first, so that where one is destroyed nothing has changed
        self.clear()
        for op in operations:
            self.record(op)

    def clear(self) -> None:
        """Forgets the operations, and ends the recording."""
        self._require_open()
        self._operations, self._recorded, self._commands = [], [], []
        self._recording, self._n_given, self._alone = False, 0, None
        self._close_graph()

    def _close_graph(self) -> None:
        if self._graph is not None:
            self._graph.close()
            self._graph = None

    # -- evaluating ---------------------------------------------------------------------------------------------------

    def eval(self, op: OpBase | None = None) -> Sequence:
        """`eval_async`, then `eval_await`; gives the sequence itself."""
        return self.eval_async(op).eval_await()

    def eval_async(self, op: OpBase | None = None) -> Sequence:
        """Starts what is recorded, or `op` alone in place of it; returns at once, with the sequence itself.

        Raises:
            KomputeError: the sequence is running already, or an object that it uses has been destroyed.
        """
        self._require_idle("evaluate")
        if op is not None:
            _require_operation(op)
            if self._alone is None or op.state() != self._alone:
                self.clear()
                self.record(op)
                self._alone = op.state()
        self._recording = False
        if self._seen != self._manager.n_destroyed:
            self._require_objects(self._recorded)
            self._seen = self._manager.n_destroyed
        if self._commands:
            self._futures = self._start()
        self._running = True
        return self

    def _start(self) -> list[Future]:
        if self._timestamps is not None:
            self._timestamps.reset()
        elif self._n_given < (1 if self._alone is None else _FEW) and not self._has_images:
            self._n_given += 1
            futures = [command() for command in self._commands]
            for future in futures:
                future.point()  # it is submitted
            return futures
        if self._graph is None:
            with self._manager.opened().record() as graph:
                for command in self._commands:
                    command()
            self._graph = graph
        return [self._graph.submit()]

    def eval_await(self, wait_for: int = _FOREVER) -> Sequence:
        """Waits for the evaluation, for at most `wait_for` ns; gives the sequence itself.

        When the time is over, it is running still, as `is_running` says: wait again. With nothing running it returns at
        once. Either is noted in the log "kp".

        Raises:
            KomputeError: `wait_for` is negative.
            VulkanError: the work could not be done.
        """
        self._require_open()
        if wait_for < 0:
            raise KomputeError(f"eval_await waits for so many ns, from 0; got {wait_for}")
        if not self._running:
            logger.warning("eval_await of a sequence that is not running")
            return self
        try:
            for future in self._futures:
                future.result(None if wait_for >= _FOREVER else wait_for / 1e9)
        except TimeoutError:
            logger.warning("eval_await: not finished after %d ns; the sequence goes on", wait_for)
            return self
        except Exception:
            self._running = False
            raise
        self._futures, self._running = [], False
        return self

    # -- its state ----------------------------------------------------------------------------------------------------

    def is_recording(self) -> bool:
        """Whether something has been recorded since the last evaluation or `clear`."""
        return self._recording

    def is_running(self) -> bool:
        """Whether an evaluation has been started and not been awaited to its end."""
        return self._running

    def is_init(self) -> bool:
        """Whether it can be used: neither it nor its manager has been destroyed."""
        return self._open and not self._manager.runtime.closed

    def get_timestamps(self) -> list[int]:
        """The device's clock before the first operation and after each one, in ticks, of the last evaluation.

        Raises:
            KomputeError: the sequence was made without timestamps, or has not been evaluated to the end.
        """
        return self._stamps().ticks(len(self._recorded) + 1)

    def get_timestamps_ns(self) -> list[float]:
        """The same in nanoseconds since the first one."""
        return self._stamps().ns(len(self._recorded) + 1)

    def _stamps(self) -> Timestamps:
        self._require_idle("read timestamps of")
        if self._timestamps is None:
            raise KomputeError("this sequence has no timestamps; make it with Manager.sequence(total_timestamps=n)")
        return self._timestamps

    def destroy(self) -> None:
        """Lets go of what it holds, once the device has finished with it; twice is once."""
        if self._open:
            self._open = self._running = self._recording = False
            self._operations, self._recorded, self._commands, self._futures, self._alone = [], [], [], [], None
            self._close_graph()
            if self._timestamps is not None:
                self._timestamps.close()

    def _require_objects(self, operations: list[OpBase]) -> None:
        for op in operations:
            for each in op.objects:
                require_own(self._manager, each)

    def _require_open(self) -> None:
        if not self.is_init():
            raise KomputeError("this Sequence is destroyed; make a new one with its manager")

    def _require_idle(self, what: str) -> None:
        self._require_open()
        if self._running:
            raise KomputeError(f"cannot {what} a sequence that is running; call eval_await() first")

    def __repr__(self) -> str:
        state = "running" if self._running else "recording" if self._recording else "idle"
        return f"<kp.Sequence of {len(self._recorded)} operations, {state if self.is_init() else 'destroyed'}>"


def _require_operation(op: object) -> None:
    if not isinstance(op, OpBase):
        raise TypeError(f"a sequence records operations such as kp.OpAlgoDispatch(algorithm); got {op!r}")
