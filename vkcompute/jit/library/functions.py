"""Functions of Python, math and numpy that kernels may call."""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from vkcompute.dtypes import as_dtype
from vkcompute.frontend.syntax import ITERABLES
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, SCALARS, Scalar
from vkcompute.ir.types import SmallFloat
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import REMEDIES, register
from vkcompute.jit.frontend.type_rules import kind_of
from vkcompute.jit.frontend.values import (
    PARTS,
    ArrayValue,
    Complex,
    Kind,
    Number,
    Row,
    Vector,
    demand_sequence,
    describe,
    fits,
    is_complex,
    is_python,
)
from vkcompute.jit.library import standard
from vkcompute.jit.library.coefficients import Double, Single
from vkcompute.jit.library.element_functions import (
    absolute,
    common_divisor,
    extreme,
    floats,
    in_complex,
    in_floats,
    min_or_max,
    unless_whole,
)
from vkcompute.operations import FUNCTIONS

_FORMATS = {16: standard.Half, 32: Single, 64: Double}


def _rounded_to_int(name: str, c: Compiler, x: Any) -> Any:
    """Rounds a float to an integer, as math does; integers stay as they are."""
    kind = c.kind(x).type
    return c.converted(in_floats(name, c, x), c.rules.whole(kind)) if kind.kind == "f" else x


def _clip(c: Compiler, x: Any, low: Any, high: Any) -> Any:
    """numpy's clip: `high` where high < low."""
    return extreme("minimum", c, extreme("maximum", c, x, low), high)


def _where(c: Compiler, *args: Any) -> Any:
    return c.elementwise(partial(_chosen, c), *args) if any(isinstance(x, Vector) for x in args) else _chosen(c, *args)


def _chosen(c: Compiler, condition: Any, one: Any, other: Any) -> Any:
    """numpy's where, of numbers in their common type."""
    kinds = [kind_of(operand, c.rules) for operand in (one, other)]
    if all(isinstance(kind, Kind) for kind in kinds) and not all(kind.weak for kind in kinds):
        kind, numbers = c.to_common_type(one, other)
        one, other = [Number(number, kind) for number in numbers]
    return c.where(condition, one, other)


def _reduced(sign: str, c: Compiler, values: Any) -> Any:
    """Combines the elements of a vector or a tuple by an operator."""
    if not isinstance(values, tuple):
        raise UnsupportedError(
            f"this takes a vector or a tuple; got {describe(values)}; combine elements in a for loop"
        )
    if not values:
        return {"+": 0, "*": 1, "&": True, "|": False}[sign]
    if sign in "+*":  # Python starts with an int
        return reduce(partial(c.binary, sign), [_addend(c, x) for x in values])
    return reduce(partial(c.binary, sign), map(c.boolean, values))


def _addend(c: Compiler, x: Any) -> Any:
    """Returns a number as sums take it: bools and narrow integers as int32."""
    return x if is_complex(x) else _int(c, x) if c.kind(x).type is BOOL else c.widened(x)


def _int(c: Compiler, x: Any) -> Any:
    """int(x): integers that are not narrower than the language's integers keep their type; others become one."""
    kind = c.kind(x).type
    own = c.rules.whole(kind) if kind.kind == "f" else c.rules.integer
    return x if kind.kind in "iu" and kind.bits >= own.bits else c.converted(x, own)


def _float(c: Compiler, x: Any) -> Any:
    """float(x): floats keep their type."""
    return c.converted(x, c.rules.floating(c.kind(x).type))


def _converted(c: Compiler, x: Any, target: Scalar) -> Number:
    return c.converted(x, target)


def _rounded(c: Compiler, x: Any, target: Scalar) -> Number:
    """Rounds a number to a float of 8 bits, and returns it as float32: these types are for storage."""
    return c.converted(c.converted(x, target), FLOAT32)


def _complex(c: Compiler, x: Any, y: Any = None) -> Any:
    """complex(x) and complex(x, y); parts of floats keep their type, from float32 on."""
    if y is None:
        return complex_values.converted(c, x, complex_values.part_kind(c, x).type)
    if any(isinstance(part, (tuple, complex)) for part in (x, y)):
        raise UnsupportedError(f"complex takes two real parts; got {describe(x)} and {describe(y)}; add x and y * 1j")
    kind = complex_values.part_kind(c, x, y)
    return Complex([Number(c.cast(part, kind.type), Kind(kind.type)) for part in (x, y)])


