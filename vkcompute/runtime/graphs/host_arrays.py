"""Arrays of the host that a graph's runs send and fetch, through staging memory that a run has for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.buffer import Buffer
from vkcompute.runtime.memory.context import Context, kept
from vkcompute.runtime.memory.tensor import Tensor, allocate
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Placeholder
from vkcompute.runtime.scheduling.task import Places

Array = npt.NDArray[Any]
Pairs = Sequence[tuple[Tensor, Any]]
Report = Callable[[Array], Exception | None]


class Arrival(Future):
    """A run whose results reach arrays of the host before it counts as done."""

    def __init__(self, run: Future, land: Callable[[], None]) -> None:
        super().__init__(run._tracker, run._queue, run._task)
        self._reason, self._land = run._reason, land

    def done(self) -> bool:
        if finished := super().done():
            self.exception()  # where it has not failed, its results land
        return finished

    def result(  # type: ignore[override]
        self, timeout_s: float | None = None, *, timeout: float | None = None
    ) -> None:
        super().result(timeout_s, timeout=timeout)
        self._land()


class Staging:
    """What one recording's runs pass arrays through: so one run at a time.

    Attributes:
        places: where the tensors of the arrays are.
        run, number: the last run and its number among the runtime's, or None and 0.
        fetched: whether the results of that run are here and nowhere else.
    """

    def __init__(self, runtime: Context, up: Pairs, down: Pairs) -> None:
        self.places: Places = {}
        self.run: Future | None = None
        self.number, self.fetched = 0, False
        self.up, self.down = self._make(runtime, "upload", up), self._make(runtime, "download", down)

    def _make(self, runtime: Context, use: str, pairs: Pairs) -> Buffer | None:
        if not pairs:
            return None
        memory, at = runtime.device.buffer(sum(tensor.buffer.nbytes for tensor, _ in pairs), use), 0
        for tensor, _ in pairs:
            self.places[tensor.buffer] = memory, at
            at += tensor.buffer.nbytes
        return memory


class _Downloads:
    """The order in which the runs of all graphs of a runtime fill arrays.

    Attributes:
        numbers: of the runs.
        done: id of an array -> the last run whose results it has, under `lock`.
    """

    def __init__(self) -> None:
        self.lock, self.numbers = threading.Lock(), count(1)
        self.done: dict[int, int] = {}  # a new array with the id of an old one has later runs


class Arrays:
    """The arrays of one graph.

    Attributes:
        up, down: pairs of a tensor in staging memory and the array that it is filled from, or that it goes to.
        reports: pairs of such a tensor, which launches write, and what takes its words (as `Graph.report`).
        lists: all three.
    """

    def __init__(self, runtime: Context, owner: object) -> None:
        self._runtime, self._owner = runtime, owner
        self._downloads = kept(runtime, _Downloads, _Downloads)
        self.up: list[tuple[Tensor, Array]] = []
        self.down: list[tuple[Tensor, Array]] = []
        self.reports: list[tuple[Tensor, Report]] = []
        self.lists: tuple[list[tuple[Tensor, Any]], ...] = self.up, self.down, self.reports
        self.sending = threading.Lock()

    @property
    def used(self) -> bool:
        """Whether there are any."""
        return any(self.lists)

    def staged(
        self, pairs: list[tuple[Tensor, Any]], shape: tuple[int, ...], dtype: np.dtype[Any], array: Any
    ) -> Tensor:
        """A new tensor in staging memory, for an array or what takes it."""
        what = "the staging memory of a graph"
        tensor = allocate(self._runtime, lambda n: Placeholder(self._owner, what, n), shape, dtype)
        pairs.append((tensor, array))
        return tensor

    def send(self, staging: Staging) -> None:
        """Fills the staging memory with what the arrays hold now, once the run before has read it."""
        if staging.run is not None and staging.run.exception() is None:
            self.land(staging, staging.number)
        if staging.up is not None:
            with self._runtime.transfers.view(staging.up, write=True) as memory:
                for tensor, array in self.up:
                    np.copyto(_part(memory, staging, tensor), array, casting="same_kind")

    def expect(self, staging: Staging, run: Future) -> Future:
        """The run's future, that lands its results; to be called in the order of the runs."""
        number = staging.number = next(self._downloads.numbers)
        staging.run, staging.fetched = run, staging.down is not None
        return Arrival(run, lambda: self.land(staging, number)) if staging.fetched else run

    def land(self, staging: Staging, number: int) -> None:
        """Copies the results of a finished run to the arrays: once, and never over those of any graph's later run."""
        landed = self._downloads.done
        with self._downloads.lock:
            if staging.down is None or staging.number != number or not staging.fetched:
                return
            with self._runtime.transfers.view(staging.down, write=False) as memory:
                for tensor, array in self.down:
                    if number > landed.get(id(array), 0):
                        array[...] = _part(memory, staging, tensor)
                        landed[id(array)] = number
            staging.fetched = False

    def launch(self, staging: Staging, run: Callable[[], Future]) -> Future:
        """Has `run` start a run, whose reports are handed on when they arrive."""
        if not self.reports:
            return run()
        assert staging.down is not None
        return self._runtime.scheduler.callbacks.expect(staging.down, lambda: self._reported(staging), run)

    def _reported(self, staging: Staging) -> Exception | None:
        """The first error that launches of a finished run have reported."""
        assert staging.down is not None
        with self._runtime.transfers.view(staging.down, write=False) as memory:
            errors = [report(_part(memory, staging, tensor)) for tensor, report in self.reports]
        return next(filter(None, errors), None)


def _part(memory: npt.NDArray[np.uint8], staging: Staging, tensor: Tensor) -> Array:
    start = staging.places[tensor.span[0]][1]  # also while the runtime is being closed
    part: Array = memory[start : start + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)
    return part
