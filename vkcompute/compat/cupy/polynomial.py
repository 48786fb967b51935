"""The modules of `cupy.polynomial`."""

from __future__ import annotations

import types
from typing import Any

from vkcompute.compat.cupy.lifting import lifted
from vkcompute.numpy import polynomial as _polynomial


class _Module(types.ModuleType):
    """A module of polynomials, whose functions take CuPy's arrays."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(getattr(_polynomial, self.__name__), name)
        return lifted(value) if callable(value) and not isinstance(value, type) else value


polynomial, polyutils = _Module("polynomial"), _Module("polyutils")


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Module(name)
