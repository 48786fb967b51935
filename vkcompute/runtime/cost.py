"""How many launches fit into one submit, as far as earlier ones tell: what occupies a GPU for seconds, a desktop ends.

Arithmetic only: no device is needed to use or to test it.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST = 64  # launches in a submit
_UNKNOWN = 1 / 16  # of a launch is taken to fit: so much that the first one is divided, and shows what it takes
_MOST_PARTS = 1024

Grid = tuple[int, int, int]


class Cost:
    """What the launches of one kernel take, on grids of about one size.

    Attributes:
        most: so many of them go into one submit.
        parts: into so many submits one of them is divided, where it is too long for one.
    """

    __slots__ = ("_divisible", "_fits", "_limit_s", "most", "parts")

    def __init__(self, limit_s: float | None = None, fits: float = _UNKNOWN, *, divisible: bool = False) -> None:
        self._limit_s, self._divisible = limit_s, divisible
        self._set(MOST if limit_s is None else fits)

    def _set(self, fits: float) -> None:
        self._fits = fits
        self.most = max(1, min(MOST, int(fits)))
        self.parts = min(_MOST_PARTS, -int(-1 // fits)) if self._divisible and fits < 1 else 1

    def scaled(self, ratio: float) -> float:
        """How many launches of so many times the workgroups fit: of fewer at least as many."""
        return self._fits / max(1.0, ratio)

    def note(self, n: float, least_s: float, most_s: float) -> None:
        """Takes note of a submit with `n` such launches, all or the slowest of them, that took so long.

        Args:
            least_s, most_s: between these, as far as the host has seen.
        """
        if self._limit_s is not None:
            fits = max(self._fits, n * self._limit_s / max(most_s, 1e-9))
            if least_s > 0:
                fits = min(fits, n * self._limit_s / least_s)
            if fits != self._fits:
                self._set(fits)


NOTHING = Cost()
"""Of what has no limit, or is short at any rate."""


class Costs:
    """Those of one kernel, by the size of the grid.

    Args:
        limit_s: of a submit; None for no limit.
        divisible: whether a launch may be divided into several.
    """

    def __init__(self, limit_s: float | None, *, divisible: bool) -> None:
        self._limit_s, self._divisible = limit_s, divisible
        self._known: dict[int, Cost] = {}  # by the number of bits of the number of workgroups

    def of(self, grid: Grid) -> Cost:
        """That of launches on grids like this."""
        if self._limit_s is None:
            return NOTHING
        n_bits = (grid[0] * grid[1] * grid[2]).bit_length()
        found = self._known.get(n_bits)
        if found is None:
            fits = max((cost.scaled(2.0 ** (n_bits - bits)) for bits, cost in self._known.items()), default=_UNKNOWN)
            found = self._known[n_bits] = Cost(self._limit_s, fits, divisible=self._divisible)
        return found


def divided(grid: Grid, n_parts: int) -> Iterator[tuple[Grid, Grid]]:
    """(first workgroup, workgroups) of each part of a grid that is cut along its longest axis, alike within one."""
    axis = grid.index(max(grid))
    n_parts = max(1, min(n_parts, grid[axis]))
    for part in range(n_parts):
        start, stop = (grid[axis] * each // n_parts for each in (part, part + 1))
        base, size = [0, 0, 0], [*grid]
        base[axis], size[axis] = start, stop - start
        yield (base[0], base[1], base[2]), (size[0], size[1], size[2])
