"""bfloat16: bits in arrays of uint16, computed in float32 and rounded after each operation; products of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import brain, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, specialize
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Capability
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate


def bits(x: np.ndarray) -> np.ndarray:
    """Returns the bits of numbers rounded to bfloat16."""
    return (brain(x).view(np.uint32) >> 16).astype(np.uint16)


def numbers(result: np.ndarray) -> np.ndarray:
    return (result.astype(np.uint32) << 16).view(np.float32)


@triton.jit
def scaled(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(y_ptr + at) + 1.3)


def test_arrays_of_bfloat16_are_bfloat16_in_the_program(machine: vkcompute.Runtime | None) -> None:
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    x, y = (np.random.default_rng(seed).normal(size=16).astype(dtype) for seed in range(2))
    *_, out = run(machine, scaled, (1,), [x, y, np.zeros(16, dtype)], N=16)
    np.testing.assert_array_equal(out, x * y + dtype(1.3))


@triton.jit
def arithmetic(x_ptr, y_ptr, out_ptr, n, N: tl.constexpr):
    x_ptr, y_ptr, out_ptr = (x_ptr.to(tl.pointer_type(tl.bfloat16)), y_ptr.to(tl.pointer_type(tl.bfloat16)),
                             out_ptr.to(tl.pointer_type(tl.bfloat16)))  # fmt: skip
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at, at < n, other=3)
    tl.static_assert((x + y).dtype == tl.bfloat16 and (x + 1).dtype == tl.bfloat16 and x.dtype.is_bf16())
    tl.static_assert((x / y).dtype == tl.float32 and (x + x.to(tl.float16)).dtype == tl.float16)
    tl.store(out_ptr + at, x + y)
    tl.store(out_ptr + N + at, x * y - 1.5)
    tl.store(out_ptr + 2 * N + at, x / y)
    tl.store(out_ptr + 3 * N + at, tl.where(x > y, -x, tl.maximum(x, 0.3)))
    total = x
    last = total
    for _ in range(3):
        tl.store(out_ptr + 4 * N + at, last)
        total += 0.1
        last = total
    tl.store(out_ptr + 4 * N + at, last)
    tl.store(out_ptr + 5 * N + at, tl.cumsum(x, 0))
    tl.store(out_ptr + 6 * N + at, tl.sum(x.reshape(4, N // 4), 0, keep_dims=True).broadcast_to(4, N // 4).ravel())
    tl.store(out_ptr + 7 * N + at, tl.sort(x))


def test_arithmetic_is_rounded(machine: vkcompute.Runtime | None) -> None:
    x, y = (brain(np.random.default_rng(seed).normal(size=64)) for seed in range(2))
    x[:4] = np.nan, np.inf, -0.0, 3.3895314e38  # the last is the greatest number
    *_, result = run(machine, arithmetic, (1,), (bits(x), bits(y), np.zeros((8, 64), np.uint16), 60, 64))
    result, y = numbers(result), np.where(np.arange(64) < 60, y, np.float32(3))
    with np.errstate(all="ignore"):
        total = x
        for _ in range(3):
            total = brain(total + brain(0.1))
        wanted = brain(x + y), brain(brain(x * y) - np.float32(1.5)), brain(x / y), None, total
        chosen = np.where(x > y, -x, np.fmax(x, brain(0.3)))
    for row, each in zip(result, (*wanted[:3], chosen, total), strict=False):
        np.testing.assert_array_equal(row, each)
    np.testing.assert_array_equal(result[7], np.sort(x))
    finite = brain(np.arange(64) % 7 - 3.0)
    *_, result = run(machine, arithmetic, (1,), (bits(finite), bits(y), np.zeros((8, 64), np.uint16), 60, 64))
    np.testing.assert_array_equal(numbers(result)[5], np.cumsum(finite))
    np.testing.assert_array_equal(numbers(result)[6], np.tile(finite.reshape(4, 16).sum(0), 4))


@triton.jit
def products(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    product = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
    tl.static_assert(product.dtype == tl.float32)
    tl.store(out_ptr + at, product)


def test_products_accumulate_in_float32(machine: vkcompute.Runtime | None) -> None:
    a, b = (brain(np.random.default_rng(seed).normal(size=(32, 32))) for seed in range(2))
    out = np.zeros((32, 32), np.float32)
    if machine is None:
        given = [triton.reinterpret(bits(item), tl.bfloat16) for item in (a, b)]
        products.interpret[(1,)](*given, out, 32)
        np.testing.assert_allclose(out, a @ b, atol=1e-5)
        return
    given = [triton.reinterpret(machine.array(bits(item)), tl.bfloat16) for item in (a, b)]
    for factor in (1, 2):  # the second launch uses the plan of the first
        given[1].base.write(bits(factor * b))
        result = machine.zeros((32, 32), np.float32)
        products[(1,)](*given, result, 32)
        np.testing.assert_allclose(result.numpy(), factor * (a @ b), atol=1e-5)


def test_products_of_float16_accumulate_in_float32(machine: vkcompute.Runtime | None) -> None:
    a, b = (np.random.default_rng(seed).normal(size=(32, 32)).astype(np.float16) for seed in range(2))
    *_, result = run(machine, products, (1,), (a, b, np.zeros((32, 32), np.float32), 32))
    np.testing.assert_allclose(result, a.astype(np.float32) @ b.astype(np.float32), atol=1e-5)


@triton.jit
def of_everything(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x.to(tl.bfloat16).to(tl.uint16, bitcast=True))
    tl.store(out_ptr + N + at, (x.to(tl.int32).to(tl.bfloat16) + 0).to(tl.int16, bitcast=True))


def test_conversions_round_to_nearest_even(machine: vkcompute.Runtime | None) -> None:
    x = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 257, -259, 2**-133, 0], np.float32)
    _, result = run(machine, of_everything, (1,), (x, np.zeros((2, 8), np.uint16), 8))
    np.testing.assert_array_equal(result[0], bits(x))
    np.testing.assert_array_equal(result[1], bits(np.trunc(x)))


@pytest.mark.pure
def test_what_has_no_bfloat16() -> None:
    with pytest.raises(ValueError, match="elements keep their size; got float32 and bf16"):
        triton.reinterpret(np.zeros(4, np.float32), tl.bfloat16)
    with pytest.raises(TypeError, match="reinterpret takes an array and a dtype"):
        triton.reinterpret(np.zeros(4, np.float32), np.float16)


@triton.jit
def product_of_brain_floats(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    a_ptr, b_ptr = a_ptr.to(tl.pointer_type(tl.bfloat16)), b_ptr.to(tl.pointer_type(tl.bfloat16))
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, STEP):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize("shape", [(32, 32, 32), (64, 16, 64), (16, 128, 16), (8, 16, 16)])
def test_products_of_blocks_of_any_shape(machine: vkcompute.Runtime | None, shape: tuple[int, int, int]) -> None:
    """Where a device multiplies bfloat16 by cooperative matrices, operands stay bits, for blocks of any shape."""
    m, n, step = shape
    random, k = np.random.default_rng(m), 3 * step
    a, b = (random.integers(-8, 8, item).astype(np.float32) / 4 for item in ((m, k), (k, n)))
    out = np.zeros((m, n), np.float32)
    *_, result = run(machine, product_of_brain_floats, (1,), (bits(a), bits(b), out, k, m, n, step))
    np.testing.assert_array_equal(result, a @ b)


@pytest.mark.pure
def test_products_are_of_matrices_if_the_device_has_them_for_bfloat16() -> None:
    brain = tile.target.MatrixShape(16, 16, 16, "bfloat16", "float32")
    kinds = dict.fromkeys(range(2), ArrayType("H", False, True))
    kinds |= {2: ArrayType("f", False, True), 3: IntType("int32", 16)}
    for matrices, n_products in (((brain,), 2), ((), 0)):
        target = tile.Target(32, 1024, 49152, stages=True, matrices=matrices)
        constants = {4: 32, 5: 32, 6: 32}
        options = BlockOptions(4, target, CompileOptions())
        compiled = specialize(product_of_brain_floats.definition, constants, kinds, options)
        module = Module.parse(compiled.spirv)
        validate(module)
        assert (
            sum(instruction.opcode == spv.OpCooperativeMatrixMulAddKHR for instruction in module.functions)
            == n_products
        )
        capabilities = {instruction.operands[0] for instruction in module.capabilities}
        assert (Capability.BFloat16CooperativeMatrixKHR in capabilities) == bool(n_products)
