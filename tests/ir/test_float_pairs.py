"""float64 as pairs of words, to the bit of the host's: on both drivers, for a target that lacks it."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_wide_types import batches, compare, computed

import vkcompute as vc
from vkcompute import ir

HostArray = np.ndarray[Any, Any]
SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, 3.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1 / 3, math.inf, -math.inf, math.nan, 5e-324, -5e-324),
    *(2.0**-1022, 2.225073858507201e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1 + 2.0**-52, 1 - 2.0**-53),
    *(2.0**52, 2.0**53 + 2, 4503599627370497.5, 2.0**62, 1e-300, 2.0**-537, 2.0**511, 3e-310, 0.49999999999999994),
    *(65519.99, 2.0**-149, 2.0**-150, 3.4028235677973366e38, 1e-40),
]
N = 4000


def random_numbers(seed: int) -> HostArray:
    """Numbers of all exponents, half of them near 1, some with few bits."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**64, N, dtype=np.uint64)
    exponents = rng.integers(1023 - 60, 1023 + 60, N).astype(np.uint64) << np.uint64(52)
    bits = np.where(rng.random(N) < 0.5, bits & np.uint64(0x800FFFFFFFFFFFFF) | exponents, bits)
    n_zeros = rng.integers(0, 52, N).astype(np.uint64)
    return np.where(rng.random(N) < 0.3, bits >> n_zeros << n_zeros, bits).view(np.float64)


def pairs() -> tuple[HostArray, HostArray]:
    """Special numbers in pairs, and random ones, of which some almost cancel."""
    rng = np.random.default_rng(0)
    special = np.array([*itertools.product(SPECIAL, SPECIAL)])
    x, y = random_numbers(1), random_numbers(2)
    with np.errstate(all="ignore"):
        near = x * (1 + rng.integers(-4, 5, N) * 2.0**-52) * rng.choice([1, -1], N)
    return np.append(special[:, 0], x), np.append(special[:, 1], np.where(rng.random(N) < 0.2, near, y))


X, Y = pairs()


def bits(x: HostArray) -> HostArray:
    """The bits of numbers, with one NaN."""
    return np.where(np.isnan(x), np.nan, x).view(np.uint64)


@pytest.mark.parametrize(("code", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
                                                ("div", np.divide)])  # fmt: skip
def test_arithmetic_is_the_hosts(gpu: vc.Runtime, code: str, function: Any) -> None:
    (result,) = computed(gpu, [X, Y], [(lambda b, p, q: b.compute(code, p, q), "float64")])
    with np.errstate(all="ignore"):
        compare(bits(result), bits(function(X, Y)), X, Y, what=code)


def test_functions_of_one_number_are_the_hosts(gpu: vc.Runtime) -> None:
    functions = {"sqrt": np.sqrt, "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
                 "trunc": np.trunc, "round": np.rint}  # fmt: skip
    for group in batches(functions.items(), 4):
        builds = [(lambda b, p, code=code: b.compute(code, p), "float64") for code, _ in group]
        with np.errstate(all="ignore"):
            for (code, function), result in zip(group, computed(gpu, [X], builds), strict=True):
                compare(bits(result), bits(function(X)), X, what=code)


def test_comparisons_are_the_hosts(gpu: vc.Runtime) -> None:
    tests = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
             "ge": np.greater_equal}  # fmt: skip
    builds = [(lambda b, p, q, code=code: b.cast(b.compute(code, p, q), ir.UINT32), "uint32") for code in tests]
    for group in batches(zip(tests.items(), builds, strict=True), 3):
        for ((code, function), _), result in zip(
            group, computed(gpu, [X, Y], [item[1] for item in group]), strict=True
        ):
            compare(result, function(X, Y).astype(np.uint32), X, Y, what=code)
    builds = [(lambda b, p, code=code: b.cast(b.compute(code, p), ir.UINT32), "uint32") for code in ("isnan", "isinf")]
    for function, result in zip((np.isnan, np.isinf), computed(gpu, [X], builds), strict=True):
        compare(result, function(X).astype(np.uint32), X, what=function.__name__)


def test_a_fused_multiply_add_is_rounded_once(gpu: vc.Runtime) -> None:
    rng = np.random.default_rng(3)
    x, y, z = X[-2500:], Y[-2500:], random_numbers(4)[:2500]
    with np.errstate(all="ignore"):
        z = np.where(rng.random(len(z)) < 0.4, -x * y * (1 + rng.integers(-3, 4, len(z)) * 2.0**-52), z)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = x[finite], y[finite], z[finite]
    (result,) = computed(gpu, [x, y, z], [(lambda b, p, q, r: b.compute("fma", p, q, r), "float64")])
    expected = [rounded(*row) for row in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]
    compare(bits(result), bits(np.array(expected)), x, y, z, what="fma")


