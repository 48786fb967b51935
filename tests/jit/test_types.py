"""Numbers: what promotes to what, and integer arithmetic to the bit, against numpy."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from host import SimulatedRuntime
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import vkcompute as vc
from vkcompute.ir import FLOAT32, FLOAT64, SCALARS
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.frontend.type_rules import KernelTypes
from vkcompute.jit.frontend.values import Kind

NAMES = sorted(name for name, kind in SCALARS.items() if not isinstance(kind, SmallFloat))
INTEGERS = [name for name in NAMES if "int" in name]


@pytest.mark.pure
@pytest.mark.parametrize("real", [FLOAT32, FLOAT64])
def test_promotion_is_numpys_but_for_float64_of_small_operands(real: Any) -> None:
    for one, other in itertools.product(NAMES, NAMES):
        expected = np.result_type(one, other)
        if expected == np.float64 and "64" not in one + other:
            expected = real.numpy
        assert KernelTypes(real).promoted(Kind(SCALARS[one]), Kind(SCALARS[other])).type.numpy == expected, (one, other)


@pytest.mark.pure
@pytest.mark.parametrize("name", NAMES)
def test_pythons_numbers_are_weak(name: str) -> None:
    """As numpy 2 has them, with its default int and float being int32 and float32 where it finds no other type."""
    rules = KernelTypes(FLOAT32)
    for number in (1, 1.5):
        kind = rules.promoted(Kind(SCALARS[name]), rules.constant(number))
        kept = name != "bool" and (number == 1 or name.startswith("float"))
        expected = name if kept else "float64" if name.endswith("64") else "int32" if number == 1 else "float32"
        assert (kind.type.name, kind.weak) == (expected, False)
    assert rules.promoted(rules.constant(1), rules.constant(1.5)) == Kind(FLOAT32, True)


@vc.kernel
def arithmetic(x, y, shift, out, tests):
    i = vc.global_id(0)
    if i < len(x):
        a, b = x[i], y[i]
        out[i, 0] = a + b
        out[i, 1] = a - b
        out[i, 2] = a * b
        out[i, 3] = a // b
        out[i, 4] = a % b
        out[i, 5] = a << shift[i]
        out[i, 6] = a >> shift[i]
        out[i, 7] = a & b
        out[i, 8] = a | b ^ a
        out[i, 9] = ~a
        out[i, 10] = -a
        out[i, 11] = min(a, b)
        out[i, 12] = max(a, b)
        out[i, 13] = abs(a)
        out[i, 14] = np.sign(b)
        out[i, 15] = a**3
        out[i, 16] = a ** (b & 15)
        tests[i, 0] = a < b
        tests[i, 1] = a >= b
        tests[i, 2] = a == b
        tests[i, 3] = a < 300
        tests[i, 4] = a >= -5000000000
        tests[i, 5] = not a


def arithmetic_of_numpy(x: Any, y: Any, shift: Any) -> tuple[Any, Any]:
    cube, power = x**3, x ** (y & 15)
    out = [x + y, x - y, x * y, x // y, x % y, x << shift, x >> shift, x & y, x | y ^ x, ~x, -x, np.minimum(x, y)]
    out += [np.maximum(x, y), np.abs(x), np.sign(y), cube, power]
    return np.stack(out, 1), np.stack([x < y, x >= y, x == y, x < 300, x >= -5000000000, x == 0], 1)


@pytest.mark.rotates
@pytest.mark.parametrize("name", INTEGERS)
@given(data=st.data())
def test_integer_arithmetic_is_numpys(gpu: vc.Runtime, name: str, data: st.DataObject) -> None:
    dtype, n = np.dtype(name), 16 if isinstance(gpu, SimulatedRuntime) else 64
    limits = np.iinfo(dtype)
    edges = st.sampled_from([limits.min, limits.min + 1, 0, 1, 2, 3, 7, limits.max // 2, limits.max - 1, limits.max])
    elements = st.one_of(edges, st.integers(int(limits.min), int(limits.max)), st.integers(0, 20))
    x, y = (data.draw(hnp.arrays(dtype, n, elements=elements, fill=st.nothing())) for _ in range(2))
    shift = data.draw(hnp.arrays(dtype, n, elements=st.integers(0, 80), fill=st.nothing()))
    y[y == 0] = 5
    if limits.min < 0:
        x[(x == limits.min) & (y == limits.max) | (x == limits.min) & (y == -1)] = 1  # the quotient overflows
    arrays = [gpu.array(host) for host in (x, y, shift)]
    out, tests = gpu.zeros((n, 17), dtype), gpu.zeros((n, 6), np.int32)
    try:
        arithmetic[1, n](*arrays, out, tests)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        expected, expected_tests = arithmetic_of_numpy(x, y, shift)
    np.testing.assert_array_equal(tests.numpy(), expected_tests.astype(np.int32))
    np.testing.assert_array_equal(out.numpy(), expected)


@vc.kernel
def compared(x, y, out):
    i = vc.global_id(0)
    if i < len(x):
        a, b = x[i], y[i]
        out[i, 0] = a < b
        out[i, 1] = a <= b
        out[i, 2] = a == b
        out[i, 3] = a != b
        out[i, 4] = a > b
        out[i, 5] = a >= b


@pytest.mark.parametrize(("one", "other"), list(itertools.product([n for n in INTEGERS if "64" not in n], repeat=2)))
def test_comparisons_of_integers_are_those_of_the_numbers(gpu: vc.Runtime, one: str, other: str) -> None:
    """Of either sign, on devices without 64-bit integers too."""
    limits = np.iinfo(one), np.iinfo(other)
    values = {item for limit in limits for item in (limit.min, limit.min + 1, -1, 0, 1, limit.max - 1, limit.max)}
    pairs = [(a, b) for a in values for b in values if limits[0].min <= a <= limits[0].max]
    pairs = [(a, b) for a, b in pairs if limits[1].min <= b <= limits[1].max]
    out = gpu.zeros((len(pairs), 6), np.int32)
    try:
        compared[-(-len(pairs) // 64), 64](
            gpu.array(np.array([a for a, _ in pairs], one)), gpu.array(np.array([b for _, b in pairs], other)), out
        )
    except vc.MissingFeature as missing:
        assert "8" in one + other or "16" in one + other, missing  # noqa: PT017
        pytest.skip(str(missing))
    expected = [[a < b, a <= b, a == b, a != b, a > b, a >= b] for a, b in pairs]
    assert np.array_equal(out.numpy(), expected)


LIMITS = 0, 1, -1, -5, 5, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**40, -(2**40)


@vc.kernel
def compared_with_constants(x, out, n):
    i = vc.global_id(0)
    wide = vc.int64(x[i])
    at = 0
    for limit in LIMITS:
        c = vc.int64(limit)
        out[i, at] = wide < c
        out[i, at + 1] = wide <= c
        out[i, at + 2] = wide > c
        out[i, at + 3] = wide >= c
        out[i, at + 4] = wide == c
        out[i, at + 5] = min(wide, c) < max(wide, c)
        at += 6
    for k in range(3):  # a driver may unroll this, and find more constants
        out[i, at] += vc.int64(k) < wide
    out[i, at + 1] = abs(wide) == (-wide if wide < 0 else wide)


@pytest.mark.parametrize("name", ["bool", *INTEGERS])
def test_comparisons_of_what_is_widened_with_constants(gpu: vc.Runtime, name: str) -> None:
    """Mesa's drivers compare int32 widened to int64 wrongly."""
    limits = np.iinfo(name) if name != "bool" else np.iinfo(np.uint8)
    some = [0, 1, 2, 5, limits.min, limits.min + 1, limits.max, limits.max - 1, -1, -5]
    x = np.array([item for item in some if limits.min <= item <= limits.max], name)
    out = gpu.zeros((len(x), 6 * len(LIMITS) + 2), np.int32)
    try:
        compared_with_constants[1, len(x)](gpu.array(x), out, 3)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    for value, result in zip(x.astype(np.int64).tolist(), out.numpy().tolist(), strict=True):
        expected = [
            item for c in LIMITS for item in (value < c, value <= c, value > c, value >= c, value == c, value != c)
        ]
        assert result == [*expected, sum(k < value for k in range(3)), True], value


