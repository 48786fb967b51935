"""Training steps on few rows: one workgroup makes several in a row, where launching would take longer than they do."""

from __future__ import annotations

from contextlib import ExitStack

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.narrow import MAX_FEATURES
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import plan_step, row_kernel, tensors_of
from vkcompute.pipelines.logistic.table import Chunk
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

MAX_ROWS = 2048
"""Of a batch. With more, a GPU is left idle for longer than a launch takes it."""

# lavapipe ends an invocation's loops after 65,535 iterations in all (core/quirks.py); a step of the most rows and
# features takes up to 8 tiles * 65 + 3 * 32 + 8.
_N_STEPS = 64


class SequenceStep:
    """Launches the kernel that makes several steps."""

    n_steps = _N_STEPS

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        self.plan = plan_step(runtime, chunks, settings, n_groups=1)
        self._model = model
        constants: dict[int | str, int] = {"N_FEATURES": model.n_features, "N_STEPS": self.n_steps}
        self._steps = row_kernel(runtime, "sequence", self.plan, constants)

    @staticmethod
    def fits(chunks: list[Chunk], settings: Settings) -> bool:
        """Whether one workgroup is to make the steps."""
        return len(chunks) == 1 and chunks[0].n_features <= MAX_FEATURES and settings.batch_size <= MAX_ROWS

    def launch(self, order: Tensor | None) -> None:
        """Up to `n_steps` steps: on all rows, or on the next batches whose rows stand in `order`."""
        (part,) = self.plan.parts
        self._steps(*tensors_of(part, order), self._model.weights, self._model.state, **part.push, grid=(1,))
