"""Memory shared by lifetimes: nothing alive together overlaps, and what can be shared is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.core.suballoc import LiveRange, assign_offsets

pytestmark = pytest.mark.pure


@st.composite
def lifetimes(draw: st.DrawFn) -> LiveRange:
    first = draw(st.integers(0, 30))
    return first, draw(st.integers(first, 35)), draw(st.integers(0, 1000))


@given(alive=st.lists(lifetimes(), max_size=30), align=st.sampled_from([1, 16, 64, 100]))
def test_what_is_alive_together_shares_no_byte(alive: list[LiveRange], align: int) -> None:
    offsets, total = assign_offsets(alive, align)
    assert len(offsets) == len(alive)
    for i, (first, last, nbytes) in enumerate(alive):
        assert offsets[i] % align == 0
        assert 0 <= offsets[i] <= offsets[i] + nbytes <= total
        for j in range(i):
            if first <= alive[j][1] and alive[j][0] <= last:
                start, stop = max(offsets[i], offsets[j]), min(offsets[i] + nbytes, offsets[j] + alive[j][2])
                assert start >= stop or nbytes == 0 or alive[j][2] == 0
    assert total <= sum(-(-max(nbytes, 1) // align) * align for *_, nbytes in alive)


@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_a_chain_needs_the_two_largest_neighbours_at_most(sizes: list[int]) -> None:
    """Each is alive while it is made and while the next one is made of it."""
    _, total = assign_offsets([(i, i, nbytes) for i, nbytes in enumerate(sizes)], 1)
    assert total == max(sizes)
    _, total = assign_offsets([(i, i + 1, 100) for i in range(len(sizes))], 1)
    assert total == 100 * min(2, len(sizes))


def test_a_freed_gap_is_used_by_what_fits_best() -> None:
    offsets, total = assign_offsets([(0, 1, 300), (0, 9, 200), (0, 1, 100), (0, 9, 10), (2, 3, 90), (2, 3, 250)], 1)
    assert (offsets, total) == ([0, 300, 500, 600, 500, 0], 610)


def test_no_lifetimes() -> None:
    assert assign_offsets([], 64) == ([], 0)
