"""Corners of NumPy's functions in which a result could be wrong without an error; NumPy is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp


@pytest.fixture
def of(gpu: vc.Runtime) -> Callable[..., vc.Array]:
    """Makes a device array as NumPy makes one; skips if the device lacks the dtype."""

    def make(data: Any, dtype: Any = None) -> vc.Array:
        host = np.asarray(data, dtype)
        if lacks(gpu, host.dtype.name):
            pytest.skip(f"the device lacks {host.dtype}")
        return gpu.array(host)

    return make


def test_python_data_with_a_dtype_is_not_wrapped(gpu: vc.Runtime) -> None:
    with pytest.raises(OverflowError):
        vnp.asarray([300], dtype=np.int8, device=gpu)
    with pytest.raises(ValueError, match="NaN"):
        vnp.asarray([np.nan], dtype=np.int32, device=gpu)
    assert vnp.asarray([0, np.uint32(2**32 - 1)], dtype=np.uint32, device=gpu).tolist() == [0, 2**32 - 1]


def test_sequences_of_typed_elements_keep_their_dtype(gpu: vc.Runtime, of: Any) -> None:
    assert vnp.asarray([np.int32(1), np.int32(2)], device=gpu).dtype == np.int32
    x = of([1, 2], np.int32)
    assert vnp.asarray([x, x], device=gpu).dtype == np.int32
    assert vnp.asarray([[1.0, 2.0]], device=gpu).dtype == np.float32


def test_full_takes_arrays(of: Any) -> None:
    x = of([1, 2], np.int32)
    assert vnp.full((2,), x[1], device=x.device).tolist() == [2, 2]
    result = vnp.full((3, 2), x, device=x.device)
    assert (result.dtype, result.tolist()) == (np.int32, [[1, 2]] * 3)


def test_integers_of_linspace_are_rounded_down(gpu: vc.Runtime) -> None:
    result = vnp.linspace(-10, 8, 9, dtype=np.int32, device=gpu).numpy()
    np.testing.assert_array_equal(result, np.linspace(-10, 8, 9, dtype=np.int32))


@pytest.mark.parametrize("endpoint", [True, False])
def test_rows_between_arrays(of: Any, endpoint: bool) -> None:
    start, stop = np.array([0, -5, 1e3], np.float32), np.float32(7)
    expected = np.linspace(start, stop, 6, endpoint)
    np.testing.assert_allclose(np.linspace(of(start), of(stop), 6, endpoint).numpy(), expected, rtol=1e-6, atol=1e-6)
    assert np.linspace(of(np.int32(0)), of(np.int32(9)), 4, dtype=np.int32).tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "int64"])
@pytest.mark.parametrize("decimals", [0, 1, -1, -2, -5])
def test_integers_are_rounded_to_tens(of: Any, dtype: str, decimals: int) -> None:
    data = np.array([0, 4, 5, 6, 15, 25, 50, 95, 100, 105], dtype)
    data = np.concatenate([data, -data]) if data.dtype.kind == "i" else data
    exact = [round(item, decimals) for item in data.tolist()]
    assert vnp.round(of(data), decimals).tolist() == exact


def test_complex_sequences_are_correlated_with_conjugates(of: Any) -> None:
    random = np.random.default_rng(0)
    a, v = (random.normal(size=n) + 1j * random.normal(size=n) for n in (5, 3))
    a, v = a.astype(np.complex64), v.astype(np.complex64)
    for mode in ("full", "same", "valid"):
        for one, other in ((a, v), (v, a)):
            for name in ("correlate", "convolve"):
                result = getattr(vnp, name)(of(one), of(other), mode=mode).numpy()
                np.testing.assert_allclose(result, getattr(np, name)(one, other, mode=mode), rtol=1e-5, atol=1e-6)


def test_complex_numbers_that_are_close(of: Any) -> None:
    a = np.array([1j, 1 + 1j, np.nan, np.inf + 1j], np.complex64)
    b = np.array([1j + 1e-9, 1 + 1.1j, np.nan, np.inf + 1j], np.complex64)
    assert vnp.isclose(of(a), of(b)).tolist() == np.isclose(a, b).tolist()
    assert vnp.isclose(of(a), 1j).tolist() == np.isclose(a, 1j).tolist()
    c = np.array([np.nan + 1j, complex(1, np.inf)], np.complex64)
    np.testing.assert_array_equal(vnp.nan_to_num(of(c)).numpy(), np.nan_to_num(c))


def test_arguments_out_of_range_are_errors(of: Any) -> None:
    x = of([3, 1, 2], np.int32)
    for call in (
        lambda: vnp.partition(x, 3),
        lambda: vnp.argpartition(x, [0, -4]),
        lambda: vnp.bincount(x, minlength=-1),
        lambda: vnp.place(x, of([True, False]), 1),
        lambda: vnp.place(x, x > 1, []),
        lambda: vnp.putmask(x, of([True, False]), 1),
    ):
        with pytest.raises(ValueError, match=r"kth is|minlength is|place takes|putmask takes"):
            call()
    assert x.tolist() == [3, 1, 2]


def test_nan_may_count_each(of: Any) -> None:
    data = np.array([np.nan, 1, np.nan], np.float32)
    for equal_nan in (True, False):
        expected = np.unique(data, return_counts=True, equal_nan=equal_nan)
        for result, each in zip(np.unique(of(data), return_counts=True, equal_nan=equal_nan), expected, strict=True):
            np.testing.assert_array_equal(result.numpy(), each)


def test_memory_that_may_be_shared(of: Any) -> None:
    x = of(np.arange(8, dtype=np.int32))
    assert np.may_share_memory(x, x[3:])
    assert not np.may_share_memory(x[:4], x[4:])
    assert not np.may_share_memory(x, x + 1)
    assert not np.may_share_memory(x, np.zeros(8, np.int32))
    try:
        host = np.from_dlpack(x)
    except BufferError:
        return
    assert np.may_share_memory(host[2:], x)
    assert not np.may_share_memory(host[:4], x[4:])


def test_methods(of: Any) -> None:
    data = np.array([[3, 1], [2, 0]], np.int32)
    x = of(data)
    assert x.itemsize == 4
    assert x.T.flatten().tolist() == data.T.flatten().tolist()
    assert x.conj().tolist() == data.tolist()
    x.sort(axis=0)
    assert x.tolist() == np.sort(data, axis=0).tolist()
    x.put(of([0]), 9)
    assert x[0, 0] == 9


def test_floats_of_lists_are_as_precise_as_the_arrays_beside_them(of: Any) -> None:
    host = np.array([0.1, 0.2, 0.3])
    x, near = of(host), [0.1, 0.25, 0.3]
    for function in (
        lambda xp, x: x + near,
        lambda xp, x: near - x,
        lambda xp, x: xp.isin(x, near),
        lambda xp, x: xp.where(x > 0.15, x, near),
        lambda xp, x: xp.searchsorted(x, near),
        lambda xp, x: xp.digitize(x, near),
        lambda xp, x: xp.concatenate([x, near]),
        lambda xp, x: xp.average(x, weights=near),
        lambda xp, x: xp.dot(near, x),
        lambda xp, x: xp.interp(x, x.astype(np.float32), x.astype(np.float32))[:2],
        lambda xp, x: xp.histogram(x, near)[1],
        lambda xp, x: xp.choose(xp.asarray([0, 1, 0]), [x, near]),
        lambda xp, x: xp.select([x > 0.15], [near], default=x),
        lambda xp, x: xp.polyval(near, x),
    ):
        np.testing.assert_allclose(np.asarray(function(vnp, x)), function(np, host), rtol=1e-15)


def test_numbers_between_integers_are_found_there(of: Any) -> None:
    of(0.5, np.float64)  # integers and floats promote to it
    x = of([1, 2, 3], np.int32)
    for value in (1.5, [0.5, 2.5], np.float32(2.5), np.array([1.5, 3], np.float32)):
        result = vnp.searchsorted(x, value)
        assert result.tolist() == np.searchsorted(x.numpy(), value).tolist()
    assert vnp.searchsorted(x, 2**31).item() == 3
    assert vnp.append(x, [4, 5.5]).tolist() == [1, 2, 3, 4, 5.5]
    assert vnp.polyval(x, 0.5).item() == 4.25


def test_grids(of: Any) -> None:
    x, y = of([1, 2, 3], np.int32), of([4, 5], np.int32)
    for indexing in ("xy", "ij"):
        for copy in (True, False):
            for sparse in (True, False):
                options = {"indexing": indexing, "copy": copy, "sparse": sparse}
                expected = np.meshgrid(x.numpy(), y.numpy(), **options)
                result = vnp.meshgrid(x, y, **options)
                assert [item.tolist() for item in result] == [item.tolist() for item in expected]
                assert np.may_share_memory(result[0], x) is not copy


def test_joined_arrays_are_converted_within_their_kind(of: Any) -> None:
    x, y = of([1.5, 2.5], np.float32), of([1, 2], np.int32)
    for join in (np.concatenate, np.stack, np.hstack, np.vstack):
        with pytest.raises(TypeError, match="casting='same_kind' does not allow"):
            join([x, x], dtype=np.int32)
        assert join([x, x], dtype=np.int32, casting="unsafe").dtype == np.int32
        assert join([y, y], dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="out has the shape of the result"):
        np.concatenate([x, x], out=of(np.zeros((2, 4), np.float32)))
    with pytest.raises(TypeError, match="got both"):
        np.concatenate([x, x], out=of(np.zeros(4, np.float32)), dtype=np.float32)
    assert np.stack(of([[1, 2], [3, 4]], np.int32), axis=1).tolist() == [[1, 3], [2, 4]]


def test_edges_with_nan_in_the_order_of_sorts(gpu: vc.Runtime) -> None:
    x = np.float32([-1, 0, 1, 1.5, 2, 3, np.inf, np.nan])
    for edges in ([1, 2, np.nan], [0, 1, np.nan, np.nan], [np.nan, 2, 1], [np.nan, np.nan], [np.nan, 1], [np.nan]):
        given = np.array(edges, np.float32)
        for right in (False, True):
            assert vnp.digitize(gpu.array(x), given, right).tolist() == np.digitize(x, given, right).tolist(), edges
    for edges in ([1, np.nan, 2], [2, 1, np.nan], [np.nan, 1, 2]):
        with pytest.raises(ValueError, match=r"in ascending or descending order, .*; got \[.*nan"):
            vnp.digitize(gpu.zeros(3), np.array(edges, np.float32))


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, np.float32, np.uint8])
def test_common_elements_and_their_indices(gpu: vc.Runtime, dtype: Any) -> None:
    one, other = np.array([3, 1, 1, 0, 4], dtype), np.array([4, 0, 2, 1], dtype)
    expected = np.intersect1d(one, other, return_indices=True)
    computed = vnp.intersect1d(gpu.array(one), gpu.array(other), return_indices=True)
    for ours, of_numpy in zip(computed, expected, strict=True):
        assert np.array_equal(ours.numpy(), of_numpy)
    ordered = np.sort(one)
    for side in ("left", "right"):
        ours = vnp.searchsorted(gpu.array(ordered), gpu.array(other), side)
        assert ours.tolist() == np.searchsorted(ordered, other, side).tolist()


def test_unsigned_edges_that_descend(of: Any) -> None:
    x, edges = of([0, 2, 3, 9], np.uint32), np.array([8, 3, 1], np.uint32)
    assert np.digitize(x, of(edges)).tolist() == np.digitize(x.numpy(), edges).tolist()
    with pytest.raises(ValueError, match="ascend"):
        np.histogram(x, of(edges))
    with pytest.raises(TypeError):
        np.histogram(x, 2.5)
    with pytest.raises(ValueError, match="does not distinguish"):
        np.histogram(of([1.0], np.float32), 100, (1.0, 1.000001))


def test_powers_of_small_integers_do_not_wrap(of: Any) -> None:
    host = np.array([20, 100], np.int8)
    np.testing.assert_array_equal(np.vander(of(host), 3).numpy(), np.vander(host, 3))
    np.testing.assert_array_equal(np.polyder(of(host)).numpy(), np.polyder(host))
    small = np.uint8([200, 100, 50])
    np.testing.assert_array_equal(np.polyder(of(small)).numpy(), np.polyder(small))
    for exponents in (np.int8([-120, 3]), np.uint8([255, 1]), np.uint32([400, 2])):
        result = np.ldexp(of(np.float32([0.5, 1.5])), of(exponents)).numpy()
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result, np.ldexp(np.float32([0.5, 1.5]), exponents.astype(np.int32)))


def test_variances_of_chosen_elements(of: Any) -> None:
    host = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    for ddof in (0, 1):
        expected = np.var(host, 1, ddof=ddof, where=host > -0.5)
        np.testing.assert_allclose(np.var(of(host), 1, ddof=ddof, where=of(host > -0.5)).numpy(), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="pass one"):
        np.std(of(host), ddof=1, correction=0)


def test_lengths_of_statistics_in_padding(of: Any) -> None:
    for length in (-1, 0, (2, -1)):
        for mode in ("mean", "maximum", "minimum", "median"):
            with pytest.raises(ValueError, match="at least 1 element"):
                np.pad(of([1, 2, 3], np.int32), 1, mode, stat_length=length)


def test_distinct_rows(of: Any) -> None:
    random = np.random.default_rng(0)
    for host in (
        random.integers(0, 2, (9, 3)).astype(np.int32),
        random.integers(0, 2, (3, 2, 4)).astype(np.float32),
        np.zeros((3, 0), np.float32),
        np.zeros((0, 3), np.float32),
        np.float32([[np.nan, 1], [np.nan, 1], [0, -0.0]]),
    ):
        for axis in (0, -1):
            if host.shape[axis] or host.size:
                flags = {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis}
                for result, expected in zip(np.unique(of(host), **flags), np.unique(host, **flags), strict=True):
                    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_bits_are_packed(of: Any, bitorder: str) -> None:
    host = np.random.default_rng(0).integers(0, 2, (3, 11)).astype(np.uint8) * 3
    for axis in (None, 0, 1, -1):
        packed = np.packbits(host, axis, bitorder)
        np.testing.assert_array_equal(np.packbits(of(host), axis, bitorder).numpy(), packed)
        np.testing.assert_array_equal(vnp.packbits(of(host) > 0, axis, bitorder).numpy(), packed)
        for count in (None, 5, -2, 40):
            expected = np.unpackbits(packed, axis, count, bitorder)
            np.testing.assert_array_equal(np.unpackbits(of(packed), axis, count, bitorder).numpy(), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits_are_counted(of: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    host = np.array([0, 1, 3, info.max, info.min, info.min + 1, info.max - 1], dtype)
    of(0, np.uint8)
    result = np.bitwise_count(of(host))
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result.numpy(), np.bitwise_count(host))


def test_names_that_users_type(of: Any) -> None:
    host = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    vector = host[0]
    for function in (
        lambda xp, x, v: xp.matvec(x, v),
        lambda xp, x, v: xp.vecmat(v[:3], x),
        lambda xp, x, v: xp.i0(v),
        lambda xp, x, v: xp.poly(v),
        lambda xp, x, v: xp.polydiv(x[1], v[:2])[0],
        lambda xp, x, v: xp.around(x, 1),
        lambda xp, x, v: xp.apply_over_axes(xp.sum, x, [0, 1]),
        lambda xp, x, v: xp.mask_indices(4, xp.triu, 1)[1],
    ):
        np.testing.assert_allclose(function(vnp, of(host), of(vector)).numpy(), function(np, host, vector), rtol=1e-4)
    z = of(np.complex64([1 + 1e-8j, 2, -1]))
    assert np.iscomplex(z).tolist() == [True, False, False]
    assert np.isreal(z).tolist() == [False, True, True]
    assert np.iscomplexobj(z)
    assert np.isrealobj(of(vector))
    assert np.real_if_close(z).tolist() == [1, 2, -1]
    assert np.sort_complex(z).tolist() == np.sort_complex(z.numpy()).tolist()
    assert np.common_type(z, of(vector)) is np.complex64
    assert np.min_scalar_type(z) == np.complex64
    assert np.array2string(of(vector), precision=2) == np.array2string(vector, precision=2)
    np.testing.assert_allclose(np.sort(np.roots(of(np.float32([1, -3, 2]))).numpy()), [1, 2], rtol=1e-6)


def test_names_of_dtypes() -> None:
    assert np.issubdtype(np.float32, vnp.floating)
    assert vnp.binary_repr(5) == "101"


@pytest.mark.filterwarnings("ignore")
def test_covariances(of: Any) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 5)).astype(np.float32)
    z = (x + 1j * random.standard_normal((3, 5))).astype(np.complex64)
    counts, weights = np.int32([1, 2, 0, 1, 3]), np.float32([1, 0.5, 2, 1, 1])
    for host, named in (
        (x, {}),
        (z, {}),
        (z, {"rowvar": False}),
        (z, {"fweights": counts, "aweights": weights}),
        (x, {"ddof": 5}),
        (x[:, :0], {}),
        (x[0, :0], {}),
        (x[:, :1].T, {"rowvar": False, "ddof": 0}),
        (x, {"fweights": counts, "ddof": 9}),
    ):
        given = {name: of(item) if isinstance(item, np.ndarray) else item for name, item in named.items()}
        result, expected = np.cov(of(host), **given).numpy(), np.cov(host, **named)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.corrcoef(of(z)).numpy(), np.corrcoef(z), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="fweights of cov are integers"):
        np.cov(of(x), fweights=of(weights))


def test_coordinates_that_descend(of: Any) -> None:
    host = np.float32([1, 3, 2, 5])
    for dtype in (np.uint32, np.int8):
        at = np.array([120, 60, 40, 1], dtype) if dtype is np.uint32 else np.array([100, 20, -50, -100], dtype)
        np.testing.assert_allclose(np.gradient(of(host), of(at)).numpy(), np.gradient(host, at), rtol=1e-5)


def test_indices_that_are_none(of: Any) -> None:
    x = of([1, 2, 3], np.int32)
    for obj, error in ((True, ValueError), ([1.5], IndexError)):
        with pytest.raises(error):
            np.insert(x, obj, 9)
        with pytest.raises(error):
            np.delete(x, obj)
    with pytest.raises(TypeError, match="have an order"):
        np.quantile(of([1j], np.complex64), 0.5)


def test_lists_of_axes_and_counts(of: Any) -> None:
    host = np.arange(6, dtype=np.int32).reshape(2, 3)
    for function in (
        lambda x: np.tile(x, [2, 1, 2]),
        lambda x: np.tile(x, np.array([1, 3])),
        lambda x: np.roll(x, [1, 2], [0, 1]),
        lambda x: np.roll(x, np.int64(2)),
        lambda x: np.moveaxis(x, [0, 1], [1, 0]),
        lambda x: np.reshape(x, [3, 2]),
        lambda x: np.transpose(x, [1, 0]),
        lambda x: np.pad(x, [[1, 0], [0, 2]]),
        lambda x: np.tensordot(x, x, [[1], [1]]),
    ):
        np.testing.assert_array_equal(function(of(host)).numpy(), function(host))


def test_where_of_a_condition_gives_indices(of: Any) -> None:
    host = np.array([[0, 2], [3, 0]], np.int32)
    for result in (np.where(of(host)), vnp.where(of(host) > 0)):
        assert [item.tolist() for item in result] == [item.tolist() for item in np.where(host)]
    with pytest.raises(ValueError, match="both x and y"):
        vnp.where(of(host) > 0, of(host))


def test_products_are_written_to_arrays(of: Any) -> None:
    host = np.arange(9, dtype=np.float32).reshape(3, 3)
    for name in ("matmul", "dot"):
        x, out = of(host), of(np.zeros((3, 6), np.float32))[:, ::2]
        assert getattr(np, name)(x, x, out=out) is out
        np.testing.assert_array_equal(out.numpy(), host @ host)
        getattr(vnp, name)(x, x, out=x)
        np.testing.assert_array_equal(x.numpy(), host @ host)


def test_integers_are_compared_with_floats_by_value(of: Any) -> None:
    limits = [np.iinfo(np.int32).min, np.iinfo(np.int32).max]
    numbers = [0.0, -0.0, 0.5, -2.5, 2.0, 2.0**24, 2.0**31, -(2.0**31), 1e30, np.inf, -np.inf, np.nan]
    for host in (np.array([-3, -2, 0, 2, 3, 2**24 + 1, *limits], np.int32), np.array([0, 1, 2**32 - 1], np.uint32)):
        x = of(host)
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            for value in numbers:
                for order in ((host, value), (value, host)):
                    result = getattr(vnp, name)(*[x if item is host else item for item in order])
                    assert result.tolist() == getattr(np, name)(*order).tolist(), (name, order)


def test_integers_beside_floats_on_devices_without_float64(gpu: vc.Runtime, of: Any) -> None:
    floats, ints = np.array([1.5, 2], np.float32), np.array([1, 3], np.int32)
    x, n = of(floats), of(ints)
    wide = np.float32 if lacks(gpu, "float64") else np.float64
    for function in (
        lambda xp, x, n: x + n,
        lambda xp, x, n: xp.where(n > 1, x, n),
        lambda xp, x, n: xp.interp(x, n, [0, 4]),
        lambda xp, x, n: xp.average(x, weights=n),
        lambda xp, x, n: xp.convolve(x, n),
        lambda xp, x, n: xp.concatenate([x, n]),
        lambda xp, x, n: xp.cov(x, n),
        lambda xp, x, n: x @ n,
    ):
        result = function(vnp, x, n)
        assert result.dtype == wide
        np.testing.assert_allclose(result.numpy(), function(np, floats, ints), rtol=1e-6)
    for function in (
        lambda xp, x, n: x == [1, 2],
        lambda xp, x, n: xp.searchsorted(x, [1, 2]),
        lambda xp, x, n: xp.digitize(x, [1, 2]),
        lambda xp, x, n: xp.histogram(x, [1, 2, 3])[0],
        lambda xp, x, n: xp.isclose(x, n),
    ):
        np.testing.assert_array_equal(function(vnp, x, n).numpy(), function(np, floats, ints))
    if wide == np.float32:
        for work in (lambda: x == n, lambda: np.searchsorted(n, x), lambda: np.isin(n, x), lambda: np.union1d(n, x),
                     lambda: x == [2**24 + 1]):  # fmt: skip
            with pytest.raises(vc.MissingFeature, match="float64"):
                work()


def test_numbers_among_integers(of: Any) -> None:
    for host in (np.array([1, 2**32 - 1], np.uint32), np.array([1, -5], np.int32)):
        x = of(host)
        for value in (1, 2, -5, 2**32 - 1):
            expected = bool((host.astype(np.int64) == value).any())
            if -(2**31) <= value < 2**31 and (value >= 0 or host.dtype == np.int32):
                assert vnp.isin(value, x).item() is expected
                assert vnp.isin(x, value).any().item() is expected
        assert vnp.isin(2, x[:0]).item() is False


@pytest.mark.parametrize("bins", [1, 2, 7, 1000])
@pytest.mark.parametrize("limits", [None, (-1, 2), (0.1, 0.3), (1e6, 1e6 + 4)])
def test_equal_bins_count_what_is_between_their_edges(of: Any, bins: int, limits: Any) -> None:
    host = np.concatenate([np.random.default_rng(bins).normal(size=2000), 1e6 + np.linspace(-1, 5, 50)])
    x = of(host.astype(np.float32))
    if limits == (1e6, 1e6 + 4) and bins == 1000:
        with pytest.raises(ValueError, match="does not distinguish"):
            np.histogram(x, bins, limits)
        return
    counts, edges = np.histogram(x, bins, limits)
    np.testing.assert_array_equal(counts.numpy(), np.histogram(x.numpy(), edges.numpy())[0])


def test_gradients_at_equal_distances_leave_out_the_element_itself(of: Any) -> None:
    host = np.float32([1, np.inf, 3, np.nan, 5, 7, 11])
    np.testing.assert_allclose(np.gradient(of(host), 0.5).numpy(), np.gradient(host, 0.5))


def test_integers_that_the_dtype_does_not_hold_are_in_no_array(of: Any) -> None:
    host = np.uint8([0, 1, 200, 255])
    others = [-1, 255, 256, 2**40]
    assert np.isin(of(host), others).tolist() == np.isin(host, others).tolist()
    assert np.isin(of(host), others, invert=True).tolist() == np.isin(host, others, invert=True).tolist()
    assert np.isin(of(host), [-1, 300]).tolist() == [False] * 4


@pytest.mark.parametrize("order", ["C", "F"])
def test_indices_of_flattened_arrays_in_either_order(of: Any, order: Any) -> None:
    places, shape = np.int32([0, 5, 23, 7]), (2, 3, 4)
    expected = np.unravel_index(places, shape, order)
    result = np.unravel_index(of(places), shape, order)
    np.testing.assert_array_equal([array.numpy() for array in result], expected)
    again = np.ravel_multi_index(tuple(result), shape, order=order)
    np.testing.assert_array_equal(again.numpy(), places)


def test_dtypes_and_python_numbers_have_a_result_type() -> None:
    assert vnp.result_type(np.float32, np.float32, 1) == np.float32
    assert vnp.result_type(np.int32, 2.0).kind == "f"


@pytest.mark.rotates
@pytest.mark.parametrize(
    "dtype", "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
)
def test_places_of_extremes_among_equal_and_special_numbers(of: Any, dtype: str) -> None:
    rng, kind = np.random.default_rng(3), np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(dtype)
        drawn = [0.0, -0.0, 1, -1, np.inf, -np.inf, info.max, info.min, info.smallest_normal, -info.eps]
    else:
        drawn = (
            [0, 1] if kind.kind == "b" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, np.iinfo(dtype).max // 2]
        )
    for n in (1, 7, 70, 3000):
        host = rng.choice(np.array(drawn, dtype), (3, n))
        if kind.kind == "f" and n > 1:
            host[1, rng.integers(0, n, 2)] = np.nan, -np.nan
        x = of(host)
        for axis in (None, 0, 1):
            assert vnp.argmin(x, axis).numpy().tolist() == host.argmin(axis).tolist()
            assert vnp.argmax(x, axis).numpy().tolist() == host.argmax(axis).tolist()


@pytest.mark.parametrize("name", ["logical_xor", "gcd", "fmax", "subtract"])
def test_reductions_without_a_kernel_of_their_own_take_a_mask(of: Any, name: str) -> None:
    host = np.array([[4, 6, 9], [12, 8, 3]], np.int32)
    mask = np.array([[True, False, True], [False, True, True]])
    initial = {} if name in ("logical_xor", "gcd") else {"initial": 1}
    wanted = getattr(np, name).reduce(host, axis=1, where=mask, **initial)
    result = getattr(vnp, name).reduce(of(host), axis=1, where=of(mask), **initial)
    assert np.array_equal(result.numpy(), wanted)
    if initial:
        with pytest.raises(ValueError, match=rf"{name}.reduce has no neutral element, so that where= needs initial="):
            getattr(vnp, name).reduce(of(host), axis=1, where=of(mask))


@pytest.mark.parametrize("name", ["partition", "argpartition"])
@pytest.mark.parametrize("kth", [1.5, True, [0.0, 1.0]])
def test_places_of_partitions_are_integers(of: Any, name: str, kth: Any) -> None:
    with pytest.raises(TypeError, match=f"{name}: kth is an integer"):
        getattr(vnp, name)(of([3.0, 1.0, 2.0]), kth)


def test_arguments_that_numpy_refuses(of: Any) -> None:
    x = of([[1.0, 2.0], [3.0, 4.0]], np.float32)
    for call in (
        lambda: vnp.ediff1d(of([True, False])), lambda: vnp.matmul(x, x, casting=None),
        lambda: vnp.can_cast(None, "f8"), lambda: vnp.var(x, dtype=np.complex64),
        lambda: vnp.isdtype(None, "numeric"), lambda: vnp.isdtype("f4", "real floating"),
        lambda: vnp.isdtype(vnp.float32, []), lambda: vnp.lib.stride_tricks.sliding_window_view(x, True),
        lambda: vnp.random.rand(True, 3), lambda: vnp.random.default_rng(0).random(""),
        lambda: vnp.random.default_rng(0).bytes(None), lambda: vnp.random.default_rng(0).poisson(1j),
        lambda: vnp.cov(x, fweights=[1.0, 2.0]), lambda: vnp.exp(x, out=1.0, casting="safe"),
        lambda: vnp.copyto(x, 1.5, casting=1),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("initial", [(0,), [[1.0]], [1.0, 2.0], []], ids=str)
def test_initial_values_are_numbers(of: Any, initial: Any) -> None:
    x = of([1.0, 2.0], np.float32)
    reduced = vnp.sum, vnp.max, vnp.nansum, vnp.nanmax, vnp.add.reduce, vnp.hypot.reduce, vnp.subtract.reduce
    for function in reduced:
        with pytest.raises(ValueError, match="initial is a number; got an array of shape"):
            function(x, initial=initial)


def test_complex_numbers_with_a_nan_in_either_part_are_one_nan(of: Any) -> None:
    nan = np.nan
    host = np.array([complex(nan, 1), 2, complex(0, nan), complex(nan, nan), 2, complex(nan, -1), 1j], np.complex64)
    assert vnp.unique(of(host)).shape == np.unique(host).shape == (3,)
    assert vnp.unique(of(host), return_counts=True)[1].tolist() == [1, 2, 4]
    assert vnp.unique(of(host), equal_nan=False).shape == (6,)
    assert vnp.union1d(of(host), of(host)).shape == np.union1d(host, host).shape


@pytest.mark.parametrize("kth", [[[1, 2]], [[0]]])
def test_places_of_partitions_have_one_axis(of: Any, kth: Any) -> None:
    with pytest.raises(TypeError, match="partition: kth"):
        vnp.partition(of([3.0, 1.0, 2.0]), kth)
