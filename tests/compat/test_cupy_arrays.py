"""What CuPy's arrays are here: dtypes, views, transfers, and their exchange with kernels and functions of vkcompute."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.numpy as vnp

pytestmark = pytest.mark.usefixtures("cupy_device")


def test_an_empty_index_is_a_view() -> None:
    x = cp.array(3.0)
    view = x[()]
    view += 1
    x[()] *= 2
    assert (float(x), float(view), view.shape) == (8, 8, ())


def test_dtypes_are_cupys_and_those_of_vkcompute_stay() -> None:
    assert cp.zeros(3).dtype == (cp.array([1, 2]) / 2).dtype == cp.array([1.5]).dtype == np.float64
    assert cp.sqrt(cp.array([1], np.int8)).dtype == np.float16
    assert cp.exp(cp.array([1], np.int16)).dtype == np.float32
    assert cp.hypot(cp.array([1], np.int8), cp.array([1], np.uint8)).dtype == np.float16
    assert cp.arctan2(cp.array([1], np.int16), cp.array([1], np.uint16)).dtype == np.float32
    narrow = cp.array([3], np.int8)
    assert cp.ldexp(narrow, 1).dtype == cp.frexp(narrow)[0].dtype == cp.modf(narrow)[1].dtype == np.float16
    assert (cp.array([1]) * 1.5).dtype == cp.mean(cp.arange(3)).dtype == np.float64
    assert vnp.zeros(3).dtype == (vnp.array([1, 2]) / 2).dtype == np.float32
    assert vnp.sqrt(vnp.array(np.ones(1, np.int8))).dtype == np.float32


def test_plans_of_one_namespace_are_not_those_of_another() -> None:
    x = vnp.array(np.array([1, 2], np.int8))
    for _ in range(3):
        assert vnp.exp(x).dtype == np.float32
        assert cp.exp(cp.asarray(x)).dtype == np.float16
    vnp.set_default_dtype("float64")
    try:
        assert vnp.exp(x).dtype == np.float64
        assert cp.exp(cp.asarray(x)).dtype == np.float16
    finally:
        vnp.set_default_dtype("float32")


def test_views_have_bases_and_results_that_are_arguments_are_the_same_object() -> None:
    x = cp.arange(6).reshape(2, 3)
    assert x.T.base is x.base
    assert x[0].base is not None
    assert x.copy().base is None
    out = cp.empty(3, np.int64)
    assert cp.sum(x, axis=0, out=out) is out
    assert cp.asarray(x) is x
    x[1:] += 10
    assert x.tolist() == [[0, 1, 2], [13, 14, 15]]


def test_transfers() -> None:
    host = np.arange(6.0).reshape(2, 3)
    x = cp.asarray(host)
    assert isinstance(x, cp.ndarray)
    assert type(x.get()) is np.ndarray
    x.set(host + 1)
    np.testing.assert_array_equal(cp.asnumpy(x), host + 1)
    assert x.get(order="F").flags.f_contiguous
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(x)
    with pytest.raises(TypeError, match="Unsupported type"):
        cp.add(x, host)
    with pytest.raises(TypeError, match="cannot be set"):
        x.set(host.astype(np.float32))
    assert cp.get_array_module(host) is np
    assert cp.get_array_module(host, x) is cp
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).get(), host + 1)


def test_constructor_and_memory() -> None:
    x = cp.arange(10, dtype=np.int32)
    view = cp.ndarray((3,), np.int32, x.data + 8, strides=(4,))
    view += 100
    assert x.tolist() == [0, 1, 102, 103, 104, 5, 6, 7, 8, 9]
    assert cp.ndarray((2, 3), order="F").flags.f_contiguous
    with pytest.raises(ValueError, match="the memory has 40"):
        cp.ndarray((11,), np.int32, x.data)
    assert x.device.id == 0
    assert x.data.mem.size == 40


def test_assignments_convert_as_in_numpy() -> None:
    x = cp.zeros(4, np.int64)
    x[0] = 1.7
    x[1:] = cp.array([2.5, 3.5, -1.5])
    assert x.tolist() == [1, 2, 3, -1]
    x.fill(2.9)
    assert x.tolist() == [2, 2, 2, 2]


def test_kernels_and_functions_of_vkcompute_take_the_arrays() -> None:
    @vc.kernel
    def saxpy(y, x, a):  # type: ignore[no-untyped-def]
        i = vc.global_id(0)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    x, y = cp.arange(4.0), cp.ones(4)
    saxpy(y, x, 2.0)
    assert y.tolist() == [1, 3, 5, 7]
    assert vc.elementwise("a * x")(2.0, x).tolist() == [0, 2, 4, 6]
    assert vnp.sum(x).item() == 6
    assert type(vnp.add(x, 1)) is vc.Array
    ours = vnp.ones(4)
    assert isinstance(ours + x, cp.ndarray)
    assert cp.asarray(ours)._array is ours


class Described:
    """An array of another library, by `__cuda_array_interface__`."""

    def __init__(self, **described: Any) -> None:
        self.__cuda_array_interface__ = {"version": 3, "typestr": "<f8", "shape": (4,), **described}


def test_the_interface_of_cuda_is_spoken_among_ours_and_refused_by_others() -> None:
    x = cp.arange(4.0)
    same = cp.asarray(Described(data=(x.data.ptr, False)))
    same += 1
    assert x.tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="Vulkan"):
        cp.asarray(Described(data=(0x7F0000000000, False)))
    with pytest.raises(TypeError, match="Vulkan"):
        int(x.__cuda_array_interface__["data"][0])


def test_errors_are_cupys() -> None:
    x = cp.zeros((2, 3))
    with pytest.raises(cp.exceptions.AxisError):
        x.sum(axis=2)
    with pytest.raises(ValueError, match="broadcast"):
        x + cp.zeros(4)
    with pytest.raises(cp.linalg.LinAlgError):
        cp.linalg.inv(cp.zeros((2, 2)))
    with pytest.raises(NotImplementedError, match="kernel in C"):
        cp.RawKernel("extern", "f")
    with pytest.raises(AttributeError, match=r"docs/cupy\.md"):
        cp.no_such_name  # noqa: B018


def test_copies_keep_the_layout() -> None:
    x = cp.asarray(np.asfortranarray(np.ones((3, 4))), order="F")
    assert x.flags.f_contiguous
    assert cp.zeros_like(x).flags.f_contiguous
    assert x.astype(np.float32).flags.f_contiguous
    assert cp.copy(x).flags.f_contiguous
    assert x.copy().flags.c_contiguous
    assert vnp.zeros_like(vnp.ones((2, 3, 4)).transpose(2, 0, 1)).strides == (4, 48, 16)


def test_polynomials() -> None:
    p = cp.poly1d([1, -3, 2])
    assert sorted(p.roots.tolist()) == [1, 2]
    assert p(cp.array([0.0, 3.0])).tolist() == [2, 2]
    assert (p * p).coeffs.tolist() == [1, -6, 13, -12, 4]
    assert p.deriv().get() == np.poly1d([2, -3])
    assert cp.polyval(cp.array([1.0, 2.0]), cp.array([3.0])).tolist() == [5]


def test_streams_and_events() -> None:
    stream = cp.cuda.Stream()
    with stream:
        assert cp.cuda.get_current_stream() == stream
        start = stream.record()
        x = cp.arange(10).sum()
        stop = stream.record()
    assert cp.cuda.get_elapsed_time(start, stop) >= 0
    assert int(x) == 45
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null
    with cp.cuda.Device(0):
        assert cp.get_default_memory_pool().used_bytes() > 0
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="one device"):
        cp.cuda.Device(1)


def test_dtypes_of_statistics() -> None:
    """Covariances and interpolations are float64, quantiles that select an element have its dtype."""
    single, small = cp.arange(6, dtype=np.float32).reshape(2, 3), cp.arange(6, dtype=np.int8)
    assert cp.cov(single).dtype == cp.corrcoef(single).dtype == np.float64
    assert cp.cov(single, dtype=np.float32).dtype == np.float32
    assert cp.interp(single[0], single[0], single[1]).dtype == np.float64
    assert cp.quantile(small, 0.3, method="nearest").dtype == np.int8
    assert cp.quantile(small, cp.array([0.3], np.float32)).dtype == np.float32
    result = cp.quantile(cp.arange(6, dtype=np.float32), [0.3, 0.5], method="weibull")
    np.testing.assert_array_equal(
        result.get(), np.quantile(np.arange(6, dtype=np.float32), [0.3, 0.5], method="weibull")
    )
    generator, out = cp.random.default_rng(1), cp.zeros((2, 3), np.float32)
    assert generator.gamma(2.0, size=3).dtype == generator.beta(1.0, 2.0, 3).dtype == np.float64
    assert generator.standard_gamma(2.0, dtype=np.float32, out=out) is out
    assert float(out.min()) > 0


def test_results_of_linear_algebra() -> None:
    a = np.arange(6.0).reshape(3, 2) + 1
    for ours, expected in zip(cp.linalg.qr(cp.asarray(a), mode="raw"), np.linalg.qr(a, mode="raw"), strict=True):
        np.testing.assert_allclose(ours.get(), expected, rtol=1e-12)
    assert cp.linalg.lstsq(cp.asarray(a), cp.ones(3), rcond=None)[2].dtype == np.int32


def test_complex_numbers_assigned_to_real_elements() -> None:
    """The imaginary part is discarded, with a warning."""
    z = cp.array([1 + 2j, 3 + 4j, 5])
    x = cp.zeros(3, np.int32)
    for assign in (
        lambda: x.__setitem__(slice(None), z), lambda: x.flat.__setitem__(slice(None), z), lambda: x.fill(z[0]),
        lambda: cp.asarray(z, dtype=np.float32), lambda: cp.ascontiguousarray(z, np.int64),
    ):  # fmt: skip
        with pytest.warns(np.exceptions.ComplexWarning):
            assign()
    assert x.tolist() == [1, 1, 1]


def test_scatter_by_a_mask_of_the_host() -> None:
    x = cp.zeros(4)
    cp.maximum.at(x, np.array([True, False, True, False]), 3)
    assert x.tolist() == [3, 0, 3, 0]


def test_grids_and_joined_arrays() -> None:
    for ours, expected in (
        (cp.mgrid[0:3, 0:2], np.mgrid[0:3, 0:2]), (cp.ogrid[0:3:4j], np.ogrid[0:3:4j]),
        (cp.r_[0, cp.arange(2), 0.5], np.r_[0, np.arange(2), 0.5]), (cp.ogrid[0:3, 0:2][1], np.ogrid[0:3, 0:2][1]),
    ):  # fmt: skip
        assert type(ours) is cp.ndarray
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours.get(), expected)


def test_histograms_of_a_range() -> None:
    """Edges of a range are float64, whatever the coordinates are; given ones keep their dtype."""
    points = np.arange(30, dtype=np.float16).reshape(10, 3)
    bins, limits = (4, 5, 3), ((0, 20), (5, 30), (1, 2))
    counts, edges = cp.histogramdd(cp.asarray(points), bins, limits)
    expected, expected_edges = np.histogramdd(points, bins, limits)
    np.testing.assert_array_equal(counts.get(), expected)
    for ours, theirs in zip(edges, expected_edges, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.get(), theirs)
    _, edge, _ = cp.histogram2d(cp.arange(3), cp.arange(3), [cp.arange(4), cp.arange(3)])
    assert edge.dtype == np.int64


def test_views_of_einsum() -> None:
    """Results without a sum are views of the operand, also of no elements."""
    for shape in ((2, 3), (0, 1)):
        a = cp.ones(shape, np.int8)
        assert cp.einsum("ij->ji", a).base is a
        assert cp.einsum("ij->ji", a, dtype=np.float32).dtype == np.int8
        assert cp.einsum("ij->i", a, dtype=np.float32).dtype == np.float32


def test_functions_with_arguments_of_cupy() -> None:
    x = cp.array([[1, 5], [7, 2]])
    assert cp.argsort(cp.array(3)).tolist() == cp.array(3).argsort().tolist() == np.argsort(np.array(3)).tolist()
    strided = cp.ndarray((2, 3), np.float64, strides=(8, 0))
    assert (strided.strides, cp.byte_bounds(strided)[0]) == ((8, 0), strided.data.ptr)
    with pytest.raises(ValueError, match=r"ndarray\(\) with strides"):
        cp.ndarray((2, 3), strides=(-8, 8))
    assert cp.argmax(x, dtype=np.int8).dtype == x.argmin(dtype=np.int8).dtype == np.int8
    assert cp.cross(cp.array([1, 2]), cp.array([3, 4])).item() == -2
    assert cp.cross(cp.array([1, 2]), cp.array([3, 4, 5])).tolist() == [10, -5, -2]
    assert cp.sort_complex(cp.array([2.0, 1.0])).dtype == np.complex128
    padded = cp.pad(cp.array([1 + 2j, 4]), 2, "linear_ramp")
    np.testing.assert_array_equal(padded.get(), np.pad(np.array([1 + 2j, 4]), 2, "linear_ramp"))
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        cp.cov(cp.arange(3.0), ddof=3)


def test_arrays_differ_from_objects_that_are_no_numbers() -> None:
    x = cp.array([[1, 2], [3, 4]])
    assert (x == None).tolist() == [[False, False], [False, False]]  # noqa: E711
    assert (object() != x).tolist() == [[True, True], [True, True]]

    class Even:
        def __eq__(self, other: object) -> Any:
            return other % 2 == 0

    assert (x == Even()).tolist() == [[False, True], [False, True]]
    with pytest.raises(TypeError, match="Unsupported type"):
        _ = x != Even()


def test_updates_at_indices_convert_values_to_the_dtype_of_the_array() -> None:
    x = cp.zeros(3, np.uint32)
    cp.maximum.at(x, np.array([0, 2]), np.array([5, 7]))
    cp.add.at(x, 1, 1.7)
    assert x.tolist() == [5, 1, 7]


def test_bools_are_shifted_as_int8_and_their_angle_is_that_of_ints() -> None:
    x = cp.array([True, False])
    assert ((x << x).dtype, (x >> 1).dtype) == (np.int8, np.int64)
    assert (x << 2).tolist() == [4, 0]
    assert cp.angle(x).dtype == np.float64


def test_einsum_of_one_array_is_a_view_with_its_dtype() -> None:
    x = cp.array([[0, 1, 2], [3, 4, 5]], np.float32)
    turned = cp.einsum("ij->ji", x, dtype=np.float64)
    assert (turned.dtype, turned.base is x) == (np.float32, True)
    empty = cp.zeros((0, 1))
    assert cp.einsum("ij", empty).base is empty


def test_ravel_closes_gaps_and_conj_of_real_numbers_is_the_array() -> None:
    x = cp.arange(10)[::2]
    for flat in (x.ravel(), cp.ravel(x), cp.broadcast_to(cp.arange(1), (3,)).ravel()):
        assert flat.flags.c_contiguous
    assert x.ravel().tolist() == [0, 2, 4, 6, 8]
    assert x.conj() is x
    assert cp.array([True]).conj().dtype == bool
    assert cp.array([1j]).conjugate().tolist() == [-1j]


def test_append_takes_the_dtype_of_both() -> None:
    for values in (10, [10], 1.5, np.int16(3)):
        of_numpy = np.append(np.arange(3, dtype=np.uint8), values)
        ours = cp.append(cp.arange(3, dtype=np.uint8), values)
        assert ours.dtype == of_numpy.dtype
        assert ours.tolist() == of_numpy.tolist()


def test_indices_of_a_mask_by_a_function_of_cupy() -> None:
    for k in (0, 1, -1):
        ours, of_numpy = cp.mask_indices(4, cp.triu, k), np.mask_indices(4, np.triu, k)
        assert [part.tolist() for part in ours] == [part.tolist() for part in of_numpy]


def test_capsules_of_dlpack() -> None:
    x = cp.arange(6).reshape(2, 3)
    for taken in (cp.fromDlpack(x.toDlpack()), cp.from_dlpack(x), cp.from_dlpack(x.get(), copy=True)):
        assert taken.tolist() == x.tolist()
    assert cp.from_dlpack(x, copy=True).data.ptr != x.data.ptr


def test_names_of_modules_that_programs_use() -> None:
    assert cp.lib.stride_tricks.as_strided(cp.arange(4), (2,), (16,)).tolist() == [0, 2]
    assert len(cp.random.bytes(5)) == 5
    assert cp._default_memory_pool.used_bytes() == cp.get_default_memory_pool().used_bytes()
    assert issubclass(cp.cuda.memory.OutOfMemoryError, MemoryError)
    with cp.cuda.profile():
        cp.cuda.nvtx.RangePush("step")
        cp.cuda.nvtx.RangePop()
    properties = cp.cuda.runtime.getDeviceProperties(0)
    assert properties["maxThreadsDim"][0] >= properties["warpSize"]


class _Foreign:
    """An object with the interface of an array, as another library of CUDA has it."""

    def __init__(self, array: Any) -> None:
        typestr, descr, address = array.dtype.str, array.dtype.descr, (array.data.ptr, False)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": typestr, "descr": descr, "data": address, "version": 3,
        }  # fmt: skip


def test_interfaces_have_the_fields_of_records_and_no_address_without_elements() -> None:
    records = cp.zeros(3, "i4,f8")
    assert cp.asarray(_Foreign(records)).dtype == np.dtype("i4,f8")
    empty = cp.zeros(3)[3:]
    assert (empty.data.ptr, empty.data.mem.size, cp.asarray(_Foreign(empty)).shape) == (0, 0, (0,))


def test_flags_and_numbers_that_are_numpys() -> None:
    for xp in (np, cp):
        x = xp.arange(6, dtype=np.int32).reshape(2, 3)
        views = x.view(np.int16), x.T, x[:], x.copy()
        assert [view.flags.owndata for view in views] == [False, False, False, True]
        assert xp.reciprocal(xp.array([True])).dtype == np.int8
        with pytest.raises(IndexError):
            xp.fft.rfftn(xp.ones((2, 3)), axes=())


def test_put_wraps_indices_unless_it_is_to_raise() -> None:
    x = cp.arange(7)
    cp.put(x, cp.array([2, -8]), cp.array([10, 20]))
    assert x.tolist() == [0, 1, 10, 3, 4, 5, 20]
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        cp.put(x, cp.array([2, 7]), cp.array([10, 20]), mode="raise")
    with pytest.warns(DeprecationWarning, match="Use `vstack`"):
        assert cp.row_stack((cp.arange(2), cp.arange(2))).shape == (2, 2)


def test_allocators_that_programs_set() -> None:
    for pool in (cp.cuda.MemoryPool(cp.cuda.malloc_managed), cp.cuda.MemoryAsyncPool()):
        cp.cuda.set_allocator(pool.malloc)
        assert cp.arange(4).sum() == 6
        assert pool.malloc(16).mem.size >= 16
    assert cp.cuda.malloc_async(64).mem.size >= 64


def test_older_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = cp.random.RandomState(0).tomaxint((50,)).get()
    assert 2**60 < largest.max() < 2**63
    assert largest.min() >= 0
    for a in (None, cp.array([[0, 1], [2, 3]])):
        with pytest.raises(ValueError, match="a must be 1-dimensional or an integer"):
            cp.random.choice(a, 1)
    state = cp.random.get_random_state()
    monkeypatch.setenv("CUPY_SEED", "6")
    cp.random.reset_states()
    assert cp.random.rand(3).tolist() == cp.random.RandomState(6).rand(3).tolist()
    cp.random.set_random_state(state)
