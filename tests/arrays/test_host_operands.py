"""Numbers, sequences and NumPy arrays in place of device arrays."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn

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
        result = call(vnp)
    for one, other in zip(np.atleast_1d(result), np.atleast_1d(call(np)), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)


@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize(
    "call", [lambda a, b: a + b, lambda a, b: np.add(a, b), lambda a, b: np.maximum(a, b), lambda a, b: a @ b,
             lambda a, b: np.concatenate([a, b]), lambda a, b: np.dot(a, b), lambda a, b: a < b],
)  # fmt: skip
def test_numpy_arrays_are_copied_with_a_warning(gpu: vc.Runtime, call: Callable[[Any, Any], Any], at: int) -> None:
    data = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    operands = [gpu.array(host) if which == at else host for which, host in enumerate(data)]
    with pytest.warns(vc.HostCopyWarning, match="keep the data there"):
        result = call(*operands)
    assert type(result) is vc.Array
    np.testing.assert_array_equal(result.numpy(), call(*data))


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
    if lacks(gpu, dtype) or lacks(gpu, "float64"):
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
    result, expected = call(vnp), call(np)
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)
        assert one.shape == other.shape
        assert one.dtype.kind == other.dtype.kind


def test_errstate_is_accepted() -> None:
    with vnp.errstate(divide="ignore"):
        assert np.isinf((vnp.asarray([1.0]) / 0).numpy()).all()


@pytest.mark.parametrize("space", [vnp, vnp.linalg, vnp.fft, nn], ids=lambda each: each.__name__)
def test_none_is_no_array(gpu: vc.Runtime, space: Any) -> None:
    """Each function refuses None in the place of its first array by a TypeError that names the function."""
    x, wrong = gpu.zeros((3, 3)), {}
    for name in dir(space):
        function = getattr(space, name)
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        first = next(iter(inspect.signature(function).parameters.values()), None)
        if first is None or first.annotation not in ("Array", "Operand", "Sequence[Array]") or first.default is None:
            continue
        if first.kind == first.VAR_POSITIONAL or inspect.signature(function).return_annotation == "None":
            continue
        required = [
            parameter for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]  # fmt: skip
        others = [1 if item.annotation == "int" else x for item in required[1:]]
        try:
            function(None, *others)
        except TypeError as error:
            if not re.match(r"\w+ takes (arrays, numbers, and lists|a sequence).*; got NoneType$", str(error)):
                wrong[name] = str(error)
        except Exception as error:
            wrong[name] = repr(error)
    assert wrong == {}


def test_errors_name_the_function_that_was_called(gpu: vc.Runtime) -> None:
    x = gpu.zeros((3, 4), np.complex64)
    for call, message in (
        (lambda: vnp.modf(x), "modf takes real numbers"),
        (lambda: vnp.trapezoid(x, x[:2]), "trapezoid: "),
        (lambda: vnp.hstack([]), "hstack takes at least one array"),
        (lambda: vnp.sort(x, 9), "sort: "),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            call()


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_reductions_of_bits_take_initial_and_where(gpu: vc.Runtime, name: str) -> None:
    host = np.random.default_rng(0).integers(0, 250, (5, 6)).astype(np.uint8)
    for data, options in (
        (host, {"initial": 3}),
        (host.astype(np.int32), {"initial": -7, "axis": 1, "keepdims": True}),
        (host, {"where": host > 100, "axis": None}),
        (host > 100, {"initial": True, "where": host % 2 == 0}),
    ):
        expected = getattr(np, name).reduce(data, **options)
        given = {key: gpu.array(value) if np.ndim(value) else value for key, value in options.items()}  # type: ignore[attr-defined]
        result = getattr(vnp, name).reduce(gpu.array(data), **given)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.numpy(), expected)
    with pytest.raises(TypeError, match=f"^{name}.reduce takes integers or bools; got float32; convert with .astype"):
        getattr(vnp, name).reduce(gpu.zeros(3))
    with pytest.raises(TypeError, match=f"^{name}.reduce: initial is an integer; got 0.5"):
        getattr(vnp, name).reduce(gpu.zeros(3, np.int32), initial=0.5)
