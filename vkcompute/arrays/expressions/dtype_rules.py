"""The rules by which elementwise functions of arrays convert operands, by their names in the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute.arrays.expressions.promotion import BOOL, common, complex_of, element_float, floating, part_of
from vkcompute.dtypes import is_dtype
from vkcompute.runtime.memory.context import Context


class Types(NamedTuple):
    """Dtypes of an operation.

    Attributes:
        operation: its name in the registry.
        operands: the dtype to which operands are converted; None for none.
        result: the dtype of the result.
        dtype: the name of `operands`, or "".
    """

    operation: str
    operands: np.dtype[Any] | None
    result: np.dtype[Any]
    dtype: str = ""


_WIDE = "divide", "sinc"
"""Functions that give NumPy's default float of all integers."""
Rule = Callable[[str, Context, Sequence[Any]], Types]


def _numbers(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The common dtype; bools are no numbers."""
    dtype = common(context, kinds)
    if dtype.kind == "b":
        raise TypeError(f"{name} takes numbers; got bools; use logical_xor, logical_not or where, or .astype()")
    return Types(name, dtype, dtype)


def _counted(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The common dtype; bools count as int8, as in NumPy."""
    dtype = common(context, kinds)
    dtype = np.dtype(np.int8) if dtype.kind == "b" else dtype
    return Types(name, dtype, dtype)


def _same(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    dtype = common(context, kinds)
    return Types(name, dtype, dtype)


def _rounded(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The dtype itself; integers and bools are whole."""
    dtype = common(context, kinds)
    return Types(name if dtype.kind in "fc" else "astype", dtype, dtype)


def _nearest(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """As NumPy's rint, which has floats of integers and bools."""
    return _rounded(name, context, [element_float(common(context, kinds))])


def _magnitude(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """As NumPy's fabs, which has floats of integers and bools, and takes no complex numbers."""
    dtype = element_float(common(context, kinds))
    return Types(name if dtype.kind == "c" else "absolute", dtype, dtype)


def _reciprocal(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The dtype itself, as in NumPy: of integers, 1 / x is rounded towards 0; int8 of bools."""
    dtype = common(context, kinds)
    dtype = np.dtype(np.int8) if dtype.kind == "b" else dtype
    return Types(name, dtype, dtype) if dtype.kind in "iu" else _float(name, context, kinds)


def _float(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """A float dtype: that of the common dtype; of integers alone the widest of their own, as in NumPy."""
    if name not in _WIDE and len(kinds) > 1 and all(is_dtype(kind) and kind.kind in "biu" for kind in kinds):
        kinds = [element_float(kind) for kind in kinds]
    given = common(context, kinds)
    dtype = floating(given) if name in _WIDE else element_float(given)
    return Types(name, dtype, dtype)


def _absolute(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    dtype = common(context, kinds)
    return Types("astype" if dtype.kind in "bu" else name, dtype, part_of(dtype))


def _comparison(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """A bool; integers are compared by value, others in their common dtype."""
    dtype = common(context, kinds, exact=True)
    typed = [kind for kind in kinds if is_dtype(kind)]
    by_value = all(given.kind in "iu" for given in typed) and float not in kinds
    return Types(name, None if by_value and len(typed) == len(kinds) else dtype, BOOL)


def _tested(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    return Types(name, None, BOOL)


def _bits(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    dtype = common(context, kinds)
    if dtype.kind not in "biu":
        raise TypeError(f"{name} takes integers and bools; got {dtype}; convert with .astype()")
    return Types(name, dtype, dtype)


def _integers(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The common dtype; bools are shifted as int8, as in NumPy."""
    dtype = _bits(name, context, kinds).result
    if dtype.kind == "b" and name.endswith("_shift"):
        return _counted(name, context, kinds)
    if dtype.kind == "b":
        raise TypeError(f"{name} takes integers; got bools; convert with .astype()")
    return Types(name, dtype, dtype)


def _bit_counts(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    return _integers(name, context, kinds)._replace(result=np.dtype(np.uint8))


def _angle(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    dtype = common(context, kinds)
    dtype = element_float(np.dtype(np.int64) if dtype.kind == "b" else dtype)  # bools count as ints, as in NumPy
    return Types(name, complex_of(dtype), part_of(dtype))


def _conjugate(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    """The dtype itself; bools count as ints, as in NumPy."""
    dtype = _counted(name, context, kinds).result
    return Types(name if dtype.kind == "c" else "astype", dtype, dtype)


def _positive(name: str, context: Context, kinds: Sequence[Any]) -> Types:
    return _numbers(name, context, kinds)._replace(operation="astype")


RULES: dict[str, Rule] = {
    "common": _same,
    "numbers": _numbers,
    "counted": _counted,
    "positive": _positive,
    "absolute": _absolute,
    "float": _float,
    "rounded": _rounded,
    "nearest": _nearest,
    "magnitude": _magnitude,
    "reciprocal": _reciprocal,
    "comparison": _comparison,
    "tested": _tested,
    "bits": _bits,
    "integers": _integers,
    "bit counts": _bit_counts,
    "conjugate": _conjugate,
    "angle": _angle,
}
"""The rule of types in a row of the registry of functions -> NumPy's rule of dtypes."""
