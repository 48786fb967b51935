"""What NumPy takes and gives beside the standard: numbers of other classes, axes of arrays of shape (), methods."""

from __future__ import annotations

import subprocess
import sys
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp


class Level(IntEnum):
    LOW = 1
    HIGH = 300


class Metres(float):
    pass


def test_numbers_of_subclasses_are_numbers(gpu: vc.Runtime) -> None:
    host = np.arange(4, dtype=np.int32)
    x = gpu.array(host)
    for of in (
        lambda x: x + Level.LOW,
        lambda x: Level.HIGH - x,
        lambda x: x == Level.LOW,
        lambda x: x.astype(np.float32) * Metres(2.5),
        lambda x: x < Level.HIGH,
    ):
        np.testing.assert_array_equal(of(x).numpy(), of(host))
    assert vnp.where(x > 1, x, Level.HIGH).tolist() == [300, 300, 2, 3]
    small = x.astype(np.uint8)
    with pytest.raises(OverflowError):
        small + Level.HIGH
    assert (small < Level.HIGH).tolist() == [True] * 4


def test_reductions_of_one_element_take_its_axis(gpu: vc.Runtime) -> None:
    host = np.array(3.0, np.float32)
    x = gpu.array(host)
    for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "count_nonzero", "ptp", "nansum"):
        for axis in (0, -1):
            expected = getattr(np, name)(host, axis=axis)
            result = getattr(vnp, name)(x, axis=axis)
            assert (result.shape, result.item()) == (np.shape(expected), expected), name
        with pytest.raises(ValueError, match="axes"):
            getattr(vnp, name)(x, axis=1)
    assert vnp.cumsum(x, axis=-1).tolist() == vnp.cumprod(x, axis=0).tolist() == [3]
    assert vnp.add.reduce(x).item() == 3
    with pytest.raises(ValueError, match="axes"):
        vnp.mean(x, axis=0)


def test_limits_beyond_the_dtype_do_not_clip(gpu: vc.Runtime) -> None:
    for dtype in ("int32", "uint32"):
        host = np.array([1, 200, 70000], dtype)
        x = gpu.array(host)
        for low, high in ((-(2**40), 2**40), (-(2**40), 300), (5, 2**35), (None, 2**40), (-(2**40), None)):
            result = x.clip(low, high)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result.numpy(), host.clip(low, high))
        with pytest.raises(OverflowError):
            x.clip(2**40, None)


def test_methods(gpu: vc.Runtime) -> None:
    host = np.random.default_rng(0).integers(0, 50, (5, 6)).astype(np.int32)
    x = gpu.array(host)
    assert x.itemsize == 4
    assert x.T.tobytes() == host.T.tobytes()
    flat = x.T.flatten()
    np.testing.assert_array_equal(flat.numpy(), host.T.flatten())
    flat.fill(0)
    np.testing.assert_array_equal(x.numpy(), host)
    np.testing.assert_array_equal(np.take_along_axis(host, x.argpartition(2).numpy(), 1)[:, 2], np.sort(host)[:, 2])
    np.testing.assert_array_equal((x.T + 1j).conj().numpy(), (host.T + 1j).conj())
    view, host_view = x[::2].T, host[::2].T
    view.sort(0)
    host_view.sort(0)
    np.testing.assert_array_equal(x.numpy(), host)
    x.sort()
    host.sort()
    x.put([1, 7], [90, 91])
    host.put([1, 7], [90, 91])
    np.testing.assert_array_equal(x.numpy(), host)
    x.partition(3)
    np.testing.assert_array_equal(x[:, 3].numpy(), np.sort(host)[:, 3])
    lazy = gpu.array(np.array([2, 0, 1], np.int32)) + 0
    lazy.sort()
    assert lazy.tolist() == [0, 1, 2]


