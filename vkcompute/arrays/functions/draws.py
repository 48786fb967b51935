"""Draws of random numbers in the recording of a function: each run has numbers of its own, as each call has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling.current import is_recording


class _Source(Protocol):
    def _runtime(self) -> Runtime: ...


_S = TypeVar("_S", bound=_Source)
_P = ParamSpec("_P")


def drawn_per_run(draw: Callable[Concatenate[_S, _P], Array]) -> Callable[Concatenate[_S, _P], Array]:
    """Returns a method of a generator that each run of a function's recording calls, to take numbers of its own.

    The arguments have no arrays that the function computes.
    """

    @wraps(draw)
    def method(self: _S, /, *args: _P.args, **named: _P.kwargs) -> Array:
        if not is_recording():
            return draw(self, *args, **named)
        graph = recording_graph(self._runtime().scheduler)
        if graph is None or graph.function is None:
            return draw(self, *args, **named)
        return graph.function.feed(partial(draw, self, *args, **named))

    return method
