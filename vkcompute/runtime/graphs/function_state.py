"""State of a function's recording, besides that of a graph: draws, results, and the arrays that it has made."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.scheduling import current
from vkcompute.runtime.scheduling.placeholders import Placeholder


class FunctionState:
    """The state of a function's recording. Each run has other arrays for its inputs, draws and results.

    Attributes:
        draws: make the arrays that a run is fed with.
        fed: the placeholders of these.
        results: the temporaries that the caller gets.
    """

    def __init__(self, runtime: Context, owner: object) -> None:
        self._runtime, self._owner = runtime, owner
        self._earlier = dict(runtime.device.memory.buffers)
        self._made: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
        self.draws: list[Callable[[], Array]] = []
        self.fed: list[Buffer] = []
        self.results: list[Buffer] = []

    def register(self, array: Array) -> Array:
        """Registers an array that the recording makes; returns it."""
        self._made[id(array)] = array
        return array

    def made_besides(self, arrays: Iterable[Array]) -> list[Array]:
        """The arrays that the recording has made and that somebody still holds, but for `arrays`."""
        known = {id(array) for array in arrays}
        if known.issuperset(self._made):
            return []
        gc.collect()
        return [array for key, array in self._made.items() if key not in known]

    def is_earlier(self, buffer: Buffer) -> bool:
        """True for memory from before the recording."""
        earlier: Any = self._earlier.get(id(buffer))
        return earlier is not None and earlier() is buffer

    def end(self) -> None:
        """Ends the recording, which needs to know no more what was there before."""
        self._earlier.clear()

    def feed(self, draw: Callable[[], Array]) -> Array:
        """Returns an array for what `draw` returns, which is called once for each run.

        It is called now, too, with its work launched at once, for the layout.
        """
        first = current.unrecorded(draw)
        current.unrecorded(first.compute)
        buffer = Placeholder(self._owner, "random numbers of a graph", first.nbytes, is_input=True)
        drawn = [first]  # for the first run, of whichever thread

        def next_draw() -> Array:
            try:
                return drawn.pop()
            except IndexError:
                return draw()

        self.draws.append(next_draw)
        self.fed.append(buffer)
        return Array(self._runtime, buffer, 0, first.shape, first.strides, first.dtype)

    def keep(self, buffer: Buffer) -> int:
        """Keeps a temporary for the caller; returns its number among these."""
        if buffer not in self.results:
            self.results.append(buffer)
        return self.results.index(buffer)
