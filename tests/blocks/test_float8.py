"""Floats of 8 bits: loaded, stored, converted with both rounding modes, and multiplied as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.blocks.compiler.types import DTYPES, FLOAT8
from vkcompute.dtypes import BFLOAT16
from vkcompute.float_formats import FloatFormat

FORMATS = {name: kind.format for name, kind in FLOAT8.items()}
HALF = FloatFormat(16, 10, -14, 0x7E00, 0x7C00)
ALL = np.arange(256, dtype=np.uint8)


def special_numbers() -> np.ndarray[Any, Any]:
    """Returns numbers at and between those of the formats, beyond them, and special ones."""
    values = np.concatenate([form.decoded(ALL) for form in FORMATS.values()])
    exact = np.unique(np.abs(values[np.isfinite(values)]))
    halves = (exact[:-1] + exact[1:]) / 2
    beside = np.concatenate([np.nextafter(halves, np.float32(1e9)), np.nextafter(halves, np.float32(-1))])
    rest = np.random.default_rng(0).normal(size=500) * 2.0 ** np.random.default_rng(1).integers(-20, 20, 500)
    result = np.concatenate([exact, halves, beside, rest, [np.inf, np.nan, 1e9, 449, 464, 465, 57345, 6e4, 7e4]])
    return np.resize(np.concatenate([result, -result]), 4096).astype(np.float32)


def nearest(x: Any, form: FloatFormat) -> np.ndarray[Any, Any]:
    """Returns the bits of the nearest numbers, the largest one beyond it."""
    most = form.value(form.beyond - 1)
    return form.encoded(np.clip(x, -most, most) if form.bits == 8 else x)


def truncated(x: Any, form: FloatFormat) -> np.ndarray[Any, Any]:
    """Returns the bits of the numbers next to zero."""
    bits = nearest(x, form)
    return bits - (np.abs(form.decoded(bits)) > np.abs(x)).astype(bits.dtype)


@triton.jit
def decoded(x_ptr, out_ptr, DTYPE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr.to(tl.pointer_type(DTYPE)) + at)
    tl.store(out_ptr + at, x.to(tl.float32))
    tl.store(out_ptr + N + at, tl.load(x_ptr + at).to(DTYPE, bitcast=True).to(tl.float16))
    tl.store(out_ptr + 2 * N + at, tl.reshape(tl.abs(x), (2, N // 2)).trans().trans().ravel().to(tl.bfloat16))


@pytest.mark.parametrize("name", FLOAT8)
def test_all_numbers_are_those_of_the_format(machine: vkcompute.Runtime | None, name: str) -> None:
    *_, result = run(machine, decoded, (1,), (ALL, np.zeros((3, 256), np.float32)), DTYPE=DTYPES[name], N=256)
    wanted = FORMATS[name].decoded(ALL)
    for row, numbers in zip(result, (wanted, wanted, np.abs(wanted)), strict=True):
        np.testing.assert_array_equal(row, numbers)
        numeric = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(row[numeric]), np.signbit(numbers[numeric]))


@triton.jit
def encoded(x_ptr, out_ptr, DTYPE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr.to(tl.pointer_type(DTYPE)) + at, x)
    bits: tl.constexpr = tl.uint8 if DTYPE.primitive_bitwidth == 8 else tl.uint16
    down = x.to(DTYPE, fp_downcast_rounding="rtz")
    tl.store(out_ptr + N + at, down.to(bits, bitcast=True))


@pytest.mark.parametrize("name", [*FLOAT8, "float16", "bfloat16"])
def test_conversions_round_to_nearest_or_zero_and_saturate(machine: vkcompute.Runtime | None, name: str) -> None:
    x, form = special_numbers(), {**FORMATS, "float16": HALF, "bfloat16": BFLOAT16.format}[name]
    out = np.zeros((2, x.size), f"u{form.bits // 8}")
    *_, result = run(machine, encoded, (1,), (x, out), DTYPE=DTYPES[name], N=x.size)
    numeric = ~np.isnan(x)
    np.testing.assert_array_equal(result[0][numeric], nearest(x, form)[numeric])
    np.testing.assert_array_equal(result[1][numeric], truncated(x, form)[numeric])
    assert np.isnan(form.decoded(result[0][~numeric])).all()


def test_halves_between_numbers_of_float8e4b15_are_rounded_away_from_zero(machine: vkcompute.Runtime | None) -> None:
    """As by Triton's assembly for NVIDIA's GPUs; other formats round them to even."""
    x = np.array([1.0625, 1.1875, 0.5 * 2**-17, 1.5 * 2**-17, -1.0625, 1.8, 0.49 * 2**-17, 1.06], np.float32)
    wanted = [1.125, 1.25, 2**-17, 2 * 2**-17, -1.125, 1.75, 0, 1.0]
    *_, found = run(machine, encoded, (1,), (x, np.zeros((2, 8), np.uint8)), DTYPE=tl.float8e4b15, N=8)
    assert FORMATS["float8e4b15"].decoded(found[0]).tolist() == wanted
    assert FORMATS["float8e4b15"].encoded(x).tolist() == found[0].tolist()


@triton.jit
def copied(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, at < N - 1, other=1000.0)
    tl.store(out_ptr + at, tl.where(at % 2 == 0, x, tl.full((N,), -1e9, x_ptr.dtype.element_ty)))


@pytest.mark.parametrize("dtype", [vc.float8_e4m3fn, vc.float8_e5m2, vc.float8_e4m3fnuz, vc.float8_e5m2fnuz])
def test_arrays_of_these_dtypes(gpu: vkcompute.Runtime, dtype: Any) -> None:
    x = gpu.array(np.linspace(-3, 3, 64, dtype=np.float32)).astype(dtype)
    out = gpu.zeros(64, dtype)
    copied[(1,)](x, out, N=64)
    wanted = np.where(np.arange(64) % 2, np.float32(-1e9), x.astype("float32").numpy())
    limit = vc.dtypes.finfo(dtype).max
    np.testing.assert_array_equal(out.astype("float32").numpy(), np.clip(wanted, -limit, limit))


@triton.jit
def product(a_ptr, b_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(a_ptr.to(tl.pointer_type(A)) + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr.to(tl.pointer_type(B)) + k[:, None] * M + m[None, :])
    tl.store(out_ptr + m[:, None] * M + m[None, :], tl.dot(a, b))


@pytest.mark.parametrize(("left", "right"), [("float8e4nv", "float8e4nv"), ("float8e5", "float8e4b15")])
def test_products_are_exact(machine: vkcompute.Runtime | None, left: str, right: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0x20, 0x40, (32, 32), np.uint8) | rng.integers(0, 2, (32, 32), np.uint8) << 7 for _ in "ab")
    args = (a, b, np.zeros((32, 32), np.float32))
    *_, result = run(machine, product, (1,), args, A=DTYPES[left], B=DTYPES[right], M=32, K=32)
    wanted = FORMATS[left].decoded(a).astype(np.float64) @ FORMATS[right].decoded(b)
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)


@triton.jit
def moved_products(a_ptr, b_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    square = at[:, None] * N + at[None, :]
    a = tl.load(a_ptr.to(tl.pointer_type(A)) + square)
    b = tl.load(b_ptr.to(tl.pointer_type(B)) + square)
    tl.store(out_ptr + square, tl.dot(a.trans(), b))
    parts = [tl.reshape(x, (2, 2, N // 2, N // 2)) for x in (a, b)]
    tl.store(out_ptr + N * N + square, tl.reshape(tl.dot(parts[0], parts[1]), (N, N)))
    tl.store(out_ptr + 2 * N * N + square, a.to(tl.float32))
    tl.store(out_ptr + 3 * N * N + square, tl.dot(a, b, out_dtype=tl.float16))


@pytest.mark.rotates
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float8e4nv", "float8e4nv"),
        ("float8e4b8", "float8e4nv"),
        ("float8e4b8", "float8e4b8"),
        ("float8e4nv", "float8e5"),
        ("float8e4b15", "float8e4nv"),
    ],
)
def test_products_of_moved_operands_are_those_of_all_numbers(
    machine: vkcompute.Runtime | None, left: str, right: str
) -> None:
    rng, n = np.random.default_rng(3), 32
    a, b = (rng.permutation(np.resize(ALL, n * n)).reshape(n, n) for _ in "ab")
    a[:, 1:], b[1:] = a[:, 1:] & 0xB7, b[1:] & 0xB7  # one column and one row have NaN and infinity
    *_, result = run(
        machine, moved_products, (1,), (a, b, np.zeros((4, n, n), np.float32)), A=DTYPES[left], B=DTYPES[right], N=n
    )
    x, y = FORMATS[left].decoded(a).astype(np.float64), FORMATS[right].decoded(b).astype(np.float64)
    parts = [operand.reshape(2, 2, n // 2, n // 2) for operand in (x, y)]
    with np.errstate(invalid="ignore", over="ignore"):
        for values, wanted in ((result[0], x.T @ y), (result[1], (parts[0] @ parts[1]).reshape(n, n))):
            finite = np.isfinite(wanted)
            np.testing.assert_allclose(values[finite], wanted[finite], rtol=1e-6, atol=1e-2)
            assert (np.isfinite(values) == finite).all()
        np.testing.assert_array_equal(result[2], x.astype(np.float32))
        halves = (x @ y).astype(np.float16)
        np.testing.assert_allclose(result[3], halves, rtol=1e-3, atol=0.1)


@triton.jit
def computed(x_ptr, out_ptr, HOW: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 4)).to(tl.float16).to(tl.float8e5)
    if HOW == "sum":
        tl.store(out_ptr + tl.arange(0, 4), x + x)
    elif HOW == "scalar":
        tl.store(out_ptr + tl.arange(0, 4), x * 2.0)
    elif HOW == "compared":
        tl.store(out_ptr + tl.arange(0, 4), x > x)
    elif HOW == "reduced":
        tl.store(out_ptr, tl.sum(x, 0))
    elif HOW == "int":
        tl.store(out_ptr + tl.arange(0, 4), x.to(tl.int32))
    elif HOW == "of int":
        tl.store(out_ptr + tl.arange(0, 4), tl.arange(0, 4).to(tl.float8e5))
    elif HOW == "with int":
        tl.store(out_ptr + tl.arange(0, 4), x + tl.arange(0, 4))
    elif HOW == "other":
        tl.store(out_ptr + tl.arange(0, 4), x.to(tl.float8e4nv).to(tl.float32))
    elif HOW == "rounding":
        tl.store(out_ptr + tl.arange(0, 4), x.to(tl.float32, fp_downcast_rounding="rtz"))
    else:
        tl.store(out_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.arange(0, 4)).to(tl.float16, fp_downcast_rounding="up"))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("sum", "add does not take floats of 8 bits; convert them, as x.to"),
        ("scalar", "mul does not take floats of 8 bits"),
        ("compared", "gt does not take floats of 8 bits"),
        ("reduced", "add does not take floats of 8 bits"),
        ("int", "fp8e5 does not become int32 at once"),
        ("of int", "int32 does not become fp8e5 at once"),
        ("with int", "fp8e5 and int32 have no common type"),
        ("other", "fp8e5 does not become fp8e4nv at once"),
        ("rounding", "fp_downcast_rounding is for conversions to narrower floats"),
        ("unknown", "fp_downcast_rounding is 'rtne'"),
    ],
)
def test_what_triton_lacks_is_refused(how: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run(None, computed, (1,), (np.zeros(4, np.float32), np.zeros(4, np.float32)), HOW=how)
