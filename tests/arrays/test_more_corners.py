"""Corners of NumPy's functions that other libraries' test suites reach; NumPy is the oracle."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from statistics import median
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

INF, NAN = np.inf, np.nan


def agree(gpu: vc.Runtime, call: Any, *given: Any, rtol: float = 1e-6) -> None:
    """Compares a call of the namespace and device arrays with that of NumPy and host arrays."""
    hosts = [np.asarray(arg) for arg in given]
    for each in hosts:
        if lacks(gpu, each.dtype.name):
            pytest.skip(f"the device lacks {each.dtype}")
    result, expected = call(vnp, *map(gpu.array, hosts)), call(np, *hosts)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=rtol)


@pytest.mark.parametrize("axes", list(permutations(range(3))))
@pytest.mark.parametrize("order", ["C", "F", "A", "K", "c", "f", "a", "k"])
def test_elements_in_the_order_of_memory(gpu: vc.Runtime, axes: tuple[int, ...], order: str) -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    agree(gpu, lambda m, x: m.ravel(x.transpose(axes), order=order), x)
    agree(gpu, lambda m, x: x.transpose(axes)[::-1].flatten(order), x)
    if order not in "Kk":
        agree(gpu, lambda m, x: m.reshape(x.transpose(axes), (6, 4), order=order), x)
        agree(gpu, lambda m, x: x.transpose(axes).reshape(4, 6, order=order), x)


def test_orders_have_names(gpu: vc.Runtime) -> None:
    x = gpu.zeros((2, 3))
    for order in ("B", "", "CF"):
        with pytest.raises(ValueError, match="order"):
            vnp.ravel(x, order=order)
    with pytest.raises(ValueError, match="order of reshape"):
        vnp.reshape(x, (3, 2), order="K")
    assert vnp.zeros((2, 3), order="f").flags.f_contiguous


@pytest.mark.parametrize("values", [[INF, INF, 1], [1, INF, 1], [-INF, 2, INF], [1, 2j, 1 + 3j]])
@pytest.mark.parametrize("period", [None, 2.5])
def test_interpolation_between_infinite_and_complex_values(gpu: vc.Runtime, values: Any, period: float | None) -> None:
    points, x = np.float32([1, 2, 3]), np.float32([0.5, 1, 1.5, 2, 2.5, 3, 3.5, NAN])
    typed = np.asarray(values, np.complex64 if np.iscomplexobj(values) else np.float32)
    agree(gpu, lambda m, *given: m.interp(*given, period=period), x, points, typed)
    if np.iscomplexobj(values):
        agree(gpu, lambda m, *given: m.interp(*given, left=1j, right=-2), x, points, typed)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32", "float32"])
def test_unwrap_has_differences_of_the_dtype(gpu: vc.Runtime, dtype: str) -> None:
    agree(gpu, lambda m, x: m.unwrap(x), np.array([0, 250, 3, 7, 200], dtype), rtol=1e-4)


def test_sequences_of_one_number(gpu: vc.Runtime) -> None:
    for a, v in ((3, 4), ([3, 5, 1], 4), (4, [3, 5, 1])):
        for mode in ("full", "same", "valid"):
            agree(gpu, lambda m, a, v, mode=mode: m.convolve(a, v, mode), np.float32(a), np.float32(v))


def test_numbers_in_place_of_nan_are_arrays(gpu: vc.Runtime) -> None:
    x = np.float32([[NAN, 1], [INF, -INF]])
    agree(gpu, lambda m, x, nan: m.nan_to_num(x, nan=nan), x, np.float32([5, 6]))
    agree(gpu, lambda m, x, high: m.nan_to_num(x, posinf=high, neginf=3), x, np.float32([[5], [6]]))
    with pytest.raises(ValueError, match="broadcast"):
        vnp.nan_to_num(gpu.array(x[0]), nan=gpu.zeros((5, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "uint8"])
def test_edges_of_bins_are_numpys(gpu: vc.Runtime, dtype: str) -> None:
    if dtype == "int32" and lacks(gpu, "float64"):
        pytest.skip("the device has no float64, as which int32 is compared with edges")
    x = (np.random.default_rng(0).random(200) * 100).astype(dtype)
    agree(gpu, lambda m, x: m.histogram_bin_edges(x, 17), x)
    agree(gpu, lambda m, x: m.histogram(x, 17)[0], x)
    agree(gpu, lambda m, x: m.histogram(x, 17, (3, 60))[0], x)


@pytest.mark.parametrize("bins", [4, [-3.0, 0.0, 1.0, 5.0]])
@pytest.mark.parametrize("density", [False, True])
def test_complex_weights_are_summed_in_bins(gpu: vc.Runtime, bins: Any, *, density: bool) -> None:
    rng = np.random.default_rng(4)
    x, parts = rng.normal(size=50).astype(np.float32) * 3, rng.normal(size=(2, 50)).astype(np.float32)
    weights = (parts[0] + 1j * parts[1]).astype(np.complex64)
    limits = (-5, 9) if bins == 4 else None
    agree(gpu, lambda m, x, w: m.histogram(x, bins, limits, weights=w, density=density)[0], x, weights, rtol=1e-5)
    counted = vnp.histogram(gpu.array(x), bins, limits, weights=gpu.array(weights))[0]
    assert counted.dtype == np.complex64
    with pytest.raises(TypeError, match="histogram2d takes real weights"):
        vnp.histogram2d(gpu.array(x), gpu.array(x), 3, weights=gpu.array(weights))


def test_complex_numbers_have_no_bins(gpu: vc.Runtime) -> None:
    z, x = gpu.array(np.complex64([1 + 2j, 3, -1j])), gpu.zeros(3)
    for call in (lambda: vnp.histogram(z, 4), lambda: vnp.histogram(z, 4, (0, 3)),
                 lambda: vnp.histogram(z, np.float32([0, 1])), lambda: vnp.histogram2d(x, z, 3)):  # fmt: skip
        with pytest.raises(TypeError, match=r"takes real numbers and edges; got .*; pass their \.real"):
            call()


@pytest.mark.parametrize("shape", [(1, 3), (1, 1), (1, 1, 3), (1, 3, 1)])
def test_values_with_more_axes_are_combined_with_none(gpu: vc.Runtime, shape: tuple[int, ...]) -> None:
    """An assignment takes such values."""
    at, values = np.int32([0, 1, 1]), np.ones(shape, np.float32)
    for name in ("add", "maximum", "multiply", "arctan2"):
        for m, convert in ((np, np.array), (vnp, gpu.array)):
            with pytest.raises(ValueError, match=r"broadcast|more axes"):
                getattr(m, name).at(convert(np.zeros(5, np.float32)), convert(at), convert(values))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_medians_of_integers_are_exact_where_large_ones_cancel_out(gpu: vc.Runtime, dtype: str, n: int) -> None:
    """NumPy's are rounded to float64 before."""
    if lacks(gpu, dtype):
        pytest.skip(f"the device lacks {dtype}")
    limits = np.iinfo(dtype)
    x = np.random.default_rng(n).integers(limits.min, limits.max, (3, n), dtype, endpoint=True)
    ends = np.array([[limits.min, limits.max, limits.max - 1, limits.min + 1], [limits.max] * 4], dtype)
    for rows in (x, ends, ends[:, :1]):
        expected = np.array([median(map(Fraction, row)) for row in rows.tolist()]).astype(np.float32)
        np.testing.assert_allclose(vnp.median(gpu.array(rows), axis=1).numpy(), expected, rtol=2**-22)
        result = vnp.nanmedian(gpu.array(rows), axis=1, keepdims=True)
        np.testing.assert_allclose(result.numpy(), expected[:, None], rtol=2**-22)


