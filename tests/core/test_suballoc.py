"""The suballocator against a map of every single byte."""

from __future__ import annotations

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from vkcompute.core.suballoc import Suballocator

pytestmark = pytest.mark.pure


class Bytes(RuleBasedStateMachine):
    """Takes and gives at random; `owner` says of each byte which range holds it."""

    ranges = Bundle("ranges")

    @initialize(nbytes=st.integers(1, 600))
    def start(self, nbytes: int) -> None:
        self.span = Suballocator(nbytes)
        self.owner: list[int | None] = [None] * nbytes
        self.taken: dict[int, int] = {}

    def free_ranges(self) -> list[tuple[int, int]]:
        """Every longest run of free bytes, (start, stop)."""
        runs, start = [], None
        for at, owner in enumerate([*self.owner, -1]):
            if owner is None and start is None:
                start = at
            elif owner is not None and start is not None:
                runs.append((start, at))
                start = None
        return runs

    @rule(target=ranges, nbytes=st.integers(1, 200), align=st.sampled_from([1, 2, 3, 4, 16, 64, 100]))
    def take(self, nbytes: int, align: int) -> object:
        fitting = {
            start: stop - start
            for start, stop in self.free_ranges()
            if start + (-start % align) + nbytes <= stop  # the first multiple of align, and room from there
        }
        offset = self.span.allocate(nbytes, align)
        if offset is None:
            assert not fitting, "a free range fits"
            return multiple()
        assert offset % align == 0
        assert set(self.owner[offset : offset + nbytes]) == {None}, "the bytes are free"
        assert offset + nbytes <= len(self.owner)
        holder = max(start for start in fitting if start <= offset)
        assert fitting[holder] == min(fitting.values()), "best fit"
        self.owner[offset : offset + nbytes] = [offset] * nbytes
        self.taken[offset] = nbytes
        assert self.span.length(offset) == nbytes
        return offset

    @rule(offset=consumes(ranges))
    def give(self, offset: int) -> None:
        self.span.free(offset)
        nbytes = self.taken.pop(offset)
        self.owner[offset : offset + nbytes] = [None] * nbytes

    @rule(offset=st.integers(-5, 700))
    def give_what_nobody_took(self, offset: int) -> None:
        assume(offset not in self.taken)
        with pytest.raises(ValueError, match=f"offset {offset}"):
            self.span.free(offset)

    @invariant()
    def sums_agree(self) -> None:
        runs = self.free_ranges()
        assert self.span.used_bytes == sum(self.taken.values())
        assert self.span.nbytes - self.span.used_bytes == sum(stop - start for start, stop in runs)
        assert self.span.largest_free == max((stop - start for start, stop in runs), default=0)

    def teardown(self) -> None:
        if not hasattr(self, "span"):
            return
        for offset in list(self.taken):
            self.give(offset)
        nbytes = self.span.nbytes
        assert self.span.largest_free == nbytes, "the pieces have merged"
        assert self.span.allocate(nbytes, 1) == 0
        assert self.span.allocate(1, 1) is None


TestBytes = Bytes.TestCase


@pytest.mark.parametrize(("nbytes", "align"), [(0, 1), (-1, 1), (1, 0), (1, -4)])
def test_sizes_are_positive(nbytes: int, align: int) -> None:
    with pytest.raises(ValueError, match=f"nbytes={nbytes}, align={align}"):
        Suballocator(100).allocate(nbytes, align)


def test_offsets_beyond_32_bits() -> None:
    span = Suballocator(1 << 40)
    first = span.allocate((1 << 33) + 1, 256)
    second = span.allocate(1 << 34, 256)
    assert (first, second) == (0, (1 << 33) + 256)
