"""Results of tasks: lazy arrays are computed when their task ends, since they keep the arrays that they need alive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dask.callbacks import Callback

from vkcompute.runtime.memory.array import Array


def arrays_in(result: Any) -> Iterator[Array]:
    """Yields the device arrays in a result, also those in tuples, lists and dicts."""
    if type(result) is Array:
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from arrays_in(item)
    elif isinstance(result, dict):
        yield from arrays_in(list(result.values()))


def launch(result: Any) -> None:
    """Launches the work that computes the arrays in a result."""
    for array in arrays_in(result):
        array.compute()


class _Launching(Callback):
    """Launches results in Dask's schedulers of one process."""

    def _posttask(self, key: Any, result: Any, *_: Any) -> None:
        launch(result)


def register() -> None:
    """Lets Dask's schedulers of one process launch results."""
    _Launching().register()
