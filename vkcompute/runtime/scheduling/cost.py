"""How much of a submit launches take, as far as earlier ones tell: what occupies a GPU for seconds, a desktop ends.

Arithmetic only: no device is needed to use or to test it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

_UNKNOWN = 16.0  # a launch's load is taken to be: so much that the first one is divided, and shows what it takes
_MOST_PARTS = 1024

Grid = tuple[int, int, int]


class Cost:
    """What the launches of one kernel take, on grids of about one size.

    Attributes:
        load: of one, as a part of the time that a submit may take; never less than it is, as far as is known.
        parts: into so many submits one of them is divided, where it is too long for one.
    """

    __slots__ = ("_divisible", "_limit_s", "load")

    def __init__(self, limit_s: float, load: float = _UNKNOWN, *, divisible: bool = False) -> None:
        self._limit_s, self.load, self._divisible = limit_s, load, divisible

    @property
    def parts(self) -> int:
        return min(_MOST_PARTS, ceil(self.load)) if self._divisible else 1

    def note(self, n: float, least_s: float, most_s: float) -> None:
        """Takes note that `n` such launches took so long, between the two as far as the host has seen."""
        submit_s = n * self._limit_s
        self.load = max(min(self.load, max(most_s, 1e-9) / submit_s), least_s / submit_s)


NOTHING = Cost(1.0, 0.0)
"""Of what has no limit, or is short at any rate."""


class Mix:
    """What launches of several kinds take together.

    Args:
        counts: how many there are of each: of launches, or of mixes themselves.
        rest: the load of what is none of these.

    Attributes:
        load: of all, as `Cost.load`, when `look` or `note` was last called.
    """

    __slots__ = ("_counts", "_rest", "load")

    def __init__(self, counts: Mapping[Cost | Mix, float], rest: float = 0.0) -> None:
        self._counts, self._rest, self.load = counts, rest, 0.0

    def look(self) -> None:
        """Brings the load up to date."""
        self.load = self._rest + sum([n * cost.load for cost, n in self._counts.items()])

    def note(self, n: float, least_s: float, most_s: float) -> None:
        """As `Cost.note`: each kind took no longer than all, and its part of the least, if others are as known."""
        self.look()
        for cost, each in self._counts.items():
            cost.note(n * each, least_s * each * cost.load / self.load, most_s)
        self.look()


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
            # Of fewer workgroups a launch takes no longer than of more.
            loads = [cost.load * max(1.0, 2.0 ** (n_bits - bits)) for bits, cost in self._known.items()]
            found = self._known[n_bits] = Cost(self._limit_s, min(loads, default=_UNKNOWN), divisible=self._divisible)
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
