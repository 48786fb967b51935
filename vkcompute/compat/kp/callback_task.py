"""Graph tasks that record Vulkan commands of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.runtime.scheduling.task import BufferMap, Task, Values

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.runtime.scheduling.access_history import Range
    from vkcompute.runtime.scheduling.future import Future


class CallbackTask(Task):
    """A task whose commands a callback records, on memory that is fixed when the graph is recorded.

    Args:
        writes, reads: byte ranges, for the graph's dependencies.
        record: records the commands.
        owner: object that owns the handles in the commands; kept alive by the task.
    """

    __slots__ = ("_owner", "_record", "name")
    buffers = ()

    def __init__(
        self,
        name: str,
        writes: Sequence[Range],
        reads: Sequence[Range],
        record: Callable[[Recorder], None],
        owner: Any,
    ) -> None:
        super().__init__(writes, reads)
        self.name, self._record, self._owner = name, record, owner

    def rebased(self, buffer_map: BufferMap, values: Values) -> CallbackTask:
        return self

    def record(self, recorder: Recorder) -> None:
        self._record(recorder)

    def add(self, runtime: Runtime) -> Future:
        """Adds the task to the graph that is being recorded."""
        graph = runtime.scheduler.recording()
        assert graph is not None, "sequences evaluate such tasks as a graph"
        return graph.add(self)
