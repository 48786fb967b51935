"""Arguments of NumPy's functions that are seldom given, and ones that NumPy refuses; NumPy is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

_NUMBERS = np.array([[1, np.nan, 3], [np.inf, -2, 0.5]], np.float32)
_COMPLEX = np.array([1 + 1j, np.nan, 2 - 1j, 4j], np.complex64)
_CHOSEN = np.array([[True, True, False], [False, True, True]])


def _same(result: vc.Array, want: Any, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(result.numpy(), want, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "bool"])
def test_functions_of_integers_have_numpys_values(gpu: vc.Runtime, dtype: str) -> None:
    if lacks(gpu, dtype):
        pytest.skip(f"the device lacks {dtype}")
    x = np.array([1, 3, 0, 1, 100]).astype(dtype)
    x = np.concatenate([x, (-x[:2]).astype(dtype)]) if x.dtype.kind == "i" else x
    array = gpu.array(x)
    for name in ("fabs", "rint"):
        result = getattr(vnp, name)(array)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result.numpy(), getattr(np, name)(x).astype(np.float32))
    assert vnp.round(array).dtype == (np.float32 if dtype == "bool" else x.dtype)
    if x.dtype.kind in "iu":
        result = vnp.reciprocal(gpu.array(x[x != 0]))
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result.numpy(), np.reciprocal(x[x != 0]))


def test_a_dtype_is_that_of_the_result(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([1.5, -2.5, 0], np.float32))
    n = gpu.array(np.array([3, -4, 0], np.int32))
    assert vnp.add(n, n, dtype=np.float32).dtype == np.float32
    assert vnp.less(x, 1, dtype=bool).tolist() == [False, True, True]
    assert vnp.isfinite(x, dtype=bool).tolist() == [True] * 3
    for call in (
        lambda: vnp.subtract(x, x, dtype=np.uint32),
        lambda: vnp.trunc(x, dtype=np.int32),
        lambda: vnp.add(n, 2.5, dtype=np.int32),
        lambda: vnp.add(n, n, dtype=np.uint32),
    ):
        with pytest.raises(TypeError, match="dtype="):
            call()
    for name in ("sin", "exp", "degrees", "cbrt", "arctan"):
        with pytest.raises(TypeError, match=f"no result of int32 .* got dtype={np.int32}"):
            getattr(vnp, name)(n, dtype=np.int32)
    with pytest.raises(TypeError, match="no result of float32"):
        vnp.less(n, n, dtype=np.float32)


def test_the_last_operand_of_a_function_may_be_its_result(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.arange(3, dtype=np.float32)), gpu.zeros(3)
    assert vnp.add(x, x, out) is out
    assert vnp.negative(x, out) is out
    assert out.tolist() == [0, -1, -2]
    with pytest.raises(TypeError, match="add takes 2 operands; got 4"):
        vnp.add(x, x, out, out)


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod"])
def test_nan_is_left_out_of_complex_numbers(gpu: vc.Runtime, name: str) -> None:
    _same(getattr(vnp, name)(gpu.array(_COMPLEX)), getattr(np, name)(_COMPLEX), 1e-5)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_elements_are_chosen_of_those_that_are_not_nan(gpu: vc.Runtime, axis: Any) -> None:
    x = np.where(np.isinf(_NUMBERS), 7, _NUMBERS).astype(np.float32)
    array, chosen = gpu.array(x), gpu.array(_CHOSEN)
    for name in ("nansum", "nanprod"):
        want = getattr(np, name)(x, axis, initial=2, where=_CHOSEN)
        _same(getattr(vnp, name)(array, axis, initial=2, where=chosen), want)
    for name in ("nanmax", "nanmin"):
        want = getattr(np, name)(x, axis, initial=1, where=_CHOSEN)
        _same(getattr(vnp, name)(array, axis, initial=1, where=chosen), want)
        with pytest.raises(ValueError, match="needs initial="):
            getattr(vnp, name)(array, axis, where=chosen)
    with np.errstate(all="ignore"):
        _same(vnp.nanmean(array, axis, where=chosen), np.nanmean(x, axis, where=_CHOSEN))
        for name in ("nanvar", "nanstd"):
            want = getattr(np, name)(x, axis, where=_CHOSEN)
            _same(getattr(vnp, name)(array, axis, where=chosen), want)
    with pytest.raises(ValueError, match="broadcasts to the array's shape"):
        vnp.nanmean(array, where=gpu.array(np.ones((2, 2, 3), bool)))


def test_a_variance_of_an_infinite_number_is_nan(gpu: vc.Runtime) -> None:
    assert np.isnan(vnp.nanvar(gpu.array(_NUMBERS)).item())
    assert vnp.nanvar(gpu.array(_NUMBERS[0]), correction=1).item() == 2


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "var", "std"])
def test_variances_are_floats(gpu: vc.Runtime, name: str) -> None:
    with pytest.raises(TypeError, match="of a float dtype; got dtype=int32"):
        getattr(vnp, name)(gpu.array(np.arange(3, dtype=np.int32)), dtype=np.int32)


def test_means_of_integers_may_be_integers(gpu: vc.Runtime) -> None:
    x = np.array([1, 2, 5], np.int32)
    for name in ("mean", "nanmean"):
        result, expected = getattr(vnp, name)(gpu.array(x), dtype=np.int32), getattr(np, name)(x, dtype=np.int32)
        assert (result.dtype, result.item()) == (expected.dtype, expected)
    with pytest.raises(TypeError, match="of a float dtype; got dtype=int32"):
        vnp.nanmean(gpu.array(x.astype(np.float32)), dtype=np.int32)


@pytest.mark.parametrize("method", ["inverted_cdf", "closest_observation", "lower", "higher", "nearest"])
def test_quantiles_that_are_elements_are_exact(gpu: vc.Runtime, method: Any) -> None:
    x = np.array([2**31 - 1, 2**24 + 1, -(2**31) + 1, 5], np.int32)
    result = vnp.quantile(gpu.array(x), [0, 0.3, 0.5, 1], method=method)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result.numpy(), np.quantile(x, [0, 0.3, 0.5, 1], method=method))


def test_differences_with_numbers_before_and_after(gpu: vc.Runtime) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4) ** 2
    for axis in (0, 1):
        edge = x[:1] if axis == 0 else x[:, :1]
        for given in ({"prepend": 0}, {"append": 5}, {"prepend": edge, "append": 1}):
            result = vnp.diff(gpu.array(x), axis=axis, **given)  # type: ignore[arg-type]
            np.testing.assert_array_equal(result.numpy(), np.diff(x, axis=axis, **given))  # type: ignore[call-overload]


def test_vectors_are_multiplied_along_any_axes(gpu: vc.Runtime) -> None:
    x, y = np.arange(24.0).reshape(3, 8).astype(np.float32), np.arange(24.0, 48).reshape(8, 3).astype(np.float32)
    result = vnp.cross(gpu.array(x), gpu.array(y), axisa=0, axisc=0)
    _same(result, np.cross(x, y, axisa=0, axisc=0))
    _same(vnp.cross(gpu.array(x), gpu.array(y.T), axis=0), np.cross(x, y.T, axis=0))


def test_integrals_have_constants(gpu: vc.Runtime) -> None:
    p = np.array([5, 2, 0], np.float32)
    for m, k in ((1, 3), (2, [1, 2]), (3, -1), (2, None)):
        _same(vnp.polyint(gpu.array(p), m, k), np.polyint(p, m, k))
    with pytest.raises(ValueError, match="a constant for each of 3 integrals"):
        vnp.polyint(gpu.array(p), 3, [1, 2])


def test_angles_in_degrees(gpu: vc.Runtime) -> None:
    z = np.array([1 + 1j, -1, -2j, 0], np.complex64)
    _same(vnp.angle(gpu.array(z), True), np.angle(z, True))
    _same(vnp.angle(gpu.array(z)), np.angle(z))
    _same(np.angle(gpu.array(z), deg=True), np.angle(z, True))


def test_conjugates_of_bools_are_integers(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([True, False, True]))
    result = vnp.conj(x)
    assert (result.dtype.kind, result.tolist()) == ("i", [1, 0, 1])
    assert vnp.dot(result, x).item() == np.dot(np.conj(x.numpy()), x.numpy()) == 2
    assert vnp.vecmat(x, x.reshape(3, 1)).dtype == vnp.vdot(x, x).dtype == np.bool_


@pytest.mark.parametrize("casting", ["no", "safe", "same_kind", "unsafe"])
def test_casting_of_arrays(gpu: vc.Runtime, casting: Any) -> None:
    x = gpu.array(np.arange(3, dtype=np.int32))
    for dtype in (np.int32, np.int16, np.float64, np.uint8):
        assert np.can_cast(x, dtype, casting=casting) == vnp.can_cast(x, dtype, casting)
        assert vnp.can_cast(x, dtype, casting) == np.can_cast(x.dtype, dtype, casting)


def test_orders_of_arrays_like_others(gpu: vc.Runtime) -> None:
    x = gpu.array(np.zeros((2, 3), np.float32))
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(vnp, name)(x, order="F").T.contiguous
        assert getattr(vnp, name)(x, None, "C").contiguous
    assert vnp.full_like(x, 5, order="F").T.contiguous
    with pytest.raises(ValueError, match="order is"):
        vnp.zeros_like(x, order="Z")


def test_histograms_of_one_coordinate(gpu: vc.Runtime) -> None:
    x = np.array([0, 1, 1, 5], np.float32)
    counts, edges = vnp.histogramdd(gpu.array(x), 3)
    want, want_edges = np.histogramdd(x, 3)
    _same(counts, want)
    _same(edges[0], want_edges[0])


def test_arguments_that_numpy_refuses_are_errors(gpu: vc.Runtime) -> None:
    x, cube = gpu.array(np.arange(6, dtype=np.int32)), gpu.zeros((2, 2, 2))
    for axis in ((0, 1), (0,), "0", 1.0):
        for name in ("cumsum", "cumprod", "cumulative_sum", "nancumsum", "argmax", "nanargmin", "sort", "packbits"):
            with pytest.raises(TypeError, match=r"axis is an int|unsupported|axis"):
                getattr(vnp, name)(vnp.zeros((2, 2), np.uint8, device=gpu) if name == "packbits" else cube, axis=axis)
    for error, call in (
        (TypeError, lambda: vnp.expand_dims(x, None)),  # type: ignore[arg-type]
        (TypeError, lambda: vnp.logspace(0, 1, base=x)),  # type: ignore[arg-type]
        (TypeError, lambda: vnp.ldexp(x.astype(np.float32), x.astype(np.float32))),
        (TypeError, lambda: vnp.fabs(gpu.array(_COMPLEX))),
        (TypeError, lambda: vnp.choose(x.astype(np.float32), [x, x])),
        (ValueError, lambda: vnp.choose(x, [x, x], mode="edge")),
        (ValueError, lambda: vnp.triu_indices_from(cube)),
        (ValueError, lambda: vnp.tril_indices_from(x)),
        (ValueError, lambda: vnp.ix_(cube)),
        (ValueError, lambda: vnp.polyadd(cube, x)),
        (ValueError, lambda: vnp.polyder(cube)),
        (ValueError, lambda: vnp.polyint(cube)),
        (ValueError, lambda: vnp.histogram2d(cube, cube)),
        (ValueError, lambda: vnp.histogramdd(cube)),
    ):
        with pytest.raises(error):
            call()


def test_a_number_has_indices_without_axes(gpu: vc.Runtime) -> None:
    for value in (0, 2):
        assert vnp.argwhere(gpu.array(np.float32(value))).shape == np.argwhere(np.float32(value)).shape
