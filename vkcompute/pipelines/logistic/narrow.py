"""Training steps for a table of few features: one kernel, and the features of a row are read once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import RowKernels, full_device, lanes, plan_step
from vkcompute.pipelines.logistic.table import Chunk
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

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
