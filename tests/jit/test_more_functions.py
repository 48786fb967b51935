"""The functions of math and numpy that are made of others or of a number's bits: to the bit what the host gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_float_functions import errors, special, spread

import vkcompute as vc

Array = np.ndarray[Any, Any]
N = 512


def each(function: Callable[..., Any], x: Array, y: Array) -> Array:
    """Of numbers of the host, one by one; NaN where Python raises."""

    def one(a: float, b: float) -> Any:
        try:
            return function(a, b)
        except ValueError:
            return math.nan

    return np.array([one(float(a), float(b)) for a, b in zip(x, y, strict=True)])


def unit(x: Array) -> Array:
    """The distance of a number's size from the next one, of the last from the one before."""
    last = abs(x) == np.finfo(x.dtype).max
    return np.where(np.isinf(x), abs(x), np.spacing(np.where(last, abs(x) / 2, abs(x))) * (1 + last)).astype(x.dtype)


OF_ONE = {
    np.signbit: np.signbit, np.frexp: np.frexp, math.frexp: np.frexp, np.modf: np.modf, math.modf: np.modf,
    math.ulp: unit, np.spacing: np.spacing, np.fix: np.trunc,
    np.rad2deg: np.rad2deg, np.deg2rad: np.deg2rad, np.positive: np.positive, np.reciprocal: np.reciprocal,
    np.sign: np.sign, np.fabs: np.fabs, math.fabs: np.fabs,
}  # fmt: skip
OF_TWO = {
    math.copysign: np.copysign, np.nextafter: np.nextafter, math.nextafter: np.nextafter,
    np.heaviside: np.heaviside, np.fmin: np.fmin, np.fmax: np.fmax, np.isclose: np.isclose,
    np.maximum: np.maximum, np.minimum: np.minimum,
    math.remainder: lambda x, y: each(math.remainder, x, y), math.isclose: lambda x, y: each(math.isclose, x, y),
}  # fmt: skip
EITHER_ZERO = {np.fmin, np.fmax, np.minimum, np.maximum, np.sign}
APPROXIMATE = {np.rad2deg, np.deg2rad, np.reciprocal}


def run(gpu: Any, called: Any, *args: Array) -> list[Array]:
    """One or two results of numbers: on the device, or simulated."""

    def of_one(x: Any, y: Any, first: Any, second: Any) -> None:
        i = vc.global_id(0)
        if i < x.size:
            result = called(x[i])
            if pair:
                first[i], second[i] = result
            else:
                first[i] = result

    def of_two(x: Any, y: Any, first: Any, second: Any) -> None:
        i = vc.global_id(0)
        if i < x.size:
            first[i] = called(x[i], y[i])

    pair = called in (np.frexp, math.frexp, np.modf, math.modf)
    out = [gpu.zeros(len(args[0]), args[0].dtype) for _ in range(2)]
    try:
        vc.kernel(of_two if len(args) == 2 else of_one)(gpu.array(args[0]), gpu.array(args[-1]), *out)
        return [each.numpy() for each in out][: 1 + pair]
    except vc.MissingFeature:
        pytest.skip("the device has no such type")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def normal(x: Array) -> Array:
    """Without the numbers for which a device may take 0."""
    return np.where(abs(x) < np.finfo(x.dtype).tiny, x * 0, x)


