"""Operators and methods of arrays that are defined in a higher layer, as they need its functions.

For type checkers, `mathematics.pyi` has their signatures.
"""

from __future__ import annotations

from typing import Any

from vkcompute import array_namespace

_OPERATORS = "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor", "matmul"
DEFERRED = (
    *[f"__{prefix}{name}__" for name in _OPERATORS for prefix in ("", "r", "i")],
    "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__neg__", "__pos__", "__invert__", "__abs__",
    "__round__", "__contains__", "__array_function__", "__array_namespace__", "__array_ufunc__", "_assign", "_copied",
    "_reordered", "_selected", "_take_elements", "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype",
    "byteswap", "choose", "clip", "compress", "conj", "conjugate", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "mT", "max", "mean", "min", "nonzero", "partition", "prod", "put", "ravel", "repeat", "round", "searchsorted",
    "sort", "squeeze", "std", "sum", "swapaxes", "take", "to_device", "trace", "var",
)  # fmt: skip
"""Attributes that the first use of one sets, by `METHODS` of `arrays/methods.py`."""


class Mathematics:
    """The base of arrays, for type checkers."""

    __slots__ = ()


class Deferred:
    """An attribute that is not set yet: the first use of one sets all of them.

    Args:
        arrays: the class of arrays.
    """

    __slots__ = ("_arrays", "_name")

    def __init__(self, arrays: type[Any], name: str) -> None:
        self._arrays, self._name = arrays, name

    def __get__(self, array: Any, owner: type[Any]) -> Any:
        for name, value in array_namespace.methods().items():
            setattr(self._arrays, name, value)
        return getattr(owner if array is None else array, self._name)


def define_later(arrays: type[Any]) -> None:
    """Gives the class of arrays its deferred attributes."""
    for name in DEFERRED:
        setattr(arrays, name, Deferred(arrays, name))
