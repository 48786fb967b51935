"""The arguments of NumPy's functions: they have the same names and places here."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

NOWHERE = {
    "like",  # the type of another array, which would make an array that is not of a device
    "subok",  # there are no subclasses
}
LEFT_OUT: dict[str, set[str]] = {
    "arange": {"start_or_stop"},  # positional here, and in NumPy until 2.4
    "argpartition": {"order"},  # fields of records
    "argsort": {"order"},
    "array": {"object", "ndmax"},  # `object` would hide Python's; objects are no elements
    "geomspace": {"axis"},  # arrays as limits
    "info": {"object", "maxwidth", "output", "toplevel"},  # another function: it tells what an expression would launch
    "load": {"mmap_mode", "allow_pickle", "fix_imports", "encoding", "max_header_size"},  # of objects, and of files
    "may_share_memory": {"max_work"},  # it searches nothing
    "partition": {"order"},
    "savez": {"allow_pickle"},  # there are no objects
    "savez_compressed": {"allow_pickle"},
    "shares_memory": {"max_work"},
    "sort": {"order"},
}
RENAMED = {
    "clip": {"a_min": "min", "a_max": "max"},  # the standard's names; NumPy's are keywords
    "linalg.cross": {"x1": "a", "x2": "b"},
    "linalg.tensordot": {"x1": "a", "x2": "b"},
}
VERSION = tuple(map(int, np.__version__.split(".")[:2]))
KNOWN = (2, 4), (2, 5)
"""Versions of NumPy that have the same arguments; older ones have more, and newer ones may."""


def functions() -> Iterator[tuple[str, Any, Any]]:
    for prefix, theirs, ours in (("", np, vnp), ("linalg.", np.linalg, vnp.linalg), ("fft.", np.fft, vnp.fft)):
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            pair = getattr(theirs, name), getattr(ours, name)
            plain = all(map(inspect.isroutine, pair)) and not name.startswith("_")
            if plain and not isinstance(pair[0], np.ufunc) and _parameters(pair[0]):
                yield prefix + name, *pair


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of some functions in C
        return []


@pytest.mark.pure
@pytest.mark.skipif(VERSION not in KNOWN, reason="another NumPy may have further arguments")
@pytest.mark.parametrize(
    ("name", "theirs", "ours"), [pytest.param(*function, id=function[0]) for function in functions()]
)
def test_functions_take_numpys_arguments(name: str, theirs: Any, ours: Any) -> None:
    own = _parameters(ours)
    if any(item.kind is item.VAR_KEYWORD for item in own):
        return  # they are passed on to NumPy
    left_out = NOWHERE | LEFT_OUT.get(name, set())
    named = {item.name: at for at, item in enumerate(own) if item.kind is not item.POSITIONAL_ONLY}
    renamed, in_place = RENAMED.get(name, {}), True
    for at, parameter in enumerate(_parameters(theirs)):
        if parameter.name in left_out or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            in_place = False
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            assert own[at].kind is not parameter.KEYWORD_ONLY
        else:
            assert {parameter.name, renamed.get(parameter.name)}.intersection(named)
            if in_place and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                assert own[at].name == renamed.get(parameter.name, parameter.name)


def test_limits_have_two_names(gpu: vc.Runtime) -> None:
    host = np.arange(6, dtype=np.float32)
    x = gpu.array(host)
    assert np.array_equal(vnp.clip(x, min=2).numpy(), host.clip(2))
    for xp in (np, vnp):
        assert np.array_equal(xp.clip(x, a_min=2, a_max=4).numpy(), host.clip(2, 4))
        assert np.array_equal(xp.clip(x, a_min=None, a_max=x[::-1]).numpy(), np.minimum(host, host[::-1]))
    with pytest.raises(ValueError, match="min and max by other names: pass one; got 1 and 2"):
        vnp.clip(x, 1, a_min=2)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_indices_out_of_range(gpu: vc.Runtime, mode: Any) -> None:
    host, at = np.arange(12).reshape(3, 4).astype(np.int32), np.array([-9, -1, 0, 3, 4, 7])
    x = gpu.array(host)
    assert np.array_equal(vnp.take(x, at, axis=1, mode=mode).numpy(), np.take(host, at, axis=1, mode=mode))
    out = gpu.zeros((6, 4), np.int32)
    assert np.take(x, at, 0, out, mode) is out
    assert np.array_equal(out.numpy(), np.take(host, at, 0, mode=mode))


def test_results_are_written_to_arrays_of_their_shape(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    for call in (vnp.sum, vnp.median, vnp.nanmax, vnp.cumulative_sum, vnp.mean, vnp.any):
        with pytest.raises(ValueError, match=r"out has the shape of the result, \(.*\); got \(4, 2, 3\)"):
            call(x, axis=0, out=gpu.zeros((4, 2, 3)))
    with pytest.raises(ValueError, match="out has the shape of the result"):
        vnp.take(x, [0], 0, gpu.zeros((2, 3)))
    with pytest.raises(ValueError, match="out has the shape of the result"):
        vnp.dot(x, x.T, gpu.zeros((2, 2, 2)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("endpoint", [True, False])
def test_numbers_between_arrays(gpu: vc.Runtime, axis: int, endpoint: bool) -> None:
    start, stop = np.array([0, 1, 2], np.float32), np.float32(5)
    result, step = vnp.linspace(gpu.array(start), 5.0, 7, endpoint, retstep=True, axis=axis)
    expected, distance = np.linspace(start, stop, 7, endpoint, retstep=True, axis=axis)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(step.numpy(), distance, rtol=1e-6)
    assert result.dtype == np.float32
    numbers, step = vnp.linspace(0, 1, 5, endpoint, True, device=gpu)
    expected, distance = np.linspace(0, 1, 5, endpoint, True)
    np.testing.assert_allclose(numbers.numpy(), expected, rtol=1e-6)
    assert step == distance


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_known_mean(gpu: vc.Runtime, name: str) -> None:
    host = np.random.default_rng(0).random((4, 5)).astype(np.float32)
    x = gpu.array(host)
    mean = getattr(vnp, "nanmean" if "nan" in name else "mean")(x, axis=1, keepdims=True)
    call = getattr(vnp, name)
    assert np.array_equal(call(x, axis=1, mean=mean).numpy(), call(x, axis=1).numpy())
    np.testing.assert_allclose(call(x, axis=1, mean=mean + 1).numpy() ** (1 + ("std" in name)), host.var(1) + 1, 1e-5)


METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_numbers_beside_nan(gpu: vc.Runtime, method: Any) -> None:
    if method == "closest_observation" and VERSION < (2, 0):
        pytest.skip("NumPy 2.0 has corrected this method")
    random = np.random.default_rng(5)
    host = random.integers(-9, 9, (12, 11)).astype(np.float32)
    host[random.random(host.shape) < np.linspace(0, 1, 12)[:, None]] = np.nan  # the last row has no number
    q = [0, 0.1, 0.3, 0.5, 0.95, 1]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # All-NaN slice encountered
        expected = np.nanquantile(host, q, axis=1, method=method)
    np.testing.assert_allclose(vnp.nanquantile(gpu.array(host), q, axis=1, method=method).numpy(), expected, 1e-6)
    whole = random.integers(0, 9, (3, 4)).astype(np.int32)
    result = vnp.nanquantile(gpu.array(whole), 0.4, axis=0, method=method)
    np.testing.assert_allclose(result.numpy(), np.nanquantile(whole, 0.4, axis=0, method=method), 1e-6)


@pytest.mark.parametrize("without_nan", [False, True])
@pytest.mark.parametrize("axes", [(0, 1, 2), (0,), (1,), (0, 2)])
def test_weighted_quantiles(gpu: vc.Runtime, axes: tuple[int, ...], without_nan: bool) -> None:
    random = np.random.default_rng(6)
    host = random.random((3, 4, 5)).astype(np.float32)
    host[1, 2, 3] = np.nan
    weights = random.integers(0, 4, host.shape).astype(np.float32)
    weights[:, :, 0] = 1  # some of each line
    others = [at for at in range(3) if at not in axes]
    lines, shares = (x.transpose(*others, *axes) for x in (host, weights))
    n = int(np.prod([host.shape[at] for at in axes]))
    pairs = [*zip(lines.reshape(-1, n), shares.reshape(-1, n), strict=True)]
    call, given = getattr(vnp, "nanquantile" if without_nan else "quantile"), gpu.array(host)
    axis = None if len(axes) == 3 else axes
    for q in (0, 0.2, 0.5, 1):
        result = call(given, q, axis=axis, method="inverted_cdf", weights=gpu.array(weights)).numpy()
        expected = [_weighted(line, share, q, without_nan) for line, share in pairs]
        np.testing.assert_array_equal(result.ravel(), np.array(expected, np.float32))
    if len(axes) == 1:
        one = call(given, 0.5, axis=axes[0], method="inverted_cdf", weights=gpu.array(np.ones(n, np.float32)))
        np.testing.assert_array_equal(one.numpy(), call(given, 0.5, axis=axes[0], method="inverted_cdf").numpy())
    with pytest.raises(ValueError, match="takes weights with the method 'inverted_cdf'; got 'linear'"):
        call(given, 0.5, weights=given)


def _weighted(line: Any, weights: Any, q: float, without_nan: bool) -> Any:
    """Returns the first number whose share of the weights, with those of smaller numbers, is q or more, and not 0."""
    if np.isnan(line).any() and not without_nan:
        return np.nan
    order = [at for at in np.argsort(line, kind="stable") if not np.isnan(line[at])]
    sums = np.cumsum(weights[order])
    return next(line[at] for at, each in zip(order, sums / sums[-1], strict=True) if each >= q and each > 0)


def test_zeros_around_a_part(gpu: vc.Runtime) -> None:
    host = np.zeros((5, 6, 4), np.float32)
    host[1:3, 2:4, 1] = 1
    x = gpu.array(host)
    for axis, trim, expected in [
        (None, "fb", host[1:3, 2:4, 1:2]), (0, "f", host[1:]), ((0, 1), "b", host[:3, :4]), (-1, "fb", host[..., 1:2]),
    ]:  # fmt: skip
        assert np.array_equal(vnp.trim_zeros(x, trim, axis=axis).numpy(), expected)
    assert vnp.trim_zeros(x * 0, axis=1).shape == (5, 0, 4)


def test_covariances_of_a_fit(gpu: vc.Runtime) -> None:
    x = np.arange(8, dtype=np.float32)
    y = np.float32([0, 1, 3, 2, 5, 4, 7, 6])
    result, covariances = vnp.polyfit(gpu.array(x), gpu.array(y), 1, cov=True)
    expected = np.polyfit(x, y, 1, cov=True)
    np.testing.assert_allclose(result.numpy(), expected[0], 1e-5)
    np.testing.assert_allclose(covariances, expected[1], 1e-5)
    assert vnp.array_str(result, precision=2) == np.array_str(result.numpy(), precision=2)