def test_bools_are_counted(gpu: vc.Runtime) -> None:
    agree(gpu, lambda m, x: m.bincount(x), [True, False, True])


def test_places_of_complex_numbers(gpu: vc.Runtime) -> None:
    x = np.array([[0, 1j], [0, 2]], np.complex64)
    agree(gpu, lambda m, x: m.flatnonzero(x), x)
    agree(gpu, lambda m, x: m.argwhere(x), x)


def test_scales_between_arrays(gpu: vc.Runtime) -> None:
    ends = np.float32([0, 1]), np.float32([2, 3])
    for axis in (0, 1, -1):
        agree(gpu, lambda m, a, b, axis=axis: m.logspace(a, b, 7, axis=axis), *ends, rtol=1e-5)
    agree(gpu, lambda m, a, b: m.logspace(a, b, 5, endpoint=False, base=2), *ends, rtol=1e-5)


@pytest.mark.parametrize("given", [(0.5, 5), (0, 5, 0.5), (10,), (7, -3, -2)])
def test_ranges_of_integers_are_numpys(gpu: vc.Runtime, given: Any) -> None:
    np.testing.assert_array_equal(vnp.arange(*given, dtype=np.int32).numpy(), np.arange(*given, dtype=np.int32))
    with pytest.raises(TypeError):
        vnp.arange(10, dtype=bool)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [(0, 9), (7, 11), (30, 41), (1, 1), (0, 0)])
