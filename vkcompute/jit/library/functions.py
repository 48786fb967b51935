"""Functions of Python, math and numpy that kernels may call."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from vkcompute.frontend.syntax import ITERABLES
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT16, FLOAT32, INT32, SCALARS, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import REMEDIES, register
from vkcompute.jit.frontend.values import (
    NATURAL,
    ArrayValue,
    Kind,
    Number,
    Row,
    Vector,
    describe,
    fits,
    floating,
    is_python,
    kind_of,
)
from vkcompute.jit.library import standard
from vkcompute.jit.library.coefficients import Double, Single

_FORMATS = {16: standard.Half, 32: Single, 64: Double}
_OF_HALF = {standard.spacing: standard.half_spacing}
"""Functions that differ in numpy for float16."""


def _floats(c: Compiler, *args: Any) -> list[Number]:
    """Converts numbers to their common float type."""
    kind, _ = c.to_common_type(*args)
    target = floating(kind.type, c.real)
    return [Number(c.cast(x, target), Kind(target, kind.weak)) for x in args]


def _real(code: str, c: Compiler, *args: Any) -> Number:
    """Builds a function of floats; integers are converted."""
    numbers = _floats(c, *args)
    return Number(c.builder.compute(code, *[each.value for each in numbers]), numbers[0].kind)


def _rounded(code: str, whole: bool, c: Compiler, x: Any) -> Any:
    """Rounds a float to a float, or to an int32 if `whole`; integers stay as they are."""
    if c.kind(x).type.kind != "f":
        return x
    found = _real(code, c, x)
    return c.converted(found, INT32) if whole else found


def _is_nan_or_inf(code: str, c: Compiler, x: Any) -> Any:
    kind = c.kind(x).type
    return Number(c.builder.compute(code, c.cast(x, kind)), Kind(BOOL)) if kind.kind == "f" else False


def _min_or_max(code: str, c: Compiler, *args: Any) -> Any:
    values = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if len(values) < 2:
        raise UnsupportedError(f"{code} takes at least two numbers; got {', '.join(map(describe, values))}")
    kind, numbers = c.to_common_type(*values)
    if kind.type is BOOL:
        raise UnsupportedError(f"{code} takes numbers; got bools; use 'and' or 'or'")
    found: Value = numbers[0]
    for each in numbers[1:]:
        found = c.builder.compute(code, found, each)
    return Number(found, kind)


def _propagating_nan(name: str, c: Compiler, x: Any, y: Any) -> Any:
    """numpy's maximum and minimum, which return NaN if an operand is NaN."""
    kind, numbers = c.to_common_type(x, y)
    if kind.type.kind != "f":
        return _min_or_max(name[:3], c, x, y)
    return c.call(getattr(standard, name), *[Number(each, kind) for each in numbers])


def _clip(c: Compiler, x: Any, low: Any, high: Any) -> Any:
    """numpy's clip: `high` where high < low."""
    return _propagating_nan("minimum", c, _propagating_nan("maximum", c, x, low), high)


def _sign(c: Compiler, x: Any) -> Any:
    found = _abs_or_sign("sign", c, x)
    return c.where(_is_nan_or_inf("isnan", c, x), x, found) if c.kind(x).type.kind == "f" else found


def _fmod(c: Compiler, x: Any, y: Any) -> Any:
    """numpy's fmod: an integer for integers."""
    kind, numbers = c.to_common_type(x, y)
    if kind.type.kind not in "iu":
        return _real("rem", c, x, y)
    return Number(c.builder.compute("rem", numbers[0], c.divisor(numbers[1])), kind)


def _reciprocal(c: Compiler, x: Any) -> Any:
    """numpy's reciprocal: an integer for integers."""
    return c.call(standard.reciprocal, x) if c.kind(x).type.kind in "iu" else c.binary("/", 1, x)


