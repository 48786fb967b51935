"""The cost of launches, learned from earlier ones: desktops kill work that occupies their GPU for seconds.

Arithmetic only; calls no driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

_UNKNOWN = 16.0  # the load of a first launch: high enough to be split, which measures it
_MAX_PARTS = 1024

Grid = tuple[int, int, int]


class Cost:
    """The cost of one launch of a kernel, on grids of about one size.

    Attributes:
        load: an upper bound of the launch's time, as a fraction of the time that a submit may take.
        n_parts: number of submits that one launch is split into, if it takes too long for one.
    """

    __slots__ = ("_divisible", "_limit_s", "load")

    def __init__(self, limit_s: float, load: float = _UNKNOWN, *, divisible: bool = False) -> None:
        self._limit_s, self.load, self._divisible = limit_s, load, divisible

    @property
    def n_parts(self) -> int:
        return min(_MAX_PARTS, ceil(self.load)) if self._divisible else 1

    def learn(self, n: float, least_s: float, most_s: float) -> None:
        """Updates the load: `n` launches took between `least_s` and `most_s`, as observed by the host."""
        submit_s = n * self._limit_s
        self.load = max(min(self.load, max(most_s, 1e-9) / submit_s), least_s / submit_s)


NOTHING = Cost(1.0, 0.0)
"""The cost of tasks without a time limit, or that are always short."""


class Mix:
    """The cost of several kinds of launches together.

    Args:
        counts: number of launches of each kind; a kind may be a mix itself.
        rest: the load of everything else.

    Attributes:
        load: the sum, as of the last `update` or `learn`.
    """

    __slots__ = ("_counts", "_rest", "load")

    def __init__(self, counts: Mapping[Cost | Mix, float], rest: float = 0.0) -> None:
        self._counts, self._rest, self.load = counts, rest, 0.0

    def update(self) -> None:
        """Recomputes the load."""
        self.load = self._rest + sum([n * cost.load for cost, n in self._counts.items()])

    def learn(self, n: float, least_s: float, most_s: float) -> None:
        """As `Cost.learn`. Each kind took at most the whole time, and its share of the least time by known loads."""
        self.update()
        for cost, count in self._counts.items():
            cost.learn(n * count, least_s * count * cost.load / self.load, most_s)
        self.update()


class Costs:
    """The costs of one kernel by the size of the grid.

    Args:
        limit_s: of a submit; None for no limit.
        divisible: True if a launch may be split.
    """

    def __init__(self, limit_s: float | None, *, divisible: bool) -> None:
        self._limit_s, self._divisible = limit_s, divisible
        self._known: dict[int, Cost] = {}  # by the bit length of the number of workgroups

    def of(self, grid: Grid) -> Cost:
        """The cost of launches on grids of this size."""
        if self._limit_s is None:
            return NOTHING
        n_bits = (grid[0] * grid[1] * grid[2]).bit_length()
        result = self._known.get(n_bits)
        if result is None:
            # Fewer workgroups take no longer than more.
            loads = [cost.load * max(1.0, 2.0 ** (n_bits - bits)) for bits, cost in self._known.items()]
            result = self._known[n_bits] = Cost(self._limit_s, min(loads, default=_UNKNOWN), divisible=self._divisible)
        return result


def split_grid(grid: Grid, n_parts: int) -> Iterator[tuple[Grid, Grid]]:
    """Splits a grid along its longest axis into nearly equal parts; yields (first workgroup, workgroups) of each."""
    axis = grid.index(max(grid))
    n_parts = max(1, min(n_parts, grid[axis]))
    for part in range(n_parts):
        start, stop = (grid[axis] * bound // n_parts for bound in (part, part + 1))
        base, size = [0, 0, 0], [*grid]
        base[axis], size[axis] = start, stop - start
        yield (base[0], base[1], base[2]), (size[0], size[1], size[2])
