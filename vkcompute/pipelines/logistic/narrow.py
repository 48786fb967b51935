"""Training steps for a table of few features: one kernel, and the features of a row are read once.

On few rows one workgroup makes several steps in a row, where launching would take longer than they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import MOST_ITERATIONS, RowKernels, full_device, is_cpu, lanes, plan_step
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime

_MOST_STEPS = 64
MAX_FEATURES = 32
"""An invocation holds a tile with all its features in registers; Mesa unrolls loops of up to 32 iterations."""


class NarrowStep:
    """Launches the kernel of one step, once for each chunk."""

    n_steps = 1

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        n_features, n_lanes = model.n_features, lanes(runtime)
        self.plan = plan_step(
            chunks, settings, n_lanes=n_lanes, n_groups=full_device(runtime), tile_iterations=2 + 2 * n_features
        )
        self._model, self._rows = model, RowKernels(runtime, self.plan, owner)
        constants: dict[int | str, int] = {"N_FEATURES": n_features, "N_LANES": n_lanes}
        self._kernel = self._rows.kernel("narrow", constants)
        self._sums = owner.enter_context(runtime.empty((self.plan.n_slots, n_features + 2), np.float32))

    def launch(self, order: Tensor | None) -> None:
        """One step: on all rows, or on the batch whose rows stand in `order`."""
        self._launch(order, {})

    def launch_sums(self, order: Tensor | None, push: Mapping[str, int]) -> None:
        """The sums of a step, without the step; `push` differs from what the plan has."""
        self._launch(order, {**push, "n_slots": 0})  # no workgroup is the last of so many, which takes the step

    def _launch(self, order: Tensor | None, push: Mapping[str, int]) -> None:
        model = self._model
        for part in self.plan.parts:
            tensors = (*self._rows.rows(part, order), model.weights, model.state, self._sums)
            self._kernel(*tensors, **{**part.push, **push}, grid=(part.n_groups,))

    def read_sums(self) -> npt.NDArray[np.float64]:
        """What `launch_sums` has found: loss, and its derivatives by the intercept and by each weight."""
        sums: npt.NDArray[np.float64] = self._sums.numpy().sum(0, np.float64)
        return sums


def most_rows(runtime: Runtime, n_features: int) -> int:
    """The largest batch whose steps one workgroup makes: with more, the rest of the device is idle for too long."""
    # On lavapipe a launch costs as much as some 30,000 multiplications by weights take; a row costs like four more.
    return (1 << 16) // (n_features + 4) if is_cpu(runtime) else 2048


class SequenceStep:
    """Launches the kernel that makes several steps."""

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        n_features = model.n_features
        n_lanes = 8 if settings.batch_size <= 8 * TILE_ROWS else lanes(runtime)
        # The features are gone through twice for each tile, and six times besides, where their loops are not unrolled.
        of_tile, besides = 2 + 2 * n_features, 6 * n_features + 8
        self.plan = plan_step(chunks, settings, n_lanes=n_lanes, n_groups=1, tile_iterations=of_tile)
        (part,) = self.plan.parts
        iterations = part.push["tiles_per_lane"] * of_tile + besides
        self.n_steps = min(_MOST_STEPS, MOST_ITERATIONS // iterations)
        constants: dict[int | str, int] = {"N_FEATURES": n_features, "N_STEPS": self.n_steps, "N_LANES": n_lanes}
        self._model, self._part = model, part
        self._rows = RowKernels(runtime, self.plan, owner)
        self._steps = self._rows.kernel("narrow", constants)
        self._no_sums = owner.enter_context(runtime.empty(1, np.float32))

    def launch(self, order: Tensor | None) -> None:
        """Up to `n_steps` steps: on all rows, or on the next batches whose rows stand in `order`."""
        model, rows = self._model, self._rows.rows(self._part, order)
        self._steps(*rows, model.weights, model.state, self._no_sums, **self._part.push, grid=(1,))
