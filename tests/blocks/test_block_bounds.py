"""Accesses out of bounds: with VKCOMPUTE_CHECK_BOUNDS=1 a launch fails, and others have their results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.errors import KernelError

N = 40
N_OUT = tl.constexpr(N)


@pytest.fixture(autouse=True)
def _checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_CHECK_BOUNDS", "1")


@triton.jit
def moved(x_ptr, out_ptr, start, n, BLOCK: tl.constexpr):
    at = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, x, at < n)


@triton.jit
def windowed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [N_OUT], [1], [BLOCK])
    out.store([0], x.load([0]))


@triton.jit
def counted(counts_ptr, at, BLOCK: tl.constexpr):
    tl.atomic_add(counts_ptr + at + tl.zeros((BLOCK,), tl.int32), 1)


@triton.jit
def first_of(pair, out_ptr, at):
    tl.store(out_ptr, tl.load(pair[1] + at))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([slice(None), slice(3, None), slice(3, 30), slice(None, None, 2), slice(None, None, -1)]),
    st.sampled_from(["float32", "int8"]),
    st.integers(-45, 45),
    st.integers(-45, 90),
)
def test_elements_are_those_of_the_view(gpu: vkcompute.Runtime, part: slice, dtype: str, start: int, n: int) -> None:
    """A launch fails exactly if an element is outside of what the view spans."""
    host, block = np.arange(N).astype(dtype), 16
    given, out = gpu.array(host), gpu.zeros(N, dtype)
    x, target = given[part], out[part]
    first, indices = part.indices(N)[0], np.arange(N)[part]
    places = np.array([start + k for k in range(block) if start + k < n], int) + first
    wanted = np.zeros(N, dtype)
    inside = [place for place in places if indices.min() <= place <= indices.max()]
    future = moved[(1,)](x, target, start, n, BLOCK=block)
    if len(inside) < len(places):
        lowest, highest = indices.min() - first, indices.max() - first
        with pytest.raises(KernelError, match=rf"x_ptr, whose elements are {lowest} to {highest}; mask it"):
            future.result()
        return
    wanted[inside] = host[inside]
    np.testing.assert_array_equal(out.numpy(), wanted)


def test_the_place_of_an_access(gpu: vkcompute.Runtime) -> None:
    x = gpu.zeros(N)
    with pytest.raises(KernelError) as caught:
        moved[(1,)](x, gpu.zeros(N), 8, 99, BLOCK=64).result()
    first, line, caret = str(caught.value).split("\n")[:3]
    assert re.search(r"program \(0, 0, 0\) accesses element [4-7]\d of x_ptr, whose elements are 0 to 39", first)
    assert "tl.load(x_ptr + at, at < n)" in line
    assert caret.strip() == "^"


def test_descriptors_atomic_operations_and_tuples(gpu: vkcompute.Runtime) -> None:
    x, out = gpu.array(np.arange(N, dtype=np.int32)), gpu.zeros(N, np.int32)
    windowed[(1,)](x, out, N, BLOCK=64).result()
    np.testing.assert_array_equal(out.numpy(), np.arange(N))
    with pytest.raises(KernelError, match=r"element 4\d of x_ptr, whose elements are 0 to 39"):
        windowed[(1,)](x, gpu.zeros(N, np.int32), N + 4, BLOCK=64).result()
    counted[(1,)](out, N - 1, BLOCK=16).result()
    assert out.numpy()[-1] == N - 1 + 16
    for at in (-1, N):
        with pytest.raises(KernelError, match=f"element {at} of counts_ptr, whose elements are 0 to 39"):
            counted[(1,)](gpu.zeros(N, np.int32), at, BLOCK=16).result()
    first_of[(1,)]((x, x[10:]), out, 3).result()
    assert out.numpy()[0] == 13
    with pytest.raises(KernelError, match=r"element 30 of pair\[1\], whose elements are 0 to 29"):
        first_of[(1,)]((x, x[10:]), out, 30).result()


def test_arrays_of_other_lengths_take_the_same_kernel(gpu: vkcompute.Runtime) -> None:
    for n in (16, 48, 17):
        x, out = gpu.array(np.arange(n, dtype=np.int32)), gpu.zeros(n, np.int32)
        moved[(1,)](x, out, 0, n, BLOCK=64).result()
        np.testing.assert_array_equal(out.numpy(), np.arange(n))
        with pytest.raises(KernelError, match=f"whose elements are 0 to {n - 1}"):
            moved[(1,)](x, gpu.zeros(64, np.int32), 0, n + 1, BLOCK=64).result()


def test_inputs_of_a_graph(gpu: vkcompute.Runtime) -> None:
    x, out = gpu.array(np.arange(N, dtype=np.int32)), gpu.zeros(N, np.int32)
    with gpu.record(x=x, n=8) as graph:
        moved[(1,)](graph["x"], out, 0, graph["n"], BLOCK=64)
    graph.run(x=gpu.array(np.arange(N, dtype=np.int32) * 2), n=N)
    np.testing.assert_array_equal(out.numpy(), np.arange(N) * 2)
    with pytest.raises(KernelError, match="whose elements are 0 to 39"):
        graph.run(x=x, n=N + 1)


def test_no_checks_without_the_switch(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_CHECK_BOUNDS", "0")
    program: Any = triton.jit(moved.fn)
    program[(1,)](gpu.zeros(N), gpu.zeros(N), 0, N + 8, BLOCK=64).result()
