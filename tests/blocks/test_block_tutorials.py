"""The programs of Triton's tutorials, on the device and interpreted, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

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
    _, _, result = run(machine, add_kernel, grid, (x, y, beyond, n), BLOCK_SIZE=256, num_warps=n_warps)
    np.testing.assert_array_equal(result[:n], x + y)
    np.testing.assert_array_equal(result[n:], -7)


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
    BLOCK_SIZE: tl.constexpr = 1024
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
    result, _ = run(machine, softmax_kernel, (4,), given, BLOCK_SIZE=64, num_stages=2, num_warps=1)
    np.testing.assert_allclose(result, softmax(x.astype(np.float64)), rtol=16 * F32_EPSILON)


def test_softmax_with_strides(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(1).normal(0, 3, (3, 700)).astype(np.float32)
    given = np.zeros((700, 3), np.float32), 1, 3, x, 700, 1, 3, 700
    result, _ = run(machine, softmax_of_2021, (3,), given)
    np.testing.assert_allclose(result.T, softmax(x.astype(np.float64)), rtol=16 * F32_EPSILON)


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
    _, _, result = run(machine, matmul_kernel, (2 * 3,), given)
    wanted = a.astype(np.float64) @ (b.T if transposed else b)
    error = np.sqrt(k) * F32_EPSILON * (abs(a).astype(np.float64) @ abs(b.T if transposed else b))
    wanted = np.where(wanted >= 0, wanted, 0.01 * wanted) if activation else wanted
    assert (abs(result - wanted) <= error).all()


@triton.jit
def seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    x_keep = random > p
    output = tl.where(x_keep, x / (1 - p), 0.0)
    tl.store(output_ptr + offsets, output, mask=mask)


def philox(seed: int, counters: np.ndarray) -> np.ndarray:
    """The first word of Philox 4x32-10 for each counter."""
    x = [counters.astype(np.uint64), *[np.zeros(counters.shape, np.uint64)] * 3]
    key, low = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        one, other = (np.uint64(factor) * word for factor, word in zip((0xD2511F53, 0xCD9E8D57), x[::2], strict=True))
        high = [(product >> np.uint64(32)) for product in (other, one)]
        x = [high[0] ^ x[1] ^ np.uint64(key[0]), other & low, high[1] ^ x[3] ^ np.uint64(key[1]), one & low]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return x[0].astype(np.uint32)


@pytest.mark.parametrize("seed", [123, -5])
def test_low_memory_dropout(machine: vkcompute.Runtime | None, seed: int) -> None:
    x = np.random.default_rng(5).normal(0, 1, 1000).astype(np.float32)
    _, result = run(machine, seeded_dropout, (4,), (x, np.zeros_like(x), 1000, 0.4, seed), BLOCK_SIZE=256)
    words = philox(seed, np.arange(1000)).view(np.int32)
    uniform = np.where(words < 0, ~words, words).astype(np.float32) * np.float32(4.6566127342e-10)
    kept = uniform > np.float32(0.4)
    np.testing.assert_allclose(result, np.where(kept, x / np.float32(0.6), 0), rtol=4 * F32_EPSILON)
    assert 500 < kept.sum() < 700


@triton.jit
def layer_norm_forward(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        x_hat = (x - mean) * rstd
        y = x_hat * w + b
        tl.store(Y + cols, y, mask=mask)


@triton.jit
def layer_norm_backward_dx(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.0)
    wdy = tl.where(mask, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(DX + cols, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = (dy).to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def layer_norm_backward_dwdb(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    pid = tl.program_id(0)
    cols = pid * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    dw = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_SIZE_M):
        rows = i + tl.arange(0, BLOCK_SIZE_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask=mask, other=0.0)
        db += tl.load(DB + offs, mask=mask, other=0.0)
    sum_dw = tl.sum(dw, axis=0)
    sum_db = tl.sum(db, axis=0)
    tl.store(FINAL_DW + cols, sum_dw, mask=cols < N)
    tl.store(FINAL_DB + cols, sum_db, mask=cols < N)


def test_layer_norm(machine: vkcompute.Runtime | None) -> None:
    m, n, group = 24, 100, 4
    random = np.random.default_rng(6)
    x, dy = (random.normal(0, 1, (m, n)).astype(np.float32) for _ in range(2))
    w, b = (random.normal(0, 1, n).astype(np.float32) for _ in range(2))
    rows = np.zeros(m, np.float32)
    given = x, np.zeros_like(x), w, b, rows, rows, n, n, 1e-5
    _, y, _, _, mean, rstd = run(machine, layer_norm_forward, (m,), given, BLOCK_SIZE=64)
    centred = x.astype(np.float64) - x.mean(1, keepdims=True, dtype=np.float64)
    scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    hat = centred * scale
    np.testing.assert_allclose(y, hat * w + b, rtol=1e-5, atol=1e-5)
    parts = np.zeros((group, n), np.float32)
    given_back = np.zeros_like(x), dy, parts, parts, x, w, mean, rstd, np.zeros(2 * group, np.int32), n, n
    dx, _, dw, db, *_ = run(machine, layer_norm_backward_dx, (m,), given_back, GROUP_SIZE_M=group, BLOCK_SIZE_N=128)
    wdy = w * dy
    wanted = (wdy - (hat * (hat * wdy).mean(1, keepdims=True) + wdy.mean(1, keepdims=True))) * scale
    np.testing.assert_allclose(dx, wanted, rtol=1e-4, atol=1e-5)
    zeros = np.zeros(n, np.float32)
    named = {"BLOCK_SIZE_M": 4, "BLOCK_SIZE_N": 64}
    *_, dw, db = run(machine, layer_norm_backward_dwdb, (2,), (dw, db, zeros, zeros, group, n), **named)
    np.testing.assert_allclose(dw, (dy * hat).sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(db, dy.sum(0), rtol=1e-4, atol=1e-4)


@triton.jit
def attention_inner(acc, l_i, m_i, q, K, V, start_m, qk_scale, stride_kn, stride_vk,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, STAGE: tl.constexpr,
                    offs_m: tl.constexpr, offs_n: tl.constexpr, N_CTX: tl.constexpr):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
    else:
        lo, hi = 0, N_CTX
    offs_d = tl.arange(0, HEAD_DIM)
    for start_n in range(lo, hi, BLOCK_N):
        k = tl.load(K + (start_n + offs_n)[None, :] * stride_kn + offs_d[:, None])
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(V + (start_n + offs_n)[:, None] * stride_vk + offs_d[None, :])
        acc = tl.dot(p, v, acc)
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def attention_forward(Q, K, V, Out, sm_scale, stride, N_CTX: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
                      STAGE: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(Q + offs_m[:, None] * stride + offs_d[None, :])
    if STAGE & 1:
        acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, K, V, start_m, qk_scale, stride, stride,
                                        BLOCK_M, BLOCK_N, HEAD_DIM, 4 - STAGE, offs_m, offs_n, N_CTX)  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, K, V, start_m, qk_scale, stride, stride,
                                        BLOCK_M, BLOCK_N, HEAD_DIM, 2, offs_m, offs_n, N_CTX)  # fmt: skip
    acc = acc / l_i[:, None]
    tl.store(Out + offs_m[:, None] * stride + offs_d[None, :], acc)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention(machine: vkcompute.Runtime | None, causal: bool) -> None:
    n, d = 16, 8
    random = np.random.default_rng(7)
    q, k, v = (random.normal(0, 1, (n, d)).astype(np.float32) for _ in range(3))
    given = q, k, v, np.zeros_like(q), 0.5, d, n, 8, 8, d, 3 if causal else 1
    *_, result = run(machine, attention_forward, (n // 8,), given)
    scores = 0.5 * q.astype(np.float64) @ k.T
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf) if causal else scores
    np.testing.assert_allclose(result, softmax(scores) @ v, rtol=1e-5, atol=1e-5)


@triton.jit
def grouped_products(
    a_ptr, b_ptr, c_ptr, sizes_ptr, starts_ptr, n_groups,
    PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Products of several sizes in one launch: each program computes every PROGRAMS-th tile of all of them."""
    tile = tl.program_id(0)
    end = 0
    for group in range(n_groups):
        m = tl.load(sizes_ptr + group * 3)
        n = tl.load(sizes_ptr + group * 3 + 1)
        k = tl.load(sizes_ptr + group * 3 + 2)
        n_columns = tl.cdiv(n, N)
        n_tiles = tl.cdiv(m, M) * n_columns
        while tile >= end and tile < end + n_tiles:
            a, b, c = a_ptr, b_ptr, c_ptr
            a += tl.load(starts_ptr + group * 3)
            b += tl.load(starts_ptr + group * 3 + 1)
            c += tl.load(starts_ptr + group * 3 + 2)
            rows = (tile - end) // n_columns * M + tl.arange(0, M)
            columns = (tile - end) % n_columns * N + tl.arange(0, N)
            total = tl.zeros((M, N), tl.float32)
            for start in range(0, k, K):
                inner = start + tl.arange(0, K)
                left = (rows[:, None] < m) & (inner[None, :] < k)
                right = (inner[:, None] < k) & (columns[None, :] < n)
                x = tl.load(a + rows[:, None] * k + inner[None, :], mask=left, other=0.0)
                y = tl.load(b + inner[:, None] * n + columns[None, :], mask=right, other=0.0)
                total = tl.dot(x, y, total)
            inside = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)
            tile += PROGRAMS
        end += n_tiles


def test_grouped_products(machine: vkcompute.Runtime | None) -> None:
    """The matrices are in one array per operand; test_block_pointer_tables.py has products by addresses."""
    random = np.random.default_rng(8)
    sizes = [(20, 17, 9), (33, 40, 16), (5, 16, 30)]
    pairs = [(random.integers(-4, 5, (m, k)), random.integers(-4, 5, (k, n))) for m, n, k in sizes]
    wanted = [a @ b for a, b in pairs]
    a, b = (np.concatenate([item.ravel() for item in side]).astype(np.float32) for side in zip(*pairs, strict=True))
    lengths = [(m * k, k * n, m * n) for m, n, k in sizes]
    starts = np.cumsum([(0, 0, 0), *lengths[:-1]], axis=0).astype(np.int32)
    c = np.zeros(sum(length[2] for length in lengths), np.float32)
    given = a, b, c, np.array(sizes, np.int32), starts, len(sizes)
    _, _, result, *_ = run(machine, grouped_products, (3,), given, PROGRAMS=3, M=8, N=16, K=8)
    np.testing.assert_array_equal(result, np.concatenate([item.ravel() for item in wanted]))