def arguments(dtype: Any, n_arguments: int) -> list[Array]:
    near = np.random.default_rng(5).uniform(-8, 8, (2, N)).astype(dtype)
    if n_arguments == 1:
        return [np.concatenate([near[0], np.rint(near[0]), spread(dtype, N, 6), special(dtype)])]
    grid = np.meshgrid(special(dtype), special(dtype))
    wide = [spread(dtype, 2 * N, 7 + k)[:N] for k in range(2)]
    ties = np.rint(near[0]) * 0.5 * np.rint(near[1]), np.rint(near[1])
    alike = near[0] * np.array([1, 1 + 1e-6], dtype).repeat(N // 2)
    return [np.concatenate([near[k], wide[k], grid[k].ravel(), ties[k], (near[0], alike)[k]]) for k in range(2)]


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("function", [*OF_ONE, *OF_TWO], ids=lambda each: f"{each.__name__}{type(each).__name__[:1]}")
def test_functions_of_bits_are_exact(gpu: Any, function: Any, dtype: str) -> None:
    n, kind = 1 + (function in OF_TWO), np.dtype(dtype).type
    # Simulated, the same functions are called: fewer numbers show whether each operation is simulated right.
    args = [x[:: 1 if isinstance(gpu, vc.Runtime) else 31].copy() for x in arguments(kind, n)]
    expected = (OF_ONE if n == 1 else OF_TWO)[function](*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    if expected[0].dtype == np.float16 and function in (np.nextafter, math.nextafter):
        expected = (np.where(args[0] == args[1], args[1], expected[0]),)  # NumPy before 2.5 has the first one there
    for result, exact in zip(run(gpu, function, *args), expected, strict=True):
        right = np.asarray(exact).astype(kind)
        if function in APPROXIMATE:
            ulp = 4 if dtype == "float16" else 3
            np.testing.assert_array_max_ulp(normal(result), normal(right), ulp)
            continue
        if function not in (np.nextafter, math.nextafter, math.ulp, np.spacing):
            result, right = normal(result), normal(right)
        np.testing.assert_array_equal(result, right)
        number = ~np.isnan(right) & ((right != 0) | ((function not in EITHER_ZERO) & (np.asarray(exact) == 0)))
        np.testing.assert_array_equal(np.signbit(result[number]), np.signbit(right[number]))


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_of_two_are_exact(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def scaled(x, n, out, again):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[i] = math.ldexp(x[i], n[i])
        m, e = np.frexp(x[i])
        again[i] = np.ldexp(m, e)

    tiny = np.finfo(dtype).tiny * np.random.default_rng(1).uniform(2, 4, 32).astype(dtype)
    tiled = np.tile(special(np.dtype(dtype).type), 8 if isinstance(gpu, vc.Runtime) else 1)
    x = np.concatenate([tiny, tiled]).astype(dtype)
    n = np.random.default_rng(0).integers(-1100, 1100, len(x)).astype(np.int32)
    n[::2] //= {"float16": 50, "float32": 5, "float64": 1}[dtype]
    n[:32] = -1  # after which they are the smallest that a device may not take for 0
    n[-4:] = 2**31 - 1, -(2**31), 0, 1
    out, again = (gpu.zeros(len(x), dtype) for _ in range(2))
    try:
        scaled[len(x), 1](gpu.array(x), gpu.array(n), out, again)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    np.testing.assert_array_equal(normal(out.numpy()), normal(np.ldexp(x, n)))
    np.testing.assert_array_equal(again.numpy(), x)


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_functions_of_integers_are_numpys(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, y, out, sizes):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[0, i] = np.fmod(x[i], y[i])
        out[1, i] = np.reciprocal(y[i])
        out[2, i] = np.maximum(x[i], y[i])
        out[3, i] = np.clip(x[i], 3, y[i])
        out[4, i] = np.sign(x[i])
        sizes[0, i] = np.fabs(x[i])
        sizes[1, i] = math.fmod(x[i], y[i] % 8 + 9)
        sizes[2, i] = np.ldexp(1.5, y[i])

    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    x, y = (random.integers(limits.min, limits.max, 64, dtype, endpoint=True) for _ in range(2))
    x[:4], y[:4] = [limits.min, limits.max, 7, 0], [1, 7, 3, 2]
    x, y = (np.where(limits.bits > 16, each // 2 ** (limits.bits - 20), each).astype(dtype) for each in (x, y))
    y[y == 0] = 1
    x[4], y[4:8] = min(limits.max, 16777217), [10, min(limits.max, 200), limits.max, limits.max]
    if limits.min < 0:
        y[6] = -1
    out, sizes = gpu.zeros((5, 64), dtype), gpu.zeros((3, 64), np.float32)
    try:
        kernel[64, 1](gpu.array(x), gpu.array(y), out, sizes)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    exact = [np.fmod(x, y), np.reciprocal(y), np.maximum(x, y), np.clip(x, 3, y), np.sign(x)]
    np.testing.assert_array_equal(out.numpy(), exact)
    real = np.float64 if limits.bits == 64 else np.float32  # in which integers of this type are divided
    divided = np.fmod(x.astype(real), (y % 8 + 9).astype(real))
    np.testing.assert_array_equal(sizes.numpy()[:2], np.array([np.fabs(x), divided], np.float32))
    few = np.array([min(max(n, -300), 300) for n in y.tolist()])
    np.testing.assert_array_equal(normal(sizes.numpy()[2]), normal(np.ldexp(np.float32(1.5), few)))


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_limits_keep_nan(gpu: Any) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[i] = np.clip(x[i], 0, 1)

    out = gpu.zeros(4)
    kernel[4, 1](gpu.array(np.array([math.nan, -2, 0.25, 7], np.float32)), out)
    np.testing.assert_array_equal(out.numpy(), [math.nan, 0, 0.25, 1])


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint8"])
def test_divisors_and_roots_of_integers(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, y, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[0, i] = math.gcd(x[i], y[i])
        out[1, i] = np.lcm(x[i] % 15, y[i] % 15)
        out[2, i] = math.isqrt(abs(x[i] // 2))
        out[3, i] = math.gcd(x[i], y[i], 12)

    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    x, y = (random.integers(limits.min + 1, limits.max, 64, dtype, endpoint=True) for _ in range(2))
    x[:6], y[:6] = [0, 0, 12, limits.max, limits.min + 1, 64], [0, 5, 18, limits.max, 9, 48]
    out = gpu.zeros((4, 64), dtype)
    try:
        kernel[64, 1](gpu.array(x), gpu.array(y), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    roots = [math.isqrt(abs(n // 2)) for n in x.tolist()]
    exact = [np.gcd(x, y), np.lcm(x % 15, y % 15), roots, np.gcd(np.gcd(x, y), np.array(12, dtype))]
    np.testing.assert_array_equal(out.numpy(), np.array(exact).astype(dtype))


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
def test_functions_made_of_others(gpu: Any) -> None:
    @vc.kernel
    def kernel(x, y, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        a, b = x[i], y[i]
        out[0, i] = np.logaddexp(a, b)
        out[1, i] = np.logaddexp2(a, b)
        out[2, i] = np.sinc(a)
        out[3, i] = math.hypot(a, b, 2) + math.dist((a, b), (1, 2)) + math.dist(vc.float32x3(a), vc.float32x3(b))
        out[4, i] = math.prod((a, b, 3)) + math.hypot(a)
        out[5, i] = math.isclose(a, b, rel_tol=0.5) + 2 * np.isclose(a, b, atol=4, rtol=0)
        whole, parts = np.frexp(vc.float32x2(a, b))[1] + 0, np.modf(vc.float32x2(a, b))
        out[6, i] = whole.x + whole.y + parts[0].x * 2 + parts[1].y
        out[7, i] = math.frexp(8.0)[0] * a + np.modf(-2.5)[0] * np.frexp(9)[1] + math.ldexp(1, 3)

    x, y = np.random.default_rng(0).uniform(-8, 8, (2, 64)).astype(np.float32)
    y[:8] = x[:8]
    out = gpu.zeros((8, 64))
    kernel[64, 1](gpu.array(x), gpu.array(y), out)
    a, b = x.astype(float), y.astype(float)
    close = each(lambda p, q: math.isclose(p, q, rel_tol=0.5), a, b) + 2 * np.isclose(a, b, atol=4, rtol=0)
    roots = np.sqrt(a * a + b * b + 4) + np.hypot(a - 1, b - 2) + np.sqrt(3) * abs(a - b)
    others = np.frexp(a)[1] + np.frexp(b)[1] + np.modf(a)[0] * 2 + np.modf(b)[1], 0.5 * a - 2 + 8
    exact = [np.logaddexp(a, b), np.logaddexp2(a, b), np.sinc(a), roots, a * b * 3 + abs(a), close, *others]
    np.testing.assert_allclose(out.numpy(), exact, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding_to_digits_is_numpys(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[0, i] = round(x[i], 2)
        out[1, i] = np.round(x[i], 1)
        out[2, i] = np.around(x[i], decimals=-2)
        out[3, i] = np.round(x[i])
        out[4, i] = round(x[i], 0)
        out[5, i] = round(x[i], 400)

    near = np.random.default_rng(0).uniform(-500, 500, 64)
    x = np.concatenate([near, np.rint(near) / 8, [0.0, -0.0, 0.125, 2.5, -0.5, 65504, math.inf, -math.inf, math.nan]])
    x = x.astype(dtype)
    out = gpu.zeros((6, x.size), dtype)
    try:
        kernel[x.size, 1](gpu.array(x), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    exact = [np.round(x, 2), np.round(x, 1), np.round(x, -2), np.rint(x), np.rint(x), x]
    exact[0], exact[1] = (np.where(np.isinf(each), x, each) for each in exact[:2])  # numpy's product overflows
    np.testing.assert_array_equal(out.numpy(), exact)


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
def test_rounding_integers_to_tens(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[0, i] = round(x[i], -1)
        out[1, i] = round(x[i], 3)
        out[2, i] = round(x[i], -2)
        out[3, i] = round(x[i])

    limits = np.iinfo(dtype)
    x = np.arange(max(limits.min + 10, -300), min(limits.max - 30, 300)).astype(dtype)
    out = gpu.zeros((4, x.size), dtype)
    try:
        kernel[x.size, 1](gpu.array(x), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    exact = [[round(each, digits) for each in x.tolist()] for digits in (-1, 0, -2, 0)]
    np.testing.assert_array_equal(out.numpy(), np.array(exact).astype(dtype))


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_to_a_base(gpu: Any, dtype: str) -> None:
    @vc.kernel
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        out[0, i] = math.log(x[i], 2)
        out[1, i] = math.log(x[i], 10.0)
        out[2, i] = math.log(x[i], 7)
        out[3, i] = math.log(x[i], x[0]) + math.log(9, 3)
        out[4, i] = math.log(i + 2, 0.5)

    x = np.concatenate([[3.0, 8.0, 1000.0], spread(np.dtype(dtype).type, 64, 3)])
    x = x[np.isfinite(x) & (x >= np.finfo(dtype).tiny)].astype(dtype)
    out = gpu.zeros((5, x.size), dtype)
    try:
        kernel[x.size, 1](gpu.array(x), out)
    except vc.MissingFeature:
        pytest.skip("the device has no such type")
    n, logs = np.arange(2, x.size + 2), np.log(x.astype(np.longdouble))
    exact = [logs / np.log(np.longdouble(base)) for base in (2, 10, 7)]
    exact += [logs / np.log(np.longdouble(3)) + 2, np.log(n) / math.log(0.5)]
    np.testing.assert_allclose(out.numpy(), np.array(exact), rtol=6 * np.finfo(dtype).eps)
    assert out.numpy()[0, 1] == 3


@pytest.mark.pure
def test_bases_and_digits_are_checked() -> None:
    @vc.kernel
    def kernel(x, n, out):  # type: ignore[no-untyped-def]
        out[0] = made(x[0], n)

    for made, message in (
        (lambda x, n: math.log(x, 1), "the base of a logarithm is positive and not 1; got 1"),
        (lambda x, n: math.log(x, -2.0), "the base of a logarithm is positive and not 1; got -2.0"),
        (lambda x, n: math.log(2, 1), "log: "),
        (lambda x, n: round(x, n), "the digits of round are an int, known at compile time"),
        (lambda x, n: round(x, 1.5), "the digits of round are an int, known at compile time"),
        (lambda x, n: round(x > 1, 1), "round takes numbers; got bool"),
        (lambda x, n: round(n, -10), "int32 has no multiples of 10000000000"),
    ):
        with pytest.raises(vc.KernelError, match=message):
            kernel.simulate(np.zeros(1, np.float32), 3, np.zeros(1, np.float32))


@pytest.mark.pure
@pytest.mark.parametrize("function", [math.comb, math.perm, math.factorial, math.fsum, math.gcd, math.dist, math.isqrt])
def test_what_kernels_have_not_says_what_to_write(function: Any) -> None:
    @vc.kernel
    def kernel(out):  # type: ignore[no-untyped-def]
        if function in (math.gcd, math.comb, math.perm):
            out[0] = function(out[0], 2)
        elif function in (math.dist,):
            out[0] = function((1, 2), (out[0], 2, 3))
        else:
            out[0] = function(out[0])

    remedy = {
        math.fsum: "write sum", math.gcd: "takes integers", math.isqrt: "takes integers", math.dist: "the same length",
    }.get(function, "table in an array")  # fmt: skip
    with pytest.raises(vc.KernelError, match=remedy):
        kernel.simulate(np.zeros(3, np.float32))


BOUNDS = {"erf": (2, 2), "erfc": (5, 4), "gamma": (8, 7), "lgamma": (5, 5)}  # ulp, of float32 and of float64


def of_integrals(name: str, dtype: Any) -> Array:
    """Where the functions change, far out, near the poles, and where float32 is the furthest off."""
    random, n = np.random.default_rng(9), 1500
    most = {"erf": 7, "erfc": 10 if dtype == np.float32 else 26, "gamma": 35 if dtype == np.float32 else 171}
    near = [random.uniform(-7, most.get(name, 100), n), random.uniform(-2, 9, n), random.uniform(0.2, 3.2, n)]
    poles = np.add.outer(-np.arange(45.0), [1e-3, -1e-3, 2.0**-16, 0]).ravel()
    worst = [0.9954118, 0.5043004, -7.266968, 1.2523643]
    return np.concatenate([worst, *near, poles, spread(dtype, n, 1), special(dtype)]).astype(dtype)


def on_host(name: str, x: float) -> float:
    """Of math, with numbers where it raises."""
    try:
        return float(getattr(math, name)(x))
    except (OverflowError, ValueError):
        return math.nan if name == "gamma" and x < 0 and x == np.floor(x) else math.copysign(math.inf, x)


@pytest.mark.parametrize("gpu", ["device", "simulated"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", BOUNDS)
def test_integrals_are_right_to_few_ulp(gpu: Any, name: str, dtype: str) -> None:
    """Of float64, too, but math's own are wrong by up to as much (gamma and lgamma by more)."""
    kind = np.dtype(dtype).type
    x = of_integrals(name, kind)[:: 1 if isinstance(gpu, vc.Runtime) else 5].copy()
    [result] = run(gpu, getattr(math, name), x)
    exact = np.array([on_host(name, each) for each in x.tolist()])
    if name == "lgamma":
        exact = np.where(np.isinf(exact), math.inf, exact)
    error = errors(result, exact)
    if name == "lgamma":  # near its zeros among negative numbers it is right to so much of 1; near 1 math's own is
        near_one = (x == 1 + np.finfo(kind).eps) & (dtype != "float16") & isinstance(gpu, vc.Runtime)
        np.testing.assert_allclose(result[near_one], -np.euler_gamma * np.finfo(kind).eps, 1e-6)
        error = np.where(
            ((x < 0) | (dtype == "float64")) & (abs(exact) < 1), abs(result - exact) / np.finfo(kind).eps, error
        )
    bound = BOUNDS[name][0] if dtype != "float64" else BOUNDS[name][1] + (10 if "gamma" in name else 1)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]}) gave {result[worst]}, not {exact[worst]}: {error[worst]:.1f} ulp"
    zero = (exact == 0) & (result == 0) & (x == 0)
    assert np.array_equal(np.signbit(result[zero]), np.signbit(exact[zero]))
