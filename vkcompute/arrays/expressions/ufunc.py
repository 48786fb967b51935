"""Elementwise functions of arrays: lazy results, with NumPy's conversions of operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.dtype_rules import RULES, Types
from vkcompute.arrays.expressions.lazy import Lazy
from vkcompute.arrays.expressions.promotion import (
    BOOL,
    Operand,
    common,
    complex_of,
    default_float,
    default_int,
    kind_of,
    part_of,
    plain,
    promoted,
    require_dtype,
)
from vkcompute.arrays.expressions.structure import Structure
from vkcompute.dtypes import as_dtype, can_cast, computes_float64, is_dtype, lookup, process_float, scoped_float
from vkcompute.errors import DtypeError, shorten_traceback
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context, mixed_runtimes
from vkcompute.runtime.memory.copies import copy_elements


def apply(name: str, *operands: Any) -> Array:
    """Returns the lazy result of an elementwise function; shapes broadcast as in NumPy.

    Raises:
        TypeError: an operand is neither an array nor a number, or the function does not take its dtype.
        ValueError: shapes do not broadcast, the arrays are of several runtimes, or a number is a negative exponent of
            integers.
        OverflowError: a Python int does not fit the integers of the other operand.
        MissingFeature: the device lacks the dtype.
    """
    key: list[Any] = [name, scoped_float.get(), process_float[0]]
    context: Context | None = None
    shape: tuple[int, ...] = ()
    alike, has_numbers = True, False
    for x in operands:
        if type(x) is not Array:
            key.append(type(x))
            has_numbers = True
            continue
        expression: Any = x._expression
        if expression is None:
            key.append(x._dtype.char)
        else:
            key.append(expression.structure if type(expression) is Lazy else lazy.part_of(x))
        if context is None:
            context, shape = x.runtime, x._shape
        else:
            alike = alike and x.runtime is context and x._shape == shape
    if context is None or not alike:
        context, shape = runtime_and_shape(name, operands)
    signature = tuple(key)
    known: tuple[Types, Structure | None] | None = context.types.get(signature)
    if known is None:
        known = context.types[signature] = _known(name, context, operands)
    types, structure = known
    if structure is not None:
        if has_numbers:
            operands = tuple([x if type(x) is Array else _scalar(name, x, types.operands) for x in operands])
        return lazy.pending(context, shape, types.result, Lazy(structure, operands), operands)
    if name in _COMPARISONS and (compared := _compared(name, operands)) is not None:
        return compared
    given = _converted(name, operands, types)
    if given is None:
        return _constant(name, operands)
    return lazy.make(types.operation, types.dtype, given, shape, types.result, context)


def operator_method(name: str, otherwise: Callable[[Array, Any], Any]) -> Callable[[Array, Any], Any]:
    """Returns the method of an operator: `apply` for arrays and Python's numbers, `otherwise` for other operands."""

    def method(self: Array, other: Any) -> Any:
        if type(other) is not Array and type(other) not in _NUMBERS:
            return otherwise(self, other)
        try:
            if type(other) is Array and (context := self.runtime) is other.runtime and self._shape == other._shape:
                one: Any = self._expression
                two: Any = other._expression
                key = (
                    name,
                    scoped_float.get(),
                    process_float[0],
                    self._dtype.char if one is None else one.structure if type(one) is Lazy else lazy.part_of(self),
                    other._dtype.char if two is None else two.structure if type(two) is Lazy else lazy.part_of(other),
                )
                known = context.types.get(key)
                if known is not None and (structure := known[1]) is not None:
                    operands = self, other
                    return lazy.pending(context, self._shape, known[0].result, Lazy(structure, operands), operands)
            return apply(name, self, other)
        except Exception as error:
            shorten_traceback(error)
            raise

    return method


def runtime_and_shape(name: str, operands: Sequence[Any]) -> tuple[Context, tuple[int, ...]]:
    """Returns the runtime and the broadcast shape of operands.

    Raises:
        TypeError: there is no array.
        ValueError: shapes do not broadcast, or the arrays are of several runtimes.
    """
    context = runtime_in(name, operands)
    shapes = [x.shape for x in operands if type(x) is Array]
    try:
        return context, np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"{name}: lengths of axes, aligned from the last, must be equal or 1 to broadcast; got shapes "
            f"{', '.join(map(str, shapes))}"
        ) from None


