"""Distributions that are functions of others: their moments, errors and NumPy's older names."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

N = 40_000
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "laplace": (1.0, 2.0),
    "logistic": (1.0, 2.0),
    "gumbel": (1.0, 2.0),
    "rayleigh": (2.0,),
    "weibull": (1.5,),
    "pareto": (3.0,),
    "power": (2.5,),
    "standard_cauchy": (),
    "standard_t": (4.0,),
    "f": (5.0, 7.0),
    "noncentral_chisquare": (3.0, 2.0),
    "noncentral_f": (5.0, 7.0, 2.0),
    "triangular": (1.0, 2.0, 4.0),
    "wald": (2.0, 3.0),
    "vonmises": (0.5, 2.0),
    "geometric": (0.3,),
    "negative_binomial": (4, 0.4),
    "hypergeometric": (10, 20, 7),
    "logseries": (0.6,),
    "zipf": (3.0,),
}
QUANTILES = np.linspace(0.05, 0.95, 10)


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_have_the_distribution_of_numpys(gpu: vc.Runtime, name: str) -> None:
    """The Kolmogorov distance of two samples of N is below sqrt(2 / N) * 1.95, but for one in a thousand."""
    rng = vnp.random.default_rng(5, device=gpu)
    result = getattr(rng, name)(*PARAMETERS[name], size=N)
    expected = getattr(np.random.default_rng(7), name)(*PARAMETERS[name], size=N)
    assert result.dtype.kind == expected.dtype.kind
    assert result.device is gpu
    points = np.unique(np.quantile(expected, QUANTILES))
    one, other = (np.searchsorted(np.sort(array.astype(np.float64)), points, "right") / N for array in
                  (result.numpy(), expected))  # fmt: skip
    assert np.abs(one - other).max() < 1.95 * np.sqrt(2 / N)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if PARAMETERS[name]])
def test_parameters_broadcast_and_seeds_repeat(gpu: vc.Runtime, name: str) -> None:
    rng, again = (vnp.random.default_rng(5, device=gpu) for _ in range(2))
    first, *rest = PARAMETERS[name]
    given = np.full((3, 1), first), *rest
    result = getattr(rng, name)(*given, size=(3, 2))
    assert result.shape == (3, 2)
    np.testing.assert_array_equal(result.numpy(), getattr(again, name)(*given, size=(3, 2)).numpy())
    on_device = gpu.array(np.float32(given[0])) if np.asarray(first).dtype.kind == "f" else given[0]
    assert getattr(rng, name)(on_device, *rest).shape == (3, 1)
    assert getattr(rng, name)(*PARAMETERS[name]).shape == ()


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("laplace", (0.0, -1.0), "laplace: scale is not negative; got -1.0"),
        ("pareto", (0.0,), "pareto: a is above 0; got 0.0"),
        ("power", (np.nan,), "power: a is above 0; got nan"),
        ("geometric", (1.5,), "geometric: p is above 0 and at most 1; got 1.5"),
        ("triangular", (1.0, 3.0, 2.0), "triangular: left <= mode <= right, and left < right; got 1.0, 3.0, 2.0"),
        ("dirichlet", ([1.0, -1.0],), "dirichlet: alpha is above 0"),
        ("multivariate_normal", ([0.0], np.eye(2)), r"multivariate_normal: the mean has n numbers, .* got \(1,\) and"),
        ("hypergeometric", (1, 1, 5), "ngood"),
    ],
)
def test_parameters_out_of_range(gpu: vc.Runtime, name: str, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(vnp.random.default_rng(0, device=gpu), name)(*parameters)


def test_limits_of_parameters(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(0, device=gpu)
    assert rng.weibull(np.array([0.0, 1.0]), (3, 2)).numpy()[:, 0].tolist() == [0, 0, 0]
    assert set(rng.geometric(1.0, 50).tolist()) == {1}
    assert rng.laplace(2.0, 0.0, 2).tolist() == [2, 2]
    small = rng.dirichlet([0.01, 0.02], 50).numpy()
    np.testing.assert_allclose(small.sum(-1), 1, rtol=1e-6)
    tiny = rng.wald(1e-3, 1e3, 1000).numpy()
    assert np.isfinite(tiny).all()
    assert (tiny > 0).all()


def test_several_numbers(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(3, device=gpu)
    shares = rng.dirichlet([1.0, 2.0, 3.0], N).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(shares.mean(0), [1 / 6, 1 / 3, 1 / 2], atol=0.01)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    for method in ("svd", "eigh", "cholesky"):
        result = rng.multivariate_normal([1.0, 2.0], covariance, N, method=method).numpy()
        np.testing.assert_allclose(result.mean(0), [1, 2], atol=0.05)
        np.testing.assert_allclose(np.cov(result.T), covariance, atol=0.08)
    assert rng.multivariate_normal([1.0, 2.0], covariance).shape == (2,)
    assert rng.multivariate_normal(gpu.array([1.0, 2.0]), gpu.array(covariance.astype(np.float32)), (3, 4)).shape == (
        3,
        4,
        2,
    )
    with pytest.raises(ValueError, match="not symmetric positive-semidefinite"):
        rng.multivariate_normal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], check_valid="raise")
    counts = rng.multinomial(10, [0.2, 0.3, 0.5], (4,))
    assert counts.shape == (4, 3)
    assert counts.sum(-1).tolist() == [10] * 4
    assert rng.multivariate_hypergeometric([3, 4, 5], 4).sum().item() == 4
    assert len(rng.bytes(7)) == 7


def test_permuted_lines_have_orders_of_their_own(gpu: vc.Runtime) -> None:
    host = np.arange(200, dtype=np.float32).reshape(20, 10)
    rng, x = vnp.random.default_rng(3, device=gpu), gpu.array(host)
    for axis in (0, 1, -1):
        result = rng.permuted(x, axis=axis).numpy()
        np.testing.assert_array_equal(np.sort(result, axis), host)
        orders = np.argsort(np.moveaxis(result, axis, -1), axis=-1)
        assert len(np.unique(orders, axis=0)) == len(orders)
    assert sorted(rng.permuted(x).numpy().reshape(-1).tolist()) == [*range(200)]
    assert rng.permuted(x).shape == (20, 10)
    out = gpu.zeros((20, 10))
    assert rng.permuted(x, axis=1, out=out) is out
    np.testing.assert_array_equal(np.sort(out.numpy(), 1), host)


def test_older_names_share_a_state_that_seed_sets(gpu: vc.Runtime) -> None:
    random = vnp.random
    made = []
    for _ in range(2):
        random.seed(3)
        made.append([
            random.rand(2, 3), random.randn(4), random.randint(5, size=3), random.randint(2, 4, (2, 2)),
            random.choice(5, 3), random.permutation(6), random.random_sample((2,)), random.normal(0, 1, 3),
        ])  # fmt: skip
    assert [array.shape for array in made[0]] == [(2, 3), (4,), (3,), (2, 2), (3,), (6,), (2,), (3,)]
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert random.rand().shape == ()
    assert sorted(made[0][5].tolist()) == [*range(6)]
    state = random.RandomState(4)
    state.rand(5)
    copies = pickle.loads(pickle.dumps(state)), copy.deepcopy(state)
    expected = state.rand(2).numpy()
    for each in copies:
        np.testing.assert_array_equal(each.rand(2).numpy(), expected)
    with pytest.raises(
        AttributeError, match=r"vkcompute.numpy.random has no get_state; its functions are also methods"
    ):
        random.get_state  # noqa: B018
    x = vnp.arange(9)
    random.shuffle(x)
    assert sorted(x.tolist()) == [*range(9)]
    assert random.randint(5, size=2, dtype=int).dtype == np.int64


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("standard_gamma", (0.3,)), ("beta", (0.5, 3.0)), ("poisson", (3.0,)), ("poisson", (500.0,)),
        ("binomial", (20, 0.3)), ("binomial", (10_000, 0.3)), ("integers", (0, 9)), ("integers", (0, 2**40)),
    ],
)  # fmt: skip
def test_loops_of_rejections_are_known_to_end(gpu: vc.Runtime, name: str, parameters: tuple[Any, ...]) -> None:
    """Drivers that cut long loops would have each launch report to the host whether one was cut."""
    rng = vnp.random.default_rng(1)
    gpu.wait()
    drawn = getattr(rng, name)(*parameters, size=100)
    drawn.compute()
    assert not gpu.scheduler.callbacks
    assert np.unique(drawn.numpy()).size > 5