def _log(c: Compiler, x: Any, base: Any = None) -> Any:
    """math.log."""
    if base is None or (is_python(base) and base in (2, 10)):
        return in_floats("log" if base is None else f"log{int(base)}", c, x)
    if is_python(base) and not (base > 0 and base != 1):
        raise UnsupportedError(f"the base of a logarithm is positive and not 1; got {base}")
    return c.binary("/", in_floats("log", c, x), math.log(base) if is_python(base) else in_floats("log", c, base))


def _complex_log(c: Compiler, z: Any, base: Any = None) -> Any:
    """cmath.log."""
    return in_complex(FUNCTIONS["log"], c, z) if base is None else c.call(standard.log_to_base, z, base)


def _round(c: Compiler, x: Any, digits: Any = None) -> Any:
    return _rounded_to_int("rint", c, x) if digits is None else _decimals(c, x, digits)


def _decimals(c: Compiler, x: Any, digits: Any = 0) -> Any:
    """numpy's round, to a number of decimal digits."""
    if type(digits) is not int:
        raise UnsupportedError(f"the digits of round are an int, known at compile time; got {describe(digits)}")
    kind = c.kind(x)
    c.demand_kind("iuf", kind, "round", x)
    if kind.type.kind != "f":
        return x if digits >= 0 else _tens(c, x, 10**-digits)
    if digits == 0:
        return in_floats("rint", c, x)
    if abs(digits) > math.log10(np.finfo(kind.type.name).max):
        return x if digits > 0 else c.binary("*", x, 0.0)
    return c.call(standard.to_decimals if digits > 0 else standard.to_powers_of_ten, x, 10.0 ** abs(digits))


def _tens(c: Compiler, x: Any, factor: int) -> Any:
    """Rounds an integer to multiples of a power of ten."""
    kind = c.kind(x).type
    if not fits(factor, kind):
        raise UnsupportedError(f"{kind} has no multiples of {factor}, to which this rounds; convert to a wider type")
    return c.call(standard.to_multiples, Number(c.cast(x, kind), Kind(kind)), factor)


def _len(c: Compiler, x: Any) -> Any:
    if isinstance(x, ArrayValue) and x.ndim:
        return c.arrays.extent(x, 0)
    if isinstance(x, Row):
        return c.arrays.extent(x.array, x.array.ndim - 1)
    if not isinstance(x, tuple):
        remedy = "; make it a tuple" if isinstance(x, list) else ""
        raise UnsupportedError(f"{describe(x)} has no length; tuples, vectors, arrays and their rows have{remedy}")
    demand_sequence(x)
    return len(x)


def _of_bits(definition: Any, c: Compiler, *args: Any) -> Any:
    """Inlines a function of the bits of floats, which takes the constants of their format as its last argument."""
    numbers = floats(c, *args)
    return c.call(definition, *numbers, _FORMATS[numbers[0].kind.type.bits])


def _ldexp(c: Compiler, x: Any, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "ldexp", n)
    if kind.type.kind == "u" and kind.type.bits >= 32:
        n = min_or_max("min", c, n, 1 << 14)
    if kind.type.kind == "u" or kind.type.bits < 32:
        n = c.converted(n, INT32)
    [x] = floats(c, x)
    return c.call(standard.ldexp, x, n, _FORMATS[x.kind.type.bits])


def _hypot(c: Compiler, *args: Any) -> Any:
    first, *others = floats(c, *args)
    return reduce(partial(in_floats, "hypot", c), others, absolute(c, first))


def _dist(c: Compiler, p: Any, q: Any) -> Any:
    if not (isinstance(p, tuple) and isinstance(q, tuple) and len(p) == len(q) > 0):
        raise UnsupportedError(
            f"dist takes two points, tuples or vectors of the same length; got {describe(p)} and {describe(q)}"
        )
    return _hypot(c, *[c.binary("-", x, y) for x, y in zip(p, q, strict=True)])


def _isqrt(c: Compiler, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "isqrt", n)
    return c.call(standard.isqrt, n, c.converted(1 << kind.type.bits - 2, kind.type))


def _inlined(definition: Any, c: Compiler, *args: Any) -> Any:
    return c.call(definition, *args)


def _register_folded(functions: list[Any], emit: Callable[..., Any], n: int | tuple[int, int | None]) -> None:
    """Registers functions of numbers."""
    register(functions, emit, n, folds=True)