def test_reflections_at_points(gpu: vc.Runtime, mode: Any, n: int, width: tuple[int, int]) -> None:
    x = (np.arange(2 * n).reshape(2, n) ** 2 + 3).astype(np.int32)
    agree(gpu, lambda m, x: m.pad(x, ((0, 0), width), mode=mode, reflect_type="odd"), x)
    agree(gpu, lambda m, x: m.pad(x, width, mode=mode, reflect_type="odd"), x.astype(np.uint32))


def test_conditions_of_piecewise(gpu: vc.Runtime) -> None:
    x, both = np.float32([0, 1, 2]), np.array([[True, False, True], [False, True, True]])
    agree(gpu, lambda m, x, both: m.piecewise(x, both, [1, lambda v: -v]), x, both)
    agree(gpu, lambda m, x, both: m.piecewise(x, both, [1, lambda v: -v, 7]), x, both)
    agree(gpu, lambda m, x, both: m.piecewise(x, [both[0], both[1]], [1, 2]), x, both)
    agree(gpu, lambda m, x, both: m.piecewise(x, both[0], [1, 2]), x, both)
    agree(gpu, lambda m, x: m.piecewise(x, [True, False, True], [1, 2]), x)
    agree(gpu, lambda m, x, one: m.piecewise(x, [one, one], [1, 2]), np.float32(3), np.bool_(True))
    with pytest.raises(ValueError, match="shape of x"):
        vnp.piecewise(gpu.array(x), [gpu.array(both[:, :2])], [1])


def test_fits_of_complex_values(gpu: vc.Runtime) -> None:
    x, y = np.float32([1, 2, 3, 4]), np.array([1, 2j, 3, 4 - 1j], np.complex64)
    agree(gpu, lambda m, x, y: m.polyfit(x, y, 2), x, y, rtol=1e-5)
    agree(gpu, lambda m, x, y: m.polyfit(y, x, 1), x, y, rtol=1e-5)
    agree(gpu, lambda m, x, y: m.polyfit(x, y, 2, full=True)[0], x, y, rtol=1e-5)


def test_out_has_the_dtype_of_a_sum(gpu: vc.Runtime) -> None:
    for name in ("sum", "prod", "cumsum", "cumprod"):
        for dtype, into in (("uint8", "uint8"), ("int32", "float32"), ("int32", "int32")):
            if lacks(gpu, dtype):
                continue
            x, out = np.array([7, 2, 250, 3], dtype), np.zeros((4,) if name.startswith("cum") else (), into)
            result = gpu.array(out)
            getattr(vnp, name)(gpu.array(x), out=result)
            np.testing.assert_array_equal(result.numpy(), getattr(np, name)(x, out=out))


def test_functions_of_arrays_with_few_axes(gpu: vc.Runtime) -> None:
    if hasattr(np, "cumulative_sum"):  # since NumPy 2.1
        agree(gpu, lambda m, x: m.cumulative_sum(x), np.float32(3))
    for x in ([1, 2], [0, 0], 5, 0):
        agree(
            gpu, lambda m, x: np.asarray(m.linalg.matrix_rank(x)) if m is np else m.linalg.matrix_rank(x), np.float32(x)
        )


