"""Numbers, sequences and NumPy arrays in place of device arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

CALLS: dict[str, Callable[[Any], Any]] = {
    "sqrt of a number": lambda xp: xp.sqrt(2.25),
    "add of numbers": lambda xp: xp.add(1, 2),
    "where of numbers": lambda xp: xp.where(True, 1, 2),
    "where of lists": lambda xp: xp.where([True, False], [1, 2], 0),
    "clip of a list": lambda xp: xp.clip([1, 5], 0, [3, 3]),
    "sum": lambda xp: xp.sum([[1, 2], [3, 4]], axis=1),
    "sort of a tuple": lambda xp: xp.sort((3, 1, 2)),
    "concatenate": lambda xp: xp.concatenate([[1, 2], (3,)]),
    "atleast_2d": lambda xp: xp.atleast_2d([1, 2]),
    "einsum": lambda xp: xp.einsum("i,i", [1, 2], [3, 4]),
    "norm": lambda xp: xp.linalg.norm([3.0, 4.0]),
    "fft": lambda xp: xp.fft.fft([1.0, 2.0]),
    "interp at a number": lambda xp: xp.interp(2.5, [1.0, 2.0, 3.0], [3.0, 2.0, 0.0]),
    "polyval": lambda xp: xp.polyval([1, 2], 3),
    "divmod": lambda xp: xp.divmod(7, 2),
    "by name": lambda xp: xp.cumsum([1, 2], axis=0),
    "isclose": lambda xp: xp.isclose(1.0, [1.0, 2.0]),
    "a list at the right": lambda xp: xp.asarray([1, 2]) * [3, 4],
    "a list at the left": lambda xp: [3, 4] - xp.asarray([1, 2]),
    "a tuple compared": lambda xp: xp.asarray([1, 2]) == (1, 3),
    "a matrix product": lambda xp: xp.asarray([1, 2]) @ [3, 4],
}


@pytest.mark.device_only
@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_numbers_and_sequences_are_arrays(call: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = call(vnp)
    for one, other in zip(np.atleast_1d(found), np.atleast_1d(call(np)), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)


@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize(
    "call", [lambda a, b: a + b, lambda a, b: np.add(a, b), lambda a, b: np.maximum(a, b), lambda a, b: a @ b,
             lambda a, b: np.concatenate([a, b]), lambda a, b: np.dot(a, b), lambda a, b: a < b],
)  # fmt: skip
def test_numpy_arrays_are_copied_with_a_warning(gpu: vc.Runtime, call: Callable[[Any, Any], Any], at: int) -> None:
    data = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    operands = [gpu.array(each) if which == at else each for which, each in enumerate(data)]
    with pytest.warns(vc.HostCopyWarning, match="keep the data there"):
        found = call(*operands)
    assert type(found) is vc.Array
    np.testing.assert_array_equal(found.numpy(), call(*data))


def test_results_are_not_written_to_copies(gpu: vc.Runtime) -> None:
    host, x = np.zeros(3, np.float32), gpu.array(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="not written to a NumPy array"):
        host += x
    with pytest.raises((TypeError, AttributeError)):
        vnp.put(host, [0], [1])
    assert not host.any()


@pytest.mark.parametrize("value", [{1, 2}, "abc", np.ma.array([1.0, 2.0], mask=[True, False]), object()])
def test_what_is_no_data_is_refused(gpu: vc.Runtime, value: Any) -> None:
    with pytest.raises(TypeError, match="takes arrays, numbers, and lists of these"):
        vnp.add(gpu.zeros(2), value)
    with pytest.raises(TypeError, match="takes arrays, numbers, and lists of these"):
        vnp.sum(value)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=5), st.sampled_from(["int8", "float32", "float64"]))
def test_a_list_is_what_asarray_makes_of_it(gpu: vc.Runtime, numbers: list[int], dtype: str) -> None:
    if lacks(gpu, dtype) or lacks(gpu, "int64") or lacks(gpu, "float64"):
        return
    x = gpu.array(np.ones(len(numbers), dtype))
    assert (x + numbers).dtype == (x + vnp.asarray(numbers, device=gpu)).dtype
    np.testing.assert_array_equal((x * numbers).numpy(), np.ones(len(numbers), dtype) * numbers)


GRIDS: dict[str, Callable[[Any], Any]] = {
    "mgrid": lambda xp: xp.mgrid[0:3, 1:2:0.25],
    "mgrid of points": lambda xp: xp.mgrid[-1:1:5j],
    "ogrid": lambda xp: xp.ogrid[0:3, 0:2],
    "r_": lambda xp: xp.r_[0, xp.asarray([4.0, 5.0]), 1:2:3j],
    "c_": lambda xp: xp.c_[xp.asarray([1, 2]), [3, 4]],
    "copyto": lambda xp: (lambda x: (xp.copyto(x, [7, 8, 9], where=x > 1), x)[1])(xp.asarray([1, 2, 3])),
}


@pytest.mark.device_only
@pytest.mark.parametrize("call", GRIDS.values(), ids=list(GRIDS))
def test_arrays_written_as_indices(call: Callable[[Any], Any]) -> None:
    found, expected = call(vnp), call(np)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)
        assert one.shape == other.shape
        assert one.dtype.kind == other.dtype.kind


def test_errstate_is_accepted() -> None:
    with vnp.errstate(divide="ignore"):
        assert np.isinf((vnp.asarray([1.0]) / 0).numpy()).all()
