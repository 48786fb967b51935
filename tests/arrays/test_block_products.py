"""Products of matrices by block programs: their edges, and errors within sqrt(K) roundings."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.dtypes import lookup

# Blocks of 16 x 64 or 8 x 128: whole ones, cut ones, overlapping ones, columns that are no multiple of four.
SHAPES = [(16, 8, 64), (17, 9, 68), (9, 40, 129), (50, 1, 67), (3, 300, 5), (70, 33, 2)]


@pytest.fixture(params=["gpu", "like_a_gpu"])
def gpu(request: pytest.FixtureRequest) -> vc.Runtime:
    """The runtime under test, as it is and with the block programs of a GPU."""
    result: vc.Runtime = request.getfixturevalue(request.param)
    return result


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Higham and Mary, 2019: errors of sums are below this but for a negligible probability."""
    terms = abs(a.astype(np.float64)) @ abs(b.astype(np.float64))
    return np.sqrt(a.shape[-1] + 1) * float(np.finfo(a.dtype).eps) * terms


@pytest.mark.parametrize(
    ("shape", "dtype"), [*[(each, "float32") for each in SHAPES], ((9, 40, 129), "float64")], ids=str
)
def test_blocks_at_edges(gpu: vc.Runtime, shape: tuple[int, int, int], dtype: str) -> None:
    if not set(lookup(dtype).features) <= set(gpu.device.features):
        pytest.skip(f"no {dtype}")
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    result = vnp.matmul(gpu.array(a), gpu.array(b)).numpy()
    assert (result.shape, result.dtype) == ((m, n), dtype)
    assert (abs(result - a.astype(np.longdouble) @ b.astype(np.longdouble)) <= bound(a, b)).all()


def test_padding_and_other_rows_leave_no_trace(gpu: vc.Runtime) -> None:
    a, b = np.ones((17, 9), np.float32), np.ones((9, 68), np.float32)
    a[16], b[:, 67] = np.inf, np.nan
    result = vnp.matmul(gpu.array(a), gpu.array(b)).numpy()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, a @ b)


def random_view(gpu: vc.Runtime, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, vc.Array]:
    """Returns small integers as an array of the host, and one of the device, both views of a larger array."""
    order = rng.permutation(len(shape))
    sizes = np.array(shape)[order]
    starts, steps = rng.choice([0, 0, 0, 1, 4], len(shape)), rng.choice([1, 1, 1, 2, -1], len(shape))
    host = rng.integers(-5, 6, starts + sizes * abs(steps)).astype(np.float32)
    x: vc.Array = gpu.array(host)
    parts = tuple(
        [slice(int(start), int(start + n * abs(step))) for start, n, step in zip(starts, sizes, steps, strict=True)]
    )
    every = tuple([slice(None, None, int(step)) for step in steps])
    axes = tuple(int(axis) for axis in np.argsort(order))
    return host[parts][every].transpose(axes), x[parts][every].transpose(axes)


def test_random_views_are_multiplied_exactly(gpu: vc.Runtime) -> None:
    """Rows of views, and transposed matrices, are read in place or copied."""
    rng = np.random.default_rng(3)
    for _ in range(80):
        m, k, n = (int(length) for length in rng.choice([4, 7, 8, 20, 32, 64, 68, 130], 3))
        stacks = [(int(rng.integers(1, 4)),)] * 2 if rng.integers(2) else [(), ()]
        (a, x), (b, y) = (
            random_view(gpu, rng, (*stack, *shape)) for stack, shape in zip(stacks, ((m, k), (k, n)), strict=True)
        )
        np.testing.assert_array_equal(vnp.matmul(x, y).numpy(), a @ b, err_msg=f"{a.shape} {x.strides} {y.strides}")
        bias = rng.integers(-5, 6, n).astype(np.float32)
        if not stacks[0]:
            result = vc.nn.linear(x, y.T, gpu.array(bias))
            np.testing.assert_array_equal(result.numpy(), a @ b + bias, err_msg=f"{a.shape} {x.strides} {y.strides}")


def test_stacks_and_views_are_packed_as_needed(gpu: vc.Runtime) -> None:
    host = np.arange(4 * 20 * 72, dtype=np.float32).reshape(4, 20, 72) % 7
    x = gpu.array(host)
    part, others = host[0, :16, 4:68], host[1:, 3:7, :64].swapaxes(1, 2)
    result = vnp.matmul(x[0, :16, 4:68], x[1:, 3:7, :64].swapaxes(1, 2))
    np.testing.assert_array_equal(result.numpy(), part @ others)
    np.testing.assert_array_equal(vnp.matmul(x.swapaxes(1, 2), x).numpy(), host.swapaxes(1, 2) @ host)
    np.testing.assert_array_equal(vnp.matmul(x[::-1, ::2], x[1].T).numpy(), host[::-1, ::2] @ host[1].T)


def test_products_in_a_graph_take_new_inputs(gpu: vc.Runtime) -> None:
    a, b = (np.random.default_rng(at).integers(-9, 9, (12, 12)).astype(np.float32) for at in range(2))
    x, out = gpu.array(a), gpu.zeros((12, 12))
    with gpu.record() as graph:
        out.copy_from(vnp.matmul(x, x))
    for host in (a, b):
        x[...] = gpu.array(host)
        graph.run()
        np.testing.assert_array_equal(out.numpy(), host @ host)


def test_arrays_that_offsets_do_not_reach(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.tile.launch_arrays.LARGEST", 100)
    a = np.arange(144, dtype=np.float32).reshape(12, 12)
    np.testing.assert_array_equal(vnp.matmul(gpu.array(a), gpu.array(a)).numpy(), a @ a)
