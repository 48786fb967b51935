"""Training on one device: a step is recorded once and replayed; the host reads losses while the device works."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import CONVERGED, HISTORY_EPOCHS, RUNS, Model, Report, read_report
from vkcompute.pipelines.logistic.narrow import MAX_FEATURES, NarrowStep, SequenceStep, max_sequence_rows
from vkcompute.pipelines.logistic.settings import Floats, Outcome, Settings
from vkcompute.pipelines.logistic.step import Step
from vkcompute.pipelines.logistic.table import Chunk, upload
from vkcompute.pipelines.logistic.wide import WideStep
from vkcompute.runtime.graphs.graph import Graph
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.streams.stream import feed

_FIRST_SLICE = 8  # launches
_SLICE_S = 0.05  # maximum duration of a slice: Ctrl-C waits for at most two
_MAX_IN_FLIGHT = 2
# Steps. The slices in flight and the slice being read must not overwrite each other's losses.
_MAX_SLICE = HISTORY_EPOCHS // (_MAX_IN_FLIGHT + 1)


def train(
    runtime: Runtime, X: npt.NDArray[np.generic], targets: Floats, settings: Settings, weights: Floats, intercept: float
) -> Outcome:
    """Minimizes the mean of the weighted cross-entropy by gradient descent.

    Args:
        X: shape (n_rows, n_features), finite as float32.
        targets: shape (n_rows,): the weight of each row, negative for the first class.
        weights, intercept: initial values; weights have shape (n_features,).

    Raises:
        OutOfDeviceMemory: the table does not fit.
        ValueError: four rows exceed the device's largest binding.
    """
    with ExitStack() as owner:
        chunks = upload(runtime, X, targets, owner)
        model = Model(runtime, weights, intercept, owner)
        step = _step_kind(runtime, chunks, settings)(runtime, chunks, model, settings, owner)
        replay = _Replay(runtime, model, step, owner)
        if step.plan.gathers:
            _run_batches(runtime, step, settings, replay, owner)
        else:
            graph = _record(runtime, step, None, owner)
            replay.submit(graph, -(-settings.max_iter // step.n_steps), settings)
        return replay.outcome(settings)


def _step_kind(runtime: Runtime, chunks: list[Chunk], settings: Settings) -> type[SequenceStep | NarrowStep | WideStep]:
    n_features = chunks[0].n_features
    if n_features > MAX_FEATURES:
        return WideStep
    small = len(chunks) == 1 and settings.batch_size <= max_sequence_rows(runtime, n_features)
    return SequenceStep if small else NarrowStep


def _record(runtime: Runtime, step: Step, order: Array | None, owner: ExitStack) -> Graph:
    with runtime.record() as graph:
        step.launch(order)
    return owner.enter_context(closing(graph))


def _run_batches(runtime: Runtime, step: Step, settings: Settings, replay: _Replay, owner: ExitStack) -> None:
    """Streams row orders to the device. The host shuffles the next one while the device uses the previous one."""
    plan, batch_size = step.plan, settings.batch_size
    n_rows, n_batches = min(plan.n_ordered * batch_size, plan.n_rows), 0
    graphs: dict[object, Graph] = {}

    def orders() -> Iterator[npt.NDArray[np.uint32]]:
        nonlocal n_batches
        for _ in range(settings.max_iter):
            permutation = settings.permutation()
            for first in range(0, plan.n_batches, plan.n_ordered):
                n_batches = min(plan.n_ordered, plan.n_batches - first)
                rows = permutation[first * batch_size :][:n_rows]
                yield rows if len(rows) == n_rows else np.resize(rows, n_rows)  # a fixed shape; the padding is not read
                if replay.stopped:
                    return

    def work(order: Array) -> None:
        if order.launch_key not in graphs:
            graphs[order.launch_key] = _record(runtime, step, order, owner)
        replay.submit(graphs[order.launch_key], -(-n_batches // step.n_steps), settings)

    feed(runtime, orders(), work)


class _Replay:
    """Submits launches in slices, with at most two slices in flight."""

    def __init__(self, runtime: Runtime, model: Model, step: Step, owner: ExitStack) -> None:
        self._model = model
        self._copies = deque(
            owner.enter_context(runtime.empty(model.state.shape, np.float32)) for _ in range(_MAX_IN_FLIGHT)
        )
        self._in_flight: deque[Array] = deque()
        self._max_slice = max(1, _MAX_SLICE // step.n_steps)
        self._slice = min(_FIRST_SLICE, self._max_slice)
        self._read_at_s = time.perf_counter()
        self._losses: list[Floats] = []
        self._report = Report(0, RUNS, 0.0, np.empty(0, np.float32))

    @property
    def stopped(self) -> bool:
        """True if the latest report says that training stopped."""
        return self._report.stopped != RUNS

    def submit(self, graph: Graph, n_launches: int, settings: Settings) -> None:
        """Submits the launches, slice by slice, until training stops."""
        while n_launches and not self.stopped:
            n = min(n_launches, self._slice)
            if len(self._in_flight) == _MAX_IN_FLIGHT:
                self._read_slice(settings)
            graph.submit(n)
            n_launches -= n
            copy = self._copies[0]
            self._copies.rotate()
            copy.copy_from(self._model.state).point()  # submit it now, or it would complete with the next slice
            self._in_flight.append(copy)

    def _read_slice(self, settings: Settings) -> None:
        """Waits for the oldest slice, and reads its losses."""
        report = read_report(self._in_flight.popleft())
        epochs = np.arange(self._report.n_epochs, report.n_epochs)
        self._losses.append(report.history[epochs % HISTORY_EPOCHS])
        self._report = report
        now_s = time.perf_counter()
        if now_s - self._read_at_s < _SLICE_S / 2:
            self._slice = min(2 * self._slice, self._max_slice)
        elif now_s - self._read_at_s > _SLICE_S:
            self._slice = max(self._slice // 2, 1)
        self._read_at_s = now_s
        if settings.progress is not None:
            settings.progress(report.n_epochs)

    def outcome(self, settings: Settings) -> Outcome:
        """Waits for all slices in flight. Returns the result."""
        while self._in_flight:
            self._read_slice(settings)
        losses = np.concatenate(self._losses)
        return Outcome(self._model.read_weights(), self._report.intercept, losses, self._report.stopped == CONVERGED)
