"""How the rows of one training step are divided among dispatches, workgroups and invocations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.logistic.settings import Settings
from vkcompute.pipelines.logistic.table import TILE_ROWS, Chunk
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime

ORDERED_ROWS = 1 << 24
"""Rows of an epoch whose order is on the device at once."""

MOST_ITERATIONS = 60_000
"""Of the loops of one invocation: lavapipe ends them after 65,535 in all, without a word (core/quirks.py)."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a step that lie in one chunk of the table.

    Attributes:
        n_groups: workgroups.
        push: `Parameters` of shaders/include/logistic_parameters.glsl for them.
    """

    chunk: Chunk
    n_groups: int
    push: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """A step.

    Attributes:
        parts: one per chunk.
        n_slots: partial sums, one for each workgroup of the parts.
        end: `Parameters` for the end of the step.
        n_rows, n_features: of the table.
        n_batches: in an epoch.
        n_ordered: batches whose order is on the device at once.
        gathers: whether a batch is picked from the table by an order; else it is the whole table.
    """

    parts: tuple[Part, ...]
    n_slots: int
    end: dict[str, Any]
    n_rows: int
    n_features: int
    n_batches: int
    n_ordered: int
    gathers: bool


class Step(Protocol):
    """What launches the kernels of one step, or of several in a row.

    Attributes:
        plan: the division of its rows.
        n_steps: in a launch; fewer where an order or the last epoch ends.
    """

    plan: Plan
    n_steps: int

    def launch(self, order: Tensor | None) -> None:
        """Steps on all rows, or on the next batches whose rows stand in `order`."""


def is_cpu(runtime: Runtime) -> bool:
    """Whether the device is the host's CPU: it does few invocations at once, and a barrier among more is dear."""
    return runtime.device.physical.kind == "cpu"


def lanes(runtime: Runtime) -> int:
    """Invocations of a workgroup that goes over rows: 8 or 64 (shaders/include/logistic_columns.glsl)."""
    return 8 if is_cpu(runtime) else 64


def full_device(runtime: Runtime) -> int:
    """Workgroups that fill the device; more of them only are more partial sums."""
    # A CPU runs one workgroup per core at a time; with a few each, one that is held up is made up for.
    return 8 * (os.cpu_count() or 1) if is_cpu(runtime) else 1024


def plan_step(
    chunks: Sequence[Chunk], settings: Settings, *, n_lanes: int, n_groups: int, tile_iterations: int
) -> Plan:
    """The division of a step; with a batch of all rows, chunks are taken as they lie.

    Args:
        chunks: the table, or those of its rows that this device has.
        n_lanes: invocations of a workgroup.
        n_groups: workgroups for a chunk; more where their loops would get too long.
        tile_iterations: of the loops that go over one tile, none of them unrolled.
    """
    n_rows, n_features, batch_size = settings.n_rows, chunks[0].n_features, settings.batch_size
    gathers = batch_size < n_rows
    n_batches = -(-n_rows // batch_size)
    n_ordered = min(n_batches, max(1, ORDERED_ROWS // batch_size))
    table = {"n_rows": n_rows, "n_features": n_features, "n_batches": n_batches, "n_ordered": n_ordered}
    end = {**_of_settings(settings), **table, **_NO_ROWS}
    parts: list[Part] = []
    for chunk in chunks:
        n_tiles = -(-batch_size // TILE_ROWS) if gathers else chunk.n_tiles
        tiles_per_lane = min(-(-n_tiles // (n_lanes * n_groups)), max(1, MOST_ITERATIONS // tile_iterations))
        rows = {"n_tiles": n_tiles, "tiles_per_lane": tiles_per_lane, "first_slot": end["n_slots"]}
        where = {"first_row": chunk.first_row, "n_rows_here": chunk.n_rows}
        parts.append(Part(chunk, -(-n_tiles // (n_lanes * tiles_per_lane)), {**end, **rows, **where}))
        end["n_slots"] += parts[-1].n_groups
    for part in parts:
        part.push["n_slots"] = end["n_slots"]
    return Plan(tuple(parts), end["n_slots"], end, n_rows, n_features, n_batches, n_ordered, gathers)


_NO_ROWS = dict.fromkeys(["n_tiles", "tiles_per_lane", "first_slot", "n_slots", "first_row", "n_rows_here"], 0)


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
    """The shaders that go over rows, as a plan and a device want them, and what all of them are launched on."""

    def __init__(self, runtime: Runtime, plan: Plan, owner: ExitStack) -> None:
        self._runtime = runtime
        self._texels = quirks_of(runtime.device.physical).texel_loads
        self._constants: dict[int | str, int] = {"GATHERS": plan.gathers, "TEXELS": self._texels}
        # Something has to be bound also where nothing is gathered, and where the table is looked at the other way.
        self._nothing = owner.enter_context(runtime.empty(TILE_ROWS, np.float32))
        self._no_order = self._nothing.view(np.uint32)

    def kernel(self, name: str, constants: Mapping[int | str, int]) -> Kernel:
        """The kernel of `shaders/logistic_NAME.comp`."""
        return self._runtime.kernel(f"logistic_{name}", constants={**constants, **self._constants})

    def rows(self, part: Part, order: Tensor | None) -> tuple[Tensor, ...]:
        """The first bindings."""
        table, nothing = (part.chunk.data, part.chunk.targets), (self._nothing, self._nothing)
        storage, texels = (nothing, table) if self._texels else (table, nothing)
        return *storage, self._no_order if order is None else order, *texels
