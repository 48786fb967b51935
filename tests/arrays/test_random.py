"""Random numbers: distributions by statistical tests of fixed seeds, streams, and numbers that every device makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

N = 20_000


@pytest.fixture
def rng(gpu: vc.Runtime) -> vnp.random.Generator:
    return vnp.random.default_rng(7, device=gpu)


def kolmogorov(drawn: np.ndarray, cdf: Callable[[Any], Any]) -> float:
    """The largest distance of two distributions, in units of the one that 1 sample in 1,000 exceeds."""
    x = np.sort(drawn.astype(np.float64))
    expected, n = np.array([cdf(item) for item in x]), len(x)
    distance = max(np.max(np.arange(1, n + 1) / n - expected), np.max(expected - np.arange(n) / n))
    return float(distance * math.sqrt(n) / 1.95)


def chi_square(counts: Any, probabilities: Any) -> float:
    """The statistic in units of the one that 1 sample in 1,000 exceeds (Wilson and Hilferty's approximation)."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities) * np.sum(counts)
    keep = expected >= 5
    counts = np.append(counts[keep], counts[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    statistic = np.sum((counts - expected) ** 2 / np.maximum(expected, 1e-9) * (expected > 0.5))
    n = max(len(counts) - 1, 1)
    return float(statistic / (n * (1 - 2 / (9 * n) + 3.09 * math.sqrt(2 / (9 * n))) ** 3))


CONTINUOUS: dict[str, tuple[tuple[Any, ...], Callable[[float], float]]] = {
    "random": ((), lambda x: x),
    "uniform": ((-2, 6), lambda x: (x + 2) / 8),
    "standard_normal": ((), lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "normal": ((10, 3), lambda x: math.erfc(-(x - 10) / 3 / math.sqrt(2)) / 2),
    "lognormal": ((), lambda x: math.erfc(-math.log(x) / math.sqrt(2)) / 2),
    "standard_exponential": ((), lambda x: 1 - math.exp(-x)),
    "exponential": ((4,), lambda x: 1 - math.exp(-x / 4)),
    "gamma": ((3, 2), lambda x: 1 - math.exp(-x / 2) * (1 + x / 2 + x * x / 8)),
    "standard_gamma": ((0.5,), lambda x: math.erf(math.sqrt(x))),
    "chisquare": ((2,), lambda x: 1 - math.exp(-x / 2)),
    "beta": ((2, 3), lambda x: x * x * (6 - 8 * x + 3 * x * x)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_floats_are_distributed_as_their_function(rng: vnp.random.Generator, name: str) -> None:
    args, cdf = CONTINUOUS[name]
    result = getattr(rng, name)(*args, size=N)
    assert (result.shape, result.dtype) == ((N,), np.float32)
    assert kolmogorov(result.numpy(), cdf) < 1


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.05, 0.05)])
def test_beta_of_small_parameters(rng: vnp.random.Generator, a: float, b: float) -> None:
    result = rng.beta(a, b, N).numpy().astype(np.float64)
    assert np.all((result >= 0) & (result <= 1))
    variance = a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(result.mean() - 0.5) < 4 * math.sqrt(variance / N)
    assert abs(result.var() - variance) < 0.02 * variance


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential"])
def test_doubles_have_53_bits(rng: vnp.random.Generator, name: str) -> None:
    result = getattr(rng, name)(N + 1, np.float64).numpy()
    assert result.dtype == np.float64
    assert kolmogorov(result, CONTINUOUS[name][1]) < 1
    assert np.mean(result.astype(np.float32) == result) < 0.01


def _poisson(mean: float, k: np.ndarray) -> np.ndarray:
    return np.exp([item * math.log(mean) - mean - math.lgamma(item + 1) for item in k.tolist()])


def _binomial(n: int, p: float, k: np.ndarray) -> np.ndarray:
    constant = math.lgamma(n + 1)
    return np.exp([
        constant - math.lgamma(item + 1) - math.lgamma(n - item + 1) + item * math.log(p) + (n - item) * math.log1p(-p)
        for item in k.tolist()
    ])  # fmt: skip


@pytest.mark.parametrize("mean", [0.3, 4, 9.99, 10, 31.7, 1234.5, 1e6])
def test_poisson_counts(rng: vnp.random.Generator, mean: float) -> None:
    result = rng.poisson(mean, N).numpy()
    width = 6 * math.sqrt(mean) + 10
    k = np.arange(max(int(mean - width), 0), int(mean + width))
    assert k[0] <= result.min()
    assert result.max() <= k[-1]
    _check_counts(result - k[0], _poisson(mean, k))


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (12, 0.1), (40, 0.9), (100, 0.5), (5000, 0.02), (2_000_000, 0.7)])
def test_binomial_counts(rng: vnp.random.Generator, n: int, p: float) -> None:
    result = rng.binomial(n, p, N).numpy()
    width = 6 * math.sqrt(n * p * (1 - p)) + 10
    k = np.arange(max(int(n * p - width), 0), min(int(n * p + width), n) + 1)
    assert k[0] <= result.min()
    assert result.max() <= k[-1]
    _check_counts(result - k[0], _binomial(n, p, k))


def _check_counts(result: np.ndarray, probabilities: np.ndarray) -> None:
    """Compares counts of about 100 equal intervals with their probabilities."""
    width = -(-len(probabilities) // 100)
    counts = np.bincount(result // width, minlength=-(-len(probabilities) // width))
    assert chi_square(counts, np.add.reduceat(probabilities, np.arange(0, len(probabilities), width))) < 1


def test_edges_of_discrete_distributions(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    assert not rng.poisson(0, 50).numpy().any()
    assert not rng.binomial(10, 0.0, 50).numpy().any()
    assert np.all(rng.binomial(10, 1.0, 50).numpy() == 10)
    assert not rng.binomial(0, 0.5, 50).numpy().any()
    assert not rng.standard_gamma(0, 50).numpy().any()
    mean = 2.0**40
    result = rng.poisson(mean, N).numpy()
    assert abs(result.mean() - mean) < 5 * math.sqrt(mean / N)
    assert abs(result.std() / math.sqrt(mean) - 1) < 0.03
    assert len(np.unique(result)) > 0.9 * N
    for call in (
        lambda: rng.poisson(-1.0), lambda: rng.poisson(math.nan), lambda: rng.poisson(1e15),
        lambda: rng.binomial(-1, 0.5),
        lambda: rng.binomial(3, 1.5), lambda: rng.standard_gamma(-1), lambda: rng.beta(0, 1), lambda: rng.normal(0, -1),
        lambda: rng.exponential(-1), lambda: rng.beta(1, math.inf), lambda: rng.normal(gpu.zeros((2,)), 1, (3, 3)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            call()


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-5, 95), (0, 2**31 - 1), (-(2**31), 2**31)])
def test_integers(rng: vnp.random.Generator, low: int, high: int) -> None:
    result = rng.integers(low, high, N, np.int32).numpy()
    assert result.dtype == np.int32
    places = (result.astype(np.int64) - low) * min(high - low, 100) // (high - low)
    assert chi_square(np.bincount(places, minlength=1), np.full(min(high - low, 100), 1 / min(high - low, 100))) < 1
    assert rng.integers(low, high - 1, 3, np.int32, endpoint=True).shape == (3,)


def test_words_that_would_be_biased_are_drawn_again(gpu: vc.Runtime) -> None:
    """Nearly half of the words are above the limit: the result is the first attempt's below it, in each call."""
    span, n = 2**31, 4096
    limit = 2**32 - 1 - 2**32 % (span + 1)
    stream, *key = np.random.SeedSequence(3).generate_state(3, np.uint32)
    rng = vnp.random.default_rng(3, device=gpu)
    for call in range(3):
        block = np.arange(n // 4) + call * (n // 4)
        words, attempt = philox_words(block, 0, stream, key), 0
        while (words > limit).any():
            attempt += 1
            words = np.where(words > limit, philox_words(block, attempt, stream, key), words)
        got = rng.integers(0, span, n, np.int64, endpoint=True).numpy()
        np.testing.assert_array_equal(got, words.reshape(-1) % (span + 1))
    assert attempt > 5


def philox_words(block: Any, attempt: int, stream: Any, key: Any) -> Any:
    """Returns the words of Philox 4x32-10 (Salmon et al., 2011) of blocks, a row for each."""
    low, mask = block.astype(np.uint64), np.uint64(0xFFFFFFFF)
    x = [low, low * 0, low * 0 + np.uint64(attempt), low * 0 + np.uint64(stream)]
    k = [np.uint64(word) for word in key]
    for _ in range(10):
        first, second = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [second >> np.uint64(32) ^ x[1] ^ k[0], second & mask, first >> np.uint64(32) ^ x[3] ^ k[1], first & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return np.stack(x, axis=1)


def test_integers_of_64_bits(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    for low, high, dtype in [(-(2**63), 2**63, np.int64), (0, 2**64, np.uint64), (-3, 2**33 + 5, np.int64)]:
        result = rng.integers(low, high, N, dtype).numpy()
        shares = (result.astype(np.float64) - low) / (high - low)
        assert kolmogorov(shares, lambda x: x) < 1
        assert len(np.unique(result)) == N or high < 2**40


def test_ranges_that_are_arrays(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    low, high = np.array([[0], [10]], np.int32), np.array([1, 5, 2**31 - 1], np.int32)
    result = rng.integers(np.minimum(low, high - 1), high, (500, 2, 3), np.int32).numpy()
    assert np.all((result >= np.minimum(low, high - 1)) & (result < high))
    assert set(np.unique(result[:, 0, 1])) == set(range(5))
    means = gpu.array(np.float32([1, 100, 10_000]))
    counts = rng.poisson(means, (N // 4, 3)).numpy()
    np.testing.assert_allclose(counts.mean(axis=0), [1, 100, 10_000], rtol=0.06)
    result = rng.normal(means, gpu.array(np.float32([[1], [2]]))).numpy()
    assert result.shape == (2, 3)
    for limits, dtype in [((3, 3), np.int32), ((0, 2**31 + 1), np.int32), ((-1, 3), np.uint32), (([0, 3], 3), None)]:
        with pytest.raises(ValueError, match="a range is not empty"):
            rng.integers(*limits, dtype=dtype)
    with pytest.raises(TypeError, match="ends of ranges are integers"):
        rng.integers(2.5)


def test_each_order_is_as_probable(rng: vnp.random.Generator) -> None:
    places = {permutation: at for at, permutation in enumerate(permutations(range(4)))}
    results = [places[tuple(rng.permutation(4).tolist())] for _ in range(500)]
    assert chi_square(np.bincount(results, minlength=24), np.full(24, 1 / 24)) < 1
    large = rng.permutation(5000).numpy()
    np.testing.assert_array_equal(np.sort(large), np.arange(5000))
    assert abs(np.corrcoef(large, np.arange(5000))[0, 1]) < 0.06
    assert rng.permutation(0).shape == (0,)
    assert rng.permutation(1).tolist() == [0]


def test_arrays_are_shuffled_along_an_axis(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    host = np.arange(60, dtype=np.float32).reshape(3, 20)
    x = gpu.array(host)
    result = rng.permutation(x, axis=1).numpy()
    np.testing.assert_array_equal(result[:, np.argsort(result[0])], host)
    rng.shuffle(x.T)
    assert not np.array_equal(x.numpy(), host)
    np.testing.assert_array_equal(np.sort(x.numpy()), host)
    with pytest.raises(TypeError, match="device array"):
        rng.shuffle([1, 2])


def test_choices(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    p = [0.1, 0.0, 0.5, 0.4, 0.0]
    result = rng.choice(5, N, p=p).numpy()
    counts = np.bincount(result, minlength=5)
    assert counts[1] == counts[4] == 0
    assert chi_square(counts[[0, 2, 3]], [0.1, 0.5, 0.4]) < 1
    assert sorted(rng.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(rng.choice(5, 3, replace=False, p=p).tolist()) == [0, 2, 3]
    x = gpu.array(np.arange(12, dtype=np.int32).reshape(4, 3))
    result = rng.choice(x, (2, 5), axis=1).numpy()
    assert result.shape == (4, 2, 5)
    np.testing.assert_array_equal(result - result[:1], np.arange(0, 12, 3)[:, None, None] + np.zeros((1, 2, 5)))
    assert rng.choice(1, 3, p=[1.0]).tolist() == [0, 0, 0]
    for call in (
        lambda: rng.choice(3, 4, replace=False), lambda: rng.choice(0, 1), lambda: rng.choice(2, 1, p=[0.5, 0.6]),
        lambda: rng.choice(2, 2, replace=False, p=[0.0, 1.0]), lambda: rng.choice(3, 1, p=[0.5, 0.5]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="choice"):
            call()


def test_more_choices_than_a_grid_has_groups(gpu: vc.Runtime, rng: vnp.random.Generator) -> None:
    x = gpu.array(np.array([3, 5], np.int32))
    result = rng.choice(x, 530_000).numpy()
    assert set(np.unique(result)) == {3, 5}
    assert abs(result.mean() - 4) < 0.01


def test_streams(gpu: vc.Runtime) -> None:
    def drawn(seed: Any) -> list[float]:
        return vnp.random.default_rng(seed, device=gpu).random(100).tolist()

    assert drawn(3) == drawn(3)
    assert drawn([3, 4]) == drawn(np.random.SeedSequence([3, 4]))
    assert drawn(3) != drawn(4)
    assert drawn(None) != drawn(None)
    rng = vnp.random.default_rng(3, device=gpu)
    assert vnp.random.default_rng(rng) is rng
    first, second = rng.random(100).tolist(), rng.random(100).tolist()
    assert first == drawn(3)
    assert not set(first) & set(second)
    children = [item.random(100).tolist() for item in [*rng.spawn(2), *rng.spawn(1)]]
    assert len({tuple(child) for child in [*children, first, second]}) == 5


@pytest.mark.parametrize("size", [-1, (2, -3), (-2, -3)])
@pytest.mark.parametrize("name", ["random", "normal", "poisson", "choice"])
def test_sizes_are_not_negative(rng: vnp.random.Generator, name: str, size: Any) -> None:
    with pytest.raises(ValueError, match="lengths of a shape are not negative"):
        getattr(rng, name)(*((5,) if name == "choice" else ()), size=size)


def test_results_go_where_out_says(gpu: vc.Runtime) -> None:
    one, other = (vnp.random.default_rng(1, device=gpu) for _ in range(2))
    out = gpu.zeros((3, 5))
    assert one.random(out=out) is out
    np.testing.assert_array_equal(out.numpy(), other.random((3, 5)).numpy())
    for wrong in (gpu.zeros((2, 2)), gpu.zeros((3,), np.int32)):
        with pytest.raises((TypeError, ValueError), match=r"out is|random floats"):
            one.random((3,), out=wrong)
    with pytest.raises(TypeError, match="float32 or float64"):
        one.random(3, np.float16)
    assert one.random((0, 3)).shape == (0, 3)
    with pytest.raises(AttributeError, match="methods of default_rng"):
        vnp.random.get_state()


def test_every_device_makes_these_numbers(gpu: vc.Runtime) -> None:
    rng = vnp.random.default_rng(2024, device=gpu)
    results = {
        "random": (rng.random(4) * 2**24).tolist(), "integers": rng.integers(0, 10**6, 4, np.int32).tolist(),
        "permutation": rng.permutation(8).tolist(), "poisson": rng.poisson([0.5, 5, 50, 5e5]).tolist(),
        "binomial": rng.binomial([5, 50, 500, 5_000_000], 0.4).tolist(),
    }  # fmt: skip
    assert results == {
        "random": [13592941, 1313939, 1056514, 14711642], "integers": [788036, 131148, 757824, 414710],
        "permutation": [4, 0, 2, 7, 5, 3, 6, 1], "poisson": [0, 9, 62, 500803], "binomial": [4, 25, 169, 1999302],
    }  # fmt: skip
    rng = vnp.random.default_rng(2025, device=gpu)
    normal = [-0.06664994359, 2.05629801750, 0.88218426704, -0.95688079834]
    np.testing.assert_allclose(rng.standard_normal(4).numpy(), normal, rtol=1e-5)
    gamma = [1.3152422673e-13, 0.3061935007572, 12.736027717590, 1050.11376953125]
    np.testing.assert_allclose(rng.standard_gamma([0.1, 1, 10, 1000]).numpy(), gamma, rtol=1e-4)
