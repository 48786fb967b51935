"""Integers and floats of 64 bits beside Python's floats, zeros and infinities: NumPy's results on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

COMPARISONS = "equal", "less", "less_equal", "greater", "greater_equal", "not_equal"
FLOATS = [f"float{bits}" for bits in (16, 32, 64)]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_comparisons_with_floats_round_as_numpys(gpu: vc.Runtime, dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = [0, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62 + 1, limits.min, limits.max]
    host = np.array(numbers, dtype)
    x = gpu.array(host)
    for value in (2.0**53, 2.0**53 + 2, -(2.0**63), 2.0**64, np.inf):
        for at, name in enumerate(COMPARISONS):
            result = getattr(vnp, name)(*((x, value) if at % 2 else (value, x)))
            expected = getattr(np, name)(*((host, value) if at % 2 else (value, host)))
            assert result.tolist() == expected.tolist(), (name, value)


def test_mixed_searches_are_numpys(gpu: vc.Runtime) -> None:
    ints, floats = np.array([2**53 - 1, 2**53 + 1, 2**60 + 7]), np.array([2.0**53, 2.0**60, 1.5])
    for call in (
        lambda xp, n, x: xp.searchsorted(n, x),
        lambda xp, n, x: xp.isin(n, x),
        lambda xp, n, x: xp.isin(x, n),
        lambda xp, n, x: xp.clip(n, x[2], x[0]),
        lambda xp, n, x: xp.where(n > x, n, x),
        lambda xp, n, x: xp.maximum(n, x),
        lambda xp, n, x: xp.union1d(n, x),
        lambda xp, n, x: xp.digitize(n, xp.sort(x)),
        lambda xp, n, x: xp.isclose(n, x),
        lambda xp, n, x: xp.concatenate([n, x]),
        lambda xp, n, x: xp.array_equal(n, x),
        lambda xp, n, x: xp.searchsorted(n, np.float64(2.0**53), side="right"),
        lambda xp, n, x: n == np.float64(2.0**53),
    ):
        expected, result = call(np, ints, floats), call(vnp, gpu.array(ints), gpu.array(floats))
        np.testing.assert_array_equal(np.asarray(result), expected)
        assert result.dtype == expected.dtype if hasattr(expected, "dtype") else True


def test_signs_of_zeros_are_positive(gpu: vc.Runtime) -> None:
    for dtype in FLOATS:
        host = np.array([-0.0, 0.0, -2, 3, np.nan, -np.inf, 5e-324], dtype)
        assert str(vnp.sign(gpu.array(host)).tolist()) == str(np.sign(host).tolist())


@pytest.mark.parametrize("dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_reciprocals_of_integers_are_numpys(gpu: vc.Runtime, dtype: str) -> None:
    host = np.array([0, 1, 2, 100, np.iinfo(dtype).max, np.array(-1).astype(dtype)], dtype)
    with np.errstate(all="ignore"):
        assert vnp.reciprocal(gpu.array(host)).tolist() == np.reciprocal(host).tolist()


QS: tuple[Any, ...] = (
    0.3, 1, [0.25, 0.6], np.float64(0.3), np.float32([0.3, 0.9]), np.array([0, 1]), np.array(0.25)
)  # fmt: skip


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_quantiles_have_numpys_dtype(gpu: vc.Runtime, dtype: str) -> None:
    host = np.array([3, 1, 4, 1.5, 9, 2.25], dtype)
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        for q in QS:
            for method in ("linear", "hazen", "lower") if name == "quantile" and dtype == "float32" else ("linear",):
                expected = getattr(np, name)(host, q, method=method)
                result = getattr(vnp, name)(gpu.array(host), q, method=method)
                assert result.dtype == expected.dtype, (name, q, method)
                np.testing.assert_allclose(result.numpy(), expected, rtol=4 * np.finfo(dtype).eps)