def test_numbers_that_are_still_to_be_computed_are_assigned_to(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(4, dtype=np.float32))

    def changed(change: Any) -> float:
        number = x.sum()
        change(number)
        return float(number)

    assert changed(lambda s: s.__setitem__(..., x[3])) == 3
    assert changed(lambda s: s.__setitem__((), gpu.array(np.float32(9)))) == 9
    assert changed(lambda s: s.__setitem__(..., vnp.ones(1, device=gpu))) == 1
    assert changed(lambda s: s[...].fill(8)) == 8
    assert changed(lambda s: vnp.squeeze(s).fill(7)) == 7
    assert changed(lambda s: vnp.flip(s).fill(5)) == 5
    assert changed(lambda s: np.add(s, 1, out=s[...])) == 7
    assert changed(lambda s: s[()].fill(8)) == 6  # as in NumPy, a number of its own


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_results_have_memory_of_their_own(gpu: vc.Runtime, dtype: str) -> None:
    calls = {
        "cumprod": lambda x: vnp.cumprod(x, axis=0), "cumsum": lambda x: vnp.cumsum(x, axis=0),
        "cumulative_prod": lambda x: vnp.cumulative_prod(x, axis=0), "prod": lambda x: vnp.prod(x, axis=0),
        "prod of nothing": lambda x: vnp.prod(x, axis=()), "sum": lambda x: vnp.sum(x, axis=0),
        "block": vnp.block, "block of one": lambda x: vnp.block([x]),
    }  # fmt: skip
    for name, call in calls.items():
        x = gpu.array(np.full((1, 4), 2, dtype))
        result = call(x)
        result[...] = 0
        assert (x.numpy() == 2).all(), name
        result = call(x)
        x *= 3
        assert (result.numpy() == 2).all(), name


def test_einsum_of_one_array_is_a_view(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(9, dtype=np.float32).reshape(3, 3))
    vnp.einsum("ii->i", x)[...] = 0
    assert vnp.diagonal(x).tolist() == [0, 0, 0]
    vnp.einsum("ij->ji", x)[0] = 7
    assert x.numpy()[:, 0].tolist() == [7, 7, 7]
    cube = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    for subscripts in ("iii->i", "iij->ij", "iji->ji", "...ii->...i", "ijk"):
        agree(gpu, lambda m, x, subscripts=subscripts: m.einsum(subscripts, x), cube)
    summed = vnp.einsum("ii->", x)
    summed[...] = 5
    assert x.numpy()[0, 0] == 7


def test_values_inserted_before_one_index(gpu: vc.Runtime) -> None:
    agree(gpu, lambda m, x: m.insert(x, [1], [7, 8]), np.int32([1, 2, 3]))
    agree(gpu, lambda m, x: m.insert(x, 1, [7, 8]), np.int32([1, 2, 3]))
    for at in (1, [1], np.array([True, False])):
        for values in (7, [7, 8], [[7], [8]], [[7, 8]]):
            agree(gpu, lambda m, x, at=at, v=values: m.insert(x, at, v, axis=1), np.int32([[1, 2], [3, 4]]))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("number", [2.5, 0.0, NAN, 2, 1j, True])
def test_truth_of_numbers(gpu: vc.Runtime, dtype: str, number: Any) -> None:
    for name in ("logical_and", "logical_or", "logical_xor"):
        agree(gpu, lambda m, x, name=name: getattr(m, name)(x, number), np.array([0, 1, 2], dtype))


def test_indices_that_do_not_hold_the_length_of_an_axis(gpu: vc.Runtime) -> None:
    x = np.arange(300, dtype=np.int32)
    for dtype in ("int8", "int16", "uint8", "int32"):
        if lacks(gpu, dtype):
            continue
        at = np.array([-1, 5, 127, -128], np.int16).astype(dtype)
        agree(gpu, lambda m, x, at: x[at], x, at)
        agree(gpu, lambda m, x, at: m.take(x, at), x, at)


