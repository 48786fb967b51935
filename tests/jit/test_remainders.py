"""// and % of floats, and fmod: to the bit what numpy has, whose algorithm is fmod's exact remainder."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "ir"))
import interpreter
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runtimes import computes_by_words
from test_loops import limit_to

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.float_remainders import expand_float_remainders

FLOATS = np.float16, np.float32, np.float64
Array = np.ndarray[Any, Any]


@vc.kernel
def divided(quotient, modulo, rest, x, y):
    i = vc.global_id(0)
    if i < x.size:
        quotient[i], modulo[i] = divmod(x[i], y[i])
        rest[i] = np.fmod(x[i], y[i])


def of_numpy(x: Any, y: Any) -> list[Array]:
    with np.errstate(all="ignore"):
        return [np.floor_divide(x, y), np.remainder(x, y), np.fmod(x, y)]


def bits_of(x: Array) -> Array:
    """The bits, of all nans the same."""
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x).view(f"u{x.itemsize}")


def agree(gpu: Any, x: Array, y: Array) -> None:
    """Compares with numpy; of a device that takes subnormal numbers for zero, only fmod is exact for them."""
    results = [gpu.empty(x.shape, x.dtype) for _ in range(3)]
    try:
        divided(*results, gpu.array(x), gpu.array(y))
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    expected = of_numpy(x, y)
    least, keeps = np.finfo(x.dtype).tiny, not isinstance(gpu, vc.Runtime) or keeps_subnormals(gpu, x.dtype)
    for n, (mine, its) in enumerate(zip(results, expected, strict=True)):
        compared = np.ones(x.shape, bool)
        for each in (x, y, expected[2], its) if n < 2 and not keeps else ():
            compared &= ~((each != 0) & (np.abs(each) < least))
        wrong = np.flatnonzero((bits_of(mine.numpy()) != bits_of(its)) & compared)
        assert not wrong.size, (n, [(x[k], y[k], its[k], mine.numpy()[k]) for k in wrong[:5]])


@vc.vectorize
def half(x):
    return x * vc.float16(0.5)


def keeps_subnormals(gpu: vc.Runtime, kind: Any) -> bool:
    return bool(half(gpu.full(1, np.finfo(kind).tiny, kind)).numpy()[0])


def special(kind: Any) -> tuple[Array, Array]:
    limits = np.finfo(kind)
    some = [0, 1, 0.1, 3, 7.5, np.inf, np.nan, limits.max, limits.tiny, limits.tiny / 2, limits.smallest_subnormal]
    some += [np.nextafter(kind(1), kind(2)), np.nextafter(kind(1), kind(0))]
    numbers = np.array([*some, *[-x for x in some]], kind)
    return np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)


@pytest.mark.parametrize("kind", FLOATS)
def test_zeros_infinities_nans_and_the_ends_of_the_range(gpu: Any, kind: Any) -> None:
    agree(gpu, *special(kind))


@pytest.mark.parametrize("kind", FLOATS)
@given(data=st.data())
def test_any_bits(gpu: Any, kind: Any, data: st.DataObject) -> None:
    word = f"u{kind(0).itemsize}"
    x, y = (data.draw(hnp.arrays(word, 16)).view(kind) for _ in range(2))
    agree(gpu, x, y)


@pytest.mark.parametrize("kind", FLOATS)
@given(seed=st.integers(0, 2**32), aside=st.integers(-1, 1), most=st.sampled_from([3, 100, 2**11, 2**24, 2**40]))
def test_next_to_multiples(gpu: Any, kind: Any, seed: int, aside: int, most: int) -> None:
    """Where the quotient that is rounded is not on the side of a whole number on which the exact one is."""
    data = np.random.default_rng(seed)
    y = (data.standard_normal(16) * 2.0 ** data.integers(-9, 10, 16)).astype(kind)
    with np.errstate(all="ignore"):
        x = (data.integers(-most, most, 16) * y.astype(np.float64)).astype(kind)
        x = np.nextafter(x, (aside * np.inf * np.sign(data.standard_normal(16))).astype(kind)) if aside else x
    agree(gpu, x, y)


@pytest.mark.rotates
@pytest.mark.device_only
@pytest.mark.parametrize("kind", FLOATS)
def test_a_million(gpu: Any, kind: Any) -> None:
    """Of float16 every number, by divisors of every exponent."""
    data, word = np.random.default_rng(), f"u{kind(0).itemsize}"
    if kind is np.float16:
        divisors = (np.arange(32) << 10 | data.integers(0, 1 << 10, 32)).astype(np.uint16)
        x, y = np.repeat(np.arange(1 << 16, dtype=np.uint16), 32), np.tile(divisors, 1 << 16)
    else:
        n = 1 << (16 if computes_by_words(gpu, np.dtype(kind).name) else 20)  # by words, a remainder takes 10 us
        x, y = (data.integers(0, np.iinfo(word).max, n, word, endpoint=True) for _ in range(2))
    agree(gpu, x.view(kind), y.view(kind))


ONE, TENTH, HUGE = np.float32(1), np.float32(0.1), np.float32(1e38)


@vc.kernel
def constant(out):
    if vc.global_id(0) == 0:
        out[0] = ONE // TENTH
        out[1] = ONE % TENTH
        out[2] = HUGE % 3
        out[3] = np.fmod(-HUGE, np.float32(3))
        out[4] = 1.0 // 0.1
        out[5] = np.floor_divide(-ONE, np.inf)
        out[6] = np.remainder(-0.0, ONE)
        out[7] = math.fmod(HUGE, TENTH)


def test_constants(gpu: Any) -> None:
    out = gpu.zeros(8, np.float32)
    constant(out)
    expected = [ONE // TENTH, ONE % TENTH, HUGE % np.float32(3), np.fmod(-HUGE, np.float32(3)), 9, -1, 0]
    expected += [np.fmod(HUGE, TENTH)]
    np.testing.assert_array_equal(bits_of(out.numpy()), bits_of(np.array(expected, np.float32)))


@vc.kernel
def walk(out, x, y, n):
    i = vc.global_id(0)
    z = x[i]
    for _ in range(n):
        z = z * z % y[i] + x[i]
    out[i] = z // 1


def walked(x: Array, y: Array, n: int) -> Array:
    z = x
    for _ in range(n):
        z = np.remainder(z * z, y) + x
    return np.floor_divide(z, np.float32(1))


@pytest.mark.device_only
@pytest.mark.parametrize("records", [False, True])
def test_their_loops_are_watched_where_a_driver_cuts_loops(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, records: bool
) -> None:
    n, x = 200, np.linspace(1, 2, 64, dtype=np.float32)
    y = np.where(np.arange(64) % 2, 1e-6, 3).astype(np.float32)  # the squares of half of them take two iterations
    out, arrays = gpu.zeros(64), [gpu.array(x), gpu.array(y)]
    try:
        limit_to(gpu, monkeypatch, 1000)
        if records:
            with gpu.record() as graph:
                walk(out, *arrays, n)
            graph.run()
        else:
            walk(out, *arrays, n)
        result = out.numpy()
    finally:
        gpu._kernels.clear()
    np.testing.assert_array_equal(result, walked(x, y, n))


@pytest.mark.pure
@pytest.mark.parametrize("kind", [ir.FLOAT16, ir.FLOAT32, ir.FLOAT64])
@given(seed=st.integers(0, 2**32))
@example(seed=0)
def test_the_bound_of_their_passes(kind: ir.Scalar, seed: int) -> None:
    """Operations that are put in place of a remainder, run by numpy: what they find, and in how many passes."""
    function = ir.Function("rest", (1, 1, 1))
    b = ir.Builder(function)
    me = b.builtin("global_id")
    x, y, out = (function.buffer(name, kind) for name in ("x", "y", "out"))
    b.store(out, me, b.compute("rem", b.load(x, me), b.load(y, me)))
    data, numbers = np.random.default_rng(seed), special(kind.numpy.type)
    places = data.integers(0, numbers[0].size, 8)
    arrays = {"x": numbers[0][places], "y": numbers[1][places]}
    arrays["x"][0], arrays["y"][0] = np.finfo(kind.name).max, np.finfo(kind.name).smallest_subnormal
    arrays["out"] = np.zeros(8, kind.numpy)
    expanded = expand_float_remainders(function)
    with np.errstate(all="ignore"):
        traces = interpreter.run(expanded, arrays, 8, {})
        np.testing.assert_array_equal(bits_of(arrays["out"]), bits_of(np.fmod(arrays["x"], arrays["y"])))
    assert interpreter.iterations_in_step(expanded.body, traces) <= (ir.most_iterations(function, {}) or 0) <= 45


DIVISORS = 1, 2, 3, 7, 64, 100, 127
WORDS = np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64


@vc.kernel
def by_constants(x, quotients, rests):
    i = vc.global_id(0)
    if i < x.size:
        n = x[i]
        quotients[i] = n // 1, n // 2, n // 3, n // 7, n // 64, n // 100, n // 127
        rests[i] = n % 1, n % 2, n % 3, n % 7, n % 64, n % 100, n % 127


@pytest.mark.parametrize("dtype", WORDS)
def test_integers_by_positive_constants_round_down(gpu: vc.Runtime, dtype: Any) -> None:
    """At the ends of the type, around 0, and around the multiples of each divisor."""
    limits = np.iinfo(dtype)
    near = {k * n + d for n in DIVISORS for k in (-2, -1, 0, 1, 2) for d in (-1, 0, 1)}
    values = sorted({limits.min, limits.min + 1, limits.max - 1, limits.max} | near)
    x = np.array([value for value in values if limits.min <= value <= limits.max], dtype)
    results = [gpu.zeros((x.size, len(DIVISORS)), dtype) for _ in range(2)]
    try:
        by_constants[(x.size + 63) // 64, 64](gpu.array(x), *results)
    except vc.MissingFeature:
        pytest.skip(f"the device has no {np.dtype(dtype)}")
    by = np.array(DIVISORS, dtype)
    np.testing.assert_array_equal(results[0].numpy(), x[:, None] // by)
    np.testing.assert_array_equal(results[1].numpy(), x[:, None] % by)
