"""Chunks with a halo: the rows before and after them, for work that reads neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

HostArray = npt.NDArray[Any]
Arrays = tuple[HostArray, ...]


@dataclass(frozen=True, slots=True)
class Halo:
    """The rows that a chunk has more.

    Attributes:
        before, after: their numbers.
        edge: a number for rows beyond the ends of the data; None for the first and the last row.
    """

    before: int = 0
    after: int = 0
    edge: float | None = None

    @classmethod
    def of(cls, halo: Any, edge: Any) -> Halo:
        """Checks the arguments of a stream.

        Raises:
            ValueError: the numbers are negative, or the edge is neither "nearest" nor a number.
        """
        before, after = halo if isinstance(halo, tuple) and len(halo) == 2 else (halo, halo)
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (before, after)):
            raise ValueError(f"halo is a number of rows from 0, or (before, after); got {halo!r}")
        if edge != "nearest" and (isinstance(edge, (str, bool)) or not isinstance(edge, (int, float, np.number))):
            raise ValueError(f'edge is "nearest", or a number for the rows beyond both ends; got {edge!r}')
        return cls(before, after, None if isinstance(edge, str) else edge)

    @property
    def n_rows(self) -> int:
        """The rows that a chunk has more, in all."""
        return self.before + self.after

    def cut(self, arrays: Arrays, step: int) -> Iterator[Arrays]:
        """Yields arrays in chunks of `step` rows, with their halo; those within the arrays are views."""
        n = len(arrays[0])
        for start in range(0, n, step):
            low, high = start - self.before, min(start + step, n) + self.after
            yield tuple([self._rows(array, low, high) for array in arrays])

    def _rows(self, array: HostArray, low: int, high: int) -> HostArray:
        inside = array[max(low, 0) : high]
        before, after = max(-low, 0), max(high - len(array), 0)
        if not before and not after:
            return inside
        return np.concatenate([self._edge(array[:1], before), inside, self._edge(array[-1:], after)])

    def _edge(self, row: HostArray, n: int) -> HostArray:
        """Returns the rows beyond an end: copies of its row, or the number."""
        if self.edge is None:
            return np.repeat(row, n, axis=0)
        if row.dtype.kind not in "fc" and row.dtype.type(self.edge) != self.edge:
            raise ValueError(f"the edge is a value of the data's type, {row.dtype}; got {self.edge!r}")
        return np.full((n, *row.shape[1:]), self.edge, row.dtype)

    def of_chunks(self, chunks: Iterable[Arrays]) -> Iterator[Arrays]:
        """Yields chunks with their halo. A row is in the first one for which all rows of its halo have been read."""
        held: list[HostArray] = []
        for arrays in chunks:
            if not held:
                if not len(arrays[0]):
                    continue
                held = [self._edge(array[:1], self.before) for array in arrays]
            held = [np.concatenate([kept, array]) for kept, array in zip(held, arrays, strict=True)]
            if len(held[0]) > self.n_rows:
                yield tuple(held)
                held = [kept[len(kept) - self.n_rows :] for kept in held]
        if held and self.after:
            held = [np.concatenate([kept, self._edge(kept[-1:], self.after)]) for kept in held]
            yield tuple(held)