def _abs_or_sign(code: str, c: Compiler, x: Any) -> Any:
    """Builds abs or sign."""
    kind = c.kind(x)
    if kind.type is BOOL:
        raise UnsupportedError(f"{code} takes a number; got bool; write int(x)")
    if kind.type.kind == "u":
        return x if code == "abs" else _min_or_max("min", c, x, 1)
    natural = NATURAL if code == "abs" and kind.weak and kind.type is INT32 else None
    return Number(c.builder.compute(code, c.cast(x, kind.type)), Kind(kind.type, kind.weak, natural))


def _where(c: Compiler, *args: Any) -> Any:
    return c.each(partial(_chosen, c), *args) if any(isinstance(x, Vector) for x in args) else _chosen(c, *args)


def _chosen(c: Compiler, condition: Any, one: Any, other: Any) -> Any:
    """numpy's where, of numbers in their common type."""
    kinds = [kind_of(each, c.real) for each in (one, other)]
    if all(isinstance(each, Kind) for each in kinds) and not all(each.weak for each in kinds):
        kind, numbers = c.to_common_type(one, other)
        one, other = [Number(each, kind) for each in numbers]
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
        return reduce(partial(c.binary, sign), [_int(c, x) if c.kind(x).type is BOOL else c.widened(x) for x in values])
    return reduce(partial(c.binary, sign), map(c.boolean, values))


def _int(c: Compiler, x: Any) -> Any:
    """int(x): integers of 32 and 64 bits keep their type, others become int32."""
    kind = c.kind(x).type
    return x if kind.kind in "iu" and kind.bits >= 32 else c.converted(x, INT32)


def _float(c: Compiler, x: Any) -> Any:
    """float(x): floats keep their type."""
    return c.converted(x, floating(c.kind(x).type, c.real))


def _log(c: Compiler, x: Any, base: Any = None) -> Any:
    """math.log."""
    if base is None or (is_python(base) and base in (2, 10)):
        return _real("log" if base is None else f"log{int(base)}", c, x)
    if is_python(base) and not (base > 0 and base != 1):
        raise UnsupportedError(f"the base of a logarithm is positive and not 1; got {base}")
    return c.binary("/", _real("log", c, x), math.log(base) if is_python(base) else _real("log", c, base))


def _round(c: Compiler, x: Any, digits: Any = None) -> Any:
    return _rounded("round", True, c, x) if digits is None else _decimals(c, x, digits)


def _decimals(c: Compiler, x: Any, digits: Any = 0) -> Any:
    """numpy's round, to a number of decimal digits."""
    if type(digits) is not int:
        raise UnsupportedError(f"the digits of round are an int, known at compile time; got {describe(digits)}")
    kind = c.kind(x)
    c.demand_kind("iuf", kind, "round", x)
    if kind.type.kind != "f":
        return x if digits >= 0 else _tens(c, x, 10**-digits)
    if digits == 0:
        return _real("round", c, x)
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
        return c.extent(x, 0)
    if isinstance(x, Row):
        return c.extent(x.array, x.array.ndim - 1)
    if not isinstance(x, tuple):
        remedy = "; make it a tuple" if isinstance(x, list) else ""
        raise UnsupportedError(f"{describe(x)} has no length; tuples, vectors, arrays and their rows have{remedy}")
    return len(x)


def _of_floats(definition: Any, c: Compiler, *args: Any) -> Any:
    """Inlines a function of floats; that of float16 computes in float32."""
    numbers = _floats(c, *args)
    if numbers[0].kind.type is not FLOAT16:
        return c.call(definition, *numbers)
    return c.converted(c.call(definition, *[c.converted(each, FLOAT32) for each in numbers]), FLOAT16)


def _of_bits(definition: Any, c: Compiler, *args: Any) -> Any:
    """Inlines a function of the bits of floats, which takes the constants of their format as its last argument."""
    numbers = _floats(c, *args)
    kind = numbers[0].kind.type
    definition = _OF_HALF.get(definition, definition) if kind is FLOAT16 else definition
    return c.call(definition, *numbers, _FORMATS[kind.bits])


def _ldexp(c: Compiler, x: Any, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "ldexp", n)
    if kind.type.kind == "u" and kind.type.bits >= 32:
        n = _min_or_max("min", c, n, 1 << 14)
    if kind.type.kind == "u" or kind.type.bits < 32:
        n = c.converted(n, INT32)
    [x] = _floats(c, x)
    return c.call(standard.ldexp, x, n, _FORMATS[x.kind.type.bits])


