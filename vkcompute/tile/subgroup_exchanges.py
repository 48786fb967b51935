"""Exchanges within subgroups: programs whose exchanges all are such need no barriers of the workgroup for them.

On a CPU, a barrier is where subgroups take turns: drivers keep all that is live across it in memory. Of three programs
of attention, lavapipe runs each 1.25 to 1.45 times as fast without barriers.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.ir.function import Function, walk
from vkcompute.tile.layout import Layout, log2
from vkcompute.tile.target import Target
from vkcompute.tile.types import shape_of
from vkcompute.tile.workgroup_memory import Span

_MANY_SUMS = 256  # of all products, per invocation: with more, lavapipe compiles for half of the sums in a third


class BeyondSubgroupError(Exception):
    """An exchange passes numbers from one subgroup to another."""


class SubgroupExchanges:
    """Checks that subgroups read in workgroup memory only what they wrote, and that no other one writes there.

    Args:
        n_lanes: log2 of the lanes of a subgroup.
    """

    def __init__(self, n_lanes: int) -> None:
        self._n_lanes = n_lanes
        self._parts: list[tuple[Span, tuple[int | None, ...]]] | None = None

    def check_writes(self, blocks: Sequence[tuple[Span, Layout]]) -> None:
        """Checks an exchange that writes these blocks, by the spans that have their elements in order.

        Raises:
            BeyondSubgroupError: it divides the memory among the subgroups in another way than the one before.
        """
        parts = [(span, layout.threads[self._n_lanes :]) for span, layout in blocks]
        if any(None in bits for _, bits in parts) or self._parts not in (None, parts):
            raise BeyondSubgroupError
        self._parts = parts

    def check_read(self, written: Layout, read: Layout) -> None:
        """Checks the layouts in which a block is written and read.

        Raises:
            BeyondSubgroupError: a subgroup reads what another one wrote.
        """
        if written.threads[self._n_lanes :] != read.threads[self._n_lanes :]:
            raise BeyondSubgroupError


def without_barriers(function: Function, target: Target) -> Target | None:
    """Returns the target for a function whose exchanges may be within subgroups; None if it stages no blocks.

    None, too, for one subgroup, which never waits for others.

    An invocation holds half of the sums if those of all products are many. Such a program is shorter, and runs as fast
    as one of twice the sums with barriers.
    """
    ops = walk(function.body)
    if all(op.code != "stage" for op in ops):
        return None
    lengths = [sum(map(log2, shape_of(op.type))) for op in ops if op.code == "dot"]
    n_bits = max(lengths) - log2(target.sums)
    if n_bits <= log2(target.subgroup_size):
        return None
    n_sums = sum(1 << length >> n_bits for length in lengths)
    return target._replace(sums=target.sums // 2) if n_sums > _MANY_SUMS else target
