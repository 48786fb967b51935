"""Random expressions of NaN, infinities and zeros, with constants that compilers simplify: NumPy is the oracle."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.core.quirks import quirks_of

SPECIAL = np.array([1, np.nan, np.inf, -np.inf, -2, -0.0, 0.0, 0.5], np.float32)
X, Y = (np.array(host, np.float32) for host in zip(*itertools.product(SPECIAL, SPECIAL), strict=True))
LEAVES = st.sampled_from("x y x y 0.0 0.0 -0.0 1.0 -1.0 2.0 0.5 (x>9.0) (y!=y)".split())
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " - ", " * "]), inner).map(lambda parts: f"({''.join(parts)})"),
        st.tuples(inner, st.sampled_from(["x", "y", "2.0", "-0.5"])).map(lambda parts: f"({' / '.join(parts)})"),
        st.tuples(inner, inner).map(lambda parts: "np.where(x < {}, {}, 0.0)".format(*parts)),
        inner.map(lambda text: f"(-1.0 * {text})"),
        inner.map(lambda text: f"abs({text} + 0.0)"),
    ),
    max_leaves=8,
)


def same(gpu: vc.Runtime, result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], text: str) -> None:
    """Asserts that numbers are equal, NaN in the same places, and zeros of the same sign, where the driver has it."""
    np.testing.assert_array_equal(result, expected, text)
    numbers = ~np.isnan(expected)
    if quirks_of(gpu.device.physical).loses_signs_of_zeros:
        numbers &= expected != 0
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers], text)


@pytest.mark.rotates
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=40)
@given(EXPRESSIONS)
def test_expressions_of_special_values(gpu: vc.Runtime, text: str) -> None:
    text = f"np.where(x < y, {text} * 1.0, {text} + -0.0)"  # both arguments, and floats
    try:
        expected = np.asarray(eval(text, {"x": X, "y": Y, "np": np})).astype(np.float32)
    except TypeError:  # numpy subtracts no bools
        reject()
    same(gpu, vc.elementwise(text, "x, y")(gpu.array(X), gpu.array(Y)).numpy(), expected, text)
    arrays = {"x": gpu.array(X), "y": gpu.array(Y), "np": np}
    same(gpu, eval(text, arrays).numpy(), expected, text)