def test_errors_within_properties_are_their_own(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> None:
        raise AttributeError("of the inside")

    x = gpu.zeros(3)
    monkeypatch.setattr(type(gpu), "require_open", fail)
    with pytest.raises(AttributeError, match="of the inside"):
        _ = x.buffer
    with pytest.raises(AttributeError, match="no attribute 'bufer'"):
        _ = x.bufer


def test_a_transform_that_is_too_long_names_the_limit(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)
    for name in ("fft", "ifft", "rfft", "irfft"):
        with pytest.raises(ValueError, match="at most 67,108,864 elements"):
            getattr(vnp.fft, name)(x, 2**27)


def test_buffers_that_outlive_their_module_end_silently() -> None:
    script = """
import atexit, builtins, vkcompute as vc
from vkcompute.core import buffer
builtins.kept = vc.Runtime().zeros(4)
atexit.register(lambda: vars(buffer).update(live=None))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_indices_of_64_bits_are_taken_by_any_device(gpu: vc.Runtime) -> None:
    host = np.arange(6, dtype=np.float32)
    x = gpu.array(host)
    for dtype, picked in (("int64", [1, -6, 5, -1]), ("uint64", [1, 0, 5])):
        at = np.array(picked, dtype)
        assert x[gpu.array(at)].tolist() == host[at].tolist()
        assert vnp.take(x, gpu.array(np.repeat(at, 2))[::2]).tolist() == host[at].tolist()
    for dtype, beyond in (
        ("int64", 2**32),
        ("int64", -(2**32)),
        ("int64", 2**31),
        ("uint64", 2**63),
        ("uint64", 2**31),
    ):
        with pytest.raises(IndexError, match="out of bounds"):
            x[gpu.array(np.array([beyond], dtype))].numpy()


def test_arrays_beyond_indices_of_32_bits_are_refused(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x, at = gpu.zeros(3000), gpu.array(np.array([2], np.int32))
    monkeypatch.setattr("vkcompute.arrays.algorithms.lines._MOST_ITEMS", 2000)
    for work in (
        lambda: vnp.take(x, at),
        lambda: x.__setitem__(at, 1.0),
        lambda: vnp.nonzero(x),
        lambda: vnp.fft.fft(x),
    ):
        with pytest.raises(ValueError, match=r"takes at most 2,000 elements; got [\d,]+; pass parts"):
            work()


AT = ("multiply", "maximum", "subtract", "bitwise_xor", "floor_divide", "power", "less")


@pytest.mark.parametrize("name", AT)
def test_functions_at_indices(gpu: vc.Runtime, name: str) -> None:
    rng = np.random.default_rng(len(name))
    host = rng.integers(1, 9, (5, 4)).astype(np.int32)
    x = gpu.array(host)
    for index, shape in ((np.array([0, 3, 0, 0, 1]), (5, 1)), ((np.array([4, 4, 0]), np.array([1, 1, 2])), (3,))):
        values = rng.integers(1, 4, shape).astype(np.int32)
        getattr(np, name).at(host, index, values)
        getattr(vnp, name).at(x, index, gpu.array(values))
        np.testing.assert_array_equal(x.numpy(), host)
    getattr(np, name).at(x, x > 3, 2)
    getattr(np, name).at(host, host > 3, 2)
    np.testing.assert_array_equal(x.numpy(), host)
    getattr(np, name).at(host.T[::2], [1, 1], 3)
    getattr(vnp, name).at(x.T[::2], [1, 1], 3)
    np.testing.assert_array_equal(x.numpy(), host)


def test_other_kinds_at_indices(gpu: vc.Runtime) -> None:
    host = np.array([1.5, -2, 3], np.float32)
    x = gpu.array(host)
    vnp.negative.at(x, [0, 0, 1])
    np.negative.at(host, [0, 0, 1])
    np.add.at(x, [2, 2], np.float32(1))
    np.add.at(host, [2, 2], np.float32(1))
    np.subtract.at(x, 1, 1)
    np.subtract.at(host, 1, 1)
    vnp.sqrt.at(x, [])
    np.testing.assert_array_equal(x.numpy(), host)
    whole = gpu.array(np.arange(3, dtype=np.int32))
    with pytest.raises(TypeError, match="gives float32"):
        vnp.divide.at(whole, [0], 2)
    with pytest.raises(TypeError, match="takes no float64"):
        vnp.add.at(whole, [0], 0.5)
    assert whole.tolist() == [0, 1, 2]


def test_reductions_between_indices(gpu: vc.Runtime) -> None:
    host = np.arange(24, dtype=np.int32).reshape(4, 6) % 7
    x = gpu.array(host)
    for name in ("add", "multiply", "maximum", "bitwise_xor"):
        for at, axis in (([0, 4, 1, 5, 2], 1), ([3], 0), ([0, 2], -2), ([1, 1], 1)):
            expected = getattr(np, name).reduceat(host, at, axis)
            np.testing.assert_array_equal(getattr(vnp, name).reduceat(x, at, axis).numpy(), expected)
    assert np.add.reduceat(x, gpu.array(np.array([1, 3], np.int32))).shape == (2, 6)
    with pytest.raises(IndexError, match="indices from 0 to 3; got 4"):
        vnp.add.reduceat(x, [0, 4])


def test_a_lazy_array_is_assigned_to_a_view_of_itself(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(6, dtype=np.float32)) + 0
    x[::-1] = x
    assert x.tolist() == [5, 4, 3, 2, 1, 0]
    y = gpu.array(np.arange(6, dtype=np.float32)) + 0
    y[1:] = y[:-1]
    assert y.tolist() == [0, 0, 1, 2, 3, 4]


def test_single_elements(gpu: vc.Runtime) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1]
    x = gpu.array(np.arange(24, dtype=np.int32).reshape(2, 3, 4))[:, ::-1]
    for at in ((5,), (-1,), (np.int64(7),), (1, 2, 3), ((0, 1, -2),)):
        result = x.item(*at)
        assert (type(result), result) == (int, host.item(*at))
    assert gpu.array([2.5]).item(0) == 2.5
    for wrong in ((24,), (-25,), (0, 1), (0, 3, 0)):
        with pytest.raises(IndexError):
            x.item(*wrong)
    with pytest.raises(IndexError, match="-24 to 23 here; got 24"):
        x.item(24)
    with pytest.raises(ValueError, match="only an array of one element is a number"):
        x.item()
    assert x.tobytes("F") == host.tobytes("F")