def runtime_in(name: str, operands: Sequence[Any]) -> Context:
    """Returns the runtime of the arrays among operands.

    Raises:
        TypeError: there is no array.
        ValueError: the arrays are of several runtimes.
    """
    context: Context | None = None
    for x in operands:
        if type(x) is not Array:
            continue
        context = context or x.runtime
        if x.runtime is not context:
            raise mixed_runtimes(name, context, x.runtime)
    if context is None:
        raise TypeError(f"{name} takes a device array, on whose device it runs; got none; make one with gpu.array(x)")
    return context


def _types(name: str, context: Context, kinds: tuple[Any, ...]) -> Types:
    """Returns the dtypes of an operation; raises MissingFeature if the device lacks one."""
    types = RULES[FUNCTIONS[name].types](name, context, kinds)
    dtypes = [kind for kind in kinds if is_dtype(kind)]
    if not FUNCTIONS[types.operation].takes("c") and (complex in kinds or any(dtype.kind == "c" for dtype in dtypes)):
        raise DtypeError(f"{name} takes real numbers; got complex ones; pass x.real, x.imag or abs(x)")
    for dtype in (types.operands, types.result, *dtypes):
        if dtype is not None:
            require_dtype(context, dtype, name)
    return types if types.operands is None else types._replace(dtype=types.operands.name)


def _known(name: str, context: Context, operands: Sequence[Any]) -> tuple[Types, Structure | None]:
    """Returns the dtypes of an operation, and its structure.

    There is none if it depends on the values of numbers, or if its kernel would be too large.
    """
    types = _types(name, context, tuple([kind_of(x) for x in operands]))
    if {*map(type, operands)} == {Array}:
        given = operands
    elif types.operands is None or name == "power" or name in _COMPARISONS:
        return types, None
    else:
        given = [x if type(x) is Array else types.operands.type(0) for x in operands]
    structure = lazy.structure_of(types.operation, types.dtype, types.result.char, given)
    return types, None if structure.is_too_large else structure


def operand_dtype(name: str, context: Context, operands: Sequence[Any]) -> np.dtype[Any] | None:
    """Returns the dtype to which a function converts its operands; None if to none. Raises as `apply`."""
    return _types(name, context, tuple([kind_of(x) for x in operands])).operands


def _converted(name: str, operands: Sequence[Any], types: Types) -> tuple[Any, ...] | None:
    """Returns the operands with NumPy scalars in place of numbers; None if a comparison has the same result for all."""
    dtype = types.operands
    operands = [x if type(x) is Array else plain(x) for x in operands]
    if dtype is None:
        only_truth = name.startswith("logical_")
        return tuple([x if type(x) is Array else np.bool_(x) if only_truth else np.asarray(x)[()] for x in operands])
    if name in _COMPARISONS and any(type(x) is int and not holds(dtype, x) for x in operands):
        return None
    if name == "power" and dtype.kind == "i" and type(operands[1]) is not Array and operands[1] < 0:
        raise ValueError(
            f"integers have no powers with negative exponents; got {operands[1]}; convert the array with "
            ".astype(np.float32)"
        )
    return tuple([x if type(x) is Array else _scalar(name, x, dtype) for x in operands])


def _compared(name: str, operands: Sequence[Any]) -> Array | None:
    """Returns the comparison of integers with a Python float, by an integer next to it; None for other operands.

    Integers as float32 would be rounded. As float64, those of 64 bits are beyond 2**53, as in NumPy.
    """
    is_turned = type(operands[0]) is not Array
    array, value = (operands[1], plain(operands[0])) if is_turned else (operands[0], plain(operands[1]))
    if type(array) is not Array or array.dtype.kind not in "iu" or type(value) is not float:
        return None
    if (
        array.dtype.itemsize == 8
        and _EXACT <= abs(value) < math.inf
        and computes_float64(array.runtime.device.features)
    ):
        return apply(name, *[x if type(x) is Array else np.float64(x) for x in operands])
    name = _TURNED.get(name, name) if is_turned else name
    if not value.is_integer():  # nor is it NaN or infinite
        if name in ("equal", "not_equal") or not math.isfinite(value):
            return _constant(name, (array, value))
        below = name.startswith("less")
        name, value = ("less_equal", math.floor(value)) if below else ("greater_equal", math.ceil(value))
    return apply(name, array, int(value))


def holds(dtype: np.dtype[Any], value: int) -> bool:
    """True if integers of a dtype have this value; True for other dtypes."""
    if dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def _constant(name: str, operands: Sequence[Any]) -> Array:
    """Returns the result of comparing integers with a number that is between none of their dtype."""
    order = [0 if type(x) is Array else plain(x) for x in operands]
    array = next(x for x in operands if type(x) is Array)
    return apply("equal" if getattr(np, name)(*order) else "not_equal", array, array)


