"""Training steps on few rows: one workgroup makes several in a row, where launching would take longer than they do."""

from __future__ import annotations

from contextlib import ExitStack

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.narrow import MAX_FEATURES
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import MOST_ITERATIONS, lanes, plan_step, row_kernel, tensors_of
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

MAX_ROWS = 2048
"""Of a batch. With more, a GPU is left idle for longer than a launch takes it."""

_MOST_STEPS = 64


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
        self._steps = row_kernel(runtime, "sequence", self.plan, constants)

    @staticmethod
    def fits(chunks: list[Chunk], settings: Settings) -> bool:
        """Whether one workgroup is to make the steps."""
        return len(chunks) == 1 and chunks[0].n_features <= MAX_FEATURES and settings.batch_size <= MAX_ROWS

    def launch(self, order: Tensor | None) -> None:
        """Up to `n_steps` steps: on all rows, or on the next batches whose rows stand in `order`."""
        rows = tensors_of(self._part, order)
        self._steps(*rows, self._model.weights, self._model.state, **self._part.push, grid=(1,))
