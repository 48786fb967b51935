"""Programs whose code is short though their blocks are large: products along long axes, which become loops, and sums.

Numbers are small integers, so that sums are exact in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barriers import check_barriers
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import ir, tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, build, lowered
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.ir import INT32, Value
from vkcompute.ir.function import walk
from vkcompute.tile.builder import Builder
from vkcompute.tile.device import block_target
from vkcompute.tile.product_loops import roll_products

M, K, N = 32, 64, 32


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@triton.jit
def masked(x_ptr, y_ptr, z_ptr, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n_ = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < n, other=0.0)
    y = tl.load(y_ptr + n_[None, :] * K + (K - 1 - k)[:, None], mask=(k < n)[:, None], other=7.0)
    tl.store(
        z_ptr + m[:, None] * N + n_[None, :], tl.dot(x * 2, tl.trans(tl.trans(y)), tl.full((M, N), 5.0, tl.float32))
    )


@triton.jit
def computed(x_ptr, y_ptr, z_ptr, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n_ = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    x = tl.cumsum(tl.load(x_ptr + m[:, None] * K + k[None, :]), 1)
    y = tl.load(y_ptr + n_[None, :] * K + k[:, None])
    tl.store(z_ptr + m[:, None] * N + n_[None, :], tl.dot(x, tl.flip(y, 0)) + tl.dot(x, y))


@triton.jit
def overwritten(x_ptr, y_ptr, z_ptr, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n_ = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    at = m[:, None] * K + k[None, :]
    y = tl.load(y_ptr + n_[None, :] * K + k[:, None])
    total = tl.zeros((M, N), tl.float32)
    for i in range(n):
        x = tl.load(x_ptr + at)
        tl.store(x_ptr + at, x + i + 1)
        total = tl.dot(x, y, total)
    tl.store(z_ptr + m[:, None] * N + n_[None, :], total)


@triton.jit
def stacked(x_ptr, y_ptr, z_ptr, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    s, m, k = tl.arange(0, 2)[:, None, None], tl.arange(0, M // 2), tl.arange(0, K)
    x = tl.load(x_ptr + s * (M // 2 * K) + m[None, :, None] * K + k[None, None, :]).to(tl.float16)
    y = tl.load(y_ptr + s * (N // 2 * K) + m[None, None, :] * K + k[None, :, None]).to(tl.float16)
    z = tl.dot(x, y)
    tl.store(z_ptr + s * (M // 2 * (N // 2)) + m[None, :, None] * (N // 2) + m[None, None, :], z)


@triton.jit
def unpacked(x_ptr, y_ptr, z_ptr, n, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """Elements in pairs with a factor for 16 of them each; the indices of the other operand are joined."""
    m, n_, pairs, groups = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 2), tl.arange(0, K // 16)
    at = m[:, None] * K + 2 * pairs[None, :]
    x = tl.join(tl.load(x_ptr + at), tl.load(x_ptr + at + 1)).reshape(M, K)
    factors = (m[:, None] % 3 + groups[None, :] + 1).to(tl.float32)
    x *= tl.broadcast_to(factors[:, :, None], (M, K // 16, 16)).reshape(M, K)
    parts = (groups[:, None] * 16 + tl.arange(0, 16)[None, :]).reshape(K)
    y = tl.load(y_ptr + n_[None, :] * K + parts[:, None])
    tl.store(z_ptr + m[:, None] * N + n_[None, :], tl.dot(x, y))


def wanted(program: Any, x: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
    if program is masked:
        return 2 * np.where(np.arange(K) < n, x, 0) @ np.where(np.arange(K) < n, y[:, ::-1], 7).T + 5
    if program is computed:
        return np.cumsum(x, 1) @ (y + y[:, ::-1]).T
    if program is overwritten:
        return sum((x + i * (i + 1) / 2) @ y.T for i in range(n))
    if program is unpacked:
        return (x * (np.arange(M)[:, None] % 3 + np.arange(K)[None, :] // 16 + 1)) @ y.T
    half = x.reshape(2, M // 2, K) @ y.reshape(2, N // 2, K).transpose(0, 2, 1)
    return np.concatenate([half.ravel(), np.zeros(M * N // 2)]).reshape(M, N)


PROGRAMS = masked, computed, overwritten, stacked, unpacked


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_products_along_long_axes(gpu: vkcompute.Runtime, program: Any) -> None:
    x, y = numbers(M, K), numbers(N, K, seed=1)
    try:
        result = run(gpu, program, (1,), (x, y, np.zeros((M, N), np.float32), 3), M=M, K=K, N=N, num_warps=1)[2]
    except vkcompute.MissingFeature:
        pytest.skip("the device has no such type")
    np.testing.assert_array_equal(result, wanted(program, x, y, 3))


def square(b: Builder, m: int, n: int) -> Value:
    """The indices of the elements of a matrix, in row-major order."""
    rows = b.compute("mul", b.arange(0, m), b.full(b.const(n, INT32), (m,)))
    columns = b.reshape(b.arange(0, n), (1, n))
    return b.compute("add", b.broadcast(b.reshape(rows, (m, 1)), (m, n)), b.broadcast(columns, (m, n)))


def product(b: Builder, given: ir.Memory, out: ir.Memory, *, scanned: bool) -> None:
    """Writes x @ x + x of a block of 32 x 32; of its running sums if `scanned`, which no loop can load by parts."""
    at = square(b, 32, 32)
    x: Value = b.load_block(given, at)
    if scanned:
        (x,) = b.scan([x], 1, lambda one, other: [b.compute("add", one[0], other[0])])
    b.store_block(out, at, b.dot(x, x, x))


@pytest.mark.parametrize(("scanned", "nbytes"), [(False, 256), (True, 16384), (True, 8192), (True, 2048), (True, 512)])
def test_operands_pass_through_the_memory_that_there_is(gpu: vkcompute.Runtime, nbytes: int, *, scanned: bool) -> None:
    function = ir.Function("product")
    given, out = function.buffer("given", INT32), function.buffer("out", INT32)
    product(Builder(function), given, out, scanned=scanned)
    target = block_target(gpu)._replace(shared_nbytes=nbytes, max_invocations=32, stages=False, matrices=(), sums=64)
    made = tile.lower(function, target).function
    check_barriers(made)
    assert any(op.code == "loop" for op in walk(made.body)) == (nbytes != 512)  # pieces would be shorter than a part
    kernel = gpu.kernel(ir.lower(ir.optimize(made)).spirv, name="product", check_types=False)
    x, result = numbers(32, 32, dtype=np.int32), gpu.zeros((32, 32), np.int32)
    kernel(gpu.array(x.ravel()), result, grid=(1,))
    x = np.cumsum(x, 1) if scanned else x
    np.testing.assert_array_equal(result.numpy(), x @ x + x)


@pytest.mark.pure
def test_only_long_products_become_loops_and_none_where_operands_are_staged() -> None:
    for length, target, is_loop in (
        (64, tile.Target(sums=64), True),
        (8, tile.Target(sums=64), False),
        (64, tile.Target(sums=64, stages=True), False),
    ):
        function = ir.Function("product")
        given, out = function.buffer("given", INT32), function.buffer("out", INT32)
        b = Builder(function)
        x, y = (b.load_block(given, square(b, *shape)) for shape in ((64, length), (length, 64)))
        b.store_block(out, square(b, 64, 64), b.dot(x, y, b.full(b.const(0, INT32), (64, 64))))
        roll_products(function, target, aliased=False)
        assert any(op.code == "loop" for op in walk(function.body)) == is_loop


@triton.jit
def by_sum(x_ptr, y_ptr, z_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :])
    y = tl.load(y_ptr + n[None, :] * K + k[:, None])
    tl.store(z_ptr + m[:, None] * N + n[None, :], tl.sum(x[:, :, None] * y[None, :, :], axis=1))


def test_a_product_as_a_sum_along_the_middle_axis(gpu: vkcompute.Runtime) -> None:
    """256 elements per invocation are added by each; between invocations, lavapipe compiled it for minutes."""
    x, y = numbers(128, 32), numbers(32, 32, seed=1)
    result = run(gpu, by_sum, (1,), (x, y, np.zeros((128, 32), np.float32)), M=128, K=32, N=32)[2]
    np.testing.assert_array_equal(result, x @ y.T)


@pytest.mark.pure
def test_large_reductions_have_short_code() -> None:
    target = tile.Target(8, 1024, 32768, own_elements=128, sums=128)
    types = {at: ArrayType("f", False, True) for at in range(3)}
    options = BlockOptions(4, target, CompileOptions())
    built = build(by_sum.definition, {3: 128, 4: 32, 5: 32}, types, options)
    function = lowered(by_sum.definition, built, options).function
    assert len(walk(function.body)) < 2000
    assert not any(op.code in ("barrier", "subgroup") for op in walk(function.body))


@triton.jit
def carried(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    sums = tl.zeros((N, N), tl.float32)
    for i in range(n):
        x = tl.load(x_ptr + i * N * N + at)
        tl.store(out_ptr + i * N * N + at, tl.dot(x, sums))
        sums += tl.dot(x, x)


@pytest.mark.pure
def test_products_whose_operands_pass_through_memory_in_pieces_have_short_code() -> None:
    """Of 4,000 operations, lavapipe compiles these products in 4 s; of 5,500 in 6.8 s."""
    target = tile.Target(8, 1024, 32768, own_elements=128, sums=128)
    types: dict[int, Any] = {0: ArrayType("f", False, True), 1: ArrayType("f", False, True), 2: IntType("int32", 1)}
    options = BlockOptions(4, target, CompileOptions())
    built = build(carried.definition, {3: 128}, types, options)
    assert len(walk(lowered(carried.definition, built, options).function.body)) < 4200


@triton.jit
def many(x_ptr, z_ptr, n: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    z = tl.load(x_ptr + at)
    for i in tl.static_range(n):
        z = tl.dot(tl.load(x_ptr + i * 256 + at), tl.minimum(tl.maximum(z, -3.0), 2.0))
    tl.store(z_ptr + at, z)


@pytest.mark.pure
@pytest.mark.parametrize(("n", "is_loop"), [(8, False), (16, True)])
def test_many_short_products_become_loops(n: int, *, is_loop: bool) -> None:
    """Lavapipe took 27 s to compile 16 products of 16 x 16 by eight invocations without loops."""
    options = BlockOptions(4, tile.Target(8, 1024, 32768, own_elements=128, sums=32), CompileOptions())
    built = build(many.definition, {2: n}, {at: ArrayType("f", False, True) for at in range(2)}, options)
    function = lowered(many.definition, built, options).function
    assert any(op.code == "loop" for op in walk(function.body)) == is_loop
    assert sum(op.code == "fma" for op in walk(function.body)) <= 4096


@pytest.mark.parametrize("n", [3, 16])
def test_many_products(gpu: vkcompute.Runtime, n: int) -> None:
    x = numbers(n, 16, 16)
    wanted = x[0]
    for left in x:
        wanted = left @ np.clip(wanted, -3, 2)
    result = run(gpu, many, (1,), (x, np.zeros((16, 16), np.float32)), n=n)[1]
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.pure
@pytest.mark.parametrize(("program", "n_stages"), [(masked, 0), (computed, 2), (unpacked, 0)])
def test_only_what_is_computed_as_a_whole_passes_through_memory(program: Any, n_stages: int) -> None:
    target = tile.Target(8, 1024, 32768, own_elements=128, sums=128)
    types: dict[int, Any] = {at: ArrayType("f", False, True) for at in range(3)}
    function = build(
        program.definition,
        {4: M, 5: K, 6: N},
        types | {3: IntType("int32", 1)},
        BlockOptions(1, target, CompileOptions()),
    ).compiler.function
    roll_products(function, target, aliased=False)
    codes = [op.code for op in walk(function.body)]
    assert codes.count("stage") == n_stages
    assert codes.count("loop") == max(1, n_stages)
