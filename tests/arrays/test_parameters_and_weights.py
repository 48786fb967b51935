"""Parameters of random distributions and weights: NumPy's errors, and finite numbers within all valid ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

NAN, INF = np.nan, np.inf
REFUSED: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("uniform", (0, INF), OverflowError), ("uniform", (NAN, 1), OverflowError), ("uniform", (-INF, 1), OverflowError),
    ("uniform", (5, 1), ValueError), ("uniform", ([0, 5], [1, 4]), ValueError), ("uniform", (0, 1e39), OverflowError),
    ("uniform", (1j, 2), TypeError), ("normal", (0, -1), ValueError), ("normal", (0, -0.0), ValueError),
    ("normal", (0, [1, -1]), ValueError), ("normal", (1e39, 1), OverflowError), ("normal", ("0", 1), TypeError),
    ("lognormal", (0, -1), ValueError), ("exponential", (-1,), ValueError), ("exponential", (1e39,), OverflowError),
    ("standard_gamma", (-1,), ValueError), ("gamma", (1, -1), ValueError), ("gamma", (-1, 1), ValueError),
    ("gamma", (1, 1e39), OverflowError), ("chisquare", (0,), ValueError), ("chisquare", (-1,), ValueError),
    ("beta", (0, 1), ValueError), ("beta", (1, -1), ValueError), ("poisson", (-1,), ValueError),
    ("poisson", (NAN,), ValueError), ("poisson", (1e20,), ValueError), ("binomial", (-1, 0.5), ValueError),
    ("binomial", (5, 1.5), ValueError), ("binomial", (5, NAN), ValueError), ("integers", (5, 5), ValueError),
    ("choice", (2, 1, True, [0.5, NAN]), ValueError), ("choice", (2, 1, True, [-0.5, 1.5]), ValueError),
    ("random", ((2, -1),), ValueError), ("laplace", (0, 1e300), OverflowError), ("gumbel", (1e39, 1), OverflowError),
    ("logistic", (0, 1e39), OverflowError), ("rayleigh", (1e39,), OverflowError), ("wald", (1e39, 1), OverflowError),
    ("rayleigh", (None,), TypeError), ("triangular", (0, 1j, 2), TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "error"), REFUSED)
def test_parameters_that_are_refused(gpu: vc.Runtime, name: str, args: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        getattr(vnp.random.default_rng(0, device=gpu), name)(*args)


def test_uniform_numbers_of_ranges_wider_than_the_largest_float(gpu: vc.Runtime) -> None:
    rng, n = vnp.random.default_rng(0, device=gpu), 4096
    low = gpu.array(np.full(n, -3e38, np.float32))
    for result in (rng.uniform(-3e38, 3e38, n), rng.uniform(low, 3e38), rng.uniform(np.float64(-3.4e38), [3.4e38] * n)):
        drawn = result.numpy().astype(np.float64)
        assert np.all(np.abs(drawn) <= 3.4e38)
        assert abs(drawn.mean()) < 2e37
        assert 1.5e38 < drawn.std() < 2.1e38
    assert rng.uniform(2, 2, 3).tolist() == [2, 2, 2]
    assert 0 <= rng.beta(1e-50, 1).item() <= 1
    with pytest.raises(ValueError, match="low is at most high"):
        rng.uniform(low, -3.2e38)


def test_parameters_near_the_ends_of_the_range(gpu: vc.Runtime) -> None:
    rng, n = vnp.random.default_rng(0, device=gpu), 4096
    for left, mode, right in ((0, 1, 3e38), (0, 3e38, 3e38), (-3e38, 0, 3e38), (-3e38, -3e38, 3e38)):
        drawn = rng.triangular(left, mode, right, n).numpy().astype(np.float64)
        assert np.all((drawn >= np.float32(left)) & (drawn <= np.float32(right)))
        assert abs(drawn.mean() - (left + mode + right) / 3) < 1e37
    assert rng.beta(3e38, 3e38, 2).tolist() == [0.5, 0.5]
    assert rng.f(1e-300, 1, 3).tolist() == [0, 0, 0]
    assert np.median(rng.wald(1e30, 1, n).numpy()) == pytest.approx(2.198, rel=0.2)  # 1 / x is a squared normal number
    assert rng.normal(2**70, 0.0) == 2**70


def weighted(name: str, weights: Any, **more: Any) -> Callable[[vc.Runtime], Any]:
    """Makes a call of a function of three elements, one of them NaN for functions that leave it out."""

    def call(gpu: vc.Runtime) -> Any:
        x = gpu.array(np.array([1, np.nan if name.startswith("nan") else 2, 3], np.float32))
        args = () if name == "average" else (0.5,)
        method = {} if name == "average" else {"method": "inverted_cdf"}
        return getattr(vnp, name)(x, *args, weights=gpu.array(np.asarray(weights)), **method, **more)

    return call


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (weighted("average", np.float32([1, -1, 0])), ZeroDivisionError, "sum of the weights"),
        (weighted("average", np.float32([0, 0, 0]), returned=True), ZeroDivisionError, "sum of the weights"),
        (weighted("quantile", np.float32([0, 0, 0])), ValueError, "sum of weights"),
        (weighted("quantile", np.float32([1, NAN, 1])), ValueError, "sum of weights"),
        (weighted("percentile", np.float32([1, INF, 1])), ValueError, "sum of weights"),
        (weighted("quantile", np.float32([1, -1, 1])), ValueError, "not negative"),
        (weighted("nanquantile", np.float32([0, 1, 0])), ValueError, "sum of weights"),
        (weighted("nanpercentile", np.float32([2, -1, 1])), ValueError, "not negative"),
    ],
)
def test_weights_that_are_refused(gpu: vc.Runtime, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(gpu)


def test_weights_of_elements_that_are_left_out_do_not_count(gpu: vc.Runtime) -> None:
    assert weighted("nanquantile", np.float32([1, NAN, 1]))(gpu).item() == 1
    nothing = gpu.array(np.array([NAN], np.float32))
    one = gpu.array(np.array([1], np.float32))
    assert np.isnan(vnp.nanquantile(nothing, 0.5, weights=one, method="inverted_cdf").item())
    assert np.isnan(weighted("average", np.float32([NAN, 1, 0]))(gpu).item())


def test_weights_of_covariances(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([1, 2, 4], np.float32))
    for name in ("fweights", "aweights"):
        for weights, error in (([1, -1, 1], ValueError), ([2], ValueError), ([[1, 1, 1]], ValueError),
                               ([0, 0, 0], ZeroDivisionError)):  # fmt: skip
            with pytest.raises(error):
                vnp.cov(x, **{name: gpu.array(np.array(weights, np.int32))})
    with pytest.raises(TypeError):
        vnp.cov(x, ddof=1.5)  # type: ignore[arg-type]


def test_a_recording_checks_no_weights(gpu: vc.Runtime) -> None:
    x, weights = gpu.array(np.array([1, 2, 3], np.float32)), gpu.array(np.array([1, 0, 0], np.float32))
    out = gpu.zeros((), np.float32)
    with gpu.record() as graph:
        out[...] = vnp.average(x, weights=weights)
    graph.run()
    assert out.item() == 1


@pytest.mark.parametrize("df", [0.01, 0.1])
def test_variates_of_few_degrees_of_freedom(gpu: vc.Runtime, df: float) -> None:
    # A chi-squared variate of 0.01 degrees is below the least float in two of three draws.
    rng, n = vnp.random.default_rng(3, device=gpu), 8192
    beyond = np.log(1e30) * df / 2  # P(|t| > x) is nearly C * x ** -df
    t = np.abs(rng.standard_t(df, n).numpy().astype(np.float64))
    assert not np.isnan(t).any()
    ratio = np.mean(t > 1e30) / np.mean(t > 1e15)
    assert abs(ratio - np.exp(-beyond)) < 0.05
    result = rng.f(df, df, n).numpy()
    assert not np.isnan(result).any()
    assert abs(np.mean(result > 1) - 0.5) < 0.03  # 1 / F has the same distribution
    assert abs(np.mean(result > 1e30) - np.mean(result < 1e-30)) < 0.03


def test_ends_beyond_the_floats_and_zeros_with_a_minus_are_refused(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(0, device=gpu)
    with pytest.raises(OverflowError, match=r"^triangular: "):
        rng.triangular(0.0, 1.0, 3.5e38)
    for name, args in (("laplace", (0.0, -0.0)), ("rayleigh", (-0.0,)), ("weibull", (-0.0,)), ("uniform", (0.0, -0.0))):
        with pytest.raises(ValueError, match=f"^{name}: "):
            getattr(rng, name)(*args)