def _scalar(name: str, value: Any, dtype: Any) -> Any:
    """Converts a number to a dtype.

    Raises:
        OverflowError: a Python int does not fit.
    """
    if (type(value) is float or (type(value) is int and dtype.kind == "f")) and -_SMALL < value < _SMALL:
        return dtype.type(value)
    value = plain(value)
    if type(value) is int and not holds(dtype, value):
        limits = np.iinfo(dtype)
        raise OverflowError(
            f"{name}: {dtype} holds {limits.min} to {limits.max}; got {value}; convert the array with .astype()"
        )
    with np.errstate(all="ignore"):
        return dtype.type(value)


_NUMBERS = frozenset([bool, int, float, complex])
_EXACT = 2.0**53  # float64 has all integers up to it
_SMALL = 6e4  # all floats hold it
_COMPARISONS = {name for name, row in FUNCTIONS.items() if row.types == "comparison"}
_TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def astype(array: Array, dtype: npt.DTypeLike) -> Array:
    """Returns the elements in another dtype, converted as NumPy does; a lazy copy for the same one.

    Raises:
        TypeError: complex numbers would become real ones, which the Array API standard does not permit.
    """
    if 0 in array.shape:  # nothing is computed, so the device may lack the dtypes
        return temporary(array.runtime, array.shape, lookup(dtype).numpy)
    wanted = require_dtype(array.runtime, dtype, "astype")
    require_dtype(array.runtime, array.dtype, "astype")
    if array.dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError(f"{array.dtype} does not become {wanted}; pass x.real, x.imag or abs(x), then .astype()")
    return lazy.make("astype", wanted.name, (array,), array.shape, wanted, array.runtime)


def part(name: str, array: Array) -> Array:
    """Returns the lazy "real" or "imag" part of a complex array."""
    return lazy.make(name, "", (array,), array.shape, part_of(array.dtype), array.runtime)


def joined(real: Array, imag: Array) -> Array:
    """Returns the lazy complex array with these parts, of one shape and dtype."""
    return lazy.make("complex", "", (real, imag), real.shape, complex_of(real.dtype), real.runtime)


def where(condition: Operand, x: Operand, y: Operand) -> Array:
    """Returns elements of `x` where `condition` is true, else of `y`.

    Raises:
        as `apply`.
    """
    context, shape = runtime_and_shape("where", (condition, x, y))
    kinds = [kind_of(operand) for operand in (x, y)]
    kind_of(condition)
    dtype = common(context, kinds)
    if all(not is_dtype(kind) for kind in kinds):
        dtype = default_float() if float in kinds else default_int(context) if int in kinds else BOOL
        dtype = complex_of(default_float()) if complex in kinds else dtype
    dtype = require_dtype(context, dtype, "where")
    given = [
        (operand if operand.dtype == dtype else astype(operand, dtype))
        if type(operand) is Array
        else _scalar("where", operand, dtype)
        for operand in (x, y)
    ]
    truth: Any = condition if type(condition) is Array else np.bool_(condition)
    truth = astype(truth, BOOL) if truth.dtype.kind == "c" else truth
    return lazy.make("where", "", (truth, *given), shape, dtype, context)


def dtype_with_out(
    context: Context, dtype: npt.DTypeLike | None, out: Any, *operands: np.dtype[Any]
) -> np.dtype[Any] | None:
    """Returns the dtype in which elements are combined, as in NumPy; None for the default one.

    It is `dtype` if that is given, else the common one of the operands and of `out`. So `out` may widen the elements,
    and never truncates them before they are combined.
    """
    if dtype is not None:
        return as_dtype(dtype)
    return promoted(context, *operands, out.dtype) if type(out) is Array else None


def written(result: Array, out: Array | None) -> Array:
    """Returns a result, or `out` with it, if that is given.

    Raises:
        TypeError, ValueError: `out` has another shape; otherwise as `assign`.
    """
    if out is None:
        return result
    if type(out) is Array and out.shape != result.shape:
        raise ValueError(f"out has the shape of the result, {result.shape}; got {out.shape}")
    return assign(out, result)


