"""Training steps for a table of few features: two kernels, and the features of a row are read once."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import end_of_step, plan_step
from vkcompute.pipelines.logistic.table import Chunk
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

MAX_FEATURES = 16
"""Beyond, the registers of an invocation no longer hold a tile with all its features."""


class NarrowStep:
    """Launches the kernels of one step."""

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        self._chunks, self._model, self._settings = chunks, model, settings
        self.plan = plan_step(runtime, chunks, settings.batch_size)
        constants: dict[int | str, int] = {"N_FEATURES": model.n_features}
        gathers = "_gather" if self.plan.gathers else ""
        self._sum = runtime.kernel(f"logistic_narrow{gathers}", constants=constants)
        self._update = runtime.kernel("logistic_narrow_update", constants=constants)
        self._sums = owner.enter_context(runtime.empty((self.plan.n_slots, model.n_features + 2), np.float32))

    def launch(self, order: Tensor | None) -> None:
        """One step: on all rows, or on the batch whose rows stand in `order`."""
        model, ordered = self._model, () if order is None else (order,)
        for part in self.plan.parts:
            tensors = (part.chunk.data, part.chunk.targets, *ordered, model.weights, model.state, self._sums)
            self._sum(*tensors, **part.push, grid=(part.n_groups,))
        end = end_of_step(self.plan, self._settings)
        self._update(self._sums, model.weights, model.state, **end, grid=(1,))
