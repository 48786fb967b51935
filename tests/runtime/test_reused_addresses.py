"""Launches on views that begin where a view of a freed array began: plans find their descriptor sets by address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc

pytestmark = pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
UNIT = 64  # elements between views, which begin where every device may bind them
MIB = 1 << 20

SHADER = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { int x[]; };
void main() { if (gl_GlobalInvocationID.x < x.length()) x[gl_GlobalInvocationID.x] += 1; }
"""


@vc.kernel
def add_one(x: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        x[i] += 1


@pytest.fixture(scope="module", params=[False, True], ids=["none has moved", "some have moved"])
def runtime(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[vc.Runtime]:
    """A device; where arrays have moved to the host, each launch looks for its buffers."""
    with open_runtime(memory_limit_bytes=4 * MIB) as runtime:
        if request.param:
            many = [runtime.zeros(MIB // 2, np.int32) for _ in range(4)]
            assert runtime.memory().spilled
            del many
        anchor = runtime.zeros(UNIT, np.int32)  # keeps the memory in which the others are
        yield runtime
        del anchor


def launch(runtime: vc.Runtime, kernel: Any, x: vc.Array, *, recorded: bool) -> None:
    if not recorded:
        kernel(x)
        return
    with runtime.record() as graph:
        kernel(x)
    graph.run()


@pytest.mark.parametrize("language", ["Python", "GLSL"])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_view_at_the_place_of_another(runtime: vc.Runtime, language: str, *, recorded: bool) -> None:
    kernel = add_one if language == "Python" else runtime.kernel(vc.glsl(SHADER))
    first = runtime.zeros(4096, np.int32)
    kernel(first[1024:2048])
    runtime.wait()
    del first
    runtime.memory()  # frees what no work uses
    padding, x, bystander = (runtime.zeros(n, np.int32) for n in (512, 1600, 4096))
    launch(runtime, kernel, x[512:1536], recorded=recorded)
    assert np.flatnonzero(x.numpy()).tolist() == list(range(512, 1536))
    assert not bystander.numpy().any()
    assert not padding.numpy().any()


LENGTHS = st.integers(1, 24)
STEPS = st.one_of(
    st.tuples(st.just("make"), LENGTHS, LENGTHS, st.booleans()),
    st.tuples(st.just("free"), st.integers(0, 9), st.just(0), st.booleans()),
    st.tuples(st.sampled_from(["launch", "record"]), st.integers(0, 9), LENGTHS, st.booleans()),
)


@settings(max_examples=25)
@given(steps=st.lists(STEPS, min_size=4, max_size=30))
def test_random_views_of_arrays_that_come_and_go(runtime: vc.Runtime, steps: list[tuple[str, int, int, bool]]) -> None:
    shader = runtime.kernel(vc.glsl(SHADER))
    arrays: list[vc.Array] = []
    expected: list[np.ndarray] = []
    for kind, which, n, is_python in steps:
        if kind == "make" or not arrays:
            n = max(n, 1)
            arrays.append(runtime.zeros(UNIT * n, np.int32))
            expected.append(np.zeros(UNIT * n, np.int32))
            continue
        at = which % len(arrays)
        if kind == "free":
            runtime.wait()
            del arrays[at], expected[at]
            runtime.memory()
            continue
        start = UNIT * (n % (len(expected[at]) // UNIT))
        stop = min(start + UNIT * 3, len(expected[at]))
        launch(runtime, add_one if is_python else shader, arrays[at][start:stop], recorded=kind == "record")
        expected[at][start:stop] += 1
    for result, right in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), right)
