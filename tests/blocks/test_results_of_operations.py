"""Types and values of results where Triton's rules are not NumPy's: promotions, masks, tuples, types of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import brain, check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, MissingFeature
from vkcompute.blocks.launching.program import block_program
from vkcompute.compat.triton import JITFunction

N = 16


def result(machine: vkcompute.Runtime | None, program: JITFunction, *args: Any, **named: Any) -> Any:
    """The last array among the arguments, after one program has run."""
    try:
        return run(machine, program, (1,), args, **named)[-1]
    except MissingFeature:
        pytest.skip("the device has no such type")


# -- beside Python's numbers ------------------------------------------------------------------------------------------


@triton.jit
def limits(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.minimum(x, 100) * 3)
    tl.store(out_ptr + N + i, tl.maximum(x, 0.0) * 1000)
    tl.store(out_ptr + 2 * N + i, tl.clamp(x, -8.0, 100.0) * 1000)
    tl.store(out_ptr + 3 * N + i, tl.topk(x, 8).to(tl.float32).reshape(8, 1).broadcast_to(8, 2).reshape(N) * 1000)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float16"])
def test_extremes_beside_pythons_numbers_are_promoted_as_tensors(machine: vkcompute.Runtime | None, dtype: str) -> None:
    """Integers of 8 and 16 bits become int32, and float16 beside a float float32; so nothing overflows."""
    x = np.linspace(-120, 120, N).astype(dtype)
    computed = result(machine, limits, x, np.zeros((4, N), np.float32), N)
    wide = x.astype(np.float32)
    greatest = np.repeat(np.sort(wide)[::-1][:8], 2) * 1000
    wanted = [np.minimum(wide, 100) * 3, np.maximum(wide, 0) * 1000, np.clip(wide, -8, 100) * 1000, greatest]
    np.testing.assert_allclose(computed, wanted, rtol=2**-10)


@triton.jit
def types_of_limits(x_ptr, H: tl.constexpr, M: tl.constexpr, F: tl.constexpr, T: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.static_assert(tl.maximum(x, 0.5).dtype == H and tl.clamp(x, 0.5, 1).dtype == H)
    tl.static_assert(tl.minimum(x, 3).dtype == M and tl.minimum(x, x).dtype == M)
    tl.static_assert(tl.topk(x, 4).dtype == T and tl.topk(x, 16).dtype == x.dtype)
    if x.dtype.is_floating():
        tl.static_assert(tl.fma(x, 2.0, x).dtype == F and tl.fma(x, x, x).dtype == x.dtype)


def test_types_beside_pythons_numbers() -> None:
    half, single, double = tl.float16, tl.float32, tl.float64
    types_of_limits.interpret[(1,)](np.ones(16, np.float16), single, half, single, single)
    types_of_limits.interpret[(1,)](np.ones(16, np.float32), single, single, single, single)
    types_of_limits.interpret[(1,)](np.ones(16, np.float64), double, double, double, double)
    brains = triton.reinterpret(np.ones(16, np.uint16), tl.bfloat16)
    types_of_limits.interpret[(1,)](brains, single, single, single, single)


@triton.jit
def types_of_both(x_ptr, y_ptr):
    x, y = tl.load(x_ptr + tl.arange(0, 16)), tl.load(y_ptr + tl.arange(0, 16))
    tl.static_assert(tl.maximum(x, y).dtype == tl.float32 and tl.minimum(y, x).dtype == tl.float32)
    tl.static_assert(tl.clamp(x, y, y).dtype == tl.float32)


def test_bfloat16_beside_float16_is_float32_in_extremes() -> None:
    types_of_both.interpret[(1,)](triton.reinterpret(np.ones(16, np.uint16), tl.bfloat16), np.ones(16, np.float16))


# -- along axes -------------------------------------------------------------------------------------------------------


@triton.jit
def of_brain_floats(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.bfloat16)) + i)
    sums, products = tl.cumsum(x, 0), tl.cumprod(x, 0)
    largest, at = tl.max(x, 0, return_indices=True)
    tl.static_assert(sums.dtype == tl.float32 and products.dtype == tl.float32 and largest.dtype == tl.float32)
    tl.static_assert(tl.max(x, 0).dtype == tl.float32 and tl.cumsum(x, 0, dtype=tl.float16).dtype == tl.float16)
    tl.store(out_ptr + i, sums)
    tl.store(out_ptr + N + i, products)
    tl.store(out_ptr + 2 * N + i, largest + at + tl.zeros((N,), tl.float32))


def test_scans_of_brain_floats_are_float32(machine: vkcompute.Runtime | None) -> None:
    x = brain(np.linspace(1, 1.3, N))
    words = (x.view(np.uint32) >> 16).astype(np.uint16)
    computed = result(machine, of_brain_floats, words, np.zeros((3, N), np.float32), N)
    wanted = np.cumsum(x, dtype=np.float32), np.cumprod(x, dtype=np.float32), np.full(N, x.max() + x.argmax())
    np.testing.assert_allclose(computed, wanted, rtol=2e-6)


@triton.jit
def of_bytes(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    whole, either, products = tl.xor_sum(x, 0), tl.reduce_or(x, 0), tl.cumprod(x, 0)
    tl.static_assert(whole.dtype == x.dtype and either.dtype == x.dtype and products.dtype == x.dtype)
    tl.static_assert(tl.sum(x, 0).dtype == (tl.int32 if x.dtype.is_int_signed() else tl.uint32))
    tl.store(out_ptr + i, products)
    tl.store(out_ptr + N + i, whole + tl.zeros((N,), x.dtype))
    tl.store(out_ptr + 2 * N + i, either + tl.zeros((N,), x.dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_products_and_bits_keep_the_type_of_integers(machine: vkcompute.Runtime | None, dtype: str) -> None:
    x = (np.arange(N) * 7 - 3).astype(dtype)
    computed = result(machine, of_bytes, x, np.zeros((3, N), dtype), N)
    wanted = np.cumprod(x, dtype=dtype), np.full(N, np.bitwise_xor.reduce(x)), np.full(N, np.bitwise_or.reduce(x))
    np.testing.assert_array_equal(computed, wanted)


# -- types of values --------------------------------------------------------------------------------------------------


@triton.jit
def types_of_blocks(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    places = x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(places)
    tl.static_assert(x.type.is_block() and not x.type.is_ptr() and not tl.sum(x).type.is_block())
    tl.static_assert(x.type.shape == (M, N) and x.type.get_block_shapes() == (M, N) and x.type.numel == M * N)
    tl.static_assert(x.type.element_ty == tl.float32 and x.type.scalar == x.dtype and x.type.scalar.is_floating())
    tl.static_assert(x.type == tl.block_type(tl.float32, (M, N)) and x.type == (x + 1).type)
    tl.static_assert(places.type.is_block() and places.type.scalar.is_ptr() and not x_ptr.type.is_block())
    tl.static_assert(places.type.scalar.element_ty == tl.float32 and x_ptr.type.element_ty == places.dtype.element_ty)
    tl.store(out_ptr + tl.arange(0, M * N), x.to(tl.int32).to(x.type).ravel())


def test_the_type_of_a_block(machine: vkcompute.Runtime | None) -> None:
    x = np.linspace(-9, 9, 4 * N).astype(np.float32)
    np.testing.assert_array_equal(result(machine, types_of_blocks, x, np.zeros_like(x), 4, N), np.trunc(x))


@triton.jit
def type_of_argument(out_ptr, n):
    tl.static_assert(n.dtype == tl.int64 and 0x80000000.dtype == tl.uint32)
    tl.store(out_ptr, -n)


def test_an_int_argument_beyond_32_bits_is_int64(machine: vkcompute.Runtime | None) -> None:
    for n in (2**31, 2**32 - 1, 2**32):
        assert result(machine, type_of_argument, np.zeros(1, np.int64), n).tolist() == [-n]


@triton.jit
def types_of_constants(out_ptr, pair, N: tl.constexpr):
    limit: tl.constexpr = 3
    tl.static_assert(limit.type == tl.constexpr_type(3) and limit.type != tl.constexpr_type(4))
    tl.static_assert(isinstance(limit.type, tl.constexpr_type) and limit.type == tl.int32 and tl.int32 == limit.type)
    tl.static_assert((1.5).type == tl.constexpr_type(1.5) and (1.5).type == tl.float32 and N.type.is_int())
    tl.static_assert((5, 6).type == tl.constexpr_type((5, 6)))
    tl.static_assert(not isinstance(pair[0].type, tl.constexpr_type))
    mixed = (pair[0], out_ptr, tl.arange(0, N))
    tl.static_assert(mixed.type == tl.tuple_type([tl.int32, out_ptr.type, tl.block_type(tl.int32, (N,))]))
    tl.store(out_ptr + mixed[2], mixed[0] + tl.cast(limit, limit.type))


def test_the_types_of_constants_and_tuples(machine: vkcompute.Runtime | None) -> None:
    result_ = result(machine, types_of_constants, np.zeros(N, np.int32), (5, 6), N)
    np.testing.assert_array_equal(result_, np.full(N, 8))


# -- masks and fills --------------------------------------------------------------------------------------------------


@triton.jit
def products_of_masks(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    inside = (x > 2) * (x < 6) * True
    tl.static_assert(inside.dtype == tl.int1 and (inside * 2).dtype == tl.int32)
    far = (x > 9).logical_or(x < 1).logical_and(i != 3)
    tl.store(out_ptr + i, inside * 2 + far.to(tl.int32))


def test_a_product_of_masks_is_their_and(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(N, dtype=np.int32)[::-1].copy()
    wanted = ((x > 2) & (x < 6)) * 2 + (((x > 9) | (x < 1)) & (np.arange(N) != 3))
    np.testing.assert_array_equal(result(machine, products_of_masks, x, np.zeros_like(x), N), wanted)


@triton.jit
def filled(x_ptr, out_ptr, n, OTHER: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=OTHER), mask=i < N - 1)
    tl.store(out_ptr + i, OTHER, mask=i == N - 1)


@pytest.mark.parametrize(("dtype", "other"), [("uint8", -1), ("int8", 200), ("uint32", -2), ("int16", 1 << 20)])
def test_fills_wrap_to_the_type_of_the_elements(machine: vkcompute.Runtime | None, dtype: str, other: int) -> None:
    x = np.arange(N, dtype=dtype)
    computed = result(machine, filled, x, np.zeros_like(x), 5, other, N)
    np.testing.assert_array_equal(computed, np.where(np.arange(N) < 5, x, np.array(other).astype(dtype)))


# -- tuples -----------------------------------------------------------------------------------------------------------


@triton.jit
def total_of(values):
    total = values[0]
    for k in tl.static_range(1, len(values)):
        total += values[k]
    return total


@block_program
def of_tuples(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    k = 100
    rows = tuple([x + k for k in tl.static_range(5) if k != 2 if 12 // (k - 2) != 6])
    scaled = [a * b for a, b in ((x, 2), (rows[0], 3))]
    tl.static_assert(len(rows) == 3 and len(scaled) == 2 and len(tuple(b for b in rows)) == 3 and k == 100)
    tl.store(out_ptr + i, total_of(rows) + total_of(scaled))


def test_tuples_of_blocks(machine: vkcompute.Runtime | None) -> None:
    x = np.arange(N, dtype=np.int32)
    np.testing.assert_array_equal(result(machine, of_tuples, x, np.zeros_like(x), N), 8 * x + 4)


# -- functions --------------------------------------------------------------------------------------------------------


@triton.jit
def upper_halves(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    result = tl.umulhi(tl.load(x_ptr + i), tl.load(y_ptr + i))
    tl.static_assert(result.dtype == x_ptr.dtype.element_ty)
    tl.store(out_ptr + i, result)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_upper_halves_of_products(machine: vkcompute.Runtime | None, dtype: str) -> None:
    n_bits = np.dtype(dtype).itemsize * 8
    x, y = (
        np.random.default_rng(seed).integers(0, 256, (N, n_bits // 8), np.uint8).view(dtype)[:, 0] for seed in (1, 2)
    )
    x[:3], y[:3] = -1 if dtype[0] == "i" else ~np.zeros(1, dtype), np.array([-1, 1, 0]).astype(dtype)
    computed = result(machine, upper_halves, x, y, np.zeros_like(x), N)
    pairs = [[int(item) % (1 << n_bits) for item in pair] for pair in zip(x, y, strict=True)]
    wanted = np.array([a * b >> n_bits for a, b in pairs], f"uint{n_bits}").astype(dtype)
    np.testing.assert_array_equal(computed, wanted)


@triton.jit
def library(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.extra.libdevice.round(x))
    tl.store(out_ptr + N + i, tl.extra.libdevice.copysign(x, y))
    tl.store(out_ptr + 2 * N + i, tl.extra.libdevice.signbit(y) + tl.extra.libdevice.finitef(y).to(tl.int32) * 2)
    tl.store(out_ptr + 3 * N + i, tl.extra.libdevice.exp10(x))
    tl.store(out_ptr + 4 * N + i, tl.extra.libdevice.sinpi(x))
    tl.store(out_ptr + 5 * N + i, tl.extra.libdevice.cospi(x))
    tl.store(out_ptr + 6 * N + i, tl.extra.libdevice.popc((x * 1000).to(tl.int32)))


def test_functions_of_libdevice(machine: vkcompute.Runtime | None) -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -3.4, 0.25, 17.75, -6, 8388609, 1e-3, 3, -1, 3e38, 12345.5])
    x = x.astype(np.float32)
    y = np.array([1, -1, 0.0, -0.0, np.inf, -np.inf, np.nan, 3] * 2, np.float32)
    computed = result(machine, library, x, y, np.zeros((7, N), np.float32), N)
    np.testing.assert_array_equal(computed[0], np.trunc(x) + np.sign(x) * (np.abs(x - np.trunc(x)) >= 0.5))
    some = ~np.isnan(y)
    np.testing.assert_array_equal(np.signbit(computed[1])[some], np.signbit(y)[some])
    np.testing.assert_array_equal(np.abs(computed[1]), np.abs(x))
    np.testing.assert_array_equal(computed[2][some], (np.signbit(y) + 2.0 * np.isfinite(y))[some])
    small = np.abs(x) < 30
    np.testing.assert_allclose(computed[3][small], 10.0 ** x[small].astype(np.float64), rtol=1e-6)
    turns = np.pi * (x.astype(np.float64) % 2)
    np.testing.assert_allclose(computed[4], np.sin(turns), rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(computed[5], np.cos(turns), rtol=1e-6, atol=1e-15)
    whole = (np.where(small, x, 0) * np.float32(1000)).astype(np.int32)
    assert computed[6][small].tolist() == [(item & 0xFFFFFFFF).bit_count() for item in whole[small].tolist()]


@triton.jit
def of_wide_words(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.extra.libdevice.popc(tl.load(x_ptr + i)))


@triton.jit
def whole_numbers(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.static_assert(tl.extra.libdevice.llrint(x).dtype == tl.int64)
    tl.store(out_ptr + i, tl.extra.libdevice.llrint(x) * 100 + tl.extra.libdevice.llround(x))


def test_functions_of_libdevice_of_64_bits(machine: vkcompute.Runtime | None) -> None:
    x = np.random.default_rng(3).integers(-(1 << 63), (1 << 63) - 1, N, np.int64)
    computed = result(machine, of_wide_words, x, np.zeros(N, np.int32), N)
    assert computed.tolist() == [(int(item) % (1 << 64)).bit_count() for item in x]
    halves = np.arange(N, dtype=np.float32) - 7.5
    computed = result(machine, whole_numbers, halves, np.zeros(N, np.int64), N)
    np.testing.assert_array_equal(computed, np.rint(halves) * 100 + np.trunc(halves + np.sign(halves) / 2))


# -- specialization ---------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=[2])
def unspecialized(out_ptr, n, m, k):
    tl.static_assert(isinstance(n, tl.tensor) and not isinstance(m, tl.tensor) and not isinstance(k, tl.tensor))
    tl.store(out_ptr, n + m + k)


def test_ints_that_are_no_constants(machine: vkcompute.Runtime | None) -> None:
    assert result(machine, unspecialized, np.zeros(1, np.int32), 1, 1, 1)[0] == 3
    constants, types = unspecialized.parameters.typed((None, 16, 32, 48), lambda _: None, {})
    assert constants == {0: None}
    assert [types[at].divisor for at in (1, 2, 3)] == [1, 1, 16]


# -- errors -----------------------------------------------------------------------------------------------------------


@triton.jit
def full_of_text(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), tl.full((8,), "a", tl.float32))


@triton.jit
def atomic_text(x_ptr):
    tl.atomic_add(x_ptr, "a")


@triton.jit
def f_string(x_ptr):
    print(f"{x_ptr.dtype.element_ty} {tl.load(x_ptr)}")


@triton.jit
def f_string_of_a_block(x_ptr):
    tl.static_print(f"{tl.arange(0, 8)}")


@triton.jit
def reduced_by_a_builtin(x_ptr):
    tl.store(x_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, 8)), 0, max))


@triton.jit
def scanned_by_a_builtin(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), tl.associative_scan(tl.load(x_ptr + tl.arange(0, 8)), 0, min))


@triton.jit
def length_of_a_block(x_ptr):
    tl.store(x_ptr, len(tl.arange(0, 8)))


@triton.jit
def length_of_a_pointer(x_ptr):
    tl.store(x_ptr, len(x_ptr))


@triton.jit
def comprehension_of_numbers(x_ptr):
    tl.store(x_ptr, [k + 1 for k in range(tl.load(x_ptr).to(tl.int32))])


@triton.jit
def and_of_integers(x_ptr):
    tl.store(x_ptr, (tl.load(x_ptr) > 2).logical_and(3))


@triton.jit
def type_of_a_block(x_ptr):
    tl.static_assert(tl.arange(0, 8).type.is_floating())


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message", "text"),
    [
        (full_of_text, "this takes numbers; got 'a'", 'tl.full((8,), "a"'),
        (atomic_text, "this takes numbers; got 'a'", 'tl.atomic_add(x_ptr, "a")'),
        (f_string, "an f-string has values known at compile time; got float32; print numbers behind a text", "print(f"),
        (f_string_of_a_block, "got a block of int32[8]", "tl.static_print"),
        (reduced_by_a_builtin, "made by triton.jit; got max; write one of its arguments", "tl.reduce("),
        (scanned_by_a_builtin, "made by triton.jit; got min; write one of its arguments", "tl.associative_scan("),
        (length_of_a_block, "len takes a tuple; got a block of int32[8]; the lengths of a block are x.shape", "len("),
        (length_of_a_pointer, "len takes a tuple; got a pointer to x_ptr", "len("),
        (comprehension_of_numbers, "a comprehension takes a tuple; got a range", "[k + 1 for k in"),
        (and_of_integers, "logical_and takes int1; got bool and 3; write x != 0", "logical_and(3)"),
        (type_of_a_block, "has no attribute is_floating; that of its elements may, as x.type.scalar", "is_floating"),
    ],
)
def test_compile_errors(program: JITFunction, message: str, text: str) -> None:
    with pytest.raises(KernelError) as caught:
        program.interpret[(1,)](np.zeros(64, np.float32))
    check_error(caught.value, message, text)
