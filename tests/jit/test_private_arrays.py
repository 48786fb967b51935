"""Private arrays and lists: registers or variables of an invocation, against the same function run by Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import check, module

import vkcompute as vc
from vkcompute import ir
from vkcompute.core.quirks import quirks_of
from vkcompute.frontend.source import definition_of
from vkcompute.ir.function import walk
from vkcompute.jit.compilation.build import build, optimized
from vkcompute.jit.frontend.compiler import Compiler

N = 8
X = np.random.default_rng(0).integers(-50, 50, (N, 12)).astype(np.int32)
F = (X / 4).astype(np.float32)
EIGHT = 8


@vc.kernel
def histogram(x, f, out, real):
    i = vc.global_id(0)
    h, sums = [0] * EIGHT, 4 * [0.0]
    for k in range(12):
        h[x[i, k] % 8] += x[i, k]
        sums[k % 4] += f[i, k]
    for k in range(8):
        out[i, k] = h[k]
        real[i, k] = sums[k // 2] + len(h)


def swap(h, a, b):
    h[a], h[b] = h[b], h[a]


@vc.kernel
def sorted_items(x, f, out, real):
    i = vc.global_id(0)
    h = [x[i, 0], x[i, 1], x[i, 2], x[i, 3]]
    for a in range(4):
        for b in range(3 - a):
            if h[b] > h[b + 1]:
                swap(h, b, b + 1)
    a, b, c, d = h
    [e, g] = [a, d]
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = a, b, c, d
    out[i, 4], out[i, 5], out[i, 6], out[i, 7] = sum(h), max(h) - min(h), e + g, b in h


@vc.kernel
def median(x, f, out, real):
    i = vc.global_id(0)
    window = vc.local(9, vc.float32)
    for k in range(9):
        window[k] = f[i, k]
    for a in range(1, 9):
        v, b = window[a], a - 1
        while b >= 0 and window[b] > v:
            window[b + 1] = window[b]
            b -= 1
        window[b + 1] = v
    real[i, 0], real[i, 1] = window[4], window[-1]


@vc.kernel
def tile(x, f, out, real):
    i = vc.global_id(0)
    acc = vc.local((2, 4), vc.float32)
    for k in range(12):
        for a in range(2):
            for b in range(4):
                acc[a, b] += f[i, k] * f[(i + a) % 8, b]
    for a in range(2):
        for b in range(4):
            real[i, 4 * a + b] = acc[a][b]
    row = acc[1]
    row[2] = 0.5
    out[i, 0], out[i, 1], out[i, 2] = acc.shape[0] * acc.size, acc.ndim, acc[1, 2] * 2
    real[i, 0] += sum(row) * 0.25


@vc.kernel
def table(x, f, out, real):
    i = vc.global_id(0)
    m = [[1, 2, 3], [x[i, 0], 5, 6], [7] * 3]
    m[x[i, 1] % 3][1] = 9
    for a in range(3):
        for b, v in enumerate(m[a]):
            out[i, (a + b) % 8] += v * (1 + m[b][a])
    out[i, 7] = len(m) * len(m[0])


def made(n, at):
    h = [n] * 4
    h[at] += 1
    return h


@vc.kernel
def returned(x, f, out, real):
    i = vc.global_id(0)
    one, other = made(x[i, 0], 1), made(3, i % 4)
    for k in range(3):
        fresh = [0, k]
        fresh[1] += 1
        alias = one
        alias[k] += fresh[0] + fresh[1] * other[k]
    for k in range(4):
        out[i, k], out[i, 4 + k] = one[k], other[k]


@vc.kernel
def flags(x, f, out, real):
    i = vc.global_id(0)
    seen, known = [False] * 8, vc.local(2, vc.bool_)
    for k in range(12):
        seen[x[i, k] % 8] = True
        known[k & 1] = seen[k % 8] or known[k & 1]
    for k in range(8):
        out[i, k] = 2 if seen[k] and not known[k & 1] else seen[k]


@vc.kernel
def left_early(x, f, out, real):
    i = vc.global_id(0)
    h = vc.local(4, vc.int32)
    for k in range(200):
        h[0] += 1
        if x[i, k % 12] > 20:
            h[1] = k
            if k > 3:
                break
            continue
        h[2] += x[i, k % 12]
        g = vc.local(2, vc.int32)
        for j in range(40):
            g[j & 1] += j
            if g[1] > x[i, 1]:
                break
        h[3] ^= g[0] - g[1]
    for k in range(4):
        out[i, k] = h[k]


KERNELS = histogram, sorted_items, median, tile, table, returned, flags, left_early


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_against_python(gpu: vc.Runtime, kernel: Any) -> None:
    check(gpu, kernel, X, F, np.zeros((N, 8), np.int32), np.zeros((N, 8), np.float32), local_size=(N, 1, 1))


def accesses(kernel: Any) -> list[str]:
    signature = (("i", 2), ("f", 2), ("i", 2), ("f", 2))
    function = optimized(build(Compiler, definition_of(kernel.__wrapped__), signature).function)
    return [op.code for op in walk(function.body) if op.memory is not None and op.memory.private]


@pytest.mark.parametrize("kernel", [sorted_items, tile, left_early], ids=lambda kernel: kernel.__name__)
def test_known_indices_are_registers(kernel: Any) -> None:
    result = accesses(kernel)
    assert result.count("fill") == (kernel is left_early)  # for g, whose indices vary


def test_varying_indices_are_variables() -> None:
    assert {*accesses(histogram)} == {"fill", "load", "store"}


# -- types of items ---------------------------------------------------------------------------------------------------


@vc.kernel
def counts(x, out):
    h = [0] * 2
    for k in range(len(x)):
        h[k % 2] += x[k]
    out[0], out[1] = h[0], h[1] // 2


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32", "int64", "float32"])
def test_items_are_at_least_int32_and_wider_where_something_wider_is_stored(gpu: vc.Runtime, dtype: str) -> None:
    x = np.array([100, 120] * 10, dtype)
    out = gpu.zeros(2, np.int64 if dtype == "int64" else np.int32)
    try:
        counts[1, 1](gpu.array(x), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    assert out.numpy().tolist() == [1000, 600]


@vc.kernel
def negative(x, out):
    h = [0] * 2
    h[0] = -1
    h[1] = 1 if x[0] > 3 else -5
    out[0], out[1] = h[0] < x[0], max(vc.int32(x[0]), h[1])


@vc.kernel
def halves(x, out):
    h, s = [0, 0], [1] * 2
    h[0] = 1.5
    h[1] += x[0]
    s[1] = 3_000_000_000
    out[0], out[1] = h[0] * 2 + h[1], s[1] // 1_000_000_000


def test_what_is_stored_later_makes_items_wider(gpu: vc.Runtime) -> None:
    x, out = gpu.full(1, 7, np.uint32), gpu.zeros(2, np.int32)
    negative[1, 1](x, out)
    assert out.numpy().tolist() == [1, 7]
    try:
        halves[1, 1](x, out)
    except vc.MissingFeature:
        return  # s has items of int64
    assert out.numpy().tolist() == [10, 3]


@vc.kernel
def typed(x, out):
    h = vc.local(2, vc.uint8)
    h[0] = 300
    out[0] = h[0]


def test_a_private_array_keeps_its_type(gpu: vc.Runtime) -> None:
    with pytest.raises(vc.KernelError, match="300 does not fit uint8"):
        typed[1, 1](gpu.zeros(1), gpu.zeros(1, np.int32))


scaled = vc.vectorize(lambda x: [x, 2, 0.5][vc.int32(x) % 3])


def best_of_three(x, y):
    h = [x, y, 0]
    h[1] += 1
    return max(h)


def test_in_elementwise_functions(gpu: vc.Runtime) -> None:
    if isinstance(gpu, vc.Runtime):
        x = np.arange(50, dtype=np.float32)
        expected = np.where(x % 3 == 0, x, np.where(x % 3 == 1, 2, 0.5))
        assert np.array_equal(scaled(gpu.array(x)).numpy(), expected)
        result = vc.vectorize(best_of_three)(gpu.array(x), 7.25).numpy()
        assert np.array_equal(result, np.maximum(x, 8.25))


# -- limits and errors ------------------------------------------------------------------------------------------------


@vc.kernel
def large(out, n):
    h = vc.local(MANY, vc.int32)
    h[n] = n
    out[0] = h[n] + h[n - 1]


MANY = 500


@pytest.mark.parametrize("more", [0, 4])
def test_as_many_bytes_as_the_device_takes(gpu: Any, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    most = quirks_of(gpu.device.physical).max_private_nbytes if isinstance(gpu, vc.Runtime) else 64 << 20
    monkeypatch.setitem(large.__wrapped__.__globals__, "MANY", most // 4 + 1 if more else 500)
    out = gpu.zeros(1, np.int32)
    if more:
        with pytest.raises(ValueError, match=f"{most // 4 * 4 + 4}.*variables per invocation.*make its arrays smaller"):
            large[1, 1](out, 5)
    else:
        large[1, 1](out, 5)
        assert out.numpy()[0] == 5


@vc.kernel
def out_of_bounds(out, n):
    h = vc.local(4, vc.int32)
    for k in range(4):
        h[k] = k + 1
    h[n] = 7
    out[0] = h[n] + h[0] * 10


def test_an_index_out_of_bounds_touches_the_array_alone(gpu: vc.Runtime) -> None:
    out = gpu.zeros(1, np.int32)
    for n in (1 << 30, -1, 4):
        if isinstance(gpu, vc.Runtime):
            out_of_bounds[1, 1](out, n)
            assert out.numpy()[0] == 17
            with pytest.raises(vc.KernelError, match=r"index -?\d+ is outside of h, whose shape is \(4,\)"):
                vc.kernel(check_bounds=True)(out_of_bounds.__wrapped__)[1, 1](out, n).result()
        else:
            with pytest.raises(vc.KernelError, match=r"h\[.*\] is out of bounds: h has the shape \(4,\)"):
                out_of_bounds[1, 1](out, n)


REFUSED = {
    "h = []": "the length of a list is positive.*; got \\[\\]",
    "h = [0] * n": "known at compile time and fixed; got a Python int",
    "h = [0] * -1": "got -1",
    "h = [[0] * 2] * 2": r"has the same list twice; write \[\[0\] \* 3, \[0\] \* 3\], or vc.local",
    "h = [[0, 1], [2]]": "the lists in a list have one length; got 2, 1",
    "h = [[0, 1], 2]": "a list of lists is written out",
    "h = [(1, 2), (3, 4)]": "the items of a list are numbers; got a tuple of 2",
    "h = [1.5, 2] * 2500": "at most 4,096 items, unless it repeats one; got 5,000; write vc.local",
    "h = [0] * (1 << 40)": "no device has so much memory for each invocation",
    "h = [0] * 4; h.append(3)": "has no attribute append that a kernel can use; the length of a list is fixed",
    "h = [0] * 4; h += [1]": "this takes numbers; got the list",
    "h = [0] * 4; h[0] = out": "this takes numbers; got the array out",
    "h = [0] * 4; h[4] = 1": "h has 4 elements along this axis; got 4",
    "h = [0] * 4; h[1, 2] = 1": "h takes 1 indices",
    "h = [0] * 4; g = h[1:3]": "a list has no slices in kernels",
    "h = [0] * 4; a, b = h": "2 names take a tuple of 2; got a tuple of 4",
    "h = [0] * 4; vc.atomic.add(h, 0, 1)": "takes device arrays and shared arrays.*; got the list h",
    "h = [0] * 4\n    if n > 1: h = [1] * 4\n    out[0] = h[0]": "the list h .* on one path and the list h",
    "h = vc.local(n, vc.int32)": "the shape of a private array is positive ints.*; got a value that is known at the",
    "h = vc.local(4, int)": "the dtype of a private array is one of numpy's",
    "h = vc.local(4)": "takes 2 arguments; got 1: shape and dtype, as vc.local",
    "h = vc.local((1 << 20, 1 << 20), vc.int32)": "no device has so much memory for each invocation",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(gpu: vc.Runtime, text: str) -> None:
    body = text.replace("; ", "\n    ")
    kernel = vc.kernel(module(f"import vkcompute as vc\ndef kernel(out, n):\n    {body}\n").kernel)
    with pytest.raises(vc.KernelError, match=REFUSED[text]) as caught:
        kernel[1, 1](gpu.zeros(4, np.int32), 2)
    assert str(caught.value).endswith("^")


@vc.kernel
def with_barrier(out, n):
    tile = vc.shared(4, vc.int32)
    sizes = [n, 3]
    for k in range(sizes[0]):
        tile[vc.local_id(0)] = k + sizes[1]
        vc.barrier()
        out[vc.global_id(0)] += tile[3 - vc.local_id(0)]
        vc.barrier()


@vc.kernel
def with_divergent_barrier(out, n):
    sizes = [n, vc.local_id(0)]
    for _ in range(sizes[n - 2]):
        vc.barrier()
    out[vc.global_id(0)] = 1


def test_barriers_in_loops_over_items(gpu: vc.Runtime) -> None:
    out = gpu.zeros(4, np.int32)
    with_barrier[1, 4](out, 2)
    assert out.numpy().tolist() == [7] * 4
    if isinstance(gpu, vc.Runtime):
        with pytest.raises(vc.KernelError, match="this barrier"):
            with_divergent_barrier[1, 4](out, 2)


def test_outside_of_kernels() -> None:
    with pytest.raises(vc.KernelError, match="called outside of one"):
        vc.local(4, vc.int32)
    assert ir.Memory("h", ir.INT32, 4, private=True).length == 4
