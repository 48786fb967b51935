"""The functions that Numba's page of supported Python features lists for CUDA, against Python and NumPy."""

from __future__ import annotations

import cmath
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkcompute.compat.numba import cuda

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]

INSIDE = np.array([-0.99, -0.5, -0.1, 0.05, 0.2, 0.7, 0.98])
ABOVE = np.array([1.01, 1.5, 2.0, 3.7, 5.0, 8.25, 20.5])
SIGNED = np.array([-7.25, -2.5, -0.5, 0.25, 1.5, 3.0, 9.75])
PLANE = SIGNED[::-1] * 0.3 + SIGNED * 0.2j + 0.1j
WHOLE, SMALL = np.array([-50, -7, -1, 0, 3, 12, 99]), np.array([1, 2, 3, 4, 5, 6, 1])

ONE: list[tuple[Any, str, Any]] = [
    (math, ("asin acos atan asinh atanh cos sin tan cosh sinh tanh erf erfc exp expm1 fabs ceil floor isnan isinf "
           "isfinite"), INSIDE),
    (math, "acosh gamma lgamma log log2 log10 log1p sqrt", ABOVE),
    (cmath, "acos acosh asin asinh atan atanh cos cosh exp isfinite isinf isnan log log10 phase sin sinh sqrt tan tanh",
     PLANE),
    (operator, "invert neg not_ pos", WHOLE),
    (np, "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh deg2rad radians rad2deg degrees logical_not",
     INSIDE),
    (np, "arccosh log log2 log10", ABOVE),
    (np, "invert bitwise_not", WHOLE),
]  # fmt: skip
TWO: list[tuple[Any, str, Any, Any]] = [
    (math, "hypot atan2 copysign fmod remainder nextafter", SIGNED, INSIDE),
    (math, "pow", ABOVE, INSIDE),
    (operator, ("add and_ eq floordiv ge gt iadd iand ifloordiv ilshift imod imul ior ipow irshift isub itruediv ixor "
               "le lshift lt mod mul ne or_ pow rshift sub truediv xor"), WHOLE, SMALL),
    (np, ("arctan2 hypot greater greater_equal less less_equal not_equal equal logical_and logical_or logical_xor "
         "maximum minimum fmax fmin"), SIGNED, INSIDE),
    (np, "bitwise_and bitwise_or bitwise_xor left_shift right_shift", WHOLE, SMALL),
]  # fmt: skip
CASES = [(module, name, args) for module, names, *args in (*ONE, *TWO) for name in names.split()]
CASES += [(math, "exp2", [INSIDE])] * hasattr(math, "exp2")
BUILTINS: list[tuple[Callable[..., Any], list[Any]]] = [
    (abs, [SIGNED]), (bool, [SIGNED]), (complex, [SIGNED]), (complex, [SIGNED, INSIDE]), (float, [WHOLE]),
    (int, [SIGNED]), (min, [SIGNED, INSIDE]), (max, [SIGNED, INSIDE]), (pow, [ABOVE, INSIDE]), (round, [SIGNED]),
]  # fmt: skip


def test_the_page_has_as_many_functions() -> None:
    counts = {module.__name__: sum(one is module for one, *_ in CASES) for module in (math, cmath, operator, np)}
    assert counts == {"math": 36 + hasattr(math, "exp2"), "cmath": 20, "operator": 34, "numpy": 42}


def applied(function: Callable[..., Any], args: list[Any]) -> None:
    """Compares a function of a kernel with the same on the host."""
    if len(args) == 1:

        @cuda.jit
        def kernel(x, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            out[i] = function(x[i])

    else:

        @cuda.jit
        def kernel(x, y, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            out[i] = function(x[i], y[i])

    expected = np.array([function(*row) for row in zip(*[arg.tolist() for arg in args], strict=True)])
    out = np.zeros_like(expected)
    kernel[1, len(out)](*args, out)
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12, err_msg=function.__name__)


@pytest.mark.rotates
@pytest.mark.parametrize("module", [math, cmath, operator, np], ids=lambda module: module.__name__)
def test_functions_of_modules(module: Any) -> None:
    for own, name, args in CASES:
        if own is module:
            applied(getattr(own, name), args)


def test_builtin_functions() -> None:
    for function, args in BUILTINS:
        applied(function, args)


def test_functions_with_several_results() -> None:
    @cuda.jit
    def kernel(x, z, out, back):
        i = cuda.grid(1)
        out[0, i], out[1, i] = math.frexp(x[i])
        out[2, i], out[3, i] = math.modf(x[i])
        out[4, i] = math.ldexp(x[i], 3)
        out[5, i], out[6, i] = cmath.polar(z[i])
        back[i] = cmath.rect(out[5, i], out[6, i])

    out, back = np.zeros((7, SIGNED.size)), np.zeros(SIGNED.size, complex)
    kernel[1, SIGNED.size](SIGNED, PLANE, out, back)
    expected = [*np.frexp(SIGNED), *np.modf(SIGNED), np.ldexp(SIGNED, 3), np.abs(PLANE), np.angle(PLANE)]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    np.testing.assert_allclose(back, PLANE, rtol=1e-12)


KINDS: list[type[np.generic]] = [
    np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64, np.bool_,
]  # fmt: skip


def extremes(kind: Any) -> list[int]:
    """The extreme values of a type, and small ones."""
    if kind is np.bool_:
        return [0, 1]
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    return [*{low, 0, 1, high // 2, high}]


@pytest.mark.rotates
def test_integers_of_any_types_compare_by_value() -> None:
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < a.size:
            out[0, i] = a[i] < b[i]
            out[1, i] = a[i] == b[i]
            out[2, i] = a[i] < True
            out[3, i] = a[i] > -1

    for one, other in itertools.product(KINDS, repeat=2):
        pairs = [*itertools.product(extremes(one), extremes(other))]
        out = np.zeros((4, len(pairs)), np.bool_)
        kernel[1, 32](np.array([a for a, _ in pairs], one), np.array([b for _, b in pairs], other), out)
        assert out.T.tolist() == [[a < b, a == b, a < 1, a > -1] for a, b in pairs], (one, other)


def test_integers_are_negated_and_inverted_in_their_own_width() -> None:
    @cuda.jit
    def constants(out):
        out[0], out[1], out[2] = -np.uint32(7) - 2, ~np.uint8(7) + 1, -np.int8(5) * 100

    @cuda.jit
    def kernel(a, out):
        out[0], out[1], out[2] = -a[0], ~a[0], abs(a[0])

    # By Numba 0.68.1: the results are int64 and uint64, of what the operator makes of the narrow number.
    cases: list[tuple[Any, int, list[float]]] = [
        (np.uint8, 1, [255, 254, 1]), (np.uint32, 8, [2**32 - 8, 2**32 - 9, 8]), (np.int8, -128, [-128, 127, -128]),
        (np.int32, 7, [-7, -8, 7]), (np.bool_, 1, [-1, 0, 1]),
    ]  # fmt: skip
    out = np.zeros(3)
    constants[1, 1](out)
    assert out.tolist() == [2**32 - 9, 249, -500]
    for kind, value, expected in cases:
        kernel[1, 1](np.array([value], kind), out)
        assert out.tolist() == expected, kind