def rounded(x: float, y: float, z: float) -> float:
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if not total:
        return 0.0 if x * y else x * y + z
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def test_conversions_are_the_hosts(gpu: vc.Runtime) -> None:
    with np.errstate(all="ignore"):
        single = X.astype(np.float32)
        (result,) = computed(gpu, [X], [(lambda b, p: b.bitcast(b.cast(p, ir.FLOAT32), ir.UINT32), "uint32")])
        compare(result.view(np.float32), single, X, what="to float32")
        given = single.view(np.uint32)
        (result,) = computed(gpu, [given], [(lambda b, p: b.cast(b.bitcast(p, ir.FLOAT32), ir.FLOAT64), "float64")])
        compare(bits(result), bits(single.astype(np.float64)), single, what="from float32")
        if "shaderFloat16" in gpu.device.features:
            half = X.astype(np.float16).astype(np.float32)
            cast = [(lambda b, p: b.bitcast(b.cast(b.cast(p, ir.FLOAT16), ir.FLOAT32), ir.UINT32), "uint32")]
            (result,) = computed(gpu, [X], cast)
            assert np.array_equal(result.view(np.float32), half, equal_nan=True)
            assert np.array_equal(np.signbit(result.view(np.float32)[half == 0]), np.signbit(half[half == 0]))
        for kind in ("int64", "uint64", "int32", "uint32"):
            limits, scalar = np.iinfo(kind), ir.SCALARS[kind]
            inside = X[(limits.min <= X) & (2.0 ** (limits.bits - (kind[0] == "i")) > X)]
            (result,) = computed(gpu, [inside], [(lambda b, p, to=scalar: b.cast(p, to), kind)])
            compare(result, inside.astype(kind), inside, what=f"to {kind}")
            rng = np.random.default_rng(5)
            whole = rng.integers(limits.min, limits.max, 500, kind, endpoint=True)
            whole >>= rng.integers(0, limits.bits, 500).astype(kind)
            (result,) = computed(gpu, [whole], [(lambda b, p: b.cast(p, ir.FLOAT64), "float64")])
            compare(bits(result), bits(whole.astype(np.float64)), whole, what=f"from {kind}")


PROGRAM = """
import json, numpy as np
import vkcompute as vc, vkcompute.numpy as vnp

@vc.kernel
def orbit(x, out, n: int):
    i = vc.global_id(0)
    if i < len(x):
        z = x[i]
        for _ in range(n):
            z = 3.75 * z * (1.0 - z)
        out[i] = z

h = np.linspace(0.01, 0.99, 100)
x, out = vnp.asarray(h), vnp.zeros(100, np.float64)
orbit(x, out, 30)
z = h
for _ in range(30):
    z = 3.75 * z * (1.0 - z)
print(json.dumps([
    bool(np.array_equal(out.numpy(), z)),
    bool(np.array_equal((x * x - 0.5).numpy(), h * h - 0.5)),
    bool(np.array_equal(vnp.sort(-x).numpy(), np.sort(-h))),
    bool(abs(float(vnp.sum(x)) - h.sum()) < 1e-13),
    bool(np.allclose((x.reshape(10, 10) @ x.reshape(10, 10)).numpy(), h.reshape(10, 10) @ h.reshape(10, 10), 1e-14, 0)),
    bool(np.allclose(vc.nn.softmax(x.reshape(4, 25)).numpy().sum(1), 1, 1e-15, 0)),
    bool(np.array_equal(vc.multiply(h, h), h * h)),
    (x + 1j * x).dtype.name,
    (vnp.arange(3) + vnp.ones(3, np.float32)).dtype.name,
]))
"""
REFUSED = """
import numpy as np
import vkcompute as vc, vkcompute.numpy as vnp

x = vnp.asarray(np.ones(3))
try:
    x + x
except vc.MissingFeature as error:
    print(error)
print((vnp.arange(3) + vnp.ones(3, np.float32)).dtype.name)
"""


def output(program: str, **variables: str) -> str:
    """What a program prints on a device without float64."""
    environment = {**os.environ, "VKCOMPUTE_DISABLE_FEATURES": "shaderFloat64", "VKCOMPUTE_DEVICE": "cpu", **variables}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_and_kernels_of_float64_where_the_device_lacks_it() -> None:
    assert json.loads(output(PROGRAM)) == [*[True] * 7, "complex128", "float64"]


def test_float64_is_refused_on_demand() -> None:
    error, promoted = output(REFUSED, VKCOMPUTE_FLOAT64="refuse").splitlines()
    assert "lacks shaderFloat64" in error
    assert "unset VKCOMPUTE_FLOAT64" in error
    assert promoted == "float32"


@pytest.mark.pure
def test_another_setting_is_refused() -> None:
    command = [sys.executable, "-c", "import vkcompute.dtypes"]
    environment = {**os.environ, "VKCOMPUTE_FLOAT64": "yes"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "VKCOMPUTE_FLOAT64 is emulate or refuse; got 'yes'" in done.stderr
