"""The functions that a kernel may call: Python's, math's and numpy's, found by the object that a name stands for."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vkcompute.ir import ATOMICS, BOOL, INT32, SCALARS, Value
from vkcompute.jit import elementary, ids, lanes, library, memory, subgroup, vectors, workgroup
from vkcompute.jit.arithmetic import Arithmetic
from vkcompute.jit.coefficients import Double, Single
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Array, Kind, Number, Row, Vector, describe, floating, is_python

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions


_ALSO = {"degrees": ["rad2deg"], "radians": ["deg2rad"]}
_FORMS = {16: library.Half, 32: Single, 64: Double}


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
        rule = f"{name} takes {wanted} argument{'s' * (wanted != 1)}; got {len(args)}"
        raise Refused(f"{rule}{_WRITTEN.get(function, '')}")
    if entry.folds and args and all(is_python(x) or isinstance(x, str) for x in args):  # float("inf")
        try:
            with np.errstate(all="ignore"):
                found = function(*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Refused(f"{name}: {error}") from None
        return found if isinstance(function, type) else _plain(found)
    whole = function in (int, float, bool) or (entry.most is None and len(args) == 1)  # as min(v) is
    if entry.folds and not whole and any(isinstance(x, Vector) for x in args):
        each = compiler.each(lambda *row: call(compiler, function, list(row)), *args)
        return tuple(map(Vector, zip(*each, strict=True))) if isinstance(each[0], tuple) else each
    return entry.emit(compiler, *args)


def _plain(found: Any) -> Any:
    """What numpy gives, as Python's numbers."""
    if isinstance(found, tuple):
        return tuple(map(_plain, found))
    return found.item() if isinstance(found, np.generic) else found


def _real(code: str, c: Expressions, *args: Any) -> Number:
    """A function of floats, to which integers are converted."""
    kind, _ = c.together(*args)
    target = floating(kind.type, c.real)
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


def _numpys(name: str, c: Expressions, x: Any, y: Any) -> Any:
    """numpy's maximum and minimum, which give NaN where there is one."""
    kind, numbers = c.together(x, y)
    if kind.type.kind != "f":
        return _extreme(name[:3], c, x, y)
    return c.call(name, *[Number(each, kind) for each in numbers])


def _clip(c: Expressions, x: Any, low: Any, high: Any) -> Any:
    """As numpy's: high where that is less than low."""
    return _numpys("minimum", c, _numpys("maximum", c, x, low), high)


def _sign(c: Expressions, x: Any) -> Any:
    found = _size("sign", c, x)
    return c.where(_test("isnan", c, x), x, found) if c.kind(x).type.kind == "f" else found


def _fmod(c: Expressions, x: Any, y: Any) -> Any:
    """numpy's: of integers an integer."""
    kind, numbers = c.together(x, y)
    return Number(c.builder.binary("rem", *numbers), kind) if kind.type.kind in "iu" else _real("rem", c, x, y)


def _reciprocal(c: Expressions, x: Any) -> Any:
    """numpy's: of integers an integer."""
    return c.call("reciprocal", x) if c.kind(x).type.kind in "iu" else c.binary("/", 1, x)


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
    if sign in "+*":
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
        remedy = "; make it a tuple" if isinstance(x, list) else ""
        raise Refused(f"{describe(x)} has no length; tuples, vectors, tensors and their rows have{remedy}")
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


_Row = tuple[list[Any], Callable[..., Any], int, "int | None"]
"""Objects, what a call of them becomes, the fewest and the most arguments."""


def _rows_of_numbers() -> Iterator[_Row]:
    """Functions that operations of ir/ compute, and those of Python's types."""
    names = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh erf erfc gamma lgamma"
    for name in names.split():
        yield _named(name), partial(_real, name), 1, 1
    for name in "asin acos atan asinh acosh atanh".split():
        yield _named(name, f"arc{name[1:]}"), partial(_real, name), 1, 1
    yield _named("atan2", "arctan2"), partial(_real, "atan2"), 2, 2
    yield [np.hypot], partial(_real, "hypot"), 2, 2
    yield [math.hypot], _hypot, 1, None
    yield [math.fmod], partial(_real, "rem"), 2, 2
    yield [np.fmod], _fmod, 2, 2
    for name in "floor ceil trunc".split():
        yield [getattr(np, name)], partial(_rounded, name, False), 1, 1
        yield [getattr(math, name)], partial(_rounded, name, True), 1, 1
    yield [np.fix], partial(_rounded, "trunc", False), 1, 1
    yield [np.rint], partial(_rounded, "round", False), 1, 1
    yield [round], _round, 1, 2
    for name in ("isnan", "isinf"):
        yield _named(name), partial(_test, name), 1, 1
    for name in ("min", "max"):
        yield [getattr(builtins, name)], partial(_extreme, name), 1, None
        yield [getattr(np, f"{name}imum")], partial(_numpys, f"{name}imum"), 2, 2
    yield [np.clip], _clip, 3, 3
    yield _named("abs", "absolute"), partial(_size, "abs"), 1, 1
    yield _named("fabs"), lambda c, x: _size("abs", c, _float(c, x)), 1, 1
    yield [np.sign], _sign, 1, 1
    yield [int], _int, 1, 1
    yield [float], _float, 1, 1
    yield [bool], lambda c, x: c.boolean(x), 1, 1
    for scalar in SCALARS.values():
        yield [scalar.numpy.type], partial(Arithmetic.converted, target=scalar), 1, 1


