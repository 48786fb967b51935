"""The training table on the device: tiles of four rows, in chunks that fit a binding."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.logistic.settings import Floats
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

TILE_ROWS = 4
_PIECE_NBYTES = 4 << 20  # rearranged at a time, so that it is still in the cache when it is copied


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of the table.

    Attributes:
        data: shape (n_tiles, n_features, 4), float32: a feature's values for four rows are adjacent.
        targets: shape (n_tiles, 4), float32: the weight of each row, negative for the first class; 0 for padding.
        first_row, n_rows: the rows of the table.
    """

    data: Array
    targets: Array
    first_row: int
    n_rows: int

    @property
    def n_features(self) -> int:
        """Features per row."""
        return self.data.shape[1]

    @property
    def n_tiles(self) -> int:
        """Tiles, the last one padded."""
        return self.data.shape[0]


def upload(runtime: Runtime, X: npt.NDArray[Any], targets: Floats, owner: ExitStack) -> list[Chunk]:
    """Copies `X`, shape (n_rows, n_features), and `targets`, shape (n_rows,), to the device. `owner` closes the chunks.

    Raises:
        ValueError: a tile exceeds the device's largest binding.
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


def own_rows(batch: npt.NDArray[np.uint32], first: int, stop: int) -> npt.NDArray[np.uint32]:
    """Returns the rows of a batch from `first` to below `stop`, counted from `first`."""
    rows: npt.NDArray[np.uint32] = batch[(batch >= first) & (batch < stop)] - np.uint32(first)
    return rows


def chunk_limit_nbytes(runtime: Runtime) -> int:
    """Maximum size of a chunk."""
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


def _write_rows(data: Array, X: npt.NDArray[Any]) -> None:
    n_tiles, n_features, _ = data.shape
    step = max(1, _PIECE_NBYTES // (TILE_ROWS * 4 * n_features))
    for first in range(0, n_tiles, step):
        n = min(step, n_tiles - first)
        data[first : first + n].write(tiles_of(X[TILE_ROWS * first : TILE_ROWS * (first + n)], n))


def tiles_of(X: npt.NDArray[Any], n_tiles: int) -> Floats:
    """Rearranges rows into tiles of shape (n_tiles, n_features, 4), float32, zero-padded."""
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
