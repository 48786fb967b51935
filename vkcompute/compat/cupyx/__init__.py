"""CuPy's extras, of the arrays of `vkcompute.compat.cupy`.

import vkcompute.compat.cupyx as cupyx
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

_MODULES = ("jit", "profiler", "scipy")


def scatter_add(a: Any, slices: Any, value: Any) -> None:
    """Adds values at indices of an array, which may repeat."""
    a.scatter_add(slices, value)


def scatter_max(a: Any, slices: Any, value: Any) -> None:
    """Sets elements at indices to the maximum of them and values."""
    a.scatter_max(slices, value)


def scatter_min(a: Any, slices: Any, value: Any) -> None:
    """Sets elements at indices to the minimum of them and values."""
    a.scatter_min(slices, value)


def rsqrt(x: Any) -> Any:
    """Returns reciprocal square roots."""
    from vkcompute.compat.cupy import reciprocal, sqrt  # not at import: it loads the driver

    return reciprocal(sqrt(x))


def empty_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray[Any, Any]:
    """Returns an array of the host; transfers stage any memory, so that none is pinned."""
    return np.empty(shape, dtype, order)


def zeros_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> np.ndarray[Any, Any]:
    """Returns an array of zeros of the host."""
    return np.zeros(shape, dtype, order)


def empty_like_pinned(a: Any, dtype: Any = None, **_: Any) -> np.ndarray[Any, Any]:
    """Returns an array of the host, of the shape and dtype of another."""
    return np.empty(a.shape, a.dtype if dtype is None else dtype)


def zeros_like_pinned(a: Any, dtype: Any = None, **_: Any) -> np.ndarray[Any, Any]:
    """Returns an array of zeros of the host, of the shape and dtype of another."""
    return np.zeros(a.shape, a.dtype if dtype is None else dtype)


def get_runtime_info(*, full: bool = False) -> str:
    """Returns the description of the device."""
    from vkcompute.runtime.runtime import default_runtime  # not at import: it loads the driver

    return str(default_runtime().device)


_settings: dict[str, Any] = dict.fromkeys(("divide", "over", "under", "invalid", "linalg", "fallback_mode"))


def geterr() -> dict[str, Any]:
    """Returns the settings of `seterr`."""
    return dict(_settings)


def seterr(**settings: Any) -> dict[str, Any]:
    """Records settings, and returns the earlier ones. Devices raise no floating-point errors."""
    before = geterr()
    _settings.update({name: value for name, value in settings.items() if value is not None})
    return before


@contextlib.contextmanager
def errstate(**settings: Any) -> Iterator[None]:
    """Sets settings of `seterr` for a block."""
    before = seterr(**settings)
    try:
        yield
    finally:
        _settings.update(before)


@contextlib.contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    """Does nothing: waits for the device are allowed."""
    yield


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"vkcompute.compat.cupyx has no {name}; docs/cupy.md lists what is there", name=name)
