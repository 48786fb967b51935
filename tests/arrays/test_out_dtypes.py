"""The dtype in which elements are combined: `dtype=`, else the common one of the elements and of `out=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp

HALVES, WORDS = np.array([1.5, 2.5, -0.75, 4.0], np.float32), np.array([100, 50, -7, 90], np.int8)
TRUTH = np.array([True, False, True, True])
Call = Callable[..., Any]
SCALARS: dict[str, Call] = {
    **{name: lambda m, x, name=name, **to: getattr(m, name)(x, **to) for name in (
        "sum", "prod", "max", "min", "ptp", "nansum", "nanprod", "nanmax", "nanmin", "mean", "var", "std", "nanmean",
        "nanvar", "nanstd")},
    "einsum": lambda m, x, **to: m.einsum("i,i->", x, x, **to),
    "trace": lambda m, x, **to: m.trace(x.reshape(2, 2), **to),
    "add.reduce": lambda m, x, **to: m.add.reduce(x, initial=3, **to),
    "maximum.reduce": lambda m, x, **to: m.maximum.reduce(x, **to),
    "subtract.reduce": lambda m, x, **to: m.subtract.reduce(x, **to),
}  # fmt: skip
LINES: dict[str, Call] = {
    **{name: lambda m, x, name=name, **to: getattr(m, name)(x, **to) for name in (
        "cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "nancumsum", "nancumprod")},
    **{f"{name}.accumulate": lambda m, x, name=name, **to: getattr(m, name).accumulate(x, **to) for name in (
        "add", "multiply", "maximum", "subtract")},
    "add.reduceat": lambda m, x, **to: m.add.reduceat(x, [0, 1, 2, 1], **to),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SCALARS, *LINES])
def test_out_widens_and_never_truncates(gpu: vc.Runtime, name: str) -> None:
    call, shape = (SCALARS[name], ()) if name in SCALARS else (LINES[name], (4,))
    for given in (HALVES, WORDS, TRUTH):
        if name.startswith("subtract") and given is TRUTH:
            continue
        for dtype in ("float64", "int64", "int32", "float32", "complex64"):
            if dtype == "complex64" and name.endswith(("mean", "var", "std")):
                continue  # NumPy warns that it takes the real part
            if lacks(gpu, dtype):
                continue
            out, expected = gpu.full(shape, 9, dtype), np.zeros(shape, dtype)
            if given is HALVES and np.dtype(dtype).kind == "i":
                with pytest.raises(TypeError, match="convert it"):
                    call(vnp, gpu.array(given), out=out)
                assert np.all(out.numpy() == 9)
                continue
            try:
                call(vnp, gpu.array(given), out=out)
            except TypeError as error:
                assert "float" in str(error), (given.dtype, dtype)  # noqa: PT017
                continue
            call(np, given, out=expected)
            assert np.allclose(out.numpy(), expected, rtol=1e-5), (given.dtype, dtype, out.numpy(), expected)


def test_out_of_einsum(gpu: vc.Runtime) -> None:
    x = np.array([[1, 200, 100], [0, 255, 9]], np.uint8)
    out, expected = gpu.zeros((2,), np.int32), np.zeros(2, np.int32)
    vnp.einsum("ij,ij,ij->i", gpu.array(x), gpu.array(x), gpu.array(x), out=out)
    assert np.array_equal(out.numpy(), np.einsum("ij,ij,ij->i", x, x, x, out=expected))
    wide = vnp.einsum("ij,ij->i", gpu.array(x), gpu.array(x), dtype=np.int32)
    assert wide.dtype == np.int32
    assert np.array_equal(wide.numpy(), np.einsum("ij,ij->i", x, x, dtype=np.int32))
    with pytest.raises(TypeError, match="lower kind"):
        vnp.einsum("i->", gpu.array(HALVES), dtype=np.int32)
    assert vnp.einsum("i->", gpu.array(HALVES), dtype=np.complex64).dtype == np.complex64
    narrow = gpu.array(np.array([100, 100], np.int8))
    with pytest.raises(ValueError, match="dtype of the result, int8"):
        vnp.dot(narrow, narrow, out=gpu.zeros((), np.int32))
    total = vnp.linalg.multi_dot([narrow.reshape(1, 2), narrow], out=gpu.zeros((1,), np.int32))
    assert total.numpy() == 20000


def test_initial_values_are_of_the_dtype_of_the_result(gpu: vc.Runtime) -> None:
    whole, truth = gpu.array(np.array([1, 2], np.int32)), gpu.array(TRUTH)
    assert vnp.add.reduce(whole, initial=0.5).item() == 3  # as in NumPy: without out=, a sum of integers is an integer
    assert vnp.add.reduce(whole, initial=0.5, dtype=np.float32).item() == 3.5
    assert vnp.add.reduce(whole, initial=0.5, out=gpu.zeros((), np.float32)).item() == 3.5
    assert vnp.max(truth, initial=3).item() is True
    assert vnp.max(truth, initial=3, out=gpu.zeros((), np.float32)).item() == 3
    assert vnp.nanmin(whole, initial=0.25, out=gpu.zeros((), np.float32)).item() == 0.25
    assert vnp.minimum.reduce(whole, initial=0.25, dtype=np.float32).item() == 0.25
    with pytest.raises(OverflowError):
        vnp.max(whole, initial=2**40)


def test_dtypes_of_methods_of_functions(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([3, 5, 6], np.int32))
    for name in ("bitwise_and", "bitwise_xor", "bitwise_or"):
        expected = getattr(np, name).reduce(x.numpy(), dtype=bool)
        assert getattr(vnp, name).reduce(x, dtype=bool).item() == expected
    with pytest.raises(TypeError, match="gives bools; got dtype=int32"):
        vnp.logical_and.reduce(x, dtype=np.int32)
    for initial in (False, 0.0, 2, np.nan):
        for name in ("logical_and", "logical_or"):
            expected, result = (getattr(m, name).reduce(a, initial=initial) for m, a in ((np, x.numpy()), (vnp, x)))
            assert result.item() == expected
    assert not vnp.logical_and.reduce(x, initial=gpu.zeros(()), out=gpu.full((), 1, bool)).item()
    result = vnp.maximum.accumulate(x, dtype=np.complex64)
    assert np.array_equal(result.numpy(), np.maximum.accumulate(x.numpy(), dtype=np.complex64))


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_known_mean_of_any_type(gpu: vc.Runtime, name: str) -> None:
    x = np.array([1.25, 2.5, 4.0], np.float32)
    for mean in (0, True, 2.5, np.int64(1), np.float16(1), np.array([1]), np.array([2.5], np.float16)):
        given = gpu.array(mean) if isinstance(mean, np.ndarray) else mean
        result = getattr(vnp, name)(gpu.array(x), mean=given)
        expected = getattr(np, name)(x, mean=np.asarray(mean, np.float64))
        assert result.dtype in (np.float32, np.float64), mean
        assert np.allclose(result.numpy(), expected, rtol=1e-5), mean
    whole = gpu.array(np.array([1, 2, 4], np.int32))
    assert np.allclose(getattr(vnp, name)(whole, mean=0).numpy(), getattr(np, name)(whole.numpy(), mean=0))
    small = gpu.array(np.array([1, 2, 4], np.float16))
    assert getattr(vnp, name)(small, mean=2).dtype == np.float16
    assert getattr(vnp, name)(small, mean=gpu.array(np.array([2], np.float32))).dtype == np.float32
    with pytest.raises(ValueError, match="mean= broadcasts"):
        getattr(vnp, name)(gpu.array(x), mean=gpu.zeros((2, 1)))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_the_mean_of_integers_is_not_truncated_on_its_way_to_out(gpu: vc.Runtime, dtype: str) -> None:
    for given in (HALVES[[0, 1, 3]], WORDS, TRUTH, np.ones(300, np.float32)):
        expected, out = np.zeros((), np.float32), gpu.zeros((), np.float32)
        np.mean(given, dtype=dtype, out=expected)
        assert vnp.mean(gpu.array(given), dtype=dtype, out=out) is out
        assert out.item() == pytest.approx(float(expected))
        result, whole = vnp.mean(gpu.array(given), dtype=dtype), np.mean(given, dtype=dtype)
        assert (result.dtype, result.item()) == (whole.dtype, whole)
