"""Commands of a sequence that the runtime has no name for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.runtime.graph_tasks import Places, Task, Values

if TYPE_CHECKING:
    from vkcompute.core.command import Recorder
    from vkcompute.runtime.future import Future
    from vkcompute.runtime.runtime import Runtime
    from vkcompute.runtime.scheduler import Range


class Plain(Task):
    """A task on memory that it knows from the start; `call` records it, and needs `kept` to stay alive."""

    __slots__ = ("_call", "_kept", "name")
    buffers = ()

    def __init__(
        self,
        name: str,
        writes: Sequence[Range],
        reads: Sequence[Range],
        call: Callable[[Recorder], None],
        kept: Any,
    ) -> None:
        super().__init__(writes, reads)
        self.name, self._call, self._kept = name, call, kept

    def rebased(self, places: Places, values: Values) -> Plain:
        return self

    def record(self, recorder: Recorder) -> None:
        self._call(recorder)

    def add(self, runtime: Runtime) -> Future:
        """Adds the task to the graph that is being recorded."""
        graph = runtime.scheduler.recording()
        assert graph is not None, "what has such tasks is evaluated as a graph"
        return graph.add(self)
