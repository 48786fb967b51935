"""Training steps for a table of few features: one kernel, which reads each row once.

For few rows, one workgroup makes several consecutive steps per launch, since a launch would take longer than a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import (
    MAX_ITERATIONS,
    RowKernels,
    plan_step,
    saturating_groups,
)
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tuning import tuning_of

_MAX_STEPS = 64
MAX_FEATURES = 32
"""An invocation holds all features of a tile in registers; Mesa unrolls loops of up to 32 iterations."""


class NarrowStep:
    """One step: a launch per chunk."""

    n_steps = 1

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        n_features, n_lanes = model.n_features, tuning_of(runtime.device.physical).row_lanes
        self.plan = plan_step(
            chunks, settings, n_lanes=n_lanes, n_groups=saturating_groups(runtime), tile_iterations=2 + 2 * n_features
        )
        self._model, self._rows = model, RowKernels(runtime, self.plan, owner)
        constants: dict[int | str, int] = {"N_FEATURES": n_features, "N_LANES": n_lanes}
        self._kernel = self._rows.kernel("narrow", constants)
        self._sums = owner.enter_context(runtime.empty((self.plan.n_partial_sums, n_features + 2), np.float32))

    def launch(self, order: Array | None) -> None:
        """Launches a step on all rows, or on the batch whose row indices are in `order`."""
        self._launch(order, {})

    def launch_sums(self, order: Array | None, push: Mapping[str, int]) -> None:
        """Launches the sums of a step, but not its update. `push` overrides push constants of the plan."""
        self._launch(order, {**push, "n_partial_sums": 0})  # the last workgroup makes the update; of 0 none is the last

    def _launch(self, order: Array | None, push: Mapping[str, int]) -> None:
        model = self._model
        for chunk in self.plan.chunks:
            arrays = (*self._rows.rows(chunk, order), model.weights, model.state, self._sums)
            self._kernel(*arrays, **{**chunk.push, **push}, grid=(chunk.n_groups,))

    def read_sums(self) -> npt.NDArray[np.float64]:
        """Waits for `launch_sums`. Returns the loss, and its derivatives by the intercept and by each weight."""
        sums: npt.NDArray[np.float64] = self._sums.numpy().sum(0, np.float64)
        return sums


def max_sequence_rows(runtime: Runtime, n_features: int) -> int:
    """The largest batch for `SequenceStep`; with more rows, leaving the rest of the device idle costs too much."""
    tuning = tuning_of(runtime.device.physical)
    return tuning.sequence_products // (n_features + 4) if tuning.sequence_products else tuning.sequence_rows


class SequenceStep:
    """Several consecutive steps per launch, by one workgroup."""

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        n_features = model.n_features
        n_lanes = 8 if settings.batch_size <= 8 * TILE_ROWS else tuning_of(runtime.device.physical).row_lanes
        # Loops over the features, where not unrolled: two for each tile, and six more.
        of_tile, besides = 2 + 2 * n_features, 6 * n_features + 8
        self.plan = plan_step(chunks, settings, n_lanes=n_lanes, n_groups=1, tile_iterations=of_tile)
        (chunk,) = self.plan.chunks
        iterations = chunk.push["tiles_per_lane"] * of_tile + besides
        self.n_steps = min(_MAX_STEPS, MAX_ITERATIONS // iterations)
        constants: dict[int | str, int] = {"N_FEATURES": n_features, "N_STEPS": self.n_steps, "N_LANES": n_lanes}
        self._model, self._chunk = model, chunk
        self._rows = RowKernels(runtime, self.plan, owner)
        self._steps = self._rows.kernel("narrow", constants)
        self._no_sums = owner.enter_context(runtime.empty(1, np.float32))

    def launch(self, order: Array | None) -> None:
        """Launches up to `n_steps` steps on all rows, or on the next batches, whose row indices are in `order`."""
        model, rows = self._model, self._rows.rows(self._chunk, order)
        self._steps(*rows, model.weights, model.state, self._no_sums, **self._chunk.push, grid=(1,))
