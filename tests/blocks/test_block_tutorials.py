"""The programs of Triton's tutorials, on the device and interpreted, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

F32_EPSILON = float(np.finfo(np.float32).eps)


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


@pytest.mark.parametrize("n", [1, 1000, 1024, 4099])
@pytest.mark.parametrize("n_warps", [1, 4])
def test_vector_addition(machine: vkcompute.Runtime | None, n: int, n_warps: int) -> None:
    x, y = np.arange(n, dtype=np.float32), np.linspace(-1, 1, n).astype(np.float32)
    beyond = np.full(n + 8, -7, np.float32)
    grid = (triton.cdiv(n, 256),)
    _, _, found = run(machine, add_kernel, grid, (x, y, beyond, n), BLOCK_SIZE=256, num_warps=n_warps)
    np.testing.assert_array_equal(found[:n], x + y)
    np.testing.assert_array_equal(found[n:], -7)


@triton.jit
def softmax_kernel(
    output_ptr,
    input_ptr,
    input_row_stride,
    output_row_stride,
    n_rows,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
    num_stages: tl.constexpr,
):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        mask = col_offsets < n_cols
        row = tl.load(input_ptrs, mask=mask, other=-float("inf"))
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        output_row_start_ptr = output_ptr + row_idx * output_row_stride
        output_ptrs = output_row_start_ptr + col_offsets
        tl.store(output_ptrs, softmax_output, mask=mask)


@triton.jit
def softmax_of_2021(Y, stride_ym, stride_yn, X, stride_xm, stride_xn, M, N):
    m = tl.program_id(0)
    BLOCK_SIZE = 1024
    n = tl.arange(0, BLOCK_SIZE)
    X = X + m * stride_xm + n * stride_xn
    x = tl.load(X, mask=n < N, other=-float("inf"))
    z = x - tl.max(x, axis=0)
    num = tl.exp(z)
    denom = tl.sum(num, axis=0)
    y = num / denom
    Y = Y + m * stride_ym + n * stride_yn
    tl.store(Y, y, mask=n < N)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("n_cols", [61, 64])
def test_fused_softmax(machine: vkcompute.Runtime | None, n_cols: int) -> None:
    x = np.random.default_rng(0).normal(0, 3, (10, n_cols)).astype(np.float32)
    given = np.zeros_like(x), x, n_cols, n_cols, *x.shape
    found, _ = run(machine, softmax_kernel, (4,), given, BLOCK_SIZE=64, num_stages=2, num_warps=1)
    np.testing.assert_allclose(found, softmax(x.astype(np.float64)), rtol=16 * F32_EPSILON)


def test_softmax_with_strides(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(1).normal(0, 3, (3, 700)).astype(np.float32)
    given = np.zeros((700, 3), np.float32), 1, 3, x, 700, 1, 3, 700
    found, _ = run(machine, softmax_of_2021, (3,), given)
    np.testing.assert_allclose(found.T, softmax(x.astype(np.float64)), rtol=16 * F32_EPSILON)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(a_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_matrix_multiplication(machine: vkcompute.Runtime | None, transposed: bool, activation: str) -> None:
    m, n, k = 19, 33, 21
    random = np.random.default_rng(2)
    a, b = (random.normal(0, 1, shape).astype(np.float32) for shape in ((m, k), (n, k) if transposed else (k, n)))
    strides = (k, 1, *((1, k) if transposed else (n, 1)), n, 1)
    given = a, b, np.zeros((m, n), np.float32), m, n, k, *strides, 16, 16, 16, 2, activation
    _, _, found = run(machine, matmul_kernel, (2 * 3,), given)
    wanted = a.astype(np.float64) @ (b.T if transposed else b)
    error = np.sqrt(k) * F32_EPSILON * (abs(a).astype(np.float64) @ abs(b.T if transposed else b))
    wanted = np.where(wanted >= 0, wanted, 0.01 * wanted) if activation else wanted
    assert (abs(found - wanted) <= error).all()