def _rows_of_operators() -> Iterator[_Row]:
    """Numpy's and math's names of operators."""
    names = "add subtract multiply divide floor_divide mod power left_shift right_shift "
    names += "bitwise_and bitwise_or bitwise_xor"
    for name, sign in zip(names.split(), "+ - * / // % ** << >> & | ^".split(), strict=True):
        yield [getattr(np, name)], partial(_operator, sign), 2, 2
    names = "equal not_equal less less_equal greater greater_equal"
    for name, sign in zip(names.split(), "== != < <= > >=".split(), strict=True):
        yield [getattr(np, name)], partial(_comparison, sign), 2, 2
    for name, sign in (("logical_and", "&"), ("logical_or", "|"), ("logical_xor", "^")):
        yield [getattr(np, name)], lambda c, x, y, sign=sign: c.binary(sign, c.boolean(x), c.boolean(y)), 2, 2
    for name, sign in (("positive", "+"), ("negative", "-"), ("invert", "~"), ("logical_not", "not")):
        yield [getattr(np, name)], lambda c, x, sign=sign: c.unary(sign, x), 1, 1
    yield [divmod, np.divmod], lambda c, x, y: (c.binary("//", x, y), c.binary("%", x, y)), 2, 2
    yield [pow], partial(_operator, "**"), 2, 2
    yield [math.pow], lambda c, x, y: c.binary("**", _float(c, x), y), 2, 2
    yield [np.reciprocal], _reciprocal, 1, 1


def _rows_of_library() -> Iterator[_Row]:
    """Functions that are written in the language of kernels."""
    for emit, n_forms, names in (
        (_library, 0, "degrees radians isfinite square"),
        (_formed, 1, "copysign signbit frexp modf nextafter ulp spacing"),
        (_of_floats, 0, "heaviside sinc fmin fmax logaddexp logaddexp2"),
    ):
        for name in names.split():
            n = getattr(library, name).__code__.co_argcount - n_forms
            yield _named(name, *_ALSO.get(name, ())), partial(emit, name), n, n
    yield [math.remainder], partial(_formed, "remainder"), 2, 2
    yield _named("ldexp"), _ldexp, 2, 2
    for name in ("gcd", "lcm"):
        yield [getattr(math, name)], partial(_divisor, name), 1, None
        yield [getattr(np, name)], partial(_divisor, name), 2, 2
    yield [math.isqrt], _isqrt, 1, 1
    for function, written in library.NAMED.items():
        yield [function], partial(_library, written.__name__), 2, 2


def _floats(c: Expressions, *args: Any) -> list[Number]:
    """Numbers in the type of floats in which they are combined."""
    kind, _ = c.together(*args)
    target = floating(kind.type, c.real)
    return [Number(c.cast(x, target), Kind(target, kind.weak)) for x in args]


def _of_floats(name: str, c: Expressions, *args: Any) -> Any:
    return c.call(name, *_floats(c, *args))


def _formed(name: str, c: Expressions, *args: Any) -> Any:
    """A function of the bits of floats."""
    numbers = _floats(c, *args)
    return c.call(name, *numbers, _FORMS[numbers[0].kind.type.bits])


def _ldexp(c: Expressions, x: Any, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "ldexp", n)
    if kind.type.kind == "u" and kind.type.bits >= 32:
        n = _extreme("min", c, n, 1 << 14)
    if kind.type.kind == "u" or kind.type.bits < 32:
        n = c.converted(n, INT32)
    [x] = _floats(c, x)
    return c.call("ldexp", x, n, _FORMS[x.kind.type.bits])


def _hypot(c: Expressions, *args: Any) -> Any:
    first, *others = _floats(c, *args)
    return reduce(partial(_real, "hypot", c), others, _size("abs", c, first))


