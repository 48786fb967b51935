"""Nearest points beside NumPy's order of all distances: sizes at which blocks and chunks end, equal distances, NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from drawn_arrays import dtypes_of, seeds, viewed
from hypothesis import given
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from vkcompute import neighbours
from vkcompute.arrays.algorithms import nearest as algorithm


def expected(points: Any, queries: Any, k: int) -> tuple[Any, Any]:
    """Returns the distances and the indices; of equal distances the first, and NaN as infinity."""
    with np.errstate(invalid="ignore"):
        squares = ((queries[:, None].astype(np.float64) - points[None]) ** 2).sum(-1)
    squares = np.where(np.isnan(squares), np.inf, squares)
    order = np.argsort(squares, 1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, 1)), order


def check(gpu: vc.Runtime, points: Any, queries: Any, k: int) -> None:
    distances, indices = neighbours.nearest(gpu.array(points), gpu.array(queries), k)
    wanted, order = expected(points, queries, k)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(distances.numpy(), wanted, rtol=1e-6)


@given(data=st.data(), seed=seeds())
def test_small_integers(gpu: vc.Runtime, data: Any, seed: int) -> None:
    """Distances are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    n, n_queries = data.draw(st.sampled_from([1, 63, 65, 700])), data.draw(st.sampled_from([0, 1, 16, 33]))
    width, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, n))
    points, given_points = viewed(data, gpu, rng.integers(-3, 4, (n, width)).astype(np.float32))
    queries, given_queries = viewed(data, gpu, rng.integers(-3, 4, (n_queries, width)).astype(np.float32))
    if not points.size or points.ndim != 2 or queries.ndim != 2 or points.shape[1] != queries.shape[1]:
        return
    k = min(k, len(points))
    distances, indices = neighbours.nearest(given_points, given_queries, k)
    wanted, order = expected(points, queries, k)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_allclose(distances.numpy(), wanted, rtol=1e-6)


@pytest.mark.rotates
@pytest.mark.poor
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("dtype", ["int16", "float16", "float32", "float64"])
def test_many_points(gpu: vc.Runtime, dtype: str, k: int) -> None:
    """Chunks have many points, and queries are taken in turns."""
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    rng = np.random.default_rng(k)
    points, queries = rng.integers(-40, 41, (5000, 4)).astype(dtype), rng.integers(-40, 41, (50, 4)).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "_MOST_STORED", 3000)
        check(gpu, points, queries, k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (31, 2), (65, 3), (200, 4), (1000, 7), (1024, 1)])
def test_few_points_for_many_queries(gpu: vc.Runtime, n: int, width: int, dtype: str) -> None:
    """A program goes through all points, some at a time; many distances are equal, infinite or NaN."""
    if not dtypes_of(gpu, dtype):
        pytest.skip(f"the device has no {dtype}")
    rng = np.random.default_rng(n)
    points, queries = rng.integers(-3, 4, (n, width)).astype(dtype), rng.integers(-3, 4, (4100, width)).astype(dtype)
    points[rng.random(n) < 0.2] = np.nan
    points[rng.random(n) < 0.2] = np.inf
    queries[7], queries[8, 0] = np.nan, -np.inf
    check(gpu, points, queries, 1)
    check(gpu, points, queries.T.copy().T, 1)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_nan_and_infinity_are_the_farthest(gpu: vc.Runtime, k: int) -> None:
    rng = np.random.default_rng(k)
    points = rng.integers(-9, 10, (200, 3)).astype(np.float32)
    points[rng.random(200) < 0.93] = np.nan
    points[rng.random(200) < 0.03] = np.inf
    queries = rng.integers(-9, 10, (20, 3)).astype(np.float32)
    queries[3] = np.nan
    check(gpu, points, queries, k)


def test_points_far_from_the_origin(gpu: vc.Runtime) -> None:
    """Differences are squared, not the coordinates."""
    points = (np.arange(300, dtype=np.float32)[:, None] + 2**20) * np.ones((1, 2), np.float32)
    check(gpu, points, points[::7] + np.float32(0.25), 2)


def test_bad_input(gpu: vc.Runtime) -> None:
    x = gpu.zeros((5, 2))
    for k in (0, 6):
        with pytest.raises(ValueError, match=f"from 1 to the number of points, 5; got {k}"):
            neighbours.nearest(x, x, k)
    for other in (gpu.zeros((5, 3)), gpu.zeros(5)):
        with pytest.raises(ValueError, match="of the same number of coordinates; got the shapes"):
            neighbours.nearest(x, other)
    with pytest.raises(TypeError, match="take their real and imaginary parts"):
        neighbours.nearest(x, gpu.zeros((5, 2), np.complex64))
    with pytest.raises(TypeError, match="takes arrays of a device; got ndarray"):
        neighbours.nearest(x, np.zeros((5, 2)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def poor() -> Iterator[vc.Runtime]:
    """Launches that reach four bindings of 32 KiB."""
    with open_runtime(profile="poor", limits={"maxStorageBufferRange": 1 << 15}) as runtime:
        yield runtime


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize(
    ("n", "n_queries", "width", "k"),
    [(9001, 7, 4, 1), (9001, 7, 4, 5), (9, 5001, 4, 1), (9, 2501, 4, 3), (1501, 1003, 2, 3), (3001, 5, 9, 900)],
)
def test_arrays_beyond_the_bindings_of_a_launch(
    poor: vc.Runtime, n: int, n_queries: int, width: int, k: int, dtype: str
) -> None:
    """Queries or points are halved; many distances are equal, infinite or NaN."""
    rng = np.random.default_rng(n)
    points, queries = (rng.integers(-3, 4, (m, width)).astype(dtype) for m in (n, n_queries))
    if points.dtype.kind == "f":
        points[rng.random(n) < 0.2] = np.nan
        points[rng.random(n) < 0.2] = np.inf
    check(poor, points, queries, k)
