"""How the rows of one training step are divided among dispatches, workgroups and invocations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.kernel import Kernel
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

LOCAL_SIZE = 64  # of the logistic_*.comp that go over rows
ORDERED_ROWS = 1 << 24
"""Rows of an epoch whose order is on the device at once."""

# lavapipe ends an invocation's loops after 65,535 iterations in all (core/quirks.py); a tile takes up to 65 of a narrow
# table, where its features' loops are not unrolled, and 65 of a wide one's slab.
_MAX_TILES_PER_LANE = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One dispatch: a chunk of the table, its workgroups, and the push constants of `Step` in logistic_rows.glsl."""

    chunk: Chunk
    n_groups: int
    push: dict[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A step.

    Attributes:
        parts: one per chunk.
        n_slots: partial sums, one for each workgroup of the parts.
        n_rows, n_features: of the table.
        n_batches: in an epoch.
        n_ordered: batches whose order is on the device at once.
        gathers: whether a batch is picked from the table by an order; else it is the whole table.
    """

    parts: tuple[Part, ...]
    n_slots: int
    n_rows: int
    n_features: int
    n_batches: int
    n_ordered: int
    gathers: bool


class Step(Protocol):
    """What launches the kernels of one step.

    Attributes:
        plan: the division of its rows.
    """

    plan: Plan

    def launch(self, order: Tensor | None) -> None:
        """One step: on all rows, or on the batch whose rows stand in `order`."""


def full_device(runtime: Runtime) -> int:
    """Workgroups that fill the device; more of them only are more partial sums."""
    # A CPU runs one workgroup per core at a time; with a few each, one that is held up is made up for.
    return 4 * (os.cpu_count() or 1) if runtime.device.physical.kind == "cpu" else 1024


def plan_step(runtime: Runtime, chunks: Sequence[Chunk], batch_size: int) -> Plan:
    """The division of a step of `batch_size` rows; with all rows, chunks are taken as they lie."""
    n_rows = sum(chunk.n_rows for chunk in chunks)
    n_features = chunks[0].n_features
    gathers = batch_size < n_rows
    n_batches = -(-n_rows // batch_size)
    n_ordered = min(n_batches, max(1, ORDERED_ROWS // batch_size))
    parts: list[Part] = []
    n_slots = 0
    for chunk in chunks:
        n_tiles = -(-batch_size // TILE_ROWS) if gathers else chunk.n_tiles
        tiles_per_lane = min(-(-n_tiles // (LOCAL_SIZE * full_device(runtime))), _MAX_TILES_PER_LANE)
        n_groups = -(-n_tiles // (LOCAL_SIZE * tiles_per_lane))
        push = {
            "n_tiles": n_tiles,
            "tiles_per_lane": tiles_per_lane,
            "first_slot": n_slots,
            "n_rows": n_rows,
            "batch_size": batch_size,
            "n_ordered": n_ordered,
            "first_row": chunk.first_row,
            "n_rows_here": chunk.n_rows,
            "n_features": n_features,
        }
        parts.append(Part(chunk, n_groups, push))
        n_slots += n_groups
    return Plan(tuple(parts), n_slots, n_rows, n_features, n_batches, n_ordered, gathers)


def row_kernel(runtime: Runtime, name: str, plan: Plan, constants: Mapping[int | str, int]) -> Kernel:
    """The variant of a shader over rows for this plan and device."""
    gather = "_gather" if plan.gathers else ""
    texel = "_texel" if quirks_of(runtime.device.physical).texel_loads else ""
    return runtime.kernel(f"logistic_{name}{gather}{texel}", constants=constants)


def end_of_step(plan: Plan, settings: Settings) -> dict[str, Any]:
    """The push constants of `Update` in logistic_step.glsl."""
    return {
        "n_slots": plan.n_slots,
        "n_rows": plan.n_rows,
        "batch_size": settings.batch_size,
        "n_batches": plan.n_batches,
        "mean_weight": settings.mean_weight,
        "learning_rate": settings.learning_rate,
        "alpha": settings.alpha,
        "tolerance": settings.tol or 0.0,
        "patience": 0 if settings.tol is None else settings.patience,
        "fits_intercept": int(settings.fit_intercept),
    }
