"""Training steps for a table of any width: kernels for forward pass, residuals, gradient and update."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.model import Model
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.step import ChunkPlan, RowKernels, StepPlan, plan_step, saturating_groups
from vkcompute.pipelines.logistic.table import Chunk
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

_LANES = 64
_SLAB_VEC4 = 64  # vec4s of features that one invocation of the forward pass adds up
_MAX_SLABS = 64
_MIN_SLICE, _MAX_SLICE = 64, 1 << 14  # tiles per invocation of the gradient; lavapipe limits iterations


class WideStep:
    """One step: three launches per chunk and two for the update."""

    n_steps = 1

    def __init__(
        self, runtime: Runtime, chunks: list[Chunk], model: Model, settings: Settings, owner: ExitStack
    ) -> None:
        n_vec4 = -(-model.n_features // 4)
        slab = max(_SLAB_VEC4, -(-n_vec4 // _MAX_SLABS))
        self._n_slabs = -(-n_vec4 // slab)
        n_groups, iterations = saturating_groups(runtime), 2 + max(slab, self._n_slabs)
        plan = plan_step(chunks, settings, n_lanes=_LANES, n_groups=n_groups, tile_iterations=iterations)
        self.plan, self._model = plan, model
        rows = self._rows = RowKernels(runtime, plan, owner)
        self._forward = rows.kernel("forward", {"SLAB_VEC4": slab})
        self._residual = rows.kernel("residual", {"N_SLABS": self._n_slabs})
        self._local_size = _power_of_two(n_vec4, 8, _LANES)
        self._gradient = rows.kernel("gradient", {0: self._local_size})
        self._update = runtime.kernel("logistic_wide_update")
        self._finish = runtime.kernel("logistic_wide_finish")
        self._n_groups = -(-n_vec4 // self._local_size)
        self._slices = _slices(plan, -(-n_groups // self._n_groups))
        self._n_slices = sum(n for _, n in self._slices)
        n_tiles = max(chunk.push["n_tiles"] for chunk in plan.chunks)
        keep, empty = owner.enter_context, runtime.empty
        self._products = keep(empty((self._n_slabs, n_tiles, 4), np.float32))
        self._residuals = keep(empty((n_tiles, 4), np.float32))
        self._sums = keep(empty((plan.n_partial_sums, 2), np.float32))
        self._gradients = keep(empty((self._n_slices, n_vec4, 4), np.float32))
        self._squares = keep(empty(n_vec4, np.float32))
        self._groups_x = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]

    def launch(self, order: Array | None) -> None:
        """Launches a step on all rows, or on the batch whose row indices are in `order`."""
        self.launch_sums(order, {})
        self._launch_update()

    def launch_sums(self, order: Array | None, push: Mapping[str, int]) -> None:
        """Launches the sums of a step, but not its update. `push` overrides push constants of the plan."""
        weights, state = self._model.weights, self._model.state
        first_slice = 0
        for chunk, (n_tiles, n_slices) in zip(self.plan.chunks, self._slices, strict=True):
            rows = self._rows.rows(chunk, order)
            own = {**chunk.push, **push}
            self._forward(*rows, weights, state, self._products, **own, grid=(chunk.n_groups, self._n_slabs))
            self._residual(*rows, self._products, state, self._residuals, self._sums, **own, grid=(chunk.n_groups,))
            own.update(tiles_per_lane=n_tiles, first_partial_sum=first_slice)
            self._gradient(*rows, self._residuals, state, self._gradients, **own, grid=(self._n_groups, n_slices))
            first_slice += n_slices

    def read_sums(self) -> npt.NDArray[np.float64]:
        """Waits for `launch_sums`. Returns the loss, and its derivatives by the intercept and by each weight."""
        loss, gradients = self._sums.numpy().sum(0, np.float64), self._gradients.numpy().sum(0, np.float64)
        return np.append(loss, gradients.reshape(-1)[: self._model.n_features])

    def _launch_update(self) -> None:
        model, n_vec4 = self._model, self._squares.size
        groups = min(n_vec4, self._groups_x)
        end = {**self.plan.end, "n_partial_sums": self._n_slices}
        grid = (groups, -(-n_vec4 // groups))
        self._update(self._gradients, model.weights, self._squares, model.state, **end, grid=grid)
        self._finish(self._sums, self._squares, model.state, **self.plan.end, grid=(1,))


def _power_of_two(at_least: int, low: int, high: int) -> int:
    size = low
    while size < min(at_least, high):
        size *= 2
    return size


def _slices(plan: StepPlan, wanted: int) -> list[tuple[int, int]]:
    """Per chunk: tiles per slice, and the number of slices. All chunks together have about `wanted` slices."""

    def of(chunk: ChunkPlan) -> tuple[int, int]:
        n_tiles = chunk.push["n_tiles"]
        step = min(max(-(-n_tiles * len(plan.chunks) // wanted), _MIN_SLICE), _MAX_SLICE)
        return step, -(-n_tiles // step)

    return [of(chunk) for chunk in plan.chunks]
