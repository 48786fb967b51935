"""Variances by one read of long lines, and by two reads of others."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.arrays.functions import variance
from vkcompute.dtypes import lookup
from vkcompute.runtime.tuning import ON_GPU

SHAPES = (5, 700), (2, 1500), (2, 3, 1024), (3, 2, 20, 30), (2, 1, 513, 1), (3, 4, 0)
TOLERANCES = {"float16": 1e-3, "float32": 1e-5, "float64": 1e-13, "int32": 1e-5, "uint8": 1e-5}


@pytest.fixture
def by_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets small arrays of any device be read once."""
    monkeypatch.setattr(variance, "tuning_of", lambda _: ON_GPU._replace(fewest_moments=1))


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, mean: float = 100) -> np.ndarray:
    return np.random.default_rng(0).normal(mean, 20, shape).clip(0, 255 if mean < 256 else None).astype(dtype)


def require_type(gpu: vc.Runtime, dtype: str) -> None:
    if not gpu.device.features.issuperset(lookup(dtype).features):
        pytest.skip(f"no {dtype}")


@pytest.mark.rotates
@pytest.mark.parametrize("lengths", [(1024, 512), (4096, 2048, 1024, 512)], ids=["short parts", "long parts"])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "shape", [(5, 700), (2, 1500), (2, 3, 1024), (3, 2, 20, 30), (2, 1, 513, 1), (3, 4, 0)], ids=str
)
def test_axes_and_dtypes(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str, lengths: tuple[int, ...]
) -> None:
    require_type(gpu, dtype)
    tuning = ON_GPU._replace(fewest_moments=1, moment_lengths=lengths)
    monkeypatch.setattr(variance, "tuning_of", lambda _: tuning)
    host = numbers(shape, dtype)
    x = gpu.array(host)
    for n_axes in range(len(shape) + 1):
        for axes in combinations(range(len(shape)), n_axes):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = host.astype(np.float64).var(axes, ddof=1, keepdims=True)
            result = vnp.var(x, axes, ddof=1, keepdims=True).numpy()
            assert result.dtype == (dtype if dtype.startswith("float") else np.float32)
            np.testing.assert_allclose(result, wanted, TOLERANCES[dtype], err_msg=str(axes))
            same = vnp.std(x, axes, correction=1).numpy()
            np.testing.assert_allclose(same, np.sqrt(wanted.squeeze(axes)), TOLERANCES[dtype], err_msg=str(axes))


@pytest.mark.usefixtures("by_one_read")
@pytest.mark.parametrize("axis", [1, None])
def test_numbers_far_from_zero(gpu: vc.Runtime, axis: int | None) -> None:
    """The rounded mean of such numbers is far from the mean, compared with their spread."""
    host = np.random.default_rng(1).normal(1e6, 1, (3, 5000)).astype(np.float32)
    x, wide = gpu.array(host), host.astype(np.float64)
    np.testing.assert_allclose(vnp.var(x, axis).numpy(), wide.var(axis), 1e-6)
    both = nn.var_mean(x, axis, 0)
    np.testing.assert_allclose(both[0].numpy(), wide.var(axis), 1e-6)
    np.testing.assert_allclose(both[1].numpy(), wide.mean(axis), 1e-7)


@pytest.mark.usefixtures("by_one_read")
def test_pieces_of_large_arrays(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are divided, and launched in groups, where a grid or a binding holds fewer."""
    for name, value in (("_LONG", 4000), ("_PIECES", 4), ("_ALIGNED", 64), ("MOST_GROUPS", 64)):
        monkeypatch.setattr(variance, name, value)
    for shape in (3, 8192), (200, 300), (130, 600), (2, 65000), (2, 65001):
        host = numbers(shape)
        for axis in (1, None):
            result = vnp.var(gpu.array(host), axis).numpy()
            np.testing.assert_allclose(result, host.var(axis, dtype=np.float64), 1e-6, err_msg=f"{shape}, {axis}")


@pytest.mark.usefixtures("by_one_read")
def test_infinity_and_nan(gpu: vc.Runtime) -> None:
    host = numbers((4, 1500))
    host[0, 7], host[1, 1400], host[2] = np.nan, np.inf, 1e-20
    result = vnp.var(gpu.array(host), 1).numpy()
    assert np.isnan(result[:2]).all()
    assert result[2] == 0
    assert result[3] > 0


@pytest.mark.usefixtures("by_one_read")
def test_a_graph_reads_what_is_there(gpu: vc.Runtime) -> None:
    x, out = gpu.array(numbers((2, 3000))), gpu.zeros(2, np.float32)
    with gpu.record() as graph:
        out[...] = vnp.var(x, 1)
    for factor in (1, 3):
        host = factor * numbers((2, 3000))
        x.write(host)
        graph.run()
        np.testing.assert_allclose(out.numpy(), host.var(1, dtype=np.float64), 1e-6)


@pytest.mark.usefixtures("by_one_read")
def test_expressions_views_and_overwritten_arrays(gpu: vc.Runtime) -> None:
    host = numbers((3, 2000))
    x, wide = gpu.array(host), host.astype(np.float64)
    np.testing.assert_allclose(vnp.var(x * 2, 1).numpy(), 4 * wide.var(1), 1e-5)
    np.testing.assert_allclose(vnp.var(x[:, ::2], 1).numpy(), wide[:, ::2].var(1), 1e-5)
    np.testing.assert_allclose(vnp.var(x[:, 1:], 1).numpy(), wide[:, 1:].var(1), 1e-5)
    np.testing.assert_allclose(vnp.var(x, 1, np.float32, gpu.zeros(3, np.float32)).numpy(), wide.var(1), 1e-6)
    before = vnp.var(x, 1)
    x.fill(0)
    np.testing.assert_allclose(before.numpy(), wide.var(1), 1e-6)


def test_the_mean_of_float16_is_not_rounded(gpu: vc.Runtime) -> None:
    """Numbers of float16 of this size are integers; NumPy's variance of two of them is up to 11 % off."""
    host = np.random.default_rng(0).normal(1000, 2, (2, 3000)).astype(np.float16)
    x = gpu.array(host)
    for axis in (0, 1):
        np.testing.assert_allclose(vnp.var(x, axis).numpy(), host.astype(np.float64).var(axis), 1e-3)


@pytest.mark.usefixtures("by_one_read")
@pytest.mark.parametrize("axis", [1, None])
def test_sums_that_overflow_are_infinite(gpu: vc.Runtime, axis: int | None) -> None:
    for host in (np.full((3, 700), 3e38, np.float32), np.geomspace(1e18, 1e20, 2100, dtype=np.float32).reshape(3, 700)):
        with np.errstate(all="ignore"):
            assert np.isinf(host.var(axis)).all()
        assert np.isinf(vnp.var(gpu.array(host), axis).numpy()).all()
    host[0, 0] = np.nan
    assert np.isnan(vnp.var(gpu.array(host), axis).numpy().ravel()[0])