@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (9, 2), (3, 5), (3, 3, 3), (1, 4), (0, 3)])
@pytest.mark.parametrize("values", [7, [1, 2], [1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(gpu: vc.Runtime, shape: tuple[int, ...], values: Any, *, wrap: bool) -> None:
    x = np.zeros(shape, np.int32)
    result = gpu.array(x)
    np.fill_diagonal(x, values, wrap=wrap)
    vnp.fill_diagonal(result, values, wrap=wrap)
    np.testing.assert_array_equal(result.numpy(), x)


def test_copies_by_castings(gpu: vc.Runtime) -> None:
    def copied(dtype: str, src: Any, casting: Any, where: Any = True) -> Any:
        host = np.full((2, 3), 9, dtype)
        result = gpu.array(host)
        np.copyto(host, src, casting, where)
        vnp.copyto(result, gpu.array(src) if isinstance(src, np.ndarray) else src, casting, where)
        np.testing.assert_array_equal(result.numpy(), host)

    for src in (
        3,
        True,
        2.5,
        np.float32(1.5),
        np.int32(4),
        np.arange(3, dtype=np.int32),
        np.ones((1, 1, 2, 3), np.int32),
    ):
        copied("float32", src, "same_kind")
        copied("int32", src, "unsafe")
    copied("uint32", 3, "same_kind", np.array([True, False, True]))
    copied("int32", np.float32([1, 2, 3]), "unsafe")
    copied("float32", np.complex64([1 + 2j, 2, 3]), "unsafe")
    x = gpu.zeros(3, np.int32)
    for src, casting in (
        (2.5, "same_kind"),
        (np.float32(1), "same_kind"),
        (gpu.zeros(3), "safe"),
        (gpu.zeros(3), "no"),
    ):
        with pytest.raises(TypeError, match="casting"):
            vnp.copyto(x, src, casting)
    with pytest.raises(OverflowError):
        vnp.copyto(gpu.zeros(3, np.uint32), -1)


def test_elements_in_the_order_of_memory_that_is_read_again(gpu: vc.Runtime) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 1, 4)
    for shape in ((3, 5, 4), (2, 3, 5, 4)):
        for axes in permutations(range(len(shape))):
            agree(gpu, lambda m, x, s=shape, a=axes: m.broadcast_to(x, s).transpose(a).ravel("K"), x)


def test_rarer_arguments(gpu: vc.Runtime) -> None:
    x, at = np.int32([[3, 1], [2, 5]]), np.int32([1, 0, 3])
    agree(gpu, lambda m, x, at: m.take_along_axis(x, at, None), x, at)
    agree(gpu, lambda m, x: x.reshape(4, copy=True), x)
    agree(gpu, lambda m, at: m.unravel_index(at, (2, 3), None)[1], at)
    agree(gpu, lambda m, at: m.ravel_multi_index((at, at), (4, 4), order=None), at)
    agree(gpu, lambda m, x: m.add.accumulate(x), np.complex64([1, 2j, 3]))
    agree(gpu, lambda m, x: m.multiply.accumulate(x), np.complex64([1, 2j, 3]))
    out = gpu.zeros((2, 2), np.int32)
    assert vnp.negative(gpu.array(x), out=(out,)) is out
    agree(gpu, lambda m, x: m.maximum.accumulate(x), np.complex64([1, 2j, 0.5 + 3j, 1 + 1j]))


def test_integers_of_other_dtypes_are_added_at_indices(gpu: vc.Runtime) -> None:
    at = np.int32([0, 2, 0, 1])
    for name in ("add", "subtract", "multiply"):
        for values in (np.int32([3, -2, 7, 1]), np.uint32([3, 2, 7, 1])):
            x = np.array([1, 2, 3], np.uint32)
            result = gpu.array(x)
            getattr(np, name).at(x, at, values)
            getattr(vnp, name).at(result, gpu.array(at), gpu.array(values))
            np.testing.assert_array_equal(result.numpy(), x)
