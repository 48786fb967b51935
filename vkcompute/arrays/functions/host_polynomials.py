"""Polynomials by NumPy on the host: the package `numpy.polynomial`, and `poly1d`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.promotion import default_float
from vkcompute.arrays.functions.polynomials import polyval
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, runtime_of


class Polynomials(ModuleType):
    """A module of `numpy.polynomial` whose functions take device arrays."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(f"numpy.polynomial.{self.__name__.rpartition('.')[2]}"), name)
        attribute = _of_host(value) if isinstance(value, FunctionType) else value
        setattr(self, name, attribute)
        return attribute

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(f"numpy.polynomial.{self.__name__.rpartition('.')[2]}"))


def module(name: str) -> Polynomials:
    """Returns the module of this name."""
    return Polynomials(f"vkcompute.numpy.polynomial.{name}", f"The functions of `numpy.polynomial.{name}`.")


def _of_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of the host that takes device arrays, and then returns such."""

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        runtimes: list[Runtime] = []
        given = [_downloaded(arg, runtimes) for arg in args]
        result = function(*given, **{key: _downloaded(value, runtimes) for key, value in named.items()})
        return _uploaded(result, runtimes[0]) if runtimes else result

    return called


def _downloaded(value: Any, runtimes: list[Runtime]) -> Any:
    """Returns device arrays, also of sequences, as NumPy arrays; appends their runtimes to a list."""
    if isinstance(value, (list, tuple)):
        return type(value)([_downloaded(element, runtimes) for element in value])
    if type(value) is not Array:
        return value
    runtimes.append(runtime_of(value))
    return value.numpy()


def _uploaded(value: Any, runtime: Runtime) -> Any:
    """Returns NumPy arrays, also of sequences, as device arrays; float64 as the default float."""
    if isinstance(value, (list, tuple)):
        return type(value)([_uploaded(element, runtime) for element in value])
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    return runtime.array(np.asarray(value, default_float() if value.dtype == np.float64 else None))


class poly1d(np.poly1d):  # noqa: N801  # NumPy's name
    """`numpy.poly1d` on the host, which evaluates device arrays on the device."""

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        super().__init__(c_or_r.numpy() if type(c_or_r) is Array else c_or_r, r, variable)

    def __call__(self, val: Any) -> Any:
        if type(val) is not Array:
            return super().__call__(val)
        coefficients = np.asarray(self.coeffs)
        dtype = val.dtype if val.dtype.kind in "fc" else default_float()
        dtype = np.result_type(dtype, np.complex64) if coefficients.dtype.kind == "c" else dtype
        return polyval(runtime_of(val).array(coefficients.astype(dtype)), val)
