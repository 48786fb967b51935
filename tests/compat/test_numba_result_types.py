"""Types of the results of functions in Numba's kernels, and values that wrap or round in these types."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, vectorize
from vkcompute.compat.numba.types import ufunc_loop

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]

RESULTS: list[tuple[Callable[..., Any], str, str]] = [
    (lambda x: round(x), "int8 int16 int32 uint8 uint32 uint64 bool", "int64"),
    (lambda x: round(x, 1), "int8 int16 uint8 bool float32", "float32"),
    (lambda x: round(x, 1), "int32 int64 uint16 uint64 float64", "float64"),
    (lambda x: math.floor(x), "int8 int32 bool float32 float64", "int64"),
    (lambda x: math.ceil(x), "uint8 uint16 uint32 uint64", "uint64"),
    (lambda x: math.trunc(x), "int16 float32", "int64"),
    (lambda x: math.pow(x, 2), "float32 float64 int32", "float64"),
    (lambda x: math.pow(x, np.int32(2)), "float32", "float32"),
    (lambda x: np.sin(x), "int8 int16 uint8 uint16 bool float32", "float32"),
    (lambda x: np.sqrt(x), "int32 int64 uint64 float64", "float64"),
    (lambda x: np.negative(x), "bool int8", "int8"),
    (lambda x: np.square(x), "uint8", "uint8"),
    (lambda x: np.sign(x), "uint64", "uint64"),
    (lambda x: np.add(x, 1), "float32", "float32"),
    (lambda x: np.add(x, 1), "uint64 float64", "float64"),
    (lambda x: np.true_divide(x, 2), "float32", "float32"),
    (lambda x: np.left_shift(x, 1), "uint8 int8 uint32", "int64"),
    (lambda x: np.minimum(x, 1), "float32", "float32"),
]
"""Functions, and the types of an argument -> the type of the result: what Numba 0.68 says."""


@pytest.mark.parametrize(("function", "arguments", "result"), RESULTS)
def test_types_of_results_are_numbas(function: Any, arguments: str, result: str) -> None:
    compiled = vectorize(target="cuda")(function)
    for name in arguments.split():
        assert compiled(np.ones(2, name)).dtype == result, name


FUNCTIONS = "negative square absolute sign add subtract multiply floor_divide maximum power left_shift bitwise_xor less"


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_of_numpy_wrap_in_their_type(name: str) -> None:
    function = getattr(np, name)
    if function.nin == 1:

        @cuda.jit
        def kernel(x, y, out):
            i = cuda.grid(1)
            out[i] = function(x[i])

    else:

        @cuda.jit
        def kernel(x, y, out):
            i = cuda.grid(1)
            out[i] = function(x[i], y[i])

    rng = np.random.default_rng(3)
    for dtype in (np.int8, np.uint8, np.int16, np.uint32):
        limits = np.iinfo(dtype)
        x, y = rng.integers(limits.min, limits.max, 30).astype(dtype), rng.integers(1, 6, 30).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = function(*(x, y)[: function.nin])
        out = np.zeros(30)
        kernel[1, 30](x, y, out)
        assert out.tolist() == expected.astype(float).tolist(), dtype


@pytest.mark.parametrize("name", "minimum maximum fmin fmax absolute add multiply logical_xor".split())
def test_functions_of_numpy_take_bools(name: str) -> None:
    function = getattr(np, name)
    compiled = vectorize(target="cuda")(
        (lambda x, y: function(x)) if function.nin == 1 else (lambda x, y: function(x, y))
    )
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    result = compiled(x, y)
    assert (result.dtype, result.tolist()) == (np.bool_, function(*(x, y)[: function.nin]).tolist())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_quotients_and_remainders_by_zero_are_zero(dtype: str) -> None:
    """Numba's are for integers: without debug, nothing is raised."""

    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        out[0, i], out[1, i] = x[i] // y[i], x[i] % y[i]
        out[2, i], out[3, i] = np.floor_divide(x[i], y[i]), np.remainder(x[i], y[i])
        out[4, i], out[5, i] = np.fmod(x[i], y[i]), x[i]
        x[i] //= y[i]

    x, y = np.array([5, 7, 100, 0]).astype(dtype), np.array([0, 2, 0, 0]).astype(dtype)
    out = np.full((6, 4), 9, dtype)
    kernel[1, 4](x, y, out)
    assert out.tolist() == [[0, 3, 0, 0], [0, 1, 0, 0]] * 2 + [[0, 1, 0, 0], [5, 7, 100, 0]]
    assert x.tolist() == [0, 3, 0, 0]


def test_a_rounded_integer_and_a_float32_are_a_float64() -> None:
    @cuda.jit
    def kernel(x, out):
        out[0] = round(x[0]) / np.float32(3)
        out[1] = math.floor(x[0]) * np.float32(0.1)

    out = np.zeros(2)
    kernel[1, 1](np.array([100], np.int8), out)
    assert out.tolist() == [100 / 3, 100 * float(np.float32(0.1))]


def test_loops_are_numpys_first_with_safe_conversions() -> None:
    of = [np.dtype(name) for name in ("int8", "uint64", "float32", "int64")]
    assert ufunc_loop(np.add, of[0], of[0]) == ("bb", "b")
    assert ufunc_loop(np.add, of[1], of[3]) == ("dd", "d")
    assert ufunc_loop(np.add, of[2], of[3]) == ("ff", "f")
    assert ufunc_loop(np.bitwise_and, of[1], of[3]) is None
