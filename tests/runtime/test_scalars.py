"""What Python asks of an array in passing is answered as numpy answers it, or refused with a way out."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp


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
        assert sum(buffer.raw().nbytes for buffer in buffers) == expected.nbytes
        loaded = pickle.loads(text, buffers=buffers)
        assert (loaded.dtype, loaded.runtime) == (x.dtype, vnp.zeros(0).device)
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


IN_TRANSIT = """
import pickle, sys
import numpy as np
import vkcompute as vc
import vkcompute.runtime.runtime as runtime

opened = []
make = runtime.Runtime.__init__
runtime.Runtime.__init__ = lambda self, *args, **named: (opened.append(1), make(self, *args, **named))[1]
data = np.arange(6, dtype=np.float32)
x = pickle.loads(sys.stdin.buffer.read())
y = pickle.loads(pickle.dumps(x, protocol=5))
print((x.shape, x.dtype.name, x.nbytes, x.ndim, len(x), len(opened)), y.numpy().tolist(), len(opened))
print((x[:0].shape, (y + x).tolist(), y.sum().item(), len(opened)))
"""


def test_a_process_that_passes_an_array_on_opens_no_device(gpu: vc.Runtime) -> None:
    given = pickle.dumps(gpu.array(np.arange(6, dtype=np.float32)), protocol=5)
    done = subprocess.run([sys.executable, "-c", IN_TRANSIT], input=given, capture_output=True, check=False)
    assert done.stderr == b""
    first = "((6,), 'float32', 24, 1, 6, 0) [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] 1"
    assert done.stdout.decode() == f"{first}\n((0,), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0], 15.0, 1)\n"


def test_a_part_without_elements_computes_nothing(gpu: vc.Runtime) -> None:
    total = gpu.zeros((3, 4)).sum(axis=0)
    assert total[:0].shape == (0,)
    assert total.is_pending
    total.close()
    with pytest.raises(vc.ClosedError):
        total[:0]
