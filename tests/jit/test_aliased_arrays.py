"""Kernels that get one array by two names: loads see what was stored by the other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

N = 32


@vc.kernel
def repeated(x, y, n):
    i = vc.global_id(0)
    y[i] = x[i] + 1
    y[i] = x[i] + 1
    for _ in range(n):
        y[i] = x[i] + 1


@vc.kernel
def both_written(x, y, n):
    i = vc.global_id(0)
    for _ in range(n):
        y[i] = x[i] + 1
        x[i] = y[i] + 2
        y[i] = x[i] + y[i]


@vc.kernel
def across_a_barrier(x, y, n):
    i = vc.local_id(0)
    y[i] = x[i] + n
    vc.barrier()
    other = x[x.size - 1 - i]
    vc.barrier()
    y[i] = other


@vc.kernel
def negated(x, y, n):
    i = vc.global_id(0)
    for _ in range(n):
        y[i] = not x[i]


def expected(kernel: Any, data: np.ndarray, n: int) -> np.ndarray:
    if kernel is repeated:
        return data + data.dtype.type(2 + n)
    if kernel is across_a_barrier:
        return (data + data.dtype.type(n))[::-1]
    for _ in range(n):
        data = (data + data.dtype.type(3)) * data.dtype.type(2)
    return data


KERNELS = repeated, both_written, across_a_barrier


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64"])
@pytest.mark.parametrize("given", [lambda x: (x, x), lambda x: (x[:], x[:]), lambda x: (x[::2], x[::2])])
def test_an_array_is_given_twice(gpu: vc.Runtime, kernel: Any, dtype: str, given: Callable[[Any], Any]) -> None:
    data = np.arange(2 * N).astype(dtype)
    x, once, apart = gpu.array(data), gpu.array(data), gpu.zeros(2 * N, dtype)
    one, other = given(x)
    try:
        kernel[1, one.size](*given(once)[:1], given(apart)[0], 1)  # whose kernel would not do
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    kernel[1, one.size](one, other, 3)
    want = data.copy()
    given(want)[0][:] = expected(kernel, given(data)[0], 3)
    np.testing.assert_array_equal(x.numpy(), want)


def test_bools_that_share_words(gpu: vc.Runtime) -> None:
    data = np.arange(N) % 3 == 0
    x = gpu.array(data)
    negated[1, N](x, x, 3)
    np.testing.assert_array_equal(x.numpy(), ~data)


def test_an_input_of_a_graph_that_becomes_its_result(gpu: vc.Runtime) -> None:
    data = np.arange(N, dtype=np.float32)
    x, out = gpu.array(data), gpu.zeros(N)
    with gpu.record(x=x) as graph:
        repeated[1, N](graph["x"], out, 2)
    graph.run()
    np.testing.assert_array_equal(out.numpy(), data + 1)
    graph.run(x=out)
    np.testing.assert_array_equal(out.numpy(), data + 1 + 4)


@pytest.mark.parametrize("swapped", [False, True])
def test_several_results_in_place(gpu: vc.Runtime, swapped: bool) -> None:
    a, b = np.arange(100, dtype=np.int32), np.arange(100, dtype=np.int32)[::-1].copy()
    x, y = gpu.array(a), gpu.array(b)
    out = (y, x) if swapped else (x, y)
    vc.vectorize(lambda p, q: (p + 2 * q, p - q))(x, y, out=out)
    np.testing.assert_array_equal(out[0].numpy(), a + 2 * b)
    np.testing.assert_array_equal(out[1].numpy(), a - b)
