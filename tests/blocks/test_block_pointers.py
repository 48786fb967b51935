"""Block pointers and tensor descriptors, and the tutorials that use them, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError


@triton.jit
def copied(x_ptr, y_ptr, m, n, first, stride, CHECK: tl.constexpr, PADDING: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (m, n), (stride, 1), (first, first), (8, 16), (1, 0))
    y = tl.make_block_ptr(base=y_ptr, shape=(8, 16), strides=(1, 8), offsets=(0, 0), block_shape=(8, 16), order=(0, 1))
    tl.store(y, tl.load(x, boundary_check=CHECK, padding_option=PADDING))


@pytest.mark.parametrize("first", [-3, 0, 5])
@pytest.mark.parametrize(("dtype", "padding"), [("float32", "nan"), ("int32", "zero"), ("float32", "")])
def test_bounds_of_block_pointers(machine: vkcompute.Runtime | None, first: int, dtype: str, padding: str) -> None:
    x = np.arange(1, 10 * 19 + 1, dtype=dtype).reshape(10, 19)
    _, result = run(machine, copied, (1,), (x, np.zeros((16, 8), dtype), 9, 18, first, 19, (0, 1), padding))
    wanted = np.full((8, 16), np.nan if padding == "nan" else 0).astype(dtype)
    inside = x[:9, :18][max(first, 0) : first + 8, max(first, 0) : first + 16]
    rows, columns = inside.shape
    wanted[max(-first, 0) :, max(-first, 0) :][:rows, :columns] = inside
    np.testing.assert_array_equal(result.T, wanted)


@triton.jit
def matmul_of_blocks(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                     BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    a = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (pid_m * BM, 0), (BM, BK), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, pid_n * BN), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total += tl.dot(tl.load(a, boundary_check=(0, 1)), tl.load(b, boundary_check=(0, 1)))
        a = tl.advance(a, (0, BK))
        b = b.advance((BK, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (pid_m * BM, pid_n * BN), (BM, BN), (1, 0))
    tl.store(c, total, boundary_check=(0, 1))


def test_matmul_with_block_pointers(machine: vkcompute.Runtime | None) -> None:
    m, n, k = 30, 41, 23
    a, b = (np.random.default_rng(k).normal(size=size).astype(np.float32) for size in ((m, k), (k, n)))
    args = a, b, np.zeros((m, n), np.float32), m, n, k, k, 1, n, 1, n, 1
    *_, result = run(machine, matmul_of_blocks, (2, 3), args, BM=16, BN=16, BK=8)
    np.testing.assert_allclose(result, a @ b, atol=k * 8 * np.finfo(np.float32).eps)


@triton.jit
def compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP: tl.constexpr):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    return first_pid_m + (tile_id % group_size_m), (tile_id % num_pid_in_group) // group_size_m


@triton.jit
def persistent_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      GROUP: tl.constexpr, NUM_SMS: tl.constexpr):  # fmt: skip
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN // 2])
    for tile_id in tl.range(start_pid, num_pid_m * num_pid_n, NUM_SMS, flatten=True):
        pid_m, pid_n = compute_pid(tile_id, GROUP * num_pid_n, num_pid_m, GROUP)
        accumulator = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BK)):
            a = a_desc.load([pid_m * BM, ki * BK])
            b = b_desc.load([pid_n * BN, ki * BK])
            accumulator = tl.dot(a, b.T, accumulator)
        halves = tl.permute(tl.reshape(accumulator, (BM, 2, BN // 2)), (0, 2, 1))
        one, other = tl.split(halves)
        c_desc.store([pid_m * BM, pid_n * BN], one)
        c_desc.store([pid_m * BM, pid_n * BN + BN // 2], other)


def test_persistent_matmul(machine: vkcompute.Runtime | None) -> None:
    m, n, k = 50, 41, 23
    a, b = (np.random.default_rng(k).normal(size=size).astype(np.float32) for size in ((m, k), (n, k)))
    args = a, b, np.zeros((m, n), np.float32), m, n, k
    *_, result = run(machine, persistent_matmul, (3,), args, BM=16, BN=16, BK=8, GROUP=2, NUM_SMS=3)
    np.testing.assert_allclose(result, a @ b.T, atol=k * 8 * np.finfo(np.float32).eps)


@triton.jit
def grouped_matmul(base_a, base_b, base_c, a_offsets, b_offsets, c_offsets, sizes, lds, group_size,
                   NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm, gn, gk = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BN)
        num_tiles = tl.cdiv(gm, BM) * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda, ldb, ldc = tl.load(lds + g * 3), tl.load(lds + g * 3 + 1), tl.load(lds + g * 3 + 2)
            a = tl.make_tensor_descriptor(base_a + tl.load(a_offsets + g), [gm, gk], [lda, 1], [BM, BK])
            b = tl.make_tensor_descriptor(base_b + tl.load(b_offsets + g), [gk, gn], [ldb, 1], [BK, BN])
            c = tl.make_tensor_descriptor(base_c + tl.load(c_offsets + g), [gm, gn], [ldc, 1], [BM, BN])
            m = (tile_idx - last_problem_end) // num_n_tiles * BM
            n = (tile_idx - last_problem_end) % num_n_tiles * BN
            accumulator = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(tl.cdiv(gk, BK)):
                accumulator += tl.dot(a.load([m, kk * BK]), b.load([kk * BK, n]))
            c.store([m, n], accumulator)
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


def test_grouped_matmul_with_offsets_in_place_of_addresses(machine: vkcompute.Runtime | None) -> None:
    sizes = np.array([[20, 17, 8], [5, 33, 16], [16, 16, 30]], np.int32)
    random = np.random.default_rng(0)
    pairs = [[random.normal(size=size).astype(np.float32) for size in ((m, k), (k, n))] for m, n, k in sizes]
    a, b = (np.concatenate([pair[at].ravel() for pair in pairs]) for at in range(2))
    starts = [np.cumsum([0, *(sizes[:, one] * sizes[:, other])])[:-1] for one, other in ((0, 2), (2, 1), (0, 1))]
    lds = np.ascontiguousarray(sizes[:, [2, 1, 1]])
    c = np.zeros((sizes[:, 0] * sizes[:, 1]).sum(), np.float32)
    args = a, b, c, *[start.astype(np.int32) for start in starts], sizes, lds, len(sizes)
    result = run(machine, grouped_matmul, (2,), args, NUM_SM=2, BM=16, BN=16, BK=8)[2]
    wanted = np.concatenate([(one @ other).ravel() for one, other in pairs])
    np.testing.assert_allclose(result, wanted, atol=30 * 8 * np.finfo(np.float32).eps)


@triton.jit
def rows_of_descriptor(x_ptr, rows_ptr, y_ptr, m, n, first):
    rows = tl.load(rows_ptr + tl.arange(0, 8))
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [1, 4], padding_option="nan")
    y = tl.make_tensor_descriptor(y_ptr, [m, n], [n, 1], [1, 4])
    y.scatter(x.gather(rows, first), rows, first)
    total = tl.make_tensor_descriptor(y_ptr, [m, n], [n, 1], [2, 4])
    total.store([m - 1, 0], total.load([m - 1, 0]) + 0.5)


def test_rows_of_descriptors(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(10 * 7, dtype=np.float32).reshape(10, 7)
    rows = np.array([3, 0, 12, 5, -1, 7, 1, 8], np.int32)
    *_, result = run(machine, rows_of_descriptor, (1,), (x, rows, np.zeros_like(x), 10, 7, 5))
    wanted = np.zeros_like(x)
    inside = rows[(rows >= 0) & (rows < 10)]
    wanted[inside, 5:] = x[inside, 5:]
    wanted[9, :4] += 0.5
    np.testing.assert_array_equal(result, wanted)


@triton.jit
def sums_of_descriptor(x_ptr, m, n):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [4, 8])
    x.atomic_add([tl.program_id(0) * 2, 0], tl.full((4, 8), 3, x.dtype))
    tl.static_assert(x.block_shape == [4, 8])


def test_atomic_operations_of_descriptors(machine: vkcompute.Runtime | None) -> None:
    (result,) = run(machine, sums_of_descriptor, (3,), (np.zeros((7, 5), np.int32), 7, 5))
    np.testing.assert_array_equal(result, np.array([3, 3, 6, 6, 6, 6, 3], np.int32)[:, None] * np.ones(5, np.int32))


@triton.jit
def bfloat16_of_descriptor(x_ptr, y_ptr, value, m, n):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [4, 8])
    y = tl.make_tensor_descriptor(y_ptr, [m, n], [n, 1], [4, 8])
    x.atomic_add([tl.program_id(0) * 2, 0], tl.full((4, 8), value, x.dtype))
    y.atomic_max([tl.program_id(0) * 2, 0], tl.full((4, 8), value * tl.program_id(0), y.dtype))


def test_atomic_operations_of_descriptors_of_bfloat16(machine: vkcompute.Runtime | None) -> None:
    given = [np.zeros((7, 5), np.uint16) if machine is None else machine.zeros((7, 5), np.uint16) for _ in "xy"]
    x, y = (triton.reinterpret(array, tl.bfloat16) for array in given)
    (bfloat16_of_descriptor.interpret if machine is None else bfloat16_of_descriptor)[(3,)](x, y, 0.75, 7, 5)
    for array, factors in zip(given, ([1, 1, 2, 2, 2, 2, 1], [0, 0, 1, 1, 2, 2, 2]), strict=True):
        wanted = np.repeat(np.array(factors, np.float32) * 0.75, 5).reshape(7, 5).view(np.uint32) >> 16
        np.testing.assert_array_equal(np.asarray(array.tolist()), wanted)


@triton.jit
def unchecked_axis(x_ptr):
    x = tl.make_block_ptr(x_ptr, (8,), (1,), (0,), (8,), (0,))
    tl.store(x, tl.load(x, boundary_check=(1,)))


@triton.jit
def nan_of_integers(x_ptr):
    x = tl.make_block_ptr(x_ptr, (8,), (1,), (0,), (8,), (0,))
    tl.store(x, tl.load(x, boundary_check=(0,), padding_option="nan"))


@triton.jit
def masked_block_pointer(x_ptr):
    x = tl.make_block_ptr(x_ptr, (8,), (1,), (0,), (8,), (0,))
    tl.store(x, tl.load(x, mask=tl.arange(0, 8) < 4))


@triton.jit
def too_few_strides(x_ptr):
    tl.load(tl.make_block_ptr(x_ptr, (8, 8), (8,), (0, 0), (8, 8), (1, 0)))


@triton.jit
def a_block_of_base_pointers(x_ptr):
    tl.make_tensor_descriptor(x_ptr + tl.arange(0, 8), [8], [1], [8])


@triton.jit
def unknown_padding(x_ptr):
    tl.make_tensor_descriptor(x_ptr, [8], [1], [8], padding_option="one")


@triton.jit
def pointer_from_memory(x_ptr):
    tl.store(tl.load(x_ptr).to(tl.pointer_type(tl.float32)), 1.0)


@triton.jit
def no_method(x_ptr):
    tl.make_tensor_descriptor(x_ptr, [8], [1], [8]).prefetch([0])


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (unchecked_axis, r"boundary_check has axes of the block, 0 to 0; got 1"),
        (nan_of_integers, r"padding_option 'nan' takes floats; got a pointer to a block of x_ptr"),
        (masked_block_pointer, "a block pointer takes boundary_check in place of mask"),
        (too_few_strides, "strides has a number per axis of the block, 2; got 1"),
        (a_block_of_base_pointers, "base is a pointer to one element"),
        (unknown_padding, "padding_option is 'zero' or 'nan'; got 'one'"),
        (pointer_from_memory, "an integer is no pointer here"),
        (no_method, "has no attribute prefetch; it has shape, strides, block_shape, dtype, type, block_type, load"),
    ],
)
def test_errors_of_block_pointers(program: triton.JITFunction, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        program.interpret[(1,)](np.zeros(64, np.int32))
