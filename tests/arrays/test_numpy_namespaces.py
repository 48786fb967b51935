"""Smaller parts of NumPy's interface: strides, bases, byte orders, polynomials, options of products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.numpy.lib.stride_tricks import as_strided, sliding_window_view

HOST = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("start", "shape", "strides"),
    [
        ((0, 0), (2, 3), (24, 4)),
        ((0, 0), (3, 4, 2), (24, 4, 4)),
        ((3, 5), (4,), (-24,)),
        ((1, 0), (2, 5), (0, 4)),
        ((0, 0), (0, 3), (4, 4)),
    ],
)
def test_views_by_strides(gpu: vc.Runtime, start: Any, shape: Any, strides: Any) -> None:
    given = gpu.array(HOST)[start[0] :, start[1] :]
    host = HOST[start[0] :, start[1] :]
    expected = np.lib.stride_tricks.as_strided(host, shape, strides)
    np.testing.assert_array_equal(as_strided(given, shape, strides).numpy(), expected)
    assert vnp.lib.stride_tricks.sliding_window_view is sliding_window_view


@pytest.mark.parametrize(
    ("shape", "strides", "message"),
    [
        ((5, 6), (24, 4), r"within the 96 bytes of the array's memory; got bytes 0 to 120, of shape \(5, 6\)"),
        ((2,), (-4,), "got bytes -4 to 4"),
        ((2,), (6,), "strides are multiples of 4 bytes"),
        ((2,), (4, 4), "there is a stride per length"),
        ((-1,), (4,), "there is a stride per length, none negative"),
    ],
)
def test_views_by_strides_stay_in_the_memory(gpu: vc.Runtime, shape: Any, strides: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_strided(gpu.array(HOST), shape, strides)


def test_views_know_the_array_that_has_the_memory(gpu: vc.Runtime) -> None:
    x = gpu.array(HOST)
    assert x.base is None
    assert (x + 1).base is None
    assert x.copy().base is None
    views = x[1:], x.T, x[1:][:, ::2], x.reshape(-1), x.view(np.int32), x.broadcast_to((2, 4, 6)), as_strided(x)
    assert all(view.base is x for view in views)
    view = x[2:]
    del x, views
    assert view.base is not None
    np.testing.assert_array_equal(view.base.numpy(), HOST.reshape(-1))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "complex64"])
def test_bytes_are_swapped(gpu: vc.Runtime, dtype: str) -> None:
    host = (HOST * 1000).astype(dtype)
    x = vnp.asarray(host.view(f"u{host.itemsize}") if dtype == "int64" else host, device=gpu)
    expected = host.byteswap().view(np.uint8)
    np.testing.assert_array_equal(x.byteswap().numpy().view(np.uint8), expected)
    np.testing.assert_array_equal(x[:, ::2].byteswap().numpy().tobytes(), host[:, ::2].byteswap().tobytes())
    assert x.byteswap(inplace=True) is x
    np.testing.assert_array_equal(x.numpy().view(np.uint8), expected)


def test_files_of_other_byte_orders_and_mapped_files(gpu: vc.Runtime, tmp_path: Path) -> None:
    for dtype in (">f4", ">i4", "<f4", ">c8"):
        host = HOST.astype(dtype)
        np.save(tmp_path / "x.npy", host)
        for mode in (None, "r", "c"):
            result = vnp.load(tmp_path / "x.npy", mode, device=gpu)
            assert result.dtype == host.dtype.newbyteorder("=")
            np.testing.assert_array_equal(result.numpy(), host)
        for made in (gpu.array(host), vnp.asarray(host, device=gpu)):
            np.testing.assert_array_equal(made.numpy(), host)
    with pytest.raises(ValueError, match=r'mmap_mode is "r", "c" or None: a device array is a copy.*; got \'r\+\''):
        vnp.load(tmp_path / "x.npy", mmap_mode="r+")


def test_polynomials_of_the_host(gpu: vc.Runtime) -> None:
    x = gpu.array(HOST[0])
    for polynomial in (vnp.poly1d([1, 2, 3]), vnp.poly1d(gpu.array([1.0, 2.0, 3.0]))):
        assert type(polynomial(x)) is vc.Array
        np.testing.assert_allclose(polynomial(x).numpy(), np.poly1d([1, 2, 3])(HOST[0]))
        assert polynomial(2) == 11
    assert np.array_equal((vnp.poly1d([1, 2]) * vnp.poly1d([1, 0])).coeffs, [1, 2, 0])
    space = vnp.polynomial
    result = space.polynomial.polyfit(x, x * 2 + 1, 1)
    assert type(result) is vc.Array
    np.testing.assert_allclose(result.numpy(), [1, 2], atol=1e-5)
    np.testing.assert_allclose(
        space.chebyshev.chebval(x, [1, 2, 3]).numpy(), np.polynomial.chebyshev.chebval(HOST[0], [1, 2, 3])
    )
    assert isinstance(space.legendre.leggauss(3)[0], np.ndarray)
    assert space.Polynomial([1, 2]) == np.polynomial.Polynomial([1, 2])
    with pytest.raises(AttributeError, match="no attribute 'polyfoo'"):
        space.polynomial.polyfoo  # noqa: B018


A, B = (
    np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32),
    np.random.default_rng(1).normal(size=(4, 5, 2)).astype(np.float32),
)


@pytest.mark.parametrize(
    ("name", "a", "b", "options"),
    [
        ("matmul", A, B, {"axes": [(1, 2), (0, 1), (0, 1)]}),
        ("matmul", A, B, {"axes": [(-2, -1), (0, 1), (2, 0)]}),
        ("matmul", A[0], B[:, 0, 0], {"axes": [(0, 1), (0,), (0,)]}),
        ("matmul", A[0, 0], B[:, 0, 0], {"axes": [0, 0]}),
        ("vecdot", A, A, {"axes": [1, 1, ()]}),
        ("vecdot", A, A, {"axis": 0}),
        ("vecdot", A, A, {"axes": [0, 0]}),
        ("matvec", A, B, {"axes": [(1, 2), 0, 0]}),
        ("vecmat", B, A, {"axes": [0, (2, 1), -1]}),
    ],
)
def test_products_take_axes_and_out(gpu: vc.Runtime, name: str, a: Any, b: Any, options: Any) -> None:
    try:
        expected = getattr(np, name)(a, b, **options)
    except (AttributeError, ValueError) as error:  # an older NumPy, or stacks that do not broadcast
        pytest.skip(str(error))
    x, y = gpu.array(a), gpu.array(b)
    np.testing.assert_allclose(getattr(vnp, name)(x, y, **options).numpy(), expected, rtol=1e-5, atol=1e-5)
    out = gpu.zeros(expected.shape)
    assert getattr(vnp, name)(x, y, out, **options) is out
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_products_take_a_dtype(gpu: vc.Runtime) -> None:
    ones = gpu.full((3, 300), 1, np.uint8)
    assert vnp.matmul(ones, ones.T, dtype=np.uint32).tolist() == [[300] * 3] * 3
    assert vnp.vecdot(ones, ones, dtype=np.float32).tolist() == [300.0] * 3
    assert np.matmul(ones, ones.T, dtype=np.int32).dtype == np.int32
    with pytest.raises(
        TypeError, match=r"^matmul: operands become dtype=uint8 if casting='same_kind' allows it; got float32"
    ):
        vnp.matmul(gpu.zeros((2, 2)), gpu.zeros((2, 2)), dtype=np.uint8)
    assert vnp.matmul(gpu.zeros((2, 2)), gpu.zeros((2, 2)), dtype=np.uint8, casting="unsafe").dtype == np.uint8
    with pytest.raises(ValueError, match=r"^matmul: axes has 2, 2 and 2 axes, of the operands and of the result; got"):
        vnp.matmul(gpu.zeros((2, 2)), gpu.zeros((2, 2)), axes=[0, 1])
    with pytest.raises(TypeError, match=r"^vecdot takes axis or axes, not both"):
        vnp.vecdot(ones, ones, axis=0, axes=[0, 0])
