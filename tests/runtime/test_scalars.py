"""What Python asks of an array in passing is answered as numpy answers it, or refused with a way out."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import vkcompute as vc


def test_truth_and_numbers_of_one_element(gpu: vc.Runtime) -> None:
    assert not bool(gpu.zeros(1))
    assert not bool(gpu.zeros(()))
    assert bool(gpu.full((1, 1), 2.5))
    assert float(gpu.full((), 2.5)) == 2.5
    assert int(gpu.full(1, 7, np.int64)) == 7
    assert [10, 20, 30][gpu.full((), 1, np.uint8)] == 20
    with pytest.raises(TypeError, match="only an array of integers is an index"):
        [10, 20, 30][gpu.full((), 1.0)]  # type: ignore[call-overload]


@pytest.mark.parametrize("ask", [bool, float, int, lambda x: x.item()])
def test_many_elements_are_no_number(gpu: vc.Runtime, ask: type) -> None:
    for n in (0, 2):
        with pytest.raises(ValueError, match=rf"one element.*shape \({n},\)"):
            ask(gpu.zeros(n))


def test_iteration_gives_views(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(6, dtype=np.int32).reshape(3, 2))
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    for row in x:
        row.fill(9)
    assert x.numpy().min() == 9
    with pytest.raises(TypeError, match=r"shape \(\) cannot be iterated over"):
        list(gpu.zeros(()))


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_runtimes_are_not_pickled(gpu: vc.Runtime, way: Callable[[object], object]) -> None:
    for whole in (gpu, gpu.device):
        with pytest.raises(
            TypeError, match=r"an object of (Runtime|Device) lives.* cannot be pickled.* open a runtime in each"
        ):
            way(whole)


def test_arrays_are_copied_and_pickled_out_of_band(gpu: vc.Runtime) -> None:
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    for x, expected in ((gpu.array(data), data), (gpu.array(data).T[1:], data.T[1:])):
        for made in (copy.copy(x), copy.deepcopy(x), copy.deepcopy([x])[0]):
            assert made.runtime is gpu
            made.fill(0)
            assert np.array_equal(x.numpy(), expected)
        buffers: list[pickle.PickleBuffer] = []
        text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
        assert len(text) < 300
        assert sum(each.raw().nbytes for each in buffers) == expected.nbytes
        loaded = pickle.loads(text, buffers=buffers)
        assert (loaded.dtype, loaded.runtime) == (x.dtype, vc.default_runtime())
        assert np.array_equal(loaded.numpy(), expected)
    del loaded
    vc.default_runtime().close()


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (np.uint8, 300, ValueError),
        (np.uint8, -1, ValueError),
        (np.uint8, 1.7, TypeError),
        (np.float32, 1j, TypeError),
        (np.float32, None, TypeError),
        (np.float32, "1.5", TypeError),
        (np.int32, [1, 2], ValueError),
    ],
)
def test_fill_refuses_what_write_refuses(gpu: vc.Runtime, dtype: type, value: object, error: type[Exception]) -> None:
    x = gpu.zeros(3, dtype)
    with pytest.raises(error):
        x.fill(value)
    assert x.tolist() == [0, 0, 0]
