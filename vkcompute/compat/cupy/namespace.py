"""The names of CuPy: those of `vkcompute.numpy`, with CuPy's arrays and dtypes, and CuPy's own."""

from __future__ import annotations

from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

import vkcompute.numpy as vnp
from vkcompute.arrays.functions.ufunc_methods import Ufunc
from vkcompute.compat.cupy import conversion, cupy_functions, exceptions, kernels, methods, polynomials, pools, scalars
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.lifting import lifted
from vkcompute.compat.cupy.ufuncs import ufunc
from vkcompute.runtime.memory.holders import is_holder

_HOST = (
    "array2string", "array_repr", "array_str", "asarray_chkfinite", "broadcast_shapes", "frombuffer", "fromfunction",
    "fromiter", "iscomplexobj", "isrealobj", "isscalar", "load", "loadtxt", "ndim", "save", "savetxt", "savez",
    "savez_compressed", "shape", "size", "result_type", "can_cast", "min_scalar_type", "common_type", "linspace",
    "full", "full_like", "where", "iterable", "asnumpy", "put", "place", "putmask", "choose", "select", "ix_",
    "searchsorted", "piecewise", "gradient", "histogram", "interp", "unravel_index", "ravel_multi_index", "digitize",
    "quantile", "percentile", "in1d", "isin", "copyto", "fill_diagonal", "pad", "poly", "roots",
)  # fmt: skip
"""Functions that take arrays of NumPy, too."""
_ALIASES = {
    "alltrue": "all", "sometrue": "any", "cumproduct": "cumprod", "product": "prod", "round_": "round",
    "trapz": "trapezoid",
}  # fmt: skip
_OF_NUMPY = {
    "Inf": np.inf, "Infinity": np.inf, "infty": np.inf, "PINF": np.inf, "NINF": -np.inf, "NAN": np.nan, "NaN": np.nan,
    "PZERO": 0.0, "NZERO": -0.0, "cfloat": np.complex128, "complex_": np.complex128, "float_": np.float64,
    "singlecomplex": np.complex64, "long": np.long, "ulong": np.ulong, "format_parser": np.rec.format_parser,
    "disable_experimental_feature_warning": False, "DataSource": np.lib.npyio.DataSource, "bool": np.bool_,
}  # fmt: skip


_DUCKS = frozenset(
    "all amax amin any argmax argmin argsort clip cumprod cumsum diagonal max mean min prod ravel repeat reshape round "
    "sort squeeze std sum swapaxes take trace transpose var".split()
)
"""Functions that call the method of their name, also of an array of NumPy."""


def _duck(name: str, function: Any) -> Any:
    """Returns a function that gives an array of NumPy to NumPy's."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], np.ndarray) and not is_holder(args[0]):
            return getattr(np, name)(*args, **named)
        return function(*args, **named)

    return call


class _Indexed:
    """An object that is indexed, as `r_` and `mgrid`, whose results are CuPy's arrays."""

    def __init__(self, inner: Any) -> None:
        self._get = lifted(type(inner).__getitem__, host=True)
        self._inner = inner

    def __getitem__(self, key: Any) -> Any:
        return self._get(self._inner, key)

    def __len__(self) -> int:
        return 0


def _lifted(name: str, value: Any) -> Any:
    """Returns a name of `vkcompute.numpy` as one of CuPy."""
    if name in _DUCKS:
        return _duck(name, lifted(value))
    if isinstance(value, Ufunc):
        return ufunc(value, name)
    if type(value).__name__ in ("_Grid", "_Joined"):
        return _Indexed(value)
    if isinstance(value, FunctionType) or type(value).__name__ in ("Planned", "function"):
        return lifted(value, host=name in _HOST)
    return value


def _names() -> dict[str, Any]:
    """Returns all names with their values."""
    names = {
        name: _lifted(name, getattr(vnp, name)) for name in dir(vnp)
        if name not in ("Array", "info", "set_default_dtype", "fft", "lib", "linalg", "polynomial", "random")
    }  # fmt: skip
    names.update(
        {new: names[old] for new, old in _ALIASES.items()},
        **_OF_NUMPY,
        ndarray=ndarray,
        ufunc=ufunc,
        flatiter=methods.flatiter,
        _default_memory_pool=pools.get_default_memory_pool(),
    )
    for name in ("where", "clip"):
        names[name].of_numbers = getattr(np, name)
    for module in (conversion, cupy_functions, exceptions, kernels, polynomials, pools, scalars):
        names.update({
            name: value for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") in (module.__name__, "numpy.exceptions")
        })  # fmt: skip
    return names


NAMES: dict[str, Any] = _names()
"""The names of the package, by name."""