def _hypot(c: Compiler, *args: Any) -> Any:
    first, *others = _floats(c, *args)
    return reduce(partial(_real, "hypot", c), others, _abs_or_sign("abs", c, first))


def _dist(c: Compiler, p: Any, q: Any) -> Any:
    if not (isinstance(p, tuple) and isinstance(q, tuple) and len(p) == len(q) > 0):
        raise UnsupportedError(
            f"dist takes two points, tuples or vectors of the same length; got {describe(p)} and {describe(q)}"
        )
    return _hypot(c, *[c.binary("-", x, y) for x, y in zip(p, q, strict=True)])


def _gcd_or_lcm(definition: Any, c: Compiler, *args: Any) -> Any:
    kind, numbers = c.to_common_type(*args)
    c.demand_kind("iu", kind, definition.__name__, *args)
    sizes = [c.converted(_abs_or_sign("abs", c, Number(x, kind)), SCALARS[f"uint{kind.type.bits}"]) for x in numbers]
    return Number(c.cast(reduce(partial(c.call, definition), sizes), kind.type), kind)


def _isqrt(c: Compiler, n: Any) -> Any:
    kind = c.kind(n)
    c.demand_kind("iu", kind, "isqrt", n)
    return c.call(standard.isqrt, n, c.converted(1 << kind.type.bits - 2, kind.type))


def _inlined(definition: Any, c: Compiler, *args: Any) -> Any:
    return c.call(definition, *args)


def _named(*names: str) -> list[Any]:
    """Returns the functions of Python, math and numpy with these names."""
    found = [getattr(module, name, None) for module in (builtins, math, np) for name in names]
    return [each for each in found if callable(each)]


def _register_folded(functions: list[Any], emit: Callable[..., Any], n: int | tuple[int, int | None]) -> None:
    """Registers functions of numbers."""
    register(functions, emit, n, folds=True)


def _register_numbers() -> None:
    """Functions that are one operation of ir/ or a few, and Python's types."""
    names = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh erf erfc gamma lgamma"
    for name in names.split():
        _register_folded(_named(name), partial(_real, name), 1)
    _register_folded([math.log], _log, (1, 2))
    for name in "asin acos atan asinh acosh atanh".split():
        _register_folded(_named(name, f"arc{name[1:]}"), partial(_real, name), 1)
    _register_folded(_named("atan2", "arctan2"), partial(_real, "atan2"), 2)
    _register_folded([np.hypot], partial(_real, "hypot"), 2)
    _register_folded([math.hypot], _hypot, (1, None))
    _register_folded([math.fmod], partial(_real, "rem"), 2)
    _register_folded([np.fmod], _fmod, 2)
    for name in "floor ceil trunc".split():
        _register_folded([getattr(np, name)], partial(_rounded, name, False), 1)
        _register_folded([getattr(math, name)], partial(_rounded, name, True), 1)
    _register_folded([np.fix], partial(_rounded, "trunc", False), 1)
    _register_folded([np.rint], partial(_real, "round"), 1)
    _register_folded([round], _round, (1, 2))
    register([np.round, np.around], _decimals, (1, 2), folds=True, keywords=standard.around)
    for name in ("isnan", "isinf"):
        _register_folded(_named(name), partial(_is_nan_or_inf, name), 1)
    for name in ("min", "max"):
        _register_folded([getattr(builtins, name)], partial(_min_or_max, name), (1, None))
        _register_folded([getattr(np, f"{name}imum")], partial(_propagating_nan, f"{name}imum"), 2)
    _register_folded([np.clip], _clip, 3)
    _register_folded(_named("abs", "absolute"), partial(_abs_or_sign, "abs"), 1)
    _register_folded(_named("fabs"), lambda c, x: _abs_or_sign("abs", c, _float(c, x)), 1)
    _register_folded([np.sign], _sign, 1)
    _register_folded([int], _int, 1)
    _register_folded([float], _float, 1)
    _register_folded([bool], Compiler.boolean, 1)
    for scalar in SCALARS.values():
        _register_folded([scalar.numpy.type], partial(Compiler.converted, target=scalar), 1)


