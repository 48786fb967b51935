"""Training on the chunks of a Dask collection: each task sums over a chunk of rows, and the host makes the step."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import numpy.typing as npt
from dask.delayed import delayed

import vkcompute.numpy as vnp
from vkcompute.errors import DataError
from vkcompute.pipelines.logistic.array_shard import binary_sums
from vkcompute.pipelines.logistic.inputs import checked_table
from vkcompute.pipelines.logistic.settings import Floats, Outcome, Settings
from vkcompute.pipelines.logistic.sharded import optimizer_of
from vkcompute.runtime.memory.array import Array

_FAN_IN = 16  # partial sums that a task adds
Sums = npt.NDArray[np.float64]


def train_chunked(X: Any, targets: Floats, settings: Settings, weights: Floats, intercept: float) -> Outcome:
    """`training.train` on the chunks of a Dask array, where Dask computes them; one round trip per step.

    Raises:
        ValueError: the settings ask for batches. It is a DataError if a value is not finite.
    """
    if settings.batch_size != settings.n_rows:
        raise ValueError(
            f"Dask arrays are trained on with all rows per step; got batch_size={settings.batch_size} of "
            f"{settings.n_rows} rows; pass batch_size=None"
        )
    optimizer = optimizer_of(settings)(settings, weights, intercept)
    optimizer.run([_Collection(X, targets)], settings.max_iter)
    return optimizer.outcome()


class _Collection:
    """The rows of a collection, which stay on the workers, and the sums over them."""

    def __init__(self, X: Any, targets: Floats) -> None:
        X = X.rechunk({1: -1})
        stops = np.cumsum(X.chunks[0])
        firsts = [0, *stops[:-1].tolist()]
        parts = [
            delayed(_prepared)(block, targets[first:stop], first)
            for block, first, stop in zip(X.to_delayed()[:, 0], firsts, stops.tolist(), strict=True)
        ]
        self._parts = dask.persist(*parts)
        self._sums: Any = None

    def start(self, weights: Floats, intercept: float, batch: Any) -> bool:
        """Makes the graph of the sums over all rows."""
        partial_sums = [delayed(_sums)(part, weights, intercept) for part in self._parts]
        while len(partial_sums) > 1:
            partial_sums = [
                delayed(_added)(partial_sums[at : at + _FAN_IN]) for at in range(0, len(partial_sums), _FAN_IN)
            ]
        self._sums = partial_sums[0]
        return True

    def sums(self) -> Sums:
        """Computes the sums: the loss, and its derivatives by the intercept and by each weight."""
        sums: Sums = self._sums.compute()
        return sums


def _prepared(block: Any, targets: Floats, first: int) -> tuple[Array, Array]:
    """Returns a chunk of the table on the device, in float32, and the signed weights of its rows.

    Raises:
        DataError: a value is not finite.
    """
    if type(block) is not Array:  # the device may lack its dtype
        block = np.asarray(block, np.float32) if block.dtype.kind in "biuf" else np.asarray(block)
    table = vnp.astype(vnp.asarray(block), np.float32, copy=False)
    if not bool(vnp.all(vnp.isfinite(table))):
        try:
            checked_table(np.asarray(block), "LogisticRegression", as_float32=True)
        except DataError as error:
            raise DataError(f"in the chunk that begins at row {first}: {error}") from None
    return table, vnp.asarray(targets)


def _sums(part: tuple[Array, Array], weights: Floats, intercept: float) -> Sums:
    """Returns the sums of a chunk: the loss, and its derivatives by the intercept and by each weight."""
    table, targets = part
    start = vnp.full((1, 1), intercept, dtype=np.float32)
    sums = binary_sums(vnp.asarray(weights[np.newaxis]), start, table, targets[np.newaxis])
    return np.concatenate([numbers.numpy().reshape(-1) for numbers in sums]).astype(np.float64)


def _added(sums: list[Sums]) -> Sums:
    total: Sums = np.sum(sums, axis=0)
    return total
