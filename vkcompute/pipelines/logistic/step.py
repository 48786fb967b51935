"""The division of a training step's rows among dispatches, workgroups and invocations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tuning import tuning_of

ORDERED_ROWS = 1 << 24
"""Rows of an epoch whose order is on the device at a time."""

MAX_ITERATIONS = 60_000
"""Loop iterations of one invocation. lavapipe silently stops after 65,535 of them in all (core/quirks.py)."""


N_STORAGE_BUFFERS = 7
"""Most storage buffers of a shader of these steps."""


def runs_shaders(runtime: Runtime) -> bool:
    """True if the device binds enough buffers for the shaders; elsewhere, array code sums over the rows."""
    most: int = runtime.device.physical.limits["maxPerStageDescriptorStorageBuffers"]
    return most >= N_STORAGE_BUFFERS


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The rows of a step within one chunk of the table.

    Attributes:
        rows: the chunk.
        n_groups: workgroups.
        push: push constants, `Parameters` of shaders/include/logistic_parameters.glsl.
    """

    rows: Chunk
    n_groups: int
    push: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One training step.

    Attributes:
        chunks: one entry per chunk of the table.
        n_partial_sums: one per workgroup of all chunks.
        end: push constants of the kernels that end the step.
        n_rows, n_features: shape of the table.
        n_batches: batches per epoch.
        n_ordered: batches whose order is on the device at a time.
        gathers: True if a batch is gathered from the table by row indices; False if it is the whole table.
    """

    chunks: tuple[ChunkPlan, ...]
    n_partial_sums: int
    end: dict[str, Any]
    n_rows: int
    n_features: int
    n_batches: int
    n_ordered: int
    gathers: bool


class Step(Protocol):
    """Launches the kernels of one step, or of several consecutive steps.

    Attributes:
        plan: the division of its rows.
        n_steps: steps per launch; the last launch of an order or of the training may make fewer.
    """

    plan: StepPlan
    n_steps: int

    def launch(self, order: Array | None) -> None:
        """Launches steps on all rows, or on the next batches, whose row indices are in `order`."""


def saturating_groups(runtime: Runtime) -> int:
    """Workgroups that keep the whole device busy; more of them only add partial sums."""
    return tuning_of(runtime.device.physical).busy_groups


def plan_step(
    chunks: Sequence[Chunk], settings: Settings, *, n_lanes: int, n_groups: int, tile_iterations: int
) -> StepPlan:
    """Divides a step. A batch of all rows reads the chunks in place, without row indices.

    Args:
        chunks: the table, or this device's rows of it.
        n_lanes: invocations per workgroup.
        n_groups: workgroups per chunk; more if their loops would exceed MAX_ITERATIONS.
        tile_iterations: loop iterations per tile if nothing is unrolled.
    """
    n_rows, n_features, batch_size = settings.n_rows, chunks[0].n_features, settings.batch_size
    gathers = batch_size < n_rows
    n_batches = -(-n_rows // batch_size)
    n_ordered = min(n_batches, max(1, ORDERED_ROWS // batch_size))
    table = {"n_rows": n_rows, "n_features": n_features, "n_batches": n_batches, "n_ordered": n_ordered}
    end = {**_of_settings(settings), **table, **_NO_ROWS}
    planned: list[ChunkPlan] = []
    for chunk in chunks:
        n_tiles = -(-batch_size // TILE_ROWS) if gathers else chunk.n_tiles
        tiles_per_lane = min(-(-n_tiles // (n_lanes * n_groups)), max(1, MAX_ITERATIONS // tile_iterations))
        rows = {"n_tiles": n_tiles, "tiles_per_lane": tiles_per_lane, "first_partial_sum": end["n_partial_sums"]}
        span = {"first_row": chunk.first_row, "n_rows_here": chunk.n_rows}
        planned.append(ChunkPlan(chunk, -(-n_tiles // (n_lanes * tiles_per_lane)), {**end, **rows, **span}))
        end["n_partial_sums"] += planned[-1].n_groups
    for launch in planned:
        launch.push["n_partial_sums"] = end["n_partial_sums"]
    return StepPlan(tuple(planned), end["n_partial_sums"], end, n_rows, n_features, n_batches, n_ordered, gathers)


_NO_ROWS = dict.fromkeys(
    ["n_tiles", "tiles_per_lane", "first_partial_sum", "n_partial_sums", "first_row", "n_rows_here"], 0
)


def _of_settings(settings: Settings) -> dict[str, Any]:
    return {
        "batch_size": settings.batch_size,
        "mean_weight": settings.mean_weight,
        "max_epochs": settings.max_iter,
        "learning_rate": settings.learning_rate,
        "alpha": settings.alpha,
        "tolerance": settings.tol or 0.0,
        "patience": 0 if settings.tol is None else settings.patience,
        "fits_intercept": int(settings.fit_intercept),
    }


class RowKernels:
    """The kernels that reduce over rows, specialized for a plan and a device, and the bindings that they share."""

    def __init__(self, runtime: Runtime, plan: StepPlan, owner: ExitStack) -> None:
        self._runtime = runtime
        self._texels = quirks_of(runtime.device.physical).texel_loads
        self._constants: dict[int | str, int] = {"GATHERS": plan.gathers, "TEXELS": self._texels}
        # Unused bindings (no row indices, the table as texels only or as storage only) need a buffer, too.
        self._nothing = owner.enter_context(runtime.empty(TILE_ROWS, np.float32))
        self._no_order = self._nothing.view(np.uint32)

    def kernel(self, name: str, constants: Mapping[int | str, int]) -> Kernel:
        """The kernel of `shaders/logistic_NAME.comp`."""
        return self._runtime.kernel(f"logistic_{name}", constants={**constants, **self._constants})

    def rows(self, chunk: ChunkPlan, order: Array | None) -> tuple[Array, ...]:
        """The arrays of the first bindings: table and targets as storage, row indices, table and targets as texels."""
        table, nothing = (chunk.rows.data, chunk.rows.targets), (self._nothing, self._nothing)
        storage, texels = (nothing, table) if self._texels else (table, nothing)
        return *storage, self._no_order if order is None else order, *texels
