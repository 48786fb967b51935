"""Windows: bindings that span several arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.core.buffer import PADDING
from vkcompute.runtime.memory import window
from vkcompute.runtime.memory.window import ranges_overlap, spans_of, windows_over

MOST = 1024


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Draws views: an array, and the first and last element of it."""
    results = []
    for _ in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 400))
        results.append((draw(st.integers(0, 5)), first, draw(st.integers(first, 400))))
    return results


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=parts(), limited=st.booleans())
def test_windows_contain_their_arrays(gpu: vc.Runtime, *, drawn: list[tuple[int, int, int]], limited: bool) -> None:
    arrays = [gpu.zeros(400, np.float32) for _ in range(6)]
    views = [arrays[at][first:stop] for at, first, stop in drawn]
    with pytest.MonkeyPatch.context() as patch:
        if limited:
            patch.setattr(window, "_MOST_ELEMENTS", MOST)
        windows, places = windows_over(views)
    for view, (at, start) in zip(views, places, strict=True):
        chosen = windows[at]
        if view.size:
            assert chosen.buffer.block is view.buffer.block
            assert chosen.buffer.offset + chosen.offset + 4 * start == view.buffer.offset + view.offset
            assert view.span in spans_of([chosen]) or view.span[1:] == (view.offset, chosen.span[2])
        assert 0 <= start <= start + view.size <= chosen.size
    for each in windows:
        begin, end = each.buffer.offset + each.offset, each.buffer.offset + each.offset + each.nbytes
        assert begin % gpu.device.memory.align == each.nbytes % PADDING == 0
        assert 0 <= begin <= end <= each.buffer.block.nbytes
        assert not limited or each.size <= MOST


def test_arrays_of_several_blocks() -> None:
    with vc.Runtime(memory_limit_bytes=16 << 20) as gpu:  # blocks of 2 MiB
        arrays = [gpu.full(1 << 17, at, np.float32) for at in range(11)]
        windows, places = windows_over(arrays)
        blocks = list(dict.fromkeys(array.buffer.block.key for array in arrays))
        assert len(windows) == len(blocks) > 2
        assert [windows[at].buffer.block for at, _ in places] == [array.buffer.block for array in arrays]
        assert {*spans_of(windows)} == {array.span for array in arrays}


def test_windows_of_the_same_bytes_are_launched_apart(gpu: vc.Runtime) -> None:
    arrays = sorted([gpu.zeros(64) for _ in range(3)], key=lambda array: array.buffer.offset)
    (two,), _ = windows_over(arrays[::2])
    (three,), _ = windows_over(arrays)
    assert (two.buffer, two.offset, two.nbytes) == (three.buffer, three.offset, three.nbytes)
    assert two.launch_key != three.launch_key  # plans and graphs look up the ranges of a launch by these keys


@pytest.mark.pure
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 30), st.integers(0, 9)), max_size=8))
def test_ranges_of_groups_that_overlap(drawn: list[tuple[int, int, int, int]]) -> None:
    buffers = object(), object()
    ranges = [(group, buffers[at], start, start + n) for group, at, start, n in drawn]
    expected = any(
        one[0] != other[0] and one[1] is other[1] and max(one[2], other[2]) < min(one[3], other[3])
        for one in ranges
        for other in ranges
    )
    groups: list[Any] = [[each[1:] for each in ranges if each[0] == group] for group in range(3)]
    assert ranges_overlap(groups) == expected


def test_an_array_larger_than_a_binding(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_MOST_ELEMENTS", MOST)
    message = r"among those that are bound together has 8192 bytes; .* binds at most 4096; pass parts of it"
    with pytest.raises(ValueError, match=message):
        windows_over([gpu.zeros(16, np.float32), gpu.zeros(2 * MOST, np.float32)])
