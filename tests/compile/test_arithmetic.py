"""The arithmetic of `shaders/include/` on the device under test, bit for bit against numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from vkcompute.glsl import glsl

Array = npt.NDArray[Any]
Apply = Callable[[str, Array, Array], Array]

INCLUDES = Path(__file__).parents[2] / "shaders" / "include"
KERNEL = """
#include <half.glsl>
#include <packed_integers.glsl>
#include <soft_double.glsl>
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { uvec4 a[]; };
layout(std430, binding = 1) readonly buffer B { uvec4 b[]; };
layout(std430, binding = 2) writeonly buffer C { uvec4 c[]; };
uvec4 from_half(uvec4 x, uvec4 y) { return floatBitsToUint(half_to_float(x)); }
uvec4 to_half(uvec4 x, uvec4 y) { return float_to_half(uintBitsToFloat(x)); }
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < a.length()) c[i] = FUNCTION(a[i], b[i]);
}
"""
N_RANDOM = 1 << 16


@pytest.fixture
def apply(gpu: Any, any_compiler: object) -> Apply:
    """`apply(function, a, b)` runs a function of the includes on all words of a and b."""

    def run(function: str, a: Array, b: Array) -> Array:
        kernel = gpu.kernel(glsl(KERNEL, defines={"FUNCTION": function}, include_dirs=[INCLUDES]))
        words = [np.zeros(-(-x.nbytes // 16) * 4, np.uint32) for x in (a, b)]
        for padded, x in zip(words, (a, b), strict=True):
            padded.view(np.uint8)[: x.nbytes] = x.view(np.uint8)
        out = gpu.empty(words[0].shape, np.uint32)
        kernel(gpu.tensor(words[0]), gpu.tensor(words[1]), out, grid=-(-words[0].size // 256))
        result: Array = out.numpy().view(np.uint8)[: a.nbytes].view(a.dtype)
        return result

    return run


def pairs(values: list[int], dtype: str) -> tuple[Array, Array]:
    """Every value with every value."""
    array = np.array(values, dtype=dtype)
    return np.repeat(array, array.size), np.tile(array, array.size)


def random(rng: np.random.Generator, dtype: str, n: int = N_RANDOM) -> Array:
    """Every bit pattern as likely as any other."""
    return np.frombuffer(rng.bytes(n * np.dtype(dtype).itemsize), dtype)


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["i", "u"])
def test_integers_wrap_as_in_numpy(apply: Apply, nbytes: int, kind: str) -> None:
    bits = 8 * nbytes
    edges = {0, 1, 2, 3, *(1 << k for k in range(bits)), *((1 << k) - 1 for k in range(bits + 1))}
    edges |= {(1 << bits) - value for value in edges if value}
    unsigned = f"u{nbytes}"
    cases = [pairs(list(range(256)) if bits == 8 else sorted(edges), unsigned)]
    rng = np.random.default_rng(bits)
    cases.append((random(rng, unsigned), random(rng, unsigned)))
    for x, y in cases:
        a, b = x.view(f"{kind}{nbytes}"), y.view(f"{kind}{nbytes}")
        np.testing.assert_array_equal(apply(f"multiply_u{bits}", a, b), a * b)


def test_booleans_are_anded_whatever_byte_is_true(apply: Apply) -> None:
    a, b = pairs(list(range(256)), "u1")
    np.testing.assert_array_equal(apply("multiply_bool", a, b), (a != 0) & (b != 0))


def special(exponent_bits: int, fraction_bits: int) -> list[int]:
    """Bit patterns of both signs around every threshold: zero, subnormals, one, the largest, infinity, NaN."""
    top, bias = (1 << exponent_bits) - 1, (1 << exponent_bits - 1) - 1
    thresholds = {0, 1, 2, top, top - 1, top - 2, bias, bias - 1, bias + 1, bias // 2, bias // 2 + 1}
    thresholds |= {bias - fraction_bits, bias - fraction_bits - 1, bias + fraction_bits}
    full = (1 << fraction_bits) - 1
    fractions = {0, 1, 2, 3, full, full - 1, full >> 1, (full >> 1) + 1, (full >> 1) + 2, 1 << fraction_bits // 2}
    return [
        sign << exponent_bits + fraction_bits | exponent << fraction_bits | fraction
        for sign in (0, 1)
        for exponent in sorted(thresholds)
        for fraction in sorted(fractions)
    ]


def float_cases(exponent_bits: int, fraction_bits: int) -> Iterator[tuple[Array, Array]]:
    """Pairs of bit patterns: special ones, random ones, and those whose product is about to become subnormal or inf."""
    bits = 1 + exponent_bits + fraction_bits
    dtype, top, bias = f"u{bits // 8}", (1 << exponent_bits) - 1, (1 << exponent_bits - 1) - 1
    yield pairs(special(exponent_bits, fraction_bits), dtype)
    rng = np.random.default_rng(bits)
    yield random(rng, dtype), random(rng, dtype)
    for sum_of_exponents in (bias - fraction_bits, bias - fraction_bits // 2, bias, bias + top):
        exponent_a = rng.integers(0, top, N_RANDOM)
        exponent_b = np.clip(sum_of_exponents - exponent_a + rng.integers(-4, 5, N_RANDOM), 0, top - 1)
        # Fractions of few bits make ties, which are what rounding gets wrong.
        fractions = [rng.integers(0, 1 << fraction_bits, (3, N_RANDOM), dtype=np.uint64) for _ in range(2)]
        low = np.uint64((1 << fraction_bits // 2) - 1)
        few = [np.where(rng.random(N_RANDOM) < 0.5, f[0], f[0] & f[1] & f[2] & ~low) for f in fractions]
        signs = rng.integers(0, 2, (2, N_RANDOM), dtype=np.uint64) << np.uint64(bits - 1)
        a, b = (
            (sign | exponent.astype(np.uint64) << np.uint64(fraction_bits) | fraction).astype(dtype)
            for sign, exponent, fraction in zip(signs, (exponent_a, exponent_b), few, strict=True)
        )
        yield a, b


def assert_same_floats(got: Array, want: Array) -> None:
    """The same bits, but for what a NaN carries."""
    bits = f"u{want.itemsize}"
    wrong = np.where(np.isnan(want), ~np.isnan(got), got.view(bits) != want.view(bits))
    first = int(np.argmax(wrong))
    assert not wrong.any(), f"{wrong.sum()} wrong; at {first}: got {got[first]!r}, numpy has {want[first]!r}"


@pytest.mark.parametrize(
    ("function", "dtype", "layout"), [("multiply_f16", "f2", (5, 10)), ("multiply_f64_soft", "f8", (11, 52))]
)
def test_floats_multiply_as_in_numpy(apply: Apply, function: str, dtype: str, layout: tuple[int, int]) -> None:
    for x, y in float_cases(*layout):
        a, b = x.view(dtype), y.view(dtype)
        with np.errstate(all="ignore"):
            want = a * b
        assert_same_floats(apply(function, a, b), want)


def test_every_half_is_the_right_float(apply: Apply) -> None:
    halves = np.arange(1 << 16, dtype=np.uint32)
    got = apply("from_half", halves, halves).view(np.float32)
    assert_same_floats(got, halves.astype(np.uint16).view(np.float16).astype(np.float32))


def test_floats_round_to_the_right_half(apply: Apply) -> None:
    """Next to every half and halfway between every two of them; and anywhere, also among float's own subnormals."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32).astype(np.int64)
    middle = (halves[:-1] + halves[1:]) // 2
    near = np.concatenate([x + d for x in (halves, middle) for d in (-1, 0, 1)]).astype(np.uint32)
    anything = random(np.random.default_rng(1), "u4")
    subnormal = np.array([1, 0x7FFFFF, 0x800000], np.uint32)
    patterns = np.concatenate([near, near | np.uint32(1 << 31), anything, subnormal])
    with np.errstate(all="ignore"):
        want = patterns.view(np.float32).astype(np.float16)
    got = apply("to_half", patterns, patterns).astype(np.uint16).view(np.float16)
    assert_same_floats(got, want)
