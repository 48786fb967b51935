"""The training table on the device: tiles of four rows, in chunks that a binding can hold."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.logistic.settings import Floats
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime

TILE_ROWS = 4
_PIECE_NBYTES = 4 << 20  # so much is rearranged at a time: it stays in the cache until it is copied


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of the table.

    Attributes:
        data: (n_tiles, n_features, 4), float32: each feature of four rows side by side.
        targets: (n_tiles, 4), float32: what weighs a row, with the sign of its class; 0 for rows past the end.
        first_row, n_rows: which rows of the table they are.
    """

    data: Tensor
    targets: Tensor
    first_row: int
    n_rows: int

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.data.shape[1]

    @property
    def n_tiles(self) -> int:
        """Number of tiles, the last one filled up."""
        return self.data.shape[0]


def upload(runtime: Runtime, X: npt.NDArray[Any], targets: Floats, owner: ExitStack) -> list[Chunk]:
    """Copies `X`, shape (n_rows, n_features), and `targets`, shape (n_rows,), to the device. `owner` closes the chunks.

    Raises:
        ValueError: four rows of so many features are larger than what the device binds.
        OutOfDeviceMemory: the table does not fit.
    """
    n_rows, n_features = X.shape
    chunk_rows = _chunk_rows(runtime, n_features)
    chunks = []
    for first in range(0, n_rows, chunk_rows):
        n = min(chunk_rows, n_rows - first)
        n_tiles = -(-n // TILE_ROWS)
        data = owner.enter_context(runtime.empty((n_tiles, n_features, TILE_ROWS), np.float32))
        signs = owner.enter_context(runtime.empty((n_tiles, TILE_ROWS), np.float32))
        padded = np.zeros((n_tiles, TILE_ROWS), np.float32)
        padded.reshape(-1)[:n] = targets[first : first + n]
        signs.write(padded)
        _write_rows(data, X[first : first + n])
        chunks.append(Chunk(data, signs, first, n))
    return chunks


def chunk_limit_nbytes(runtime: Runtime) -> int:
    """The most that a chunk may have."""
    device = runtime.device
    limit = device.max_binding_bytes
    if quirks_of(device.physical).texel_loads:
        limit = min(limit, device.physical.limits["maxTexelBufferElements"] * TILE_ROWS * 4)
    return limit


def _chunk_rows(runtime: Runtime, n_features: int) -> int:
    limit = chunk_limit_nbytes(runtime)
    n_tiles = limit // (TILE_ROWS * 4 * n_features)
    if n_tiles == 0:
        most = limit // (TILE_ROWS * 4)
        raise ValueError(f"a row has at most {most} features on {runtime.device}; got {n_features}; select fewer")
    return n_tiles * TILE_ROWS


def _write_rows(data: Tensor, X: npt.NDArray[Any]) -> None:
    n_tiles, n_features, _ = data.shape
    step = max(1, _PIECE_NBYTES // (TILE_ROWS * 4 * n_features))
    for first in range(0, n_tiles, step):
        n = min(step, n_tiles - first)
        data[first : first + n].write(tiles_of(X[TILE_ROWS * first : TILE_ROWS * (first + n)], n))


def tiles_of(X: npt.NDArray[Any], n_tiles: int) -> Floats:
    """The rows of `X` as (n_tiles, n_features, 4) of float32, filled up with zeros."""
    n_rows, n_features = X.shape
    tiles = np.empty((n_tiles, n_features, TILE_ROWS), np.float32)
    n_whole = n_rows // TILE_ROWS
    whole = X[: n_whole * TILE_ROWS].reshape(n_whole, TILE_ROWS, n_features)
    tiles[:n_whole] = whole.transpose(0, 2, 1)
    if n_whole < n_tiles:
        tiles[n_whole:] = 0
        rest = X[n_whole * TILE_ROWS :]
        tiles[n_whole, :, : len(rest)] = rest.T
    return tiles