@vc.kernel
def mixed(x, y, out):
    i = vc.global_id(0)
    out[i, 0] = x[i] + y[i]
    out[i, 1] = x[i] * 2 - y[i] * 3
    out[i, 2] = x[i] / y[i]
    out[i, 3] = x[i] < y[i]
    out[i, 4] = x[i] if y[i] > 3 else y[i]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(NAMES, 2)))
def test_mixed_operands(gpu: vc.Runtime, one: str, other: str) -> None:
    """Each pair of types, computed in the type that it promotes to."""
    n = 8
    x, y = (np.arange(1, n + 1).astype(one), (np.arange(n)[::-1] * 2 + 1).astype(other))
    rules = KernelTypes(FLOAT64 if "float64" in (one, other) else FLOAT32)
    kind = rules.promoted(Kind(SCALARS[one]), Kind(SCALARS[other])).type
    quotient = np.float64 if kind.bits == 64 else np.float32
    out = gpu.zeros((n, 5), np.float64 if kind.bits == 64 else np.float32)
    try:
        mixed[1, n](gpu.array(x), gpu.array(y), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    a, b = x.astype(kind.numpy), y.astype(kind.numpy)
    double, triple = (
        x.astype("int32" if one == "bool" else one) * 2,
        y.astype("int32" if other == "bool" else other) * 3,
    )
    columns = [a + b, double.astype(np.float64) - triple, x.astype(quotient) / y.astype(quotient), x < y]
    columns.append(np.where(y > 3, a, b))
    unsigned = kind.kind == "u"
    for column, expected in enumerate(columns):
        if column != 1 or not unsigned:
            rtol = 2e-3 if kind.bits == 16 else 1e-6
            np.testing.assert_allclose(out.numpy()[:, column], expected.astype(np.float64), rtol, err_msg=str(column))


@vc.kernel
def adds_bools(x, out):
    i = vc.global_id(0)
    a, b, three = x[i] > 1, x[i] < 5, (x[i] > 0, x[i] > 2, x[i] > 4)
    out[i, 0], out[i, 1], out[i, 2] = a + b, a * b, a + True
    out[i, 3], out[i, 4], out[i, 5] = sum(three), math.prod(three), int(a) + b
    a += b
    count = 0
    count += a
    count += b
    out[i, 6], out[i, 7] = a, count


def test_sums_and_products_of_bools_are_numpys(gpu: vc.Runtime) -> None:
    x = np.arange(8, dtype=np.int32)
    out = gpu.zeros((8, 8), np.int32)
    adds_bools[1, 8](gpu.array(x), out)
    a, b, three = x > 1, x < 5, np.array([x > 0, x > 2, x > 4])
    row = a + b, a * b, a + True, three.sum(0), three.prod(0), a.astype(int) + b, a + b, (a + b).astype(int) + b
    assert out.numpy().T.tolist() == [array.astype(int).tolist() for array in row]
