"""Philox 4x32-10 to the bit: the known answers of Random123, and ints in Python, whose rounds are numpy's, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc

Array = np.ndarray[Any, Any]
# counter, key -> numbers: kat_vectors of Random123 1.14.0, philox4x32 10
KNOWN = """
00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
"""
CONSTANTS = {  # width -> multipliers, increments of the key
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}


def philox(counter: list[int], key: list[int], width: int = 32) -> list[int]:
    first, second, *steps = CONSTANTS[width]
    (a, b, c, d), (k, m), mask = counter, key, (1 << width) - 1
    for _ in range(10):
        p, q = first * a, second * c
        a, b, c, d = (q >> width) ^ b ^ k, q & mask, (p >> width) ^ d ^ m, p & mask
        k, m = (k + steps[0]) & mask, (m + steps[1]) & mask
    return [a, b, c, d]


@pytest.mark.pure
def test_the_oracle_is_numpys() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        counter, key = (random.integers(0, 2**64, n, np.uint64) for n in (4, 2))
        counter[0] //= 2
        result = np.random.Philox(counter=counter, key=key).random_raw(4)
        counter[0] += 1  # numpy counts before it draws
        assert philox(counter.tolist(), key.tolist(), 64) == result.tolist()


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_philox_to_the_bit(gpu: Any) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < out.shape[0]:
            out[i] = vc.random.philox((x[i, 0], x[i, 1], x[i, 2], x[i, 3]), (x[i, 4], x[i, 5]))

    known = np.array([[int(word, 16) for word in line.split()] for line in KNOWN.strip().split("\n")], np.uint32)
    x = np.concatenate([known[:, :6], np.random.default_rng(1).integers(0, 2**32, (125, 6), np.uint32)])
    out = gpu.zeros((128, 4), np.uint32)
    kernel[2, 64](gpu.array(x), out)
    np.testing.assert_array_equal(out.numpy()[:3], known[:, 6:])
    np.testing.assert_array_equal(out.numpy(), [philox(row[:4], row[4:]) for row in x.tolist()])


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_counters_and_keys_of_all_forms(gpu: Any) -> None:
    @vc.kernel
    def kernel(out, n):  # type: ignore[no-untyped-def]
        out[0] = vc.random.philox(n, 0)
        out[1] = vc.random.philox((n, 3), (n,))
        out[2] = vc.random.philox(vc.uint32x4(1, 2, 3, 4), vc.uint32x2(5, 6))
        out[3] = vc.random.philox(2**40 + 3, 2**63)
        out[4] = vc.random.philox((-1, n - 8), 1)
        x, y, z, w = vc.random.philox(0, 0)
        out[5] = vc.uint32x4(w, z, y, x)

    out = gpu.zeros((6, 4), np.uint32)
    kernel[1, 1](out, 7)
    low = 2**32 - 1
    expected = [
        philox([7, 0, 0, 0], [0, 0]),
        philox([7, 3, 0, 0], [7, 0]),
        philox([1, 2, 3, 4], [5, 6]),
        philox([3, 256, 0, 0], [0, 2**31]),
        philox([low, low, 0, 0], [1, 0]),
        philox([0] * 4, [0] * 2)[::-1],
    ]
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_counters_of_64_bits(gpu: Any) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[i] = vc.random.philox(x[i], x[i])

    x = np.array([2**40 + 1, -1, 5], np.int64)
    out = gpu.zeros((3, 4), np.uint32)
    try:
        kernel[3, 1](gpu.array(x), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    words = [[int(item) % 2**32, int(item) >> 32 & 0xFFFFFFFF] for item in x]
    np.testing.assert_array_equal(out.numpy(), [philox([*word, 0, 0], word) for word in words])


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_floats(gpu: Any) -> None:
    @vc.kernel
    def kernel(bits, uniform, normal):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < bits.shape[0]:
            bits[i] = vc.random.philox(i, 7)
            uniform[i] = vc.random.uniform(i, 7)
            normal[i] = vc.random.normal(i, 7)

    n = 16384 if isinstance(gpu, vc.Runtime) else 8
    bits, uniform, normal = gpu.zeros((n, 4), np.uint32), gpu.zeros((n, 4)), gpu.zeros((n, 4))
    kernel[-(-n // 64), 64](bits, uniform, normal)
    words, result = bits.numpy(), normal.numpy()
    np.testing.assert_array_equal(uniform.numpy(), (words >> 8).astype(np.float32) * np.float32(2.0**-24))
    radius = np.sqrt(-2 * np.log((words[:, ::2] + 0.5) * 2.0**-32))
    angle = (words[:, 1::2].view(np.int32) >> 8) * (np.pi * 2.0**-23)
    exact = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(n, 4)
    np.testing.assert_allclose(result, exact, rtol=1e-4, atol=2e-6)
    if n > 8:
        sample = np.sort(result.ravel())
        assert abs(sample.mean()) < 4 / np.sqrt(sample.size)
        assert abs(sample.std() - 1) < 4 / np.sqrt(2 * sample.size)
        assert np.abs(np.corrcoef(result.T) - np.eye(4)).max() < 4 / np.sqrt(n)
        assert 3.5 < np.abs(sample).max() < 6.8


@pytest.mark.pure
def test_what_they_do_not_take() -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        out[0] = made(x).x

    for made, message in (
        (lambda x: vc.random.philox(x[0], 0), "the counter takes integers; got float32"),
        (lambda x: vc.random.uniform(0, (1, 2, 3)), "the key is an integer, or 1 to 2 of them; got 3"),
        (lambda x: vc.random.normal((), 1), "the counter is an integer, or 1 to 4 of them; got 0"),
        (lambda x: vc.random.philox((2**32, 1), 0), "does not fit uint32"),
        (lambda x: vc.random.philox((vc.int64(1), 1), 0), "each part of the counter has at most 32 bits"),
        (lambda x: vc.random.philox(x, 0), "this takes numbers"),
        (lambda x: vc.random.philox(1), "random.philox takes 2 arguments; got 1"),
    ):
        with pytest.raises(vc.KernelError, match=message):
            kernel.simulate[1, 1](np.zeros(1, np.float32), np.zeros(1, np.float32))
    with pytest.raises(vc.KernelError, match=r"vc\.random\.uniform"):
        vc.random.uniform(0, 0)
