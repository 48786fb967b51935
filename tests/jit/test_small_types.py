"""Numbers of 8 and 16 bits on a device without them: computed in 32 bits, and accessed by words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.compiled import target

HostArray = np.ndarray[Any, Any]
ALL = "int8", "int16", "uint8", "uint16", "float16"
INTEGERS = "int8", "int16", "uint8", "uint16"
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(scope="module", params=[ALL, ("float16",), ("int8", "uint8"), ("int16", "uint16")], ids="-".join)
def lacking(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A runtime for which kernels are compiled as on a device that lacks some types."""
    made = target._target

    def without(runtime: vc.Runtime) -> Any:
        result = made(runtime)
        return replace(result, missing_types=tuple(sorted({*result.missing_types, *request.param})))

    with vc.Runtime() as runtime:
        with pytest.MonkeyPatch.context() as patch:  # only as long as the target of this runtime is made
            patch.setattr(target, "_target", without)
            assert set(request.param) <= set(target.target_of(runtime).missing_types)
        yield runtime


def equal(result: Any, expected: Any) -> None:
    """Asserts that numbers are the same, with the signs of zeros."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    if result.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def random_bits(n: int, dtype: str, seed: int) -> HostArray:
    size = np.dtype(dtype).itemsize
    return np.random.default_rng(seed).integers(0, 256, n * size, dtype=np.uint8).view(dtype)


# -- float16 ----------------------------------------------------------------------------------------------------------


def test_every_float16_is_read_and_written(lacking: vc.Runtime) -> None:
    x = lacking.array(HALVES)
    equal(x.astype(np.float32).numpy(), HALVES.astype(np.float32))
    equal(lacking.array(HALVES.astype(np.float32)).astype(np.float16).numpy(), HALVES)
    equal((-x).numpy(), -HALVES)
    equal(abs(x).numpy(), abs(HALVES))
    with np.errstate(invalid="ignore"):
        equal(x[1:-2][::-3].copy().numpy(), HALVES[1:-2][::-3])
        equal(vnp.sqrt(x).numpy(), np.sqrt(HALVES))
        equal(vnp.floor(x).numpy(), np.floor(HALVES))
        equal(vnp.rint(x).numpy(), np.rint(HALVES))
        equal((x > 1.5).numpy(), HALVES > 1.5)
        equal(vnp.isnan(x).numpy(), np.isnan(HALVES))
    equal(x.view(np.int16).astype(np.int32).numpy(), HALVES.view(np.int16).astype(np.int32))


def test_conversions_round_to_the_nearest_float16(lacking: vc.Runtime) -> None:
    """Converts numbers next to each float16, and next to the middle between two."""
    exact = HALVES.astype(np.float32).view(np.uint32)
    near = [exact + np.uint32(middle) + np.uint32(step) for middle in (0, 0x1000) for step in (0, 1, 2**32 - 1)]
    x = np.concatenate([*near, random_bits(50_000, "uint32", 0)]).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        equal(lacking.array(x).astype(np.float16).numpy(), x.astype(np.float16))
        numbers = np.concatenate([random_bits(50_000, "int32", 1) >> shift for shift in range(0, 32, 3)])
        equal(lacking.array(numbers).astype(np.float16).numpy(), numbers.astype(np.float16))


def test_conversions_of_float64_round_once(lacking: vc.Runtime) -> None:
    if lacks(lacking, "float64"):
        pytest.skip("the device has no float64")
    with np.errstate(over="ignore", invalid="ignore"):
        middle = HALVES[:-1].astype(np.float64) / 2 + HALVES[1:].astype(np.float64) / 2
        x = np.concatenate([[item, item * (1 + 2.0**-40), item * (1 - 2.0**-40)] for item in (middle, HALVES)], axis=1)
        x = np.concatenate([x.ravel(), random_bits(50_000, "float64", 0), 2.0 ** np.arange(-30.0, 20)])
        equal(lacking.array(x).astype(np.float16).numpy(), x.astype(np.float16))


@pytest.mark.parametrize("expression", ["x + y", "x - y", "x * y", "x / y", "min(x, y)", "x if x < y else -y"])
def test_arithmetic_of_float16_is_rounded_once(lacking: vc.Runtime, expression: str) -> None:
    x, y = (random_bits(200_000, "float16", seed) for seed in (2, 3))
    x, y = x[~np.isnan(x) & ~np.isnan(y)], y[~np.isnan(x) & ~np.isnan(y)]
    known = {"min(x, y)": np.minimum, "x if x < y else -y": lambda x, y: np.where(x < y, x, -y)}
    with np.errstate(all="ignore"):
        expected = known[expression](x, y) if expression in known else eval(expression, {"x": x, "y": y})
        result = vc.elementwise(expression)(lacking.array(x), lacking.array(y)).numpy()
        np.testing.assert_array_equal(result, expected)


@vc.kernel
def multiply_and_add(x, y, z, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = vc.fma(x[i], y[i], z[i])


def nearest_half(number: Fraction) -> np.float16:
    with np.errstate(over="ignore"):
        near = np.float16(float(number))
    around = near, *[np.nextafter(near, np.float16(to)) for to in (-np.inf, np.inf)]
    finite = [item for item in around if np.isfinite(item)]
    return min(finite, key=lambda each: (abs(Fraction(float(each)) - number), int(each.view(np.uint16)) & 1))


def test_fma_of_float16_is_rounded_once(lacking: vc.Runtime) -> None:
    if "float16" not in target.target_of(lacking).missing_types:
        pytest.skip("the device rounds")
    rng = np.random.default_rng(4)
    x, y = (np.ldexp(rng.integers(1024, 2048, 20_000), -10).astype(np.float16) for _ in range(2))
    product = x.astype(np.float64) * y
    tops = np.ldexp(1.0 + rng.integers(0, 1024, x.size) / 1024, rng.integers(-3, 15, x.size))
    z = (tops * rng.choice([-1, 1], x.size)).astype(np.float16)
    z[::3] = -product.astype(np.float16)[::3]  # the sums are the last bits of the product
    out = lacking.zeros(x.size, np.float16)
    multiply_and_add(*map(lacking.array, (x, y, z)), out)
    rows = zip(x, y, z, strict=True)
    expected = [nearest_half(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in rows]
    np.testing.assert_array_equal(out.numpy(), np.array(expected))


# -- integers ---------------------------------------------------------------------------------------------------------

OPERATIONS = [
    "x + y", "x - y", "x * y", "x // (y | 1)", "x % (y | 1)", "x & y", "x | y", "x ^ y", "~x ^ y", "-x + y",
    "abs(x) + y", "x << (y & 7)", "x >> (y & 7)", "x < y", "x == y", "(x + y) // 2 - x", "(x * y) >> 3",
]  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("expression", OPERATIONS)
def test_integers_wrap(lacking: vc.Runtime, expression: str, dtype: str) -> None:
    x, y = (random_bits(4099, dtype, seed) for seed in (5, 6))
    limits = np.iinfo(dtype)
    pairs = [*itertools.product((limits.min, limits.min + 1, 0, 1, limits.max), repeat=2)]
    x[: len(pairs)], y[: len(pairs)] = np.array(pairs, dtype).T
    if expression.startswith("x //"):  # the quotient of the least number and -1 is out of range
        x[(x == limits.min) & ((y | 1) == -1)] = 0
    with np.errstate(all="ignore"):
        expected = eval(expression, {"x": x, "y": y, "abs": abs})
    equal(vc.elementwise(expression)(lacking.array(x), lacking.array(y)).numpy(), expected)


@pytest.mark.parametrize("to", [*ALL, "int32", "float32", "bool"])
@pytest.mark.parametrize("dtype", [*ALL, "int32", "float32", "bool"])
def test_conversions_between_all_types(lacking: vc.Runtime, dtype: str, to: str) -> None:
    numbers = np.arange(-300, 300) if np.dtype(dtype).kind in "if" else np.arange(600)
    if np.dtype(dtype).kind == "f" and np.dtype(to).kind in "iu":  # others are undefined
        limits = np.iinfo(to)
        numbers = np.clip(numbers / 2, limits.min, limits.max)
    x = numbers.astype(dtype)
    equal(lacking.array(x).astype(to).numpy(), x.astype(to))


# -- memory -----------------------------------------------------------------------------------------------------------


@vc.kernel
def scatter(x, out, step):
    i = vc.global_id(0)
    if i < out.size:
        out[i * step % out.size] = x[i]


@pytest.mark.parametrize("dtype", ALL)
@settings(max_examples=10)
@given(n=st.integers(1, 300), start=st.integers(0, 9), step=st.integers(1, 50), seed=st.integers(0, 99))
def test_stores_leave_the_other_numbers_of_a_word(
    lacking: vc.Runtime, dtype: str, n: int, start: int, step: int, seed: int
) -> None:
    x = random_bits(n, dtype, seed)
    expected = random_bits(n + start + 7, dtype, seed + 1)
    base = lacking.array(expected)
    step = step if np.gcd(step, n) == 1 else 1
    scatter(lacking.array(x), base[start : start + n], step)
    expected[start : start + n][np.arange(n) * step % n] = x
    np.testing.assert_array_equal(base.numpy().view(np.uint8), expected.view(np.uint8))
    base[start : start + n : 3] = x[: -(-n // 3)]
    expected[start : start + n : 3] = x[: -(-n // 3)]
    np.testing.assert_array_equal(base.numpy().view(np.uint8), expected.view(np.uint8))


TABLE = np.int8([3, -4, 100, -128, 127])


@vc.kernel
def of_all_memories(x, out):
    """Uses bytes and halves in a shared array, a private one, a list, a vector and a constant table."""
    shared, mine, several = vc.shared(64, vc.int16), vc.local(4, vc.uint8), [vc.float16(0)] * 5
    i, here = vc.global_id(0), vc.local_id(0)
    shared[here] = x[i % x.size]
    for k in range(4):
        mine[(here + k) % 4] = vc.uint8(here * 70 + k)
    several[here % 5] = vc.float16(x[i % x.size]) / 3
    pair = vc.float16x2(several[here % 5], several[(here + 1) % 5]) * 2
    vc.barrier()
    if i < out.shape[0]:
        out[i, 0] = shared[63 - here]
        out[i, 1] = mine[here % 4]
        out[i, 2] = pair.x + pair.y
        out[i, 3] = TABLE[i % 5]


@pytest.mark.rotates
def test_numbers_in_other_memory(lacking: vc.Runtime) -> None:
    x, expected = random_bits(130, "int16", 7), np.zeros((130, 4), np.float32)
    out = lacking.zeros((130, 4))
    of_all_memories[3, 64](lacking.array(x), out)
    of_all_memories.simulate[3, 64](x, expected)
    np.testing.assert_array_equal(out.numpy(), expected)
    assert len(np.unique(expected)) > 200


@vc.kernel
def over_subgroups(x, out):
    i = vc.global_id(0)
    here = x[i]
    out[0, i] = vc.subgroup.add(here)
    out[1, i] = vc.subgroup.min(here)
    out[2, i] = vc.subgroup.exclusive_add(here)
    out[3, i] = vc.subgroup.inclusive_max(here)
    out[4, i] = vc.subgroup.shuffle_xor(here, 1)
    out[5, i] = vc.subgroup.exclusive_min(here)
    out[6, i] = vc.subgroup.exclusive_max(here)


@pytest.mark.parametrize("dtype", ALL)
def test_subgroups(lacking: vc.Runtime, dtype: str) -> None:
    if not {"arithmetic", "shuffle"} <= {*lacking.device.physical.subgroup_operations}:
        pytest.skip("the device has no arithmetic or shuffle of subgroups")
    size = lacking.device.physical.subgroup_size
    x = random_bits(64, "int8", 8).astype(dtype)
    out = lacking.zeros((7, 64), dtype)
    over_subgroups[1, 64](lacking.array(x), out)
    rows = x.reshape(-1, size)
    sums = np.cumsum(rows, axis=1, dtype=dtype)
    least, most = (-np.inf, np.inf) if rows.dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    expected = (
        np.repeat(sums[:, -1:], size, 1),
        np.repeat(rows.min(1, keepdims=True), size, 1),
        sums - rows,
        np.maximum.accumulate(rows, axis=1),
        rows.reshape(-1, size // 2, 2)[:, :, ::-1].reshape(rows.shape),
        np.concatenate([np.full_like(rows[:, :1], most), np.minimum.accumulate(rows[:, :-1], axis=1)], axis=1),
        np.concatenate([np.full_like(rows[:, :1], least), np.maximum.accumulate(rows[:, :-1], axis=1)], axis=1),
    )
    for result, each in zip(out.numpy(), expected, strict=True):
        equal(result, each.ravel().astype(dtype))


@vc.kernel
def change(x, bins, old):
    """Combines elements with those of a few neighbours, in a buffer and in a shared array."""
    shared = vc.shared((6, 5), x.dtype)
    i, here = vc.global_id(0), vc.local_id(0)
    if here < 30:
        shared[here // 5, here % 5] = x.dtype.type(0)
    vc.barrier()
    if i < x.size:
        at = i % 5
        vc.atomic.add(bins, (0, at), x[i])
        vc.atomic.min(bins, (1, at), x[i])
        vc.atomic.max(bins, (2, at), x[i])
        old[i] = vc.atomic.exchange(bins, (3, at), x[i])
        vc.atomic.add(shared, (0, at), x[i])
        vc.atomic.max(shared, (1, at), x[i])
    vc.barrier()
    if here < 5:
        vc.atomic.add(bins, (4, here), shared[0, here])
        vc.atomic.max(bins, (5, here), shared[1, here])


@pytest.mark.parametrize("dtype", ALL)
def test_atomic_operations(lacking: vc.Runtime, dtype: str) -> None:
    x = np.random.default_rng(10).integers(0, 6, 205).astype(dtype)
    before = np.arange(30).reshape(6, 5).astype(dtype)
    base = np.full(33, 77, dtype)
    base[2:32] = before.ravel()
    whole = lacking.array(base)
    old = lacking.zeros(205, dtype)
    change[4, 64](lacking.array(x), whole[2:32].reshape(6, 5), old)
    columns = x.reshape(-1, 5)
    assert whole.numpy()[:2].tolist() == [77, 77]
    assert whole.numpy()[32:].tolist() == [77]
    result = whole.numpy()[2:32].reshape(6, 5)
    equal(result[0], before[0] + columns.sum(0, dtype=dtype))
    equal(result[1], np.minimum(before[1], columns.min(0)))
    equal(result[2], np.maximum(before[2], columns.max(0)))
    equal(result[4], before[4] + columns.sum(0, dtype=dtype))
    equal(result[5], np.maximum(before[5], columns.max(0)))
    for at in range(5):  # each number replaces another: those that were there, and the first one
        left = [*old.numpy()[at::5], result[3, at]]
        assert sorted(left) == sorted([before[3, at], *columns[:, at]])


@vc.kernel
def change_bits(x, bins):
    i = vc.global_id(0)
    if i < x.size:
        at = i % 3
        vc.atomic.and_(bins, at, x[i] | 3)
        vc.atomic.or_(bins, 3 + at, x[i] & 28)
        vc.atomic.xor(bins, 6 + at, x[i])
        here = bins[9]
        seen = vc.atomic.compare_exchange(bins, 9, here, here + 1)
        while seen != here:
            here = seen
            seen = vc.atomic.compare_exchange(bins, 9, here, here + 1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_atomic_operations_on_bits(lacking: vc.Runtime, dtype: str) -> None:
    x = random_bits(300, dtype, 11)
    bins = lacking.array(np.repeat([-1, 0, 0, 0], [3, 3, 3, 1]).astype("i4").astype(dtype))
    change_bits[5, 64](lacking.array(x), bins)
    columns = x.reshape(-1, 3)
    expected = [
        *np.bitwise_and.reduce(columns | np.array(3, dtype)),
        *np.bitwise_or.reduce(columns & np.array(28, dtype)),
        *np.bitwise_xor.reduce(columns),
        np.array(300).astype(dtype),
    ]
    equal(bins.numpy(), np.array(expected, dtype))


# -- arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ALL)
def test_functions_of_arrays(lacking: vc.Runtime, dtype: str) -> None:
    host = np.random.default_rng(9).integers(0, 100, (37, 53)).astype(dtype)
    x = lacking.array(host)
    equal(vnp.sort(x, axis=0).numpy(), np.sort(host, axis=0))
    equal(
        vnp.argsort(x, axis=1, kind="stable").astype(np.int32).numpy(), np.argsort(host, 1, kind="stable").astype("i4")
    )
    equal(vnp.max(x, axis=1).numpy(), np.max(host, axis=1))
    equal(vnp.unique(x).numpy(), np.unique(host))
    equal(vnp.where(x > 50, x, x.T[:1, :1]).numpy(), np.where(host > 50, host, host.T[:1, :1]))
    few = x[0] // 50  # the sums are exact, in any order
    equal(vnp.cumsum(few, dtype=dtype).numpy(), np.cumsum(host[0] // 50, dtype=dtype))
    equal(vnp.take(x, lacking.array(np.int32([3, 0, 36])), axis=0).numpy(), host[[3, 0, 36]])
    equal(vnp.concat([x[1:4], x[:, :]]).numpy(), np.concat([host[1:4], host]))
    equal(vnp.matmul(x[:, :5], x.T[:5] // 50).numpy(), np.matmul(host[:, :5], host.T[:5] // 50))
    assert int(vnp.sum(x, dtype=np.int32)) == host.sum(dtype=np.int32)