def _register_numbers() -> None:
    """Functions of Python and math that are not those of NumPy with their names, and Python's types."""
    _register_folded([math.log], _log, (1, 2))
    _register_folded([math.hypot], _hypot, (1, None))
    _register_folded([math.fmod], partial(in_floats, "fmod"), 2)
    for name in "floor ceil trunc".split():
        _register_folded([getattr(math, name)], partial(_rounded_to_int, name), 1)
    _register_folded([np.fix], partial(unless_whole, "trunc"), 1)
    _register_folded([round], _round, (1, 2))
    register([np.round, np.around], _decimals, (1, 2), folds=True, keywords=standard.around)
    for name in ("min", "max"):
        _register_folded([getattr(builtins, name)], partial(min_or_max, name), (1, None))
    _register_folded([np.clip], _clip, 3)
    _register_folded([int], _int, 1)
    _register_folded([float], _float, 1)
    _register_folded([bool], lambda c, x: c.boolean(x), 1)
    register([complex], _complex, (1, 2))
    for whole, part in PARTS.items():
        register([whole.numpy.type], partial(complex_values.converted, part=part), 1)
    for scalar in SCALARS.values():
        emit, dtype = _rounded if scalar.kind == "f" and scalar.bits == 8 else _converted, as_dtype(scalar.name)
        same = [np.dtype(code).type for code in np.typecodes["AllInteger"] if np.dtype(code) == dtype]  # as longlong
        functions = [*dict.fromkeys((dtype.type, *same))]
        register(functions, partial(emit, target=scalar), 1, folds=not isinstance(scalar, SmallFloat))
    _register_folded([divmod, np.divmod], lambda c, x, y: (c.binary("//", x, y), c.binary("%", x, y)), 2)
    _register_folded([pow], lambda c, x, y: c.binary("**", x, y), 2)
    _register_folded([math.pow], lambda c, x, y: c.binary("**", _float(c, x), y), 2)
    for name in ("gcd", "lcm"):
        _register_folded([getattr(math, name)], partial(common_divisor, name), (1, None))


def _register_standard() -> None:
    """Functions of standard.py, which have several results, or arguments that are no elements."""
    for name in ("frexp", "modf"):
        functions = [getattr(module, name) for module in (math, np)]
        _register_folded(functions, partial(_of_bits, getattr(standard, name)), 1)
    _register_folded([math.remainder], partial(_of_bits, standard.remainder), 2)
    _register_folded([math.ldexp, np.ldexp], _ldexp, 2)
    _register_folded([math.isqrt], _isqrt, 1)
    register([cmath.polar], partial(_inlined, standard.polar), 1)
    register([cmath.rect], partial(_inlined, standard.rect), 2)
    register([cmath.log], _complex_log, (1, 2))
    for function, definition in ((math.isclose, standard.isclose), (np.isclose, standard.isclose_to)):
        register([function], partial(_inlined, definition), 2, folds=True, keywords=definition)


_register_numbers()
_register_standard()
register([np.where], _where, 3)
register([len], _len, 1)
register([sum], partial(_reduced, "+"), 1)
register([math.prod], partial(_reduced, "*"), 1)
register([math.dist], _dist, 2)
register([any, np.any], partial(_reduced, "|"), 1)
register([all, np.all], partial(_reduced, "&"), 1)

_TABLE = "compute it outside of the kernel, as a table in an array, or take exp of math.lgamma"
_PRODUCTS = "write p @ q of vectors, or add products in a for loop"
for _name, _remedy in {
    **dict.fromkeys(("comb", "factorial", "perm"), _TABLE),
    "fsum": "write sum(…), of float64 where it matters",
    "sumprod": _PRODUCTS,
    "fma": "write vc.fma(x, y, z), which rounds once where the device can, or x * y + z, which rounds twice",
}.items():
    if hasattr(math, _name):  # depends on Python's version
        REMEDIES[getattr(math, _name)] = _remedy
REMEDIES |= dict.fromkeys((sorted, list, tuple, set, map, filter, iter, next), ITERABLES)
_MAKERS: tuple[Callable[..., Any], ...] = np.zeros, np.ones, np.empty, np.full
REMEDIES |= dict.fromkeys(_MAKERS, "write vc.local(shape, dtype) or [0] * n; arrays of the device are arguments")
for _function, _own in ((np.sum, "sum(v)"), (np.prod, "math.prod(v)"), (np.min, "min(v)"), (np.max, "max(v)")):
    REMEDIES[_function] = f"write {_own} of a vector or a tuple; for arrays, vc.reduce outside of the kernel"