def _dist(c: Expressions, p: Any, q: Any) -> Any:
    if not (isinstance(p, tuple) and isinstance(q, tuple) and len(p) == len(q) > 0):
        raise Refused(f"dist takes two points, tuples or vectors of as many; got {describe(p)} and {describe(q)}")
    return _hypot(c, *[c.binary("-", x, y) for x, y in zip(p, q, strict=True)])


def _divisor(name: str, c: Expressions, *args: Any) -> Any:
    kind, numbers = c.together(*args)
    c.demand_kind("iu", kind, name, *args)
    sizes = [c.converted(_size("abs", c, Number(x, kind)), SCALARS[f"uint{kind.type.bits}"]) for x in numbers]
    return Number(c.cast(reduce(partial(c.call, name), sizes), kind.type), kind)


def _isqrt(c: Expressions, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "isqrt", n)
    return c.call("isqrt", n, c.converted(1 << kind.type.bits - 2, kind.type))


def _operator(sign: str, c: Expressions, x: Any, y: Any) -> Any:
    return c.binary(sign, x, y)


def _comparison(sign: str, c: Expressions, x: Any, y: Any) -> Any:
    return c.compare(sign, x, y)


def _library(name: str, c: Expressions, *args: Any) -> Any:
    return c.call(name, *args)


FUNCTIONS = {
    each: Function(emit, fewest, most)
    for rows in (_rows_of_numbers, _rows_of_operators, _rows_of_library)
    for objects, emit, fewest, most in rows()
    for each in objects
}
FUNCTIONS |= {
    np.where: Function(_where, 3, 3, folds=False),
    len: Function(_len, 1, 1, folds=False),
    np.dot: Function(partial(_library, "dot"), 2, 2, folds=False),
    np.cross: Function(partial(_library, "cross"), 2, 2, folds=False),
    np.linalg.norm: Function(partial(_library, "length"), 1, 1, folds=False),
    sum: Function(partial(_united, "+"), 1, 1, folds=False),
    math.prod: Function(partial(_united, "*"), 1, 1, folds=False),
    math.dist: Function(_dist, 2, 2, folds=False),
    **dict.fromkeys((any, np.any), Function(partial(_united, "|"), 1, 1, folds=False)),
    **dict.fromkeys((all, np.all), Function(partial(_united, "&"), 1, 1, folds=False)),
}
for _place in (ids.global_id, ids.local_id, ids.group_id, ids.local_size, ids.num_groups):
    FUNCTIONS[_place] = Function(partial(_id, _place.__name__.replace("num_", "n_")), 0, 1, folds=False)
FUNCTIONS |= {
    workgroup.shared: Function(memory.shared, 2, 2, folds=False),
    workgroup.barrier: Function(memory.barrier, 0, 0, folds=False),
    workgroup.atomic_compare_exchange: Function(partial(memory.atomic, "compare_exchange"), 4, 4, folds=False),
}
for _name in sorted(name for name, row in ATOMICS.items() if not row.emulation_only):
    FUNCTIONS[getattr(workgroup, f"atomic_{_name}")] = Function(partial(memory.atomic, _name), 3, 3, folds=False)
for _stub, (_emit, _n) in elementary.CALLS.items():
    FUNCTIONS[_stub] = Function(_emit, _n, _n, folds=False)
for _name, (_emit, _n) in lanes.CALLS.items():
    FUNCTIONS[getattr(subgroup, _name)] = Function(_emit, _n, _n, folds=False)
for _type in vectors.TYPES.values():
    FUNCTIONS[_type] = Function(partial(vectors.made, _type), 1, None, folds=False)

_TABLE = "compute it outside of the kernel, as a table in a tensor, or take exp of math.lgamma"
_PRODUCTS = "write p @ q of vectors, or add products in a for loop"
INSTEAD = {
    getattr(math, name, None): remedy
    for name, remedy in {
        **dict.fromkeys(("comb", "factorial", "perm"), _TABLE),
        "fsum": "write sum(…), of float64 where it matters",
        "sumprod": _PRODUCTS,
        "fma": "write x * y + z, which rounds twice, or compute it in float64",
    }.items()
}
"""Functions that kernels have not -> what to write."""
for _function, _own in ((np.sum, "sum(v)"), (np.prod, "math.prod(v)"), (np.min, "min(v)"), (np.max, "max(v)")):
    INSTEAD[_function] = f"write {_own} of a vector or a tuple; for tensors, vc.reduce outside of the kernel"
INSTEAD |= dict.fromkeys((np.round, np.around), "write np.rint(x), or round(x), which is an int")
_WRITTEN = {
    math.log: "; write math.log2(x), or math.log(x) / math.log(2)",
    workgroup.shared: ", where shape and dtype are to be, as vc.shared(8, vc.float32)",
}
"""Functions that are called with too few arguments or too many -> what to write"""
