"""What NumPy's own tests found, run on the functions and arrays of vkcompute.numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

Make = Callable[..., Any]


@pytest.fixture
def a(gpu: vc.Runtime) -> Make:
    """Returns a function that uploads `np.array(…)`."""
    return lambda *args, **named: gpu.array(np.array(*args, **named))


def same(computed: Any, expected: Any) -> None:
    """Compares values, shapes, and the kinds of dtypes; NumPy's default types are wider than the device's."""
    result = np.asarray(computed.numpy() if isinstance(computed, vc.Array) else computed)
    assert result.shape == np.shape(expected)
    assert result.dtype.kind == np.asarray(expected).dtype.kind
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


# -- attributes -------------------------------------------------------------------------------------------------------


def test_shapes_are_assigned_in_place(a: Make) -> None:
    x, beside = a([[1, 2, 3], [4, 5, 6]], np.int32), a([7] * 6, np.int32)
    pending = x + 1
    for shape in ((3, 2), -1, [2, -1], (1, 6)):
        x.shape = shape
        same(x, np.reshape([1, 2, 3, 4, 5, 6], shape))
        same(x * 2, np.reshape([2, 4, 6, 8, 10, 12], shape))
    same(pending, [[2, 3, 4], [5, 6, 7]])
    with pytest.raises(ValueError, match="an array of 6 elements takes shapes"):
        x.shape = (66,)
    x[...] = 99
    same(beside, [7] * 6)
    lazy = x + 1
    lazy.shape = 6
    same(lazy, [100] * 6)


def test_shapes_that_no_strides_give(a: Make) -> None:
    x = a(np.arange(16, dtype=np.int32).reshape(4, 4)).T
    with pytest.raises(AttributeError, match=r"no strides give this array the shape \(16,\) in place"):
        x.shape = (16,)
    x.shape = (2, 2, 4)
    same(x, np.arange(16).reshape(4, 4).T.reshape(2, 2, 4))


@pytest.mark.parametrize("name", ["dtype", "strides", "offset", "size", "nbytes", "contiguous"])
def test_other_attributes_are_not_assigned(a: Make, name: str) -> None:
    x = a([3, 4], np.int32)
    with pytest.raises(AttributeError, match=f"{name} of an array is read-only; make another array"):
        setattr(x, name, getattr(x, name))


# -- functions of lists -----------------------------------------------------------------------------------------------


def test_methods_of_functions_of_elements_take_lists(a: Make) -> None:
    for one, other in (([1, 2], [3, 4]), ([1, 2], a([3, 4], np.int32)), ((1, 2, 3), 4), (2, [3, 4])):
        host = [array.numpy() if isinstance(array, vc.Array) else array for array in (one, other)]
        same(vnp.subtract.outer(one, other), np.subtract.outer(*host))
    same(vnp.add.accumulate([1, 2]), [1, 3])
    same(vnp.add.reduceat([1, 2, 3], [0, 2]), [3, 3])
    same(vnp.maximum.reduce([1, 4, 3]), 4)
    assert vnp.add.reduceat(a([], np.float32), a([], np.int32)).shape == (0,)


def test_functions_take_lists(a: Make) -> None:
    same(vnp.lexsort(([1, 2], [2, 1])), [1, 0])
    same(vnp.ravel_multi_index((1, 0), (2, 2)), 2)
    same(vnp.ravel_multi_index([[1, 0], [0, 1]], (2, 2), mode="wrap"), [2, 1])
    assert vnp.iscomplexobj([3, 1 + 0j])
    assert not vnp.isrealobj([3, 1 + 0j])
    assert vnp.ix_([], [1])[0].dtype.kind == "i"
    same(vnp.histogram([1.0, 2.0, 2.0, 4.0], 4, weights=[4, 3, 2, 1])[0], [4, 5, 0, 1])
    x = a([1.0, 2.0, 4.0], np.float32)
    for where in ([True, False, True], np.array([True, True, False])):
        for name in ("sum", "mean", "var"):
            same(getattr(vnp, name)(x, where=where), getattr(np, name)(x.numpy(), where=where))
    assert np.isnan(vnp.mean(x, where=False).item())
    assert vnp.sum(x, where=False).item() == 0


def test_blocks_of_numbers(a: Make) -> None:
    x = a([1, 2], np.int32)
    for given in ([[1, 2], [3, 4]], [x, 3], 1, [[x], [x]]):
        same(vnp.block(given), np.block(_host(given)))
    for given in ([1, [2]], [[1], []], []):
        with pytest.raises(ValueError, match="block takes lists of one depth, none of them empty"):
            vnp.block(given)
    with pytest.raises(TypeError, match="block takes nested lists; got a tuple"):
        vnp.block([(1, 2), (3, 4)])


def _host(given: Any) -> Any:
    if isinstance(given, list):
        return [_host(arg) for arg in given]
    return given.numpy() if isinstance(given, vc.Array) else given


# -- methods ----------------------------------------------------------------------------------------------------------


def test_methods_of_arrays(a: Make) -> None:
    same(a([5, 6, 7], np.int32).compress([True, False, True]), [5, 7])
    same(a([[0, 1, 2], [3, 4, 5]], np.int32).compress([0, 1], axis=0), [[3, 4, 5]])
    first, second = a([10, 11], np.int32), a([20, 21], np.int32)
    same(a([0, 1], np.int32).choose(first, second), [10, 21])
    same(a([0, 1], np.int32).choose([first, second]), [10, 21])
    same(second, [20, 21])
    assert vnp.choose(a([0, 1], np.int32), (first, 4)).dtype == np.int32  # a number adapts
    same(vnp.choose(a([0, 1], np.int32), (first, 4.5)), [10.0, 4.5])
    same(vnp.choose(a([1, 0], np.int32), (1, 2)), [2, 1])
    assert a([1.5], np.float32).astype(dtype="i4").dtype == np.int32


# -- values -----------------------------------------------------------------------------------------------------------


def test_complex_sequences() -> None:
    same(vnp.geomspace(1j, 16j, 5), np.geomspace(1j, 16j, 5))
    same(vnp.geomspace(-1, 1, 3, dtype=np.complex64), np.geomspace(-1, 1, 3, dtype=complex))
    same(vnp.logspace(0, 1j, 3), np.logspace(0, 1j, 3))
    same(vnp.geomspace(1, 16, 5), [1.0, 2.0, 4.0, 8.0, 16.0])


def test_numbers_out_of_range(a: Make) -> None:
    for make in (lambda: vnp.full(2, 1000, dtype=np.int32), lambda: vnp.full_like(a([1], np.int32), -1)):
        assert make().dtype == np.int32
    with pytest.raises(OverflowError):
        vnp.full(2, 1 << 40, dtype=np.int32)
    with pytest.raises(OverflowError):
        vnp.full_like(a([1], np.uint32), -1)
    with np.errstate(invalid="ignore"):
        same(vnp.full(2, np.nan, np.int32), np.full(2, np.nan, np.int32))


def test_an_index_takes_values_by_dlpack(a: Make) -> None:
    class Lent:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    x = a([0, 0, 0], np.float32)
    x[[0, 1]] = Lent(np.array([1, 2], np.float32))
    x[2:] = Lent(np.array([3], np.float32))
    same(x, [1.0, 2.0, 3.0])


def test_item_assignment_refuses_floats_for_integers(a: Make) -> None:
    x = a([0, 1, 2], np.int32)
    for index in (0, ..., [0], [True, False, False], a([0], np.int32)):
        with pytest.raises(TypeError, match="float"):
            x[index] = 1.5
        x[index] = 7
    same(x, [7, 7, 7])


def test_indices_that_are_tuples_or_floats(a: Make) -> None:
    x = a([0, 1, 2], np.int32)
    same(vnp.delete(x, ()), [0, 1, 2])
    same(vnp.delete(x, (0, 1)), [2])
    for wrong in (lambda: vnp.unravel_index(a([0.5], np.float32), (2, 2)),
                  lambda: vnp.ravel_multi_index((a([0.5], np.float32), 1), (2, 2))):  # fmt: skip
        with pytest.raises(TypeError, match="takes integers as indices; got float32"):
            wrong()


def test_values_inserted_before_one_index_of_the_last_axis(a: Make) -> None:
    x, values = np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.array([[3, 7, 11], [15, 19, 23]], np.int32)
    same(vnp.insert(a(x), 1, a(values), -1), np.insert(x, 1, values, -1))
    for axis in (-1, 1, 0):
        same(vnp.insert(a(x), 1, 5, axis), np.insert(x, 1, 5, axis))


def test_dtypes_of_results(a: Make) -> None:
    same(vnp.roots([1, -3, 2]), np.roots([1, -3, 2]))
    same(vnp.roots([1, 0, 1]), np.roots([1, 0, 1]))
    same(vnp.float_power(a([1e30], np.float32), 2), [1e60])
    assert vnp.float_power(a([2], np.complex64), 2).dtype == np.complex128
    same(vnp.frombuffer(np.arange(3.0).tobytes()), [0.0, 1.0, 2.0])


# -- errors -----------------------------------------------------------------------------------------------------------


def test_indices_of_the_host_are_checked_at_once(a: Make, gpu: vc.Runtime) -> None:
    x = a(np.arange(10, dtype=np.int32).reshape(2, 5))
    for index in ([1, 5], np.array([-6]), [1 << 40]):
        with pytest.raises(IndexError, match="is out of bounds for axis 1 with size 5"):
            x[:, index] = 7
        with pytest.raises(IndexError, match=f"index {max(index, key=abs)} is out of bounds for axis 1 with size 5"):
            x[:, index]
    same(x, np.arange(10).reshape(2, 5))

    def put_and_read() -> None:
        """On the device it is found by the first reader after the check, which may be the store itself."""
        x[:, gpu.array(np.array([5], np.int32))] = 7
        x.numpy()

    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 1 with size 5"):
        put_and_read()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: vnp.gradient(x, [1.0, 2.0]), ValueError, "a distance for all or for each of 2 axes"),
        (lambda x: vnp.interp(0, x[0], x[1], period=0), ValueError, "interp takes a period other than 0; got 0"),
        (lambda x: vnp.linalg.norm(x[None], None, (0, 1, 2)), ValueError, "norms along axes are of one axis or two"),
        (lambda x: vnp.linalg.pinv(x, rcond=0.5, rtol=0.5), ValueError, "pinv takes rtol or rcond"),
        (lambda x: vnp.select([x[0]], [x[1]]), TypeError, "select takes bools as conditions; got float32"),
        (
            lambda x: vnp.ediff1d(vnp.astype(x, np.int32), to_end=[2.5]),
            TypeError,
            "takes ends that cast to it by 'same_kind'",
        ),
        (lambda x: vnp.put([1, 2, 3], [0], 5), TypeError, "put writes to a, a device array; got list"),
        (lambda x: vnp.copyto(src=x, dst=[1]), TypeError, "copyto writes to dst, a device array; got list; upload it"),
    ],
)
def test_errors(a: Make, call: Callable[[vc.Array], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(a([[1, 2], [3, 4]], np.float32))


def test_histograms_of_unequal_edges(a: Make) -> None:
    x, edges = np.array([0.0, 0.5, 0.7], np.float32), (0, 0.5, 1)
    for bins in ((edges, 4), ([0.0, 1.0], [0, 0.25, 0.5, 1])):
        result, expected = vnp.histogram2d(a(x), a(x), bins), np.histogram2d(x, x, bins)
        for one, other in zip(result, expected, strict=True):
            same(one, other)
    same(vnp.histogram(a(x), bins=2, range=a([0, 1], np.float32))[0], np.histogram(x, 2, (0, 1))[0])
    same(vnp.histogramdd([x, x], bins=2)[0], np.histogramdd([x, x], bins=2)[0])
    same(vnp.einsum(a([[1, 2], [3, 4]], np.float32), a([0, 0], np.int32)), np.float32(5))
    same(vnp.select([a([True])], [a([1], np.int32)], default=[0]), [1])
