"""Grids and local sizes that do not fit a kernel's ids and shared arrays."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import specialize

TILE = 4


@vc.kernel
def along_x(x, out):
    i = vc.global_id(0)
    if i < x.shape[-1]:
        out[0, i] += x[0, i]


@vc.kernel
def along_y(out):
    j = vc.global_id(1)
    if j < out.shape[0]:
        out[j, 0] += 1


@vc.kernel
def along_x_of_three(out):
    i, _ = vc.global_id(0), vc.global_id(2)
    if i < out.shape[2]:
        out[0, 0, i] += 1


@vc.kernel
def along_x_and_z(out):
    i, k = vc.global_id(0), vc.global_id(2)
    if i < out.shape[2] and k < out.shape[0]:
        out[k, 0, i] += 1


@vc.kernel
def by_group(out):
    out[vc.group_id(0)] += 1


@vc.kernel
def without_ids(out):
    out[0] += 1


@vc.kernel(check_bounds=True)
def checked(out):
    i = vc.global_id(0)
    if i < out.shape[1]:
        out[0, i] += 1


@pytest.mark.parametrize(
    ("kernel", "shape", "expected"),
    [
        (along_y, (5, 1), [[1]] * 5),
        (along_x_of_three, (1, 1, 5), [[[1] * 5]]),
        (along_x_and_z, (2, 1, 70), [[[1] * 70]] * 2),
        (by_group, (70,), [1] * 70),
        (without_ids, (1,), [1]),
        (checked, (1, 5), [[1] * 5]),
    ],
)
def test_the_default_grid_has_one_invocation_per_element(
    gpu: vc.Runtime, kernel: Any, shape: tuple[int, ...], expected: Any
) -> None:
    """Also along axes without ids, where a workgroup of several would do the same several times."""
    out = gpu.zeros(shape, np.int32)
    kernel(out)
    assert out.numpy().tolist() == expected
    simulated = np.zeros(shape, np.int32)
    kernel.simulate(simulated)
    assert simulated.tolist() == expected


def test_ids_along_one_axis_of_a_row(gpu: vc.Runtime) -> None:
    out = gpu.zeros((1, 100), np.int32)
    along_x(gpu.full((1, 100), 2, np.int32), out)
    along_x[2](gpu.full((1, 100), 2, np.int32), out)
    assert out.numpy().tolist() == [[4] * 100]


@pytest.mark.parametrize(
    ("kernel", "shape", "local_size", "said"),
    [
        (along_y, (5, 2), None, r"reads ids along y only.*shape \(5, 2\).*several with the same id; give the grid"),
        (along_x_and_z, (2, 3, 1), None, "reads ids along x and z only"),
        (checked, (2, 5), None, "reads ids along x only"),
        (checked, (1, 5), (8, 8), r"in workgroups of \(8, 8, 1\): several with the same id"),
        (by_group, (70,), 64, "several with the same id"),
    ],
)
def test_several_invocations_with_the_same_id(
    gpu: vc.Runtime, kernel: Any, shape: tuple[int, ...], local_size: Any, said: str
) -> None:
    for launched, out in ((kernel, gpu.zeros(shape, np.int32)), (kernel.simulate, np.zeros(shape, np.int32))):
        with pytest.raises(ValueError, match=said):
            launched(out, local_size=local_size)


@vc.kernel
def coordinates(out):
    i, j = vc.global_id(0), vc.global_id(1)
    if i < out.shape[1] and j < out.shape[0]:
        out[j, i] = 10 * j + i


def test_a_grid_with_fewer_axes_than_the_kernel_reads(gpu: vc.Runtime) -> None:
    out = gpu.zeros((4, 3), np.int32)
    for launched, array in ((coordinates, out), (coordinates.simulate, np.zeros((4, 3), np.int32))):
        with pytest.raises(
            ValueError, match=r"ids along x and y, and the grid \(10,\) has fewer.* or write grid=\(10, 13\)"
        ):
            launched[(10, 13)](array)
        with pytest.raises(ValueError, match=r"give workgroups for each axis, as grid=\(10, 1\)$"):
            launched(array, grid=10)
    coordinates[1, (4, 4)](out)  # which the workgroup covers
    assert out.numpy().tolist() == [[10 * j + i for i in range(3)] for j in range(4)]


@vc.kernel
def flat(out, n):
    i, j = vc.global_id(0), vc.global_id(1)
    if i < n and n * j + i < out.size:
        out[n * j + i] = 1


def test_a_default_grid_with_fewer_axes_than_the_kernel_reads(gpu: vc.Runtime) -> None:
    for launched, out in ((flat, gpu.zeros(12)), (flat.simulate, np.zeros(12, np.float32))):
        with pytest.raises(
            ValueError, match=r"reads ids along x and y, and the default grid has the axes of .* \(12,\)"
        ):
            launched(out, 4)
        launched[(1, 3), 4](out, 4)


@vc.kernel(local_size=(TILE, TILE))
def product(a, b, out):
    left, right = vc.shared((TILE, TILE), a.dtype), vc.shared((TILE, TILE), b.dtype)
    x, y = vc.local_id(0), vc.local_id(1)
    column, row = vc.global_id(0), vc.global_id(1)
    total = vc.float32(0)
    for first in range(0, a.shape[1], TILE):
        left[y, x] = a[row, first + x] if row < a.shape[0] and first + x < a.shape[1] else 0
        right[y, x] = b[first + y, column] if first + y < b.shape[0] and column < b.shape[1] else 0
        vc.barrier()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        vc.barrier()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


def test_a_declared_local_size(gpu: vc.Runtime) -> None:
    a, b = np.arange(30, dtype=np.float32).reshape(5, 6), np.arange(42, dtype=np.float32).reshape(6, 7) % 5
    copied: Any = pickle.loads(pickle.dumps(product))
    for launched in (product, copied, product[(2, 2), None], product[(2, 2), (TILE, TILE)]):
        out = gpu.zeros((5, 7))
        launched(gpu.array(a), gpu.array(b), out)
        assert np.array_equal(out.numpy(), a @ b)
    for launched in (product[(2, 3)], product.simulate[2, 3]):
        with pytest.raises(
            ValueError, match=r"has workgroups of \(4, 4, 1\), as it declares; got \(3, 1, 1\); .*=\(2, 3\)"
        ):
            launched(gpu.array(a), gpu.array(b), out)
    for wrong in (0, (4, 4, 4, 4), "4"):
        with pytest.raises((TypeError, ValueError), match="local size"):
            vc.kernel(local_size=wrong)(product._definition.function)  # type: ignore[call-overload]


def compiled(kernel: Any, local_size: tuple[int, int, int], *signature: Any) -> None:
    specialize(definition_of(kernel), signature, CompileOptions(local_size))


def turned(x, out):
    tile = vc.shared(64, vc.float32)
    i = vc.local_id(0)
    tile[i] = x[i]
    vc.barrier()
    out[i] = tile[63 - i]


def padded(x, out):
    """Columns of a tile whose rows have one element more, against conflicts of banks."""
    tile = vc.shared((8, 9), vc.float32)
    i, j = vc.local_id(0), vc.local_id(1)
    tile[j, i] = x[j, i]
    vc.barrier()
    for k in range(8):
        out[j, i] += tile[k, j]


def with_border(x, out):
    tile = vc.shared(64 + 2, vc.float32)
    i = vc.local_id(0)
    tile[i + 1] = x[i]
    if i < 2:
        tile[i * 65] = 0
    vc.barrier()
    out[i] = tile[i] + tile[i + 2]


def halved(x, out):
    tile = vc.shared(64, vc.float32)
    i, n = vc.local_id(0), 32
    tile[i] = x[i]
    vc.barrier()
    while n > 0:
        if i < n:
            tile[i] += tile[i + n]
        vc.barrier()
        n //= 2
    out[i] = tile[0]


def in_steps(x, out):
    tile = vc.shared(64, vc.float32)
    for k in range(vc.local_id(0), 64, vc.local_size(0)):
        tile[k] = x[k]
    vc.barrier()
    for k in range(64):
        out[0] += tile[k]


def selected(x, out):
    tile = vc.shared(64, vc.float32)
    i = vc.local_id(0)
    tile[i] = x[i]
    vc.barrier()
    out[i] = np.where(i < 63, tile[i + 1], 0)


def neighbours(x, out):
    tile = vc.shared(64, vc.float32)
    i = vc.local_id(0)
    tile[i] = x[i]
    vc.barrier()
    left, right = tile[i - 1], tile[i + 1]
    if 0 < i < vc.local_size(0) - 1:
        out[i] = left + right


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kernel", "ndim", "fitting", "others"),
    [
        (product._definition.function, 2, [(4, 4, 1)], [(16, 8, 1), (4, 2, 1), (2, 4, 1), (4, 8, 1), (8, 4, 1)]),
        (turned, 1, [(64, 1, 1)], [(32, 1, 1), (48, 1, 1), (128, 1, 1), (1, 1, 1)]),
        (padded, 2, [(8, 8, 1)], [(8, 4, 1), (4, 8, 1), (16, 8, 1), (8, 16, 1)]),
        (with_border, 1, [(64, 1, 1)], [(128, 1, 1)]),
        (halved, 1, [(64, 1, 1)], [(256, 1, 1)]),
        (in_steps, 1, [(64, 1, 1), (16, 1, 1), (256, 1, 1)], []),
        (selected, 1, [(64, 1, 1)], []),
        (neighbours, 1, [(64, 1, 1), (32, 1, 1)], [(128, 1, 1)]),
    ],
)
def test_shared_arrays_for_another_local_size(
    kernel: Any, ndim: int, fitting: list[tuple[int, int, int]], others: list[tuple[int, int, int]]
) -> None:
    signature = [("f", ndim)] * len(definition_of(kernel).signature.parameters)
    for local_size in fitting:
        compiled(kernel, local_size, *signature)
    for local_size in others:
        with pytest.raises(vc.KernelError, match=r"test_local_sizes.py:\d+:\d+: this .*; declare the local size"):
            compiled(kernel, local_size, *signature)
