"""How the rows of one training step are divided among dispatches, workgroups and invocations. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.runtime import Runtime

LOCAL_SIZE = 64  # of every logistic_*.comp that goes over rows
ORDERED_ROWS = 1 << 24
"""Rows of an epoch whose order is on the device at once."""

# Enough workgroups to fill the device; each more is another partial sum. A CPU is full with a few per core.
_N_GROUPS = {"cpu": 64}
_N_GROUPS_OF_GPU = 1024
# lavapipe ends an invocation's loops after 65,535 turns in all, without a word; each tile takes up to 3 per feature.
_MAX_TILES_PER_LANE = 256


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
        n_rows: of the table.
        n_batches: in an epoch.
        n_ordered: batches whose order is on the device at once.
        gathers: whether a batch is picked from the table by an order; else it is the whole table.
    """

    parts: tuple[Part, ...]
    n_slots: int
    n_rows: int
    n_batches: int
    n_ordered: int
    gathers: bool


def plan_step(runtime: Runtime, chunks: Sequence[Chunk], batch_size: int) -> Plan:
    """The division of a step of `batch_size` rows; with all rows, chunks are taken as they lie."""
    n_rows = sum(chunk.n_rows for chunk in chunks)
    gathers = batch_size < n_rows
    n_batches = -(-n_rows // batch_size)
    n_ordered = min(n_batches, max(1, ORDERED_ROWS // batch_size))
    most_groups = _N_GROUPS.get(runtime.device.physical.kind, _N_GROUPS_OF_GPU)
    parts: list[Part] = []
    n_slots = 0
    for chunk in chunks:
        n_tiles = -(-batch_size // TILE_ROWS) if gathers else chunk.n_tiles
        tiles_per_lane = min(-(-n_tiles // (LOCAL_SIZE * most_groups)), _MAX_TILES_PER_LANE)
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
        }
        parts.append(Part(chunk, n_groups, push))
        n_slots += n_groups
    return Plan(tuple(parts), n_slots, n_rows, n_batches, n_ordered, gathers)


def end_of_step(plan: Plan, settings: Settings) -> dict[str, Any]:
    """The push constants of `Update` in logistic_step.glsl."""
    return {
        "n_slots": plan.n_slots,
        "n_rows": plan.n_rows,
        "batch_size": settings.batch_size,
        "n_batches": plan.n_batches,
        "learning_rate": settings.learning_rate,
        "alpha": settings.alpha,
        "tolerance": settings.tol or 0.0,
        "patience": 0 if settings.tol is None else settings.patience,
        "fits_intercept": int(settings.fit_intercept),
    }
