"""Functions of bits, on the device, simulated and on the host, against Python's ints and numpy's views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

Array = np.ndarray[Any, Any]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
COUNTS: dict[Any, Callable[[int, int], int]] = {
    vc.popcount: lambda pattern, width: bin(pattern).count("1"),
    vc.clz: lambda pattern, width: width - len(f"{pattern:b}".lstrip("0")),
    vc.ctz: lambda pattern, width: width - len(f"{pattern:0{width}b}".rstrip("0")),
}


def reversed_bits(pattern: int, width: int) -> int:
    return int(f"{pattern:0{width}b}"[::-1], 2)


def samples(dtype: str) -> Array:
    """Each single bit, runs of ones, their complements, and numbers at random."""
    width, random = np.iinfo(dtype).bits, np.random.default_rng(0)
    ones = np.array([1 << n for n in range(width)] + [(1 << n) - 1 for n in range(width + 1)], f"uint{width}")
    wild = random.integers(0, 1 << width, 64, f"uint{width}")
    return np.concatenate([ones, ~ones, wild]).view(dtype)


def patterns(x: Array) -> list[int]:
    return [int(item) for item in x.view(f"u{x.dtype.itemsize}")]


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_counts_and_reversal(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, counts, turned):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < x.size:
            counts[0, i] = vc.popcount(x[i])
            counts[1, i] = vc.clz(x[i])
            counts[2, i] = vc.ctz(x[i])
            turned[i] = vc.bit_reverse(x[i])

    x = samples(dtype)
    counts, turned, width = gpu.zeros((3, x.size), np.int32), gpu.zeros(x.size, dtype), np.iinfo(dtype).bits
    try:
        kernel[-(-x.size // 64), 64](gpu.array(x), counts, turned)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    exact = [[function(pattern, width) for pattern in patterns(x)] for function in COUNTS.values()]
    np.testing.assert_array_equal(counts.numpy(), exact)
    result = patterns(turned.numpy())
    assert result == [reversed_bits(pattern, width) for pattern in patterns(x)]
    assert [[function(item) for item in x] for function in COUNTS] == exact, "on the host"
    assert [vc.bit_reverse(item).tobytes() for item in x] == [array.tobytes() for array in turned.numpy()]


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitcasts(gpu: Any, bits: int) -> None:
    real, signed, unsigned = (vars(np)[f"{kind}{bits}"] for kind in ("float", "int", "uint"))

    @vc.kernel
    def kernel(x, n, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < x.size:
            out[0, i] = vc.bitcast(x[i], unsigned)
            out[1, i] = vc.bitcast(vc.bitcast(x[i], signed), unsigned)
            out[2, i] = vc.bitcast(vc.bitcast(n[i], real), unsigned)
            out[3, i] = vc.bitcast(-vc.bitcast(vc.bitcast(n[i], signed), x.dtype), unsigned)
            out[4, i] = vc.bitcast(-1.5, unsigned) ^ vc.bitcast(-1, unsigned)
            out[5, i] = vc.bitcast(vc.bitcast(unsigned(7), real), unsigned) + vc.bitcast(1 << (bits - 1), unsigned)

    random = np.random.default_rng(0)
    n = random.integers(0, 2**bits, 64, unsigned)
    n[np.isnan(n.view(real))] = 5  # a device need not keep the bits of a NaN
    n[:4] = np.array([0.0, -0.0, np.inf, 1.0], real).view(unsigned)
    n = np.where(abs(n.view(real)) < np.finfo(real).tiny, n & unsigned(1 << (bits - 1)), n)  # nor subnormals
    out = gpu.zeros((6, 64), unsigned)
    try:
        kernel[1, 64](gpu.array(n.view(real)), gpu.array(n), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    constant = np.array([-1.5], real).view(unsigned) ^ np.array([-1], signed).view(unsigned)
    seven = np.full(64, 7 + (1 << (bits - 1)), unsigned)
    negative = n ^ unsigned(1 << (bits - 1))
    np.testing.assert_array_equal(out.numpy(), [n, n, n, negative, np.repeat(constant, 64), seven])
    assert vc.bitcast(real(-1.5), unsigned) == vc.bitcast(-1.5, unsigned) == np.array(-1.5, real).view(unsigned)
    assert vc.bitcast(-1, unsigned) == vc.bitcast(signed(-1), unsigned) == 2**bits - 1


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_counts_are_ints_and_functions_take_vectors_and_constants(gpu: Any) -> None:
    @vc.kernel
    def kernel(out, n):  # type: ignore[no-untyped-def]
        u = vc.uint32(n)
        out[0] = u + vc.popcount(u)  # uint32, not int64
        out[1] = vc.clz(1) + vc.ctz(8) + vc.popcount(-1) + vc.popcount(1 << 40)
        out[2] = vc.clz(n) + vc.ctz(vc.int32(0))
        v = vc.popcount(vc.uint32x2(u, 7))
        out[3] = 10 * v.x + v.y
        out[4] = vc.bitcast(vc.bitcast(vc.float32x2(1.0, 2.0), vc.uint32), vc.float32).y * 8
        out[5] = vc.bit_reverse(1) ^ vc.bit_reverse(n)
        for k in range(vc.bitcast(vc.float32(n) * 0.0, vc.int32), 3):
            out[6] += vc.uint32(k)
        out[7] = np.fmod(vc.bit_reverse(vc.uint32(2)), 7)

    out = gpu.zeros(8, np.uint32)
    kernel[1, 1](out, 6)
    turned = (1 << 31) ^ (0b11 << 29)
    assert out.numpy().tolist() == [8, 31 + 3 + 32 + 1, 29 + 32, 23, 16, turned, 3, 2**30 % 7]


@pytest.mark.pure
def test_what_they_do_not_take() -> None:
    @vc.kernel
    def kernel(x, n, out):  # type: ignore[no-untyped-def]
        out[0] = made(x[0], n)

    for made, message in (
        (lambda x, n: vc.popcount(x), "popcount takes integers; got float32"),
        (lambda x, n: vc.clz(x > 0), "clz takes integers; got bool"),
        (lambda x, n: vc.ctz(1.5), "ctz takes integers; got float; write int"),
        (lambda x, n: vc.popcount(True), "popcount takes integers; got bool"),
        (lambda x, n: vc.bit_reverse(1 << 64), "at most 64 bits"),
        (lambda x, n: vc.bitcast(x, vc.uint64), "keeps the number of bits.*got float32 for uint64"),
        (lambda x, n: vc.bitcast(n, np.float64), "keeps the number of bits.*got a Python int for float64"),
        (lambda x, n: vc.bitcast(x, int), "takes a type of numbers, as vc.float32"),
        (lambda x, n: vc.bitcast(x, n), "takes a type of numbers, as vc.float32"),
        (lambda x, n: vc.bitcast(x > 1, vc.int8), "takes no bools"),
        (lambda x, n: vc.bitcast(x), "bitcast takes 2 arguments; got 1: a number and its new type"),
        (lambda x, n: vc.bitcast(2**32, vc.float32), "does not fit uint32"),
        (lambda x, n: vc.fma(n, n, 2), "fma takes floats.*write x . y . z, which integers do not round"),
    ):
        with pytest.raises(vc.KernelError, match=message):
            kernel.simulate[1, 1](np.zeros(1, np.float32), 3, np.zeros(1, np.float32))
    with pytest.raises(TypeError, match="keeps the number of bits"):
        vc.bitcast(np.float32(1), np.uint64)


@pytest.mark.skipif(not hasattr(np, "bitwise_count"), reason="numpy 2 has it")
@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
def test_numpys_count_is_of_the_absolute_value(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < x.size:
            out[i] = np.bitwise_count(x[i]) + 256 * np.bitwise_count(-7)

    x = samples(dtype)
    out = gpu.zeros(x.size, np.int32)
    try:
        kernel[-(-x.size // 64), 64](gpu.array(x), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    np.testing.assert_array_equal(out.numpy(), np.bitwise_count(x) + np.int32(256 * 3))