def assign(out: Array, value: Array, *, fresh: bool = False) -> Array:
    """Writes an array, broadcast to its shape and converted within its kind, into `out`; returns `out`.

    Args:
        fresh: True if nobody else has `value`, so that it need not be computed for itself.

    Raises:
        TypeError: the dtype of `out` is of a lower kind.
        ValueError: the shapes do not broadcast, or `out` is a view by `broadcast_to`.
    """
    if type(out) is not Array:
        raise TypeError(f"out is a device array; got {type(out).__name__}")
    out.refuse_shared()
    if not can_cast(value.dtype, out.dtype, "same_kind"):
        rule = f"the result is {value.dtype}, and the array that it is written to is {out.dtype}"
        remedy = "x.real, x.imag or abs(x)" if value.dtype.kind == "c" else f".astype({out.dtype.name!r})"
        raise TypeError(f"{rule}; convert it with {remedy}")
    if value.shape != out.shape:
        value, fresh = value.broadcast_to(out.shape), False
    if value.dtype != out.dtype:
        value, fresh = astype(value, out.dtype), True
    out.compute()
    lazy.compute_unrecorded(value)
    if fresh and out.buffer.readers:  # else it would be computed for itself, too
        reader: Any = getattr(value.expression, "reader", None)
        out.buffer.readers.pop(reader, None)
    if value.runtime is not out.runtime or not lazy.compute_into(value, out):
        alike = (value.offset, value.strides) == (out.offset, out.strides)
        copy_elements(value.copy() if not alike and value.overlaps(out) else value, out)
    out.runtime.scheduler.unlocked()
    return out


def _beyond(x: Array, limit: Any, *, below: bool) -> bool:
    """True for a Python int that is below, or above, all integers of the dtype of `x`."""
    if not isinstance(limit, int) or isinstance(limit, np.generic) or x.dtype.kind not in "iu":
        return False
    limits = np.iinfo(x.dtype)
    return bool(limit < limits.min if below else limit > limits.max)


def clip(
    a: Array, min: Operand = None, max: Operand = None, out: Array | None = None, *,
    a_min: Operand = None, a_max: Operand = None,
) -> Array:  # fmt: skip
    """Returns the elements, at least `min` and at most `max`; the dtype is the common one.

    A Python int below all integers of the dtype is no lower limit, and one above them no upper limit, as in NumPy.

    Args:
        a_min, a_max: NumPy's other names for `min` and `max`.

    Raises:
        OverflowError: a Python int for the other limit does not fit.
        ValueError: a limit is given by both of its names.
    """
    for one, other in ((min, a_min), (max, a_max)):
        if one is not None and other is not None:
            raise ValueError(f"a_min and a_max are min and max by other names: pass one; got {one!r} and {other!r}")
    lowest, highest = a_min if min is None else min, a_max if max is None else max
    clipped = a
    if lowest is not None and not _beyond(a, lowest, below=True):
        clipped = apply("maximum", clipped, lowest)
    if highest is not None and not _beyond(a, highest, below=False):
        clipped = apply("minimum", clipped, highest)
    clipped = astype(a, a.dtype) if clipped is a else clipped
    return clipped if out is None else assign(out, clipped, fresh=True)


def _rounded_integers(x: Array, unit: int) -> Array:
    """Returns integers rounded to multiples of a unit, halves to even ones."""
    if not holds(x.dtype, unit):
        return apply("multiply", x, 0)
    quotient = apply("floor_divide", x, unit)
    rest = apply("remainder", x, unit)
    other = apply("subtract", unit, rest)
    odd = apply("not_equal", apply("bitwise_and", quotient, 1), 0)
    up = apply("logical_or", apply("greater", rest, other), apply("logical_and", apply("equal", rest, other), odd))
    return apply("multiply", apply("add", quotient, astype(up, x.dtype)), unit)


def round(a: Array, decimals: int = 0, out: Array | None = None) -> Array:
    """Returns the elements rounded to a number of decimals, halves to even."""
    if a.dtype.kind == "c":
        rounded = joined(round(part("real", a), decimals), round(part("imag", a), decimals))
    elif decimals < 0 and a.dtype.kind in "iu":
        rounded = _rounded_integers(a, 10**-decimals)
    elif a.dtype.kind in "iu":
        rounded = astype(a, a.dtype)
    elif decimals == 0 or a.dtype.kind == "b":
        rounded = apply("rint", a)
    else:
        factor = a.dtype.type(10.0 ** abs(decimals))
        one, other = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        rounded = apply(other, apply("rint", apply(one, a, factor)), factor)
    return rounded if out is None else assign(out, rounded, fresh=True)
