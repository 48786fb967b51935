"""Kernels whose tiles, and whose shared arrays in branches, fit some local sizes only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.ir import local_size_misfit, tile_misfits
from vkcompute.jit.compilation.build import build
from vkcompute.jit.frontend.compiler import Compiler

LocalSize = tuple[int, int, int]
ARRAY, MATRIX, VOLUME = ("f", 1), ("f", 2), ("f", 3)
WIDTH, N = 1024, 16
SHAPES: list[tuple[Any, Sequence[Any], Sequence[LocalSize], Sequence[LocalSize]]] = []


def shape(
    signature: Sequence[Any], fitting: Sequence[LocalSize], others: Sequence[LocalSize] = ()
) -> Callable[[Any], Any]:
    """Adds a kernel with the local sizes that it is made for, and some that leave elements out or write them twice."""

    def added(kernel: Any) -> Any:
        SHAPES.append((kernel, signature, fitting, others))
        return kernel

    return added


@shape(
    [MATRIX, MATRIX],
    [(16, 16, 1)],
    [(16, 8, 1), (8, 8, 1), (32, 8, 1), (8, 16, 1), (32, 16, 1), (16, 32, 1), (32, 32, 1), (64, 1, 1)],
)
def transpose(x, out):
    tile = vc.shared((16, 17), vc.float32)
    lx, ly = vc.local_id(0), vc.local_id(1)
    a, b = vc.group_id(0) * 16 + lx, vc.group_id(1) * 16 + ly
    n, m = x.shape[1], x.shape[0]
    if a < n and b < m:
        tile[ly, lx] = x[b, a]
    vc.barrier()
    a, b = vc.group_id(1) * 16 + lx, vc.group_id(0) * 16 + ly
    if a < m and b < n:
        out[b, a] = tile[lx, ly]


@shape([MATRIX, MATRIX], [(16, 16, 1)], [(16, 8, 1), (8, 8, 1), (32, 8, 1), (8, 16, 1), (32, 16, 1), (16, 32, 1)])
def transpose_global(x, out):
    tile = vc.shared((16, 17), vc.float32)
    lx, ly = vc.local_id(0), vc.local_id(1)
    a, b = vc.global_id(0), vc.global_id(1)
    if a < x.shape[1] and b < x.shape[0]:
        tile[ly, lx] = x[b, a]
    vc.barrier()
    a, b = vc.group_id(1) * 16 + lx, vc.group_id(0) * 16 + ly
    if a < out.shape[1] and b < out.shape[0]:
        out[b, a] = tile[lx, ly]


@shape([MATRIX, MATRIX], [(32, 8, 1)], [(16, 8, 1), (8, 8, 1), (32, 4, 1), (64, 8, 1), (32, 16, 1)])
def cuda_transpose(x, out):
    tile = vc.shared((32, 33), vc.float32)
    lx, ly = vc.local_id(0), vc.local_id(1)
    a, b = vc.group_id(0) * 32 + lx, vc.group_id(1) * 32 + ly
    for j in range(0, 32, 8):
        if a < x.shape[1] and b + j < x.shape[0]:
            tile[ly + j, lx] = x[b + j, a]
    vc.barrier()
    a, b = vc.group_id(1) * 32 + lx, vc.group_id(0) * 32 + ly
    for j in range(0, 32, 8):
        if a < out.shape[1] and b + j < out.shape[0]:
            out[b + j, a] = tile[lx, ly + j]


@shape([ARRAY, ARRAY, int, int], [(32, 8, 1)], [(16, 8, 1), (8, 8, 1)])
def nvidia_sample(idata, odata, width, height):
    tile = vc.shared((32, 33), vc.float32)
    xi = vc.group_id(0) * 32 + vc.local_id(0)
    yi = vc.group_id(1) * 32 + vc.local_id(1)
    index_in = xi + yi * width
    xi = vc.group_id(1) * 32 + vc.local_id(0)
    yi = vc.group_id(0) * 32 + vc.local_id(1)
    index_out = xi + yi * height
    for i in range(0, 32, 8):
        tile[vc.local_id(1) + i, vc.local_id(0)] = idata[index_in + i * width]
    vc.barrier()
    for i in range(0, 32, 8):
        odata[index_out + i * height] = tile[vc.local_id(0), vc.local_id(1) + i]


@shape([ARRAY, ARRAY], [(32, 8, 1)], [(16, 8, 1), (8, 8, 1)])
def nvidia_const(idata, odata):
    tile = vc.shared((32, 33), vc.float32)
    xi = vc.group_id(0) * 32 + vc.local_id(0)
    yi = vc.group_id(1) * 32 + vc.local_id(1)
    index_in = xi + yi * WIDTH
    xi = vc.group_id(1) * 32 + vc.local_id(0)
    yi = vc.group_id(0) * 32 + vc.local_id(1)
    index_out = xi + yi * WIDTH
    for i in range(0, 32, 8):
        tile[vc.local_id(1) + i, vc.local_id(0)] = idata[index_in + i * WIDTH]
    vc.barrier()
    for i in range(0, 32, 8):
        odata[index_out + i * WIDTH] = tile[vc.local_id(0), vc.local_id(1) + i]


@shape([MATRIX, MATRIX, MATRIX], [(16, 16, 1)], [(16, 8, 1), (8, 8, 1), (32, 8, 1)])
def product(a, b, out):
    s, t = vc.shared((16, 16), vc.float32), vc.shared((16, 16), vc.float32)
    x, y = vc.local_id(0), vc.local_id(1)
    col, row = 16 * vc.group_id(0) + x, 16 * vc.group_id(1) + y
    total = vc.float32(0)
    for k0 in range(0, a.shape[1], 16):
        if row < a.shape[0] and k0 + x < a.shape[1]:
            s[y, x] = a[row, k0 + x]
        else:
            s[y, x] = 0
        if k0 + y < b.shape[0] and col < b.shape[1]:
            t[y, x] = b[k0 + y, col]
        else:
            t[y, x] = 0
        vc.barrier()
        for k in range(16):
            total += s[y, k] * t[k, x]
        vc.barrier()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1), (128, 1, 1), (256, 1, 1)])
def partials(x, out):
    part = vc.shared(4, vc.float32)
    t = vc.local_id(0)
    if t % 16 == 0:
        part[t // 16] = x[vc.global_id(0)]
    vc.barrier()
    if t == 0:
        out[vc.group_id(0)] = part[0] + part[1] + part[2] + part[3]


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1), (128, 1, 1)])
def partials_guarded(x, out):
    part = vc.shared(4, vc.float32)
    t, i = vc.local_id(0), vc.global_id(0)
    if i < x.size and t % 16 == 0:
        part[t // 16] = x[i]
    vc.barrier()
    if t < 4 and vc.group_id(0) < out.size:
        out[vc.group_id(0)] += part[t]


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1), (128, 1, 1)])
def reversed_tile(x, out):
    tile = vc.shared(64, vc.float32)
    t, i = vc.local_id(0), vc.global_id(0)
    if i < x.size:
        tile[t] = x[i]
    vc.barrier()
    if i < x.size:
        out[i] = tile[63 - t]


@shape([ARRAY, ARRAY], [(16, 1, 1)], [(8, 1, 1), (32, 1, 1), (64, 1, 1)])
def halo14(x, out):
    tile = vc.shared(16, vc.float32)
    t = vc.local_id(0)
    i = 14 * vc.group_id(0) + t - 1
    tile[t] = x[i] if 0 <= i < x.size else 0
    vc.barrier()
    if 0 < t < 15 and i < out.size:
        out[i] = tile[t - 1] + tile[t] + tile[t + 1]


@shape([ARRAY, ARRAY], [(16, 1, 1), (32, 1, 1)])
def halo_adaptive(x, out):
    tile = vc.shared(64, vc.float32)
    t, n = vc.local_id(0), vc.local_size(0)
    i = (n - 2) * vc.group_id(0) + t - 1
    tile[t] = x[i] if 0 <= i < x.size else 0
    vc.barrier()
    if 0 < t < n - 1 and i < out.size:
        out[i] = tile[t - 1] + tile[t] + tile[t + 1]


@shape([MATRIX, MATRIX], [(16, 16, 1)])
def halo2d(x, out):
    tile = vc.shared((16, 16), vc.float32)
    lx, ly = vc.local_id(0), vc.local_id(1)
    c, r = 14 * vc.group_id(0) + lx - 1, 14 * vc.group_id(1) + ly - 1
    tile[ly, lx] = x[min(max(r, 0), x.shape[0] - 1), min(max(c, 0), x.shape[1] - 1)]
    vc.barrier()
    if 1 <= lx <= 14 and 1 <= ly <= 14 and r < out.shape[0] and c < out.shape[1]:
        out[r, c] = tile[ly - 1, lx] + tile[ly + 1, lx] + tile[ly, lx - 1] + tile[ly, lx + 1]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def halo_tile66(x, out):
    tile = vc.shared(66, vc.float32)
    t, i = vc.local_id(0), vc.global_id(0)
    if i < x.size:
        tile[t + 1] = x[i]
        if t == 0:
            tile[0] = x[i - 1] if i > 0 else 0
        if t == 63 or i == x.size - 1:
            tile[t + 2] = x[i + 1] if i + 1 < x.size else 0
    vc.barrier()
    if i < x.size:
        out[i] = tile[t] + tile[t + 1] + tile[t + 2]


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1)])
def coarsened(x, out):
    base = vc.group_id(0) * 256 + vc.local_id(0)
    for k in range(4):
        i = base + 64 * k
        if i < out.size:
            out[i] = 2 * x[i]


@shape([ARRAY, ARRAY], [(64, 1, 1), (32, 1, 1), (256, 1, 1)])
def coarsened_adaptive(x, out):
    for k in range(vc.local_id(0), 256, vc.local_size(0)):
        i = vc.group_id(0) * 256 + k
        if i < out.size:
            out[i] = 2 * x[i]


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1)])
def vec4(x, out):
    base = (vc.group_id(0) * 64 + vc.local_id(0)) * 4
    for k in range(4):
        if base + k < out.size:
            out[base + k] = x[base + k]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def vec4_far(x, out):
    base = (vc.group_id(0) * 256 + vc.local_id(0)) * 4
    for j in range(4):
        for k in range(4):
            if base + k + 256 * j < out.size:
                out[base + k + 256 * j] = x[base + k + 256 * j]


@shape([ARRAY, ARRAY], [(64, 1, 1), (100, 1, 1)])
def grid_stride(x, out):
    i = vc.group_id(0) * vc.local_size(0) + vc.local_id(0)
    while i < x.size:
        out[i] = x[i]
        i += vc.num_groups(0) * vc.local_size(0)


@shape([ARRAY, ARRAY], [(64, 1, 1)], [(32, 1, 1)])
def grid_stride_const(x, out):
    for i in range(vc.group_id(0) * 64 + vc.local_id(0), x.size, vc.num_groups(0) * 64):
        out[i] = x[i]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def every_other(x, out):
    i = vc.group_id(0) * 64 + vc.local_id(0)
    if 2 * i < out.size:
        out[2 * i] = x[i]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def rgb(x, out):
    i = vc.group_id(0) * 64 + vc.local_id(0)
    if 4 * i + 3 < out.size:
        out[4 * i] = x[3 * i]
        out[4 * i + 1] = x[3 * i + 1]
        out[4 * i + 2] = x[3 * i + 2]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def padded(x, out):
    out[128 * vc.group_id(0) + 32 + vc.local_id(0)] = x[64 * vc.group_id(0) + vc.local_id(0)]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def cropped(x, out):
    out[64 * vc.group_id(0) + vc.local_id(0)] = x[128 * vc.group_id(0) + 32 + vc.local_id(0)]


@shape([ARRAY, ARRAY], [(256, 1, 1), (512, 1, 1)], [(64, 1, 1)])
def histogram(x, out):
    bins = vc.shared(256, vc.int32)
    t = vc.local_id(0)
    if t < 256:
        bins[t] = 0
    vc.barrier()
    for k in range(t, 1024, vc.local_size(0)):
        vc.atomic.add(bins, int(x[vc.group_id(0) * 1024 + k]), 1)
    vc.barrier()
    if t < 256:
        out[256 * vc.group_id(0) + t] = bins[t]


@shape([ARRAY, ARRAY], [(256, 1, 1)], [(64, 1, 1), (128, 1, 1)])
def block_sum(x, out):
    tile = vc.shared(256, vc.float32)
    t = vc.local_id(0)
    i = vc.group_id(0) * 256 + t
    tile[t] = x[i] if i < x.size else 0
    vc.barrier()
    n = 128
    while n > 0:
        if t < n:
            tile[t] += tile[t + n]
        vc.barrier()
        n //= 2
    if t == 0:
        out[vc.group_id(0)] = tile[0]


@shape([ARRAY, ARRAY], [(128, 1, 1)], [(64, 1, 1), (256, 1, 1)])
def block_sum_two(x, out):
    tile = vc.shared(128, vc.float32)
    t = vc.local_id(0)
    i = vc.group_id(0) * 256 + t
    if i < x.size:
        tile[t] = x[i] + x[i + 128]
    vc.barrier()
    n = 64
    while n > 0:
        if t < n:
            tile[t] += tile[t + n]
        vc.barrier()
        n //= 2
    if t == 0:
        out[vc.group_id(0)] = tile[0]


@shape([ARRAY, ARRAY, int], [(64, 1, 1), (128, 1, 1)])
def scan_n(x, out, n):
    tile = vc.shared(256, vc.float32)
    t = vc.local_id(0)
    base = vc.group_id(0) * 2 * vc.local_size(0)
    tile[2 * t] = x[base + 2 * t]
    tile[2 * t + 1] = x[base + 2 * t + 1]
    vc.barrier()
    d = 1
    while d < n:
        if (t + 1) * 2 * d - 1 < 2 * vc.local_size(0):
            tile[(t + 1) * 2 * d - 1] += tile[(t + 1) * 2 * d - 1 - d]
        vc.barrier()
        d *= 2
    out[base + 2 * t] = tile[2 * t]
    out[base + 2 * t + 1] = tile[2 * t + 1]


@shape([MATRIX, MATRIX], [(8, 8, 1)], [(16, 8, 1), (8, 4, 1), (4, 8, 1)])
def tile8(x, out):
    tile = vc.shared((8, 9), vc.float32)
    lx, ly = vc.local_id(0), vc.local_id(1)
    a, b = vc.group_id(0) * 8 + lx, vc.group_id(1) * 8 + ly
    if a < x.shape[1] and b < x.shape[0]:
        tile[ly, lx] = x[b, a]
    vc.barrier()
    a, b = vc.group_id(1) * 8 + lx, vc.group_id(0) * 8 + ly
    if a < out.shape[1] and b < out.shape[0]:
        out[b, a] = tile[lx, ly]


@shape([MATRIX, MATRIX], [(256, 1, 1)], [(64, 1, 1), (128, 1, 1)])
def transpose_1d_group(x, out):
    tile = vc.shared((16, 17), vc.float32)
    t = vc.local_id(0)
    a, b = vc.group_id(0) * 16 + t % 16, vc.group_id(1) * 16 + t // 16
    if a < x.shape[1] and b < x.shape[0]:
        tile[t // 16, t % 16] = x[b, a]
    vc.barrier()
    a, b = vc.group_id(1) * 16 + t % 16, vc.group_id(0) * 16 + t // 16
    if a < out.shape[1] and b < out.shape[0]:
        out[b, a] = tile[t % 16, t // 16]


@shape([ARRAY, ARRAY], [(16, 16, 1), (256, 1, 1)], [(16, 8, 1), (8, 8, 1), (128, 1, 1)])
def flattened(x, out):
    t = vc.local_id(1) * vc.local_size(0) + vc.local_id(0)
    i = 256 * vc.group_id(0) + t
    if i < out.size:
        out[i] = x[i]


@shape([MATRIX, MATRIX], [(64, 1, 1), (128, 1, 1), (256, 1, 1)])
def rows(x, out):
    row = vc.group_id(0)
    for c in range(vc.local_id(0), x.shape[1], vc.local_size(0)):
        out[row, c] = x[row, c]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def two_axes(x, out):
    i = vc.group_id(0) * 128 + vc.group_id(1) * 64 + vc.local_id(0)
    if i < out.size:
        out[i] = x[i]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def two_axes2(x, out):
    i = (vc.group_id(1) * vc.num_groups(0) + vc.group_id(0)) * 64 + vc.local_id(0)
    if i < out.size:
        out[i] = x[i]


@shape([MATRIX, MATRIX], [(64, 1, 1)])
def gather_scatter(x, out):
    i = vc.group_id(0) * 64 + vc.local_id(0)
    j = int(x[0, i])
    out[0, j] = 1


@shape([MATRIX, MATRIX, MATRIX], [(16, 16, 1)])
def regs(a, b, out):
    s, t = vc.shared((64, 16), vc.float32), vc.shared((16, 64), vc.float32)
    x, y = vc.local_id(0), vc.local_id(1)
    gx, gy = 64 * vc.group_id(0), 64 * vc.group_id(1)
    for k0 in range(0, a.shape[1], 16):
        for r in range(4):
            s[y + 16 * r, x] = a[gy + y + 16 * r, k0 + x]
            t[y, x + 16 * r] = b[k0 + y, gx + x + 16 * r]
        vc.barrier()
        vc.barrier()
    for r in range(4):
        for c in range(4):
            out[gy + 4 * y + r, gx + 4 * x + c] = s[4 * y + r, 0] * t[0, 4 * x + c]


@shape([ARRAY, ARRAY], [(128, 1, 1)])
def fft_pass(x, out):
    tile = vc.shared(256, vc.float32)
    t = vc.local_id(0)
    base = 256 * vc.group_id(0)
    tile[t] = x[base + t]
    tile[t + 128] = x[base + t + 128]
    vc.barrier()
    for s in (1, 2, 4, 8, 16, 32, 64, 128):
        k = (t // s) * 2 * s + t % s
        a, b = tile[k], tile[k + s]
        vc.barrier()
        tile[k] = a + b
        tile[k + s] = a - b
        vc.barrier()
    out[base + 2 * t] = tile[2 * t]
    out[base + 2 * t + 1] = tile[2 * t + 1]


@shape([ARRAY, ARRAY], [(64, 1, 1), (32, 1, 1)])
def subgroup_like(x, out):
    part = vc.shared(64, vc.float32)
    t = vc.local_id(0)
    part[t ^ 1] = x[vc.global_id(0)]
    vc.barrier()
    out[vc.global_id(0)] = part[t]


@shape([ARRAY, ARRAY], [(64, 1, 1)])
def small_constant(x, out):
    tile = vc.shared(N, vc.float32)
    t = vc.global_id(0)
    if t < N:
        tile[vc.local_id(0)] = x[t]
    vc.barrier()
    if t < N:
        out[t] = tile[N - 1 - vc.local_id(0)]


@shape([VOLUME, VOLUME], [(8, 8, 4)], [(16, 4, 2), (8, 8, 2)])
def volume(x, out):
    i, j = 8 * vc.group_id(0) + vc.local_id(0), 8 * vc.group_id(1) + vc.local_id(1)
    k = 4 * vc.group_id(2) + vc.local_id(2)
    if i < out.shape[2] and j < out.shape[1] and k < out.shape[0]:
        out[k, j, i] = x[k, j, i]


def misfits(kernel: Any, signature: Sequence[Any], local_size: LocalSize) -> list[Any]:
    function = build(Compiler, definition_of(kernel), tuple(signature), CompileOptions(local_size)).function
    return [*filter(None, [local_size_misfit(function)]), *tile_misfits(function)]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kernel", "signature", "fitting", "others"), SHAPES, ids=lambda each: getattr(each, "__name__", "")
)
def test_shapes(
    kernel: Any, signature: Sequence[Any], fitting: Sequence[LocalSize], others: Sequence[LocalSize]
) -> None:
    assert {size: misfits(kernel, signature, size) for size in fitting} == {size: [] for size in fitting}
    assert [size for size in others if not misfits(kernel, signature, size)] == []


def turned(x, out):
    """A transpose whose guards hide that the workgroup is smaller than the tile."""
    tile = vc.shared((16, 17), vc.float32)
    i, j = vc.local_id(0), vc.local_id(1)
    column, row = 16 * vc.group_id(0) + i, 16 * vc.group_id(1) + j
    if column < x.shape[1] and row < x.shape[0]:
        tile[j, i] = x[row, column]
    vc.barrier()
    column, row = 16 * vc.group_id(1) + i, 16 * vc.group_id(0) + j
    if column < out.shape[1] and row < out.shape[0]:
        out[row, column] = tile[i, j]


made_for_16, undeclared = vc.kernel(local_size=(16, 16))(turned), vc.kernel(turned)


def test_tiles_of_another_size_than_the_workgroup(gpu: vc.Runtime) -> None:
    if gpu.device.physical.limits["maxComputeWorkGroupInvocations"] < 256:
        pytest.skip("the workgroups have 256 invocations and a barrier")
    host = np.arange(40 * 24, dtype=np.float32).reshape(40, 24)
    x, out = gpu.array(host), gpu.zeros((24, 40))
    made_for_16(x, out, grid=(2, 3))
    assert np.array_equal(out.numpy(), host.T)
    for launch in (undeclared, undeclared.simulate):
        arrays = (x, out) if launch is undeclared else (host, np.zeros((24, 40), np.float32))
        launch(*arrays, grid=(2, 3), local_size=(16, 16))
        assert np.array_equal(np.asarray(arrays[1]), host.T)
        for grid, local_size in ((None, None), ((2, 3), (8, 8)), ((2, 3), (32, 8)), ((2, 3), None)):
            with pytest.raises(vc.KernelError, match=r"test_tiles.py:\d+:\d+: th.* in workgroups of|16 elements apart"):
                launch(*arrays, grid=grid, local_size=local_size)


@vc.kernel
def spread(x, out):
    i = vc.group_id(0)
    if 16 * i + vc.local_id(0) < out.size:
        out[16 * i + vc.local_id(0)] = x[vc.global_id(0)]


def test_tiles_with_gaps(gpu: vc.Runtime) -> None:
    """One workgroup has no neighbour; a declared local size is meant."""
    x = gpu.array(np.arange(1, 9, dtype=np.float32))
    out = gpu.zeros(8)
    spread[1, 8](x, out)
    assert out.numpy().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    for launch, array in ((spread, out), (spread.simulate, np.zeros(8, np.float32))):
        with pytest.raises(
            vc.KernelError,
            match=r"begin 16 elements apart along x of the grid, and workgroups of \(4, 1, 1\) leave out elements.*; "
            r"declare .* as @vc.kernel\(local_size=\(16, 16\)\), or launch with it",
        ):
            launch(x if launch is spread else np.ones(8, np.float32), array, grid=2, local_size=4)
    out = gpu.zeros(32)
    vc.kernel(local_size=4)(spread._definition.function)(x, out, grid=2)
    assert out.numpy().tolist() == [1, 2, 3, 4, *[0] * 12, 5, 6, 7, 8, *[0] * 12]
