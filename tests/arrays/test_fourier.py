"""Fourier transforms of arrays beside numpy's: lengths, axes, norms, dtypes, views, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_arrays import HostArray, dtypes_of, seeds, values, viewed
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp

pytestmark = pytest.mark.device_only

ALONG_ONE = "fft ifft rfft irfft hfft ihfft".split()
ALONG_SEVERAL = "fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2".split()
NORMS = st.sampled_from([None, "backward", "ortho", "forward"])


def drawn(data: Any, gpu: vc.Runtime, name: str, least: int = 1) -> tuple[HostArray, Any]:
    """Draws an array that the function takes, real for a transform of real numbers, as a view with any strides."""
    dtypes = dtypes_of(gpu, "float32 float64 int32 uint32")
    if name not in ("rfft", "ihfft", "rfftn", "rfft2"):
        dtypes += [f"complex{2 * np.dtype(each).itemsize * 8}" for each in dtypes if each.startswith("float")]
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    shape = tuple(data.draw(st.lists(st.integers(0, 12), min_size=least, max_size=3), "shape"))
    rng = np.random.default_rng(data.draw(seeds()))
    if dtype.startswith("complex"):
        x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    else:
        x = values(rng, shape, dtype, special=False)
    return viewed(data, gpu, x)


def compare(name: str, x: HostArray, array: Any, *args: Any) -> None:
    """Compares with numpy's transform in float64, or the errors of both.

    Each of log2(n) steps of a transform, of which a convolution has three, adds a few roundings relative to the norm.
    """
    exact = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    try:
        expected = getattr(np.fft, name)(exact, *args)
    except (ValueError, TypeError, IndexError) as error:
        with pytest.raises(ValueError if isinstance(error, IndexError) else type(error)):
            getattr(vnp.fft, name)(array, *args)
        return
    result = getattr(vnp.fft, name)(array, *args)
    single = x.dtype not in (np.float64, np.complex128)
    kind = {"c": "complex", "f": "float"}[expected.dtype.kind]
    size = {"c": 64, "f": 32}[expected.dtype.kind] * (1 if single else 2)
    assert (result.dtype, result.shape) == (np.dtype(f"{kind}{size}"), expected.shape)
    if expected.size:
        eps = np.finfo(np.float32 if single else np.float64).eps
        norm = np.linalg.norm(expected) + np.abs(exact).max(initial=0) * np.finfo(result.dtype).eps
        steps = np.log2(expected.size + x.size) + 2
        assert np.linalg.norm(result.numpy() - expected) <= 6 * eps * steps * norm + np.finfo(np.float32).tiny


@given(data=st.data())
@pytest.mark.parametrize("name", ALONG_ONE)
def test_along_one_axis(gpu: vc.Runtime, name: str, data: Any) -> None:
    x, array = drawn(data, gpu, name)
    n = data.draw(st.none() | st.integers(0, 20), "n")
    compare(name, x, array, n, data.draw(st.integers(-x.ndim - 1, x.ndim), "axis"), data.draw(NORMS, "norm"))


@given(data=st.data())
@pytest.mark.parametrize("name", ALONG_SEVERAL)
def test_along_several_axes(gpu: vc.Runtime, name: str, data: Any) -> None:
    x, array = drawn(data, gpu, name, least=2)
    axes = tuple(data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3), "axes"))
    lengths = st.lists(st.integers(1, 9) | st.just(-1), min_size=len(axes), max_size=len(axes))
    compare(name, x, array, data.draw(st.none() | lengths, "s"), axes, data.draw(NORMS, "norm"))


@pytest.mark.parametrize("name", ALONG_ONE + ALONG_SEVERAL)
def test_default_axes_and_numpys_own_functions(gpu: vc.Runtime, name: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    compare(name, x, gpu.array(x))
    result, own = getattr(np.fft, name)(gpu.array(x)), getattr(vnp.fft, name)(gpu.array(x))
    assert np.array_equal(result.numpy(), own.numpy())


@pytest.mark.parametrize("n", [1, 2, 11, 1000, 4099])
def test_there_and_back_with_doubles(gpu: vc.Runtime, n: int) -> None:
    """The factor of a norm has the precision of the dtype."""
    x = np.random.default_rng(n).standard_normal((2, n))
    for norm in ("backward", "ortho", "forward"):
        compare("fft", x, gpu.array(x, np.float64), None, -1, norm)
        compare("ifft", x, gpu.array(x, np.float64), None, -1, norm)
        result = vnp.fft.irfft(vnp.fft.rfft(gpu.array(x, np.float64), norm=norm), n, norm=norm).numpy()
        np.testing.assert_allclose(result, x, rtol=0, atol=100 * np.finfo(float).eps)


def test_lazy_operands_and_the_array_itself(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(8, dtype=np.float32))
    result = abs(vnp.fft.fft(x + 1) * 2)
    np.testing.assert_allclose(result.numpy(), np.abs(np.fft.fft(np.arange(8) + 1) * 2), rtol=1e-5)
    assert x.tolist() == list(range(8))


def test_in_a_graph(gpu: vc.Runtime) -> None:
    x, out = gpu.zeros((2, 15)), gpu.zeros((2, 20))
    with gpu.record() as graph:
        out[...] = vnp.fft.irfft(vnp.fft.rfft(x, 20, norm="ortho") * 2, 20, norm="ortho")
    for seed in range(2):
        host = np.random.default_rng(seed).standard_normal((2, 15)).astype(np.float32)
        x[...] = gpu.array(host)
        graph.run()
        np.testing.assert_allclose(out.numpy(), np.pad(2 * host, ((0, 0), (0, 5))), rtol=0, atol=1e-5)


@given(data=st.data())
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(gpu: vc.Runtime, name: str, data: Any) -> None:
    x, array = drawn(data, gpu, "fft")
    axis = st.integers(-x.ndim, x.ndim - 1)
    axes = data.draw(st.none() | axis | st.lists(axis, min_size=1, max_size=3).map(tuple), "axes")
    assert np.array_equal(getattr(vnp.fft, name)(array, axes).numpy(), getattr(np.fft, name)(x, axes))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(gpu: vc.Runtime, name: str) -> None:
    for n, d in ((1, 1.0), (2, 0.5), (7, 0.1), (8, -2.0)):
        result = getattr(vnp.fft, name)(n, d, device=gpu)
        assert result.dtype == np.float32
        assert np.array_equal(result.numpy(), getattr(np.fft, name)(n, d).astype(np.float32))
    with pytest.raises(ValueError, match=r"at least 1 element .*got 0"):
        getattr(vnp.fft, name)(0, device=gpu)
    with pytest.raises(ValueError, match="floats; got dtype=int32"):
        getattr(vnp.fft, name)(3, dtype=np.int32, device=gpu)
    with pytest.raises(ZeroDivisionError):
        getattr(vnp.fft, name)(3, 0, device=gpu)


def test_errors(gpu: vc.Runtime) -> None:
    x = gpu.zeros((2, 3))
    with pytest.raises(ValueError, match="at least 1 element along an axis, after padding; got 0"):
        vnp.fft.irfft(x[:, :1])
    with pytest.raises(ValueError, match='norm is "backward", "ortho" or "forward"; got \'orto\''):
        vnp.fft.hfft(x, norm="orto")
    with pytest.raises(ValueError, match=r"a length per axis; got s=\(3,\) for axes=\(0, 1\)"):
        vnp.fft.fftn(x, (3,), (0, 1))
    with pytest.raises(ValueError, match="has axes -1 to 0; got -2"):
        vnp.fft.fft2(x[0])
    with pytest.raises(TypeError, match="rfft takes real numbers; got complex64"):
        vnp.fft.rfft(vnp.astype(x, np.complex64))
    with pytest.raises(IndexError, match="rfftn takes at least one axis"):
        vnp.fft.rfftn(x, axes=())
    with pytest.raises(TypeError, match="set"):
        vnp.fft.fft({1.0, 2.0})
    with pytest.raises(TypeError, match="n is an integer"):
        vnp.fft.fft(x, 2.5)
