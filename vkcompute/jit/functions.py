"""The functions that a kernel may call: Python's, math's and numpy's, found by the object that a name stands for."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vkcompute.ir import BOOL, INT32, SCALARS, Value
from vkcompute.ir.rules import ATOMICS, UP_TO_32_BITS
from vkcompute.jit import ids, lanes, library, memory, subgroup, vectors, workgroup
from vkcompute.jit.arithmetic import Arithmetic
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Array, Kind, Number, Row, Vector, describe, floating, is_python

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions


class Function(NamedTuple):
    """What a call becomes.

    Attributes:
        emit: gives the value of a call, from the compiler and the arguments.
        fewest, most: arguments; `most` is None where any number will do.
        folds: whether a call on Python's numbers can be made at compile time instead.
    """

    emit: Callable[..., Any]
    fewest: int
    most: int | None
    folds: bool = True


def call(compiler: Expressions, function: Any, args: list[Any]) -> Any:
    """The value of a call of one of FUNCTIONS.

    Raises:
        Refused: another number of arguments, or of other types.
    """
    entry, name = FUNCTIONS[function], function.__name__
    if len(args) < entry.fewest or (entry.most is not None and len(args) > entry.most):
        wanted = entry.fewest if entry.most == entry.fewest else f"{entry.fewest} to {entry.most or 'any number of'}"
        raise Refused(f"{name} takes {wanted} argument{'s' * (wanted != 1)}; got {len(args)}")
    if entry.folds and args and all(is_python(x) or isinstance(x, str) for x in args):  # float("inf")
        try:
            with np.errstate(all="ignore"):
                found = function(*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused(f"{name}: {error}") from None
        return found.item() if isinstance(found, np.generic) and not isinstance(function, type) else found
    whole = function in (int, float, bool) or (entry.most is None and len(args) == 1)  # as min(v) is
    if entry.folds and not whole and any(isinstance(x, Vector) for x in args):
        return compiler.each(lambda *row: call(compiler, function, list(row)), *args)
    return entry.emit(compiler, *args)


def _real(code: str, c: Expressions, *args: Any) -> Number:
    """A function of floats, to which integers are converted."""
    kind, _ = c.together(*args)
    target = floating(kind.type, c.real)
    if target.bits == 64 and code in UP_TO_32_BITS:
        got = " and ".join(map(describe, args))
        raise Refused(f"{code} takes float16 and float32, on every device; got {got}; write vc.float32(x)")
    operation = c.builder.unary if len(args) == 1 else c.builder.binary
    return Number(operation(code, *[c.cast(x, target) for x in args]), Kind(target, kind.weak))


def _rounded(code: str, whole: bool, c: Expressions, x: Any) -> Any:
    """A rounding, to a float, or to a `whole` int32; integers stay as they are."""
    if c.kind(x).type.kind != "f":
        return x
    found = _real(code, c, x)
    return c.converted(found, INT32) if whole else found


def _test(code: str, c: Expressions, x: Any) -> Any:
    return Number(c.builder.unary(code, c.cast(x, c.kind(x).type)), Kind(BOOL)) if c.kind(x).type.kind == "f" else False


def _extreme(code: str, c: Expressions, *args: Any) -> Any:
    values = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if len(values) < 2:
        raise Refused(f"{code} takes at least two numbers; got {', '.join(map(describe, values))}")
    kind, numbers = c.together(*values)
    if kind.type is BOOL:
        raise Refused(f"{code} takes numbers; got bools; use 'and' or 'or'")
    found: Value = numbers[0]
    for each in numbers[1:]:
        found = c.builder.binary(code, found, each)
    return Number(found, kind)


def _size(code: str, c: Expressions, x: Any) -> Any:
    """abs and sign."""
    kind = c.kind(x)
    if kind.type is BOOL:
        raise Refused(f"{code} takes a number; got bool; write int(x)")
    if kind.type.kind == "u":
        return x if code == "abs" else _extreme("min", c, x, 1)
    return Number(c.builder.unary(code, c.cast(x, kind.type)), kind)


def _where(c: Expressions, *args: Any) -> Any:
    return c.each(c.where, *args) if any(isinstance(x, Vector) for x in args) else c.where(*args)


def _united(sign: str, c: Expressions, values: Any) -> Any:
    """The elements of a vector or a tuple, connected by an operator."""
    if not isinstance(values, tuple) or not values:
        raise Refused(f"this takes a vector or a tuple; got {describe(values)}; go over elements in a for loop")
    if sign == "+":
        return reduce(partial(c.binary, sign), values)
    return reduce(partial(c.binary, sign), map(c.boolean, values))


def _int(c: Expressions, x: Any) -> Any:
    """int(x): integers of 32 and 64 bits stay as they are, all else becomes int32."""
    kind = c.kind(x).type
    return x if kind.kind in "iu" and kind.bits >= 32 else c.converted(x, INT32)


def _float(c: Expressions, x: Any) -> Any:
    """float(x): floats stay as they are."""
    return c.converted(x, floating(c.kind(x).type, c.real))


def _round(c: Expressions, x: Any, digits: Any = None) -> Any:
    if digits is not None:
        raise Refused("round takes no digits in kernels; write round(x * 100) / 100")
    return _rounded("round", True, c, x)


def _len(c: Expressions, x: Any) -> Any:
    if isinstance(x, Array) and x.ndim:
        return c.extent(x, 0)
    if isinstance(x, Row):
        return c.extent(x.array, x.array.ndim - 1)
    if not isinstance(x, tuple):
        raise Refused(f"{describe(x)} has no length")
    return len(x)


def _id(name: str, c: Expressions, axis: Any = 0) -> Any:
    """A place in the grid, int32. Groups along the first axis go on along the second if the grid is folded."""
    if not isinstance(axis, int) or not 0 <= axis < 3:
        got = axis if isinstance(axis, int) else describe(axis)
        raise Refused(f"an axis is 0, 1 or 2, known at compile time; got {got}")
    if name == "local_size":
        return c.function.local_size[axis]

    def number(which: str, along: int) -> Number:
        return Number(c.builder.cast(c.builder.builtin(which, along), INT32), Kind(INT32))

    if not c.folded or axis > 1 or name == "local_id":
        return number(name, axis)
    if axis == 1:
        return 1 if name == "n_groups" else 0 if name == "group_id" else number("local_id", 1)
    n_columns = number("n_groups", 0)
    if name == "n_groups":
        return c.binary("*", n_columns, number("n_groups", 1))
    group = c.binary("+", number("group_id", 0), c.binary("*", number("group_id", 1), n_columns))
    first = c.binary("*", group, c.function.local_size[0])
    return group if name == "group_id" else c.binary("+", first, number("local_id", 0))


def _named(*names: str) -> list[Any]:
    """What Python, math and numpy have under these names."""
    found = [getattr(module, name, None) for module in (builtins, math, np) for name in names]
    return [each for each in found if callable(each)]


def _rows() -> Iterator[tuple[list[Any], Callable[..., Any], int, int | None]]:
    """What FUNCTIONS is made of: objects, what a call of them becomes, the fewest and the most arguments."""
    for name in "sqrt exp exp2 log log2 sin cos tan sinh cosh tanh".split():
        yield _named(name), partial(_real, name), 1, 1
    for name in "asin acos atan asinh acosh atanh".split():
        yield _named(name, f"arc{name[1:]}"), partial(_real, name), 1, 1
    yield _named("atan2", "arctan2"), partial(_real, "atan2"), 2, 2
    yield _named("fmod"), partial(_real, "rem"), 2, 2
    for name in "floor ceil trunc".split():
        yield [getattr(np, name)], partial(_rounded, name, False), 1, 1
        yield [getattr(math, name)], partial(_rounded, name, True), 1, 1
    yield [np.rint], partial(_rounded, "round", False), 1, 1
    yield [round], _round, 1, 2
    for name in ("isnan", "isinf"):
        yield _named(name), partial(_test, name), 1, 1
    for name in ("min", "max"):
        yield [getattr(builtins, name), getattr(np, f"{name}imum")], partial(_extreme, name), 1, None
    yield _named("abs", "fabs", "absolute"), partial(_size, "abs"), 1, 1
    yield [np.sign], partial(_size, "sign"), 1, 1
    yield [divmod], lambda c, x, y: (c.binary("//", x, y), c.binary("%", x, y)), 2, 2
    yield [pow], partial(_operator, "**"), 2, 2
    yield [math.pow], lambda c, x, y: c.binary("**", _float(c, x), y), 2, 2
    names = "add subtract multiply divide floor_divide mod power".split()
    for name, sign in zip(names, "+ - * / // % **".split(), strict=True):
        yield [getattr(np, name)], partial(_operator, sign), 2, 2
    for name in "hypot log10 log1p expm1 degrees radians copysign cbrt isfinite clip square".split():
        n = getattr(library, name).__code__.co_argcount
        yield _named(name), partial(_library, name), n, n
    yield [int], _int, 1, 1
    yield [float], _float, 1, 1
    yield [bool], lambda c, x: c.boolean(x), 1, 1
    for scalar in SCALARS.values():
        yield [scalar.numpy.type], partial(Arithmetic.converted, target=scalar), 1, 1


def _operator(sign: str, c: Expressions, x: Any, y: Any) -> Any:
    return c.binary(sign, x, y)


def _library(name: str, c: Expressions, *args: Any) -> Any:
    return c.call(name, *args)


FUNCTIONS = {each: Function(emit, fewest, most) for objects, emit, fewest, most in _rows() for each in objects}
FUNCTIONS |= {
    np.where: Function(_where, 3, 3, folds=False),
    len: Function(_len, 1, 1, folds=False),
    np.dot: Function(partial(_library, "dot"), 2, 2, folds=False),
    np.cross: Function(partial(_library, "cross"), 2, 2, folds=False),
    np.linalg.norm: Function(partial(_library, "length"), 1, 1, folds=False),
    sum: Function(partial(_united, "+"), 1, 1, folds=False),
    **dict.fromkeys((any, np.any), Function(partial(_united, "|"), 1, 1, folds=False)),
    **dict.fromkeys((all, np.all), Function(partial(_united, "&"), 1, 1, folds=False)),
    library.device_power: Function(partial(_real, "pow"), 2, 2, folds=False),
}
for _place in (ids.global_id, ids.local_id, ids.group_id, ids.local_size, ids.num_groups):
    FUNCTIONS[_place] = Function(partial(_id, _place.__name__.replace("num_", "n_")), 0, 1, folds=False)
FUNCTIONS |= {
    workgroup.shared: Function(memory.shared, 2, 2, folds=False),
    workgroup.barrier: Function(memory.barrier, 0, 0, folds=False),
    workgroup.atomic_compare_exchange: Function(partial(memory.atomic, "compare_exchange"), 4, 4, folds=False),
}
for _name in sorted(ATOMICS):
    FUNCTIONS[getattr(workgroup, f"atomic_{_name}")] = Function(partial(memory.atomic, _name), 3, 3, folds=False)
for _name, (_emit, _n) in lanes.CALLS.items():
    FUNCTIONS[getattr(subgroup, _name)] = Function(_emit, _n, _n, folds=False)
for _type in vectors.TYPES.values():
    FUNCTIONS[_type] = Function(partial(vectors.made, _type), 1, None, folds=False)