def _register_operators() -> None:
    """Functions of numpy and math that are operators."""
    names = "add subtract multiply divide floor_divide mod power left_shift right_shift "
    names += "bitwise_and bitwise_or bitwise_xor"
    for name, sign in zip(names.split(), "+ - * / // % ** << >> & | ^".split(), strict=True):
        _register_folded([getattr(np, name)], lambda c, x, y, sign=sign: c.binary(sign, x, y), 2)
    names = "equal not_equal less less_equal greater greater_equal"
    for name, sign in zip(names.split(), "== != < <= > >=".split(), strict=True):
        _register_folded([getattr(np, name)], lambda c, x, y, sign=sign: c.compare(sign, x, y), 2)
    for name, sign in (("logical_and", "&"), ("logical_or", "|"), ("logical_xor", "^")):
        _register_folded([getattr(np, name)], lambda c, x, y, sign=sign: c.binary(sign, c.boolean(x), c.boolean(y)), 2)
    for name, sign in (("positive", "+"), ("negative", "-"), ("invert", "~"), ("logical_not", "not")):
        _register_folded([getattr(np, name)], lambda c, x, sign=sign: c.unary(sign, x), 1)
    _register_folded([divmod, np.divmod], lambda c, x, y: (c.binary("//", x, y), c.binary("%", x, y)), 2)
    _register_folded([pow], lambda c, x, y: c.binary("**", x, y), 2)
    _register_folded([math.pow], lambda c, x, y: c.binary("**", _float(c, x), y), 2)
    _register_folded([np.reciprocal], _reciprocal, 1)


def _register_standard() -> None:
    """Functions of standard.py, found by their names; some have other names in numpy, too."""
    also = {"degrees": ["rad2deg"], "radians": ["deg2rad"]}
    for emit, n_formats, names in (
        (_inlined, 0, "isfinite square"),
        (_of_bits, 1, "copysign signbit frexp modf nextafter ulp spacing"),
        (_of_floats, 0, "degrees radians heaviside sinc fmin fmax logaddexp logaddexp2"),
    ):
        for name in names.split():
            definition = getattr(standard, name)
            functions = _named(name, *also.get(name, ()))
            _register_folded(functions, partial(emit, definition), definition.__code__.co_argcount - n_formats)
    _register_folded([math.remainder], partial(_of_bits, standard.remainder), 2)
    _register_folded(_named("ldexp"), _ldexp, 2)
    for name in ("gcd", "lcm"):
        _register_folded([getattr(math, name)], partial(_gcd_or_lcm, getattr(standard, name)), (1, None))
        _register_folded([getattr(np, name)], partial(_gcd_or_lcm, getattr(standard, name)), 2)
    _register_folded([math.isqrt], _isqrt, 1)
    for function, definition in ((math.isclose, standard.isclose), (np.isclose, standard.isclose_to)):
        register([function], partial(_inlined, definition), 2, folds=True, keywords=definition)


_register_numbers()
_register_operators()
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
_NO_COMPLEX = "kernels have no complex numbers: compute with two floats, and pass x.real and x.imag of arrays"
REMEDIES |= dict.fromkeys((complex, np.complex64, np.complex128), _NO_COMPLEX)
REMEDIES |= dict.fromkeys((sorted, list, tuple, set, map, filter, iter, next), ITERABLES)
_MAKERS: tuple[Callable[..., Any], ...] = np.zeros, np.ones, np.empty, np.full
REMEDIES |= dict.fromkeys(_MAKERS, "write vc.local(shape, dtype) or [0] * n; arrays of the device are arguments")
for _function, _own in ((np.sum, "sum(v)"), (np.prod, "math.prod(v)"), (np.min, "min(v)"), (np.max, "max(v)")):
    REMEDIES[_function] = f"write {_own} of a vector or a tuple; for arrays, vc.reduce outside of the kernel"
