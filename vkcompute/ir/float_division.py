"""Division and square roots of float16 and float32, rounded to the nearest on every device.

Vulkan allows a quotient to be off by 2.5 ulp, a square root by more, and promises nothing for divisors beyond 2**126.

Fused multiply-adds correct an estimate by its residual, and round once (P. Markstein: IA-64 and Elementary Functions,
2000; J.-M. Muller et al.: Handbook of Floating-Point Arithmetic, 2nd edition, section 4.7). That holds where operands,
quotients and residuals are normal numbers, and where `fma` rounds once, which Vulkan does not demand. Elsewhere, the
quotient is computed by integers.

Estimates may be off by 3 ulp for 1 / y and 1 / sqrt(x), by 8 ulp for sqrt(x). The cases in which that many would matter
were enumerated: quotients within 9 / (2 Y) ulp of a tie for all significands Y, and all roots (tests/ir).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import NO_CONTRACTION, Constant, Function, Op, Routine, Value, walk
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import FLOAT16, FLOAT32, INT32, Type, Vector, element_of

_FRACTION_BITS = 23
_FRACTION = (1 << _FRACTION_BITS) - 1
_BIAS = 127
_INFINITY = 0xFF << _FRACTION_BITS
_NAN = _INFINITY | 1 << _FRACTION_BITS - 1
_SIZE, _SIGN = (1 << 31) - 1, -1 << 31
_DIVIDEND, _DIVISOR = 76, 48
"""Exponents up to which fma computes quotients. These are within 2**-125 and 2**125, residuals above 2**-124."""
_LARGEST = _FRACTION - 255
"""Bits from which fma does not divide: one Newton step may leave reciprocals of the 8 largest significands wrong."""
_HALF_OF_BITS = -1 << 12
"""Bits of the upper half of a significand: its product with that of a float16 is exact."""


def expand_divisions(function: Function) -> Function:
    """Replaces the divisions and square roots of float16 and float32 that are not to be contracted, in place."""
    function.routines = {key: _expanded(routine) for key, routine in function.routines.items()}
    return expand(function, _is_replaced, _replacement)


def _expanded(routine: Routine) -> Routine:
    """Returns a routine with its divisions replaced; functions share routines, so that it stays unchanged."""
    if not any(map(_is_replaced, walk(routine.body))):
        return routine
    function, env = Function("routine"), dict[Value, Value]()
    builder = Builder(function)
    for op in routine.body.ops:
        builder.copy(op, env)
    return Routine(routine.params, expand(function, _is_replaced, _replacement).body)


def _is_replaced(op: Op) -> bool:
    """True for arithmetic that is not left to the device."""
    return op.attribute == NO_CONTRACTION and (op.code, element_of(op.type)) in _REPLACEMENTS


def _replacement(b: Builder, op: Op) -> Value:
    build, evaluate = _REPLACEMENTS[op.code, element_of(op.type)], op.operation.evaluate
    if isinstance(op.type, Vector):
        return b.vector(*[build(b, *[b.extract(arg, at) for arg in op.args]) for at in range(op.type.n)])
    numbers = [arg.value for arg in op.args if isinstance(arg, Constant)]
    if len(numbers) < len(op.args) or evaluate is None:
        return build(b, *op.args)
    with np.errstate(all="ignore"):
        return b.const(evaluate(numbers, None), element_of(op.type))


# -- float16 ----------------------------------------------------------------------------------------------------------


def _half_quotient(b: Builder, x: Value, y: Value) -> Value:
    """x / y, from a float32 that is within 0.51 ulp, and exact where the quotient is one.

    No other quotient is within 1 ulp of float32 of a number halfway between two float16.
    """
    x, y = b.cast(x, FLOAT32), b.cast(y, FLOAT32)
    near = _upper_half(b, b.compute("div", x, y))
    rest = b.rounded("sub", x, b.rounded("mul", near, y))  # exact
    return b.cast(_corrected(b, near, rest, y), FLOAT16)


def _half_root(b: Builder, x: Value) -> Value:
    """The square root of x, from a float32: sqrt(x) = h + (x - h²) / (h + sqrt(x))."""
    x = b.cast(x, FLOAT32)
    root = b.compute("sqrt", x)
    near = _upper_half(b, root)
    rest = b.rounded("sub", x, b.rounded("mul", near, near))  # exact
    return b.cast(_corrected(b, near, rest, b.rounded("add", near, root)), FLOAT16)


def _upper_half(b: Builder, x: Value) -> Value:
    return b.bitcast(b.compute("and", b.bitcast(x, INT32), _int(b, _HALF_OF_BITS)), FLOAT32)


def _corrected(b: Builder, near: Value, rest: Value, divisor: Value) -> Value:
    """near + rest / divisor; `near` for zeros, infinities and NaN, whose rest is 0 or NaN."""
    corrected = b.rounded("add", near, b.compute("div", rest, divisor))
    return b.select(b.compute("gt", b.compute("abs", rest), _float(b, 0)), corrected, near)


# -- float32 by fma ---------------------------------------------------------------------------------------------------


def _quotient(b: Builder, x: Value, y: Value) -> Value:
    """x / y: the product with a reciprocal, and one correction by the residual."""
    if isinstance(y, Constant) and _is_power_of_two(y):
        return b.rounded("mul", x, b.const(np.reciprocal(y.value), FLOAT32))
    bits, minus, one = b.bitcast(y, INT32), b.rounded("neg", y), _float(b, 1)
    word = b.compute("xor", b.bitcast(x, INT32), bits)
    size = b.compute("and", b.bitcast(x, INT32), _int(b, _SIZE))
    is_zero = b.compute("eq", size, _int(b, 0))  # a comparison of floats may take subnormal numbers for 0
    in_range = b.compute("or", _is_within(b, x, _DIVIDEND), is_zero)
    conditions = [in_range, _is_within(b, y, _DIVISOR), _rounds_once(b, word)]
    if isinstance(y, Constant):
        with np.errstate(all="ignore"):
            reciprocal: Value = b.const(np.reciprocal(y.value), FLOAT32)
    else:
        estimate = b.compute("div", one, y)
        reciprocal = b.rounded("fma", b.rounded("fma", minus, estimate, one), estimate, estimate)
        conditions.append(b.compute("lt", b.compute("and", bits, _int(b, _FRACTION)), _int(b, _LARGEST)))
    nearly = b.rounded("mul", x, reciprocal)
    quotient = b.rounded("fma", b.rounded("fma", minus, nearly, x), reciprocal, nearly)
    sign = b.compute("and", word, _int(b, _SIGN))
    signed = b.bitcast(b.compute("or", b.bitcast(quotient, INT32), sign), FLOAT32)  # -0 + 0 is 0
    return _chosen(b, signed, conditions, lambda: _integer_quotient(b, x, y))


def _root(b: Builder, x: Value) -> Value:
    """The square root of x: one step for it and half its reciprocal together, and one correction by the residual."""
    half = _float(b, 0.5)
    estimate = b.compute("rsqrt", x)
    root, inverse = b.rounded("mul", x, estimate), b.rounded("mul", half, estimate)
    error = b.rounded("fma", b.rounded("neg", inverse), root, half)
    root, inverse = b.rounded("fma", root, error, root), b.rounded("fma", inverse, error, inverse)
    root_ = b.rounded("fma", b.rounded("fma", b.rounded("neg", root), root, x), inverse, root)
    conditions = b.compute("gt", x, _float(b, 0)), _is_within(b, x, _DIVIDEND), _rounds_once(b, b.bitcast(x, INT32))
    return _chosen(b, root_, conditions, lambda: _integer_root(b, x))


def _is_power_of_two(y: Constant) -> bool:
    """True for a power of two whose reciprocal is a normal number."""
    fraction, exponent = np.frexp(np.abs(y.value))
    return bool(fraction == 0.5) and abs(int(exponent) - 1) < _BIAS


def _is_within(b: Builder, x: Value, exponent: int) -> Value:
    """True for a size of 2**-exponent to 2**exponent."""
    size, least, most = b.compute("abs", x), _float(b, 2.0**-exponent), _float(b, 2.0**exponent)
    return b.compute("and", b.compute("ge", size, least), b.compute("le", size, most))


def _rounds_once(b: Builder, word: Value) -> Value:
    """True if `fma` rounds once: then it finds the error of the square of a number that ends in a 1.

    The number is made of the operands, so that compilers fold it only together with the quotient.
    """
    odd = b.compute("or", b.compute("and", word, _int(b, _FRACTION)), _int(b, _BIAS << _FRACTION_BITS | 1))
    number = b.bitcast(odd, FLOAT32)
    square = b.rounded("mul", number, number)
    return b.compute("ne", b.rounded("fma", number, number, b.rounded("neg", square)), _float(b, 0))


def _chosen(b: Builder, one: Value, conditions: Sequence[Value], other: Callable[[], Value]) -> Value:
    """Returns `one` if all conditions hold, else `other`, which is built in a branch."""
    if any(isinstance(condition, Constant) and not condition.value for condition in conditions):
        return other()
    unknown = [condition for condition in conditions if not isinstance(condition, Constant)]
    branch = b.if_(reduce(partial(b.compute, "and"), unknown))
    with branch.then:
        b.yield_(one)
    with branch.otherwise:
        b.yield_(other())
    return branch.results[0]


# -- float32 by integers ----------------------------------------------------------------------------------------------


def _integer_quotient(b: Builder, x: Value, y: Value) -> Value:
    """x / y: the quotient of the significands in fixed point, whose remainder is known modulo 2**32."""
    bits, other_bits = b.bitcast(x, INT32), b.bitcast(y, INT32)
    size, other_size = (b.compute("and", word, _int(b, _SIZE)) for word in (bits, other_bits))
    dividend, divisor = _normalized(b, size), _normalized(b, other_size)
    scaled = b.compute("div", _significand(b, dividend, 25), _significand(b, divisor, 0))
    whole = b.cast(_significand(b, divisor, _FRACTION_BITS), INT32)
    quotient = _fixed_point(b, b.cast(scaled, INT32), b.compute("shl", dividend, _int(b, 25)), whole)
    shift = _int(b, _FRACTION_BITS)
    exponent = b.compute("sub", b.compute("shr", dividend, shift), b.compute("shr", divisor, shift))
    rounded, is_large = _scaled(b, quotient, exponent)
    infinity, zero = _int(b, _INFINITY), _int(b, 0)
    is_zero = b.compute("or", b.compute("eq", size, zero), b.compute("eq", other_size, infinity))
    is_infinite = b.compute("or", b.compute("eq", size, infinity), b.compute("eq", other_size, zero))
    is_nan = b.compute("gt", b.compute("max", size, other_size), infinity)
    is_nan = b.compute("or", is_nan, b.compute("and", is_zero, is_infinite))
    result = b.select(b.compute("or", is_infinite, is_large), infinity, b.select(is_zero, zero, rounded))
    sign = b.compute("and", b.compute("xor", bits, other_bits), _int(b, _SIGN))
    return b.bitcast(b.compute("or", b.select(is_nan, _int(b, _NAN), result), sign), FLOAT32)


def _integer_root(b: Builder, x: Value) -> Value:
    """The square root of x: that of the significand in fixed point, whose remainder is known modulo 2**32."""
    bits = b.bitcast(x, INT32)
    size = b.compute("and", bits, _int(b, _SIZE))
    normal, one = _normalized(b, size), _int(b, 1)
    exponent = b.compute("sub", b.compute("shr", normal, _int(b, _FRACTION_BITS)), _int(b, _BIAS))
    is_odd = b.compute("and", exponent, one)
    doubled = b.compute("add", b.bitcast(_significand(b, normal, 0), INT32), _exponent_bits(b, is_odd))
    root = b.compute("sqrt", b.bitcast(doubled, FLOAT32))
    whole = b.cast(b.rounded("mul", root, _float(b, 2.0**24)), INT32)
    square = b.compute("shl", b.compute("shl", normal, _int(b, 25)), is_odd)
    fixed = b.cast(_fixed_point(b, whole, square), FLOAT32)  # rounded once more, to the nearest
    half = b.compute("sub", b.compute("shr", exponent, one), _int(b, 25))
    result = b.compute("add", b.bitcast(fixed, INT32), _exponent_bits(b, half))
    zero, infinity = _int(b, 0), _int(b, _INFINITY)
    is_nan = b.compute("or", b.compute("lt", bits, zero), b.compute("gt", bits, infinity))
    is_same = b.compute("or", b.compute("eq", size, zero), b.compute("eq", bits, infinity))
    return b.bitcast(b.select(is_same, bits, b.select(is_nan, _int(b, _NAN), result)), FLOAT32)


def _normalized(b: Builder, size: Value) -> Value:
    """The bits of a number without sign, those of subnormal numbers with an exponent below 1."""
    least = _BIAS + _FRACTION_BITS - 1  # the negated exponent of the least subnormal
    scaled = b.compute("sub", b.bitcast(b.cast(size, FLOAT32), INT32), _int(b, least << _FRACTION_BITS))
    return b.select(b.compute("lt", size, _int(b, 1 << _FRACTION_BITS)), scaled, size)


def _significand(b: Builder, normal: Value, exponent: int) -> Value:
    """The significand of a number from its bits, in [1, 2), times 2**exponent."""
    fraction = b.compute("and", normal, _int(b, _FRACTION))
    return b.bitcast(b.compute("or", fraction, _int(b, _BIAS + exponent << _FRACTION_BITS)), FLOAT32)


def _fixed_point(b: Builder, estimate: Value, number: Value, divisor: Value | None = None) -> Value:
    """Twice the quotient of a number by a divisor, or twice its square root: an even integer, or the odd one nearby.

    The odd one is rounded as the exact result is. Products are computed modulo 2**32, which holds the remainder.

    Args:
        estimate: of the quotient or root, off by at most 16.
        number: modulo 2**32.
    """
    by, slope = (estimate, b.compute("add", estimate, estimate)) if divisor is None else (divisor, divisor)
    rest = b.compute("sub", number, b.compute("mul", estimate, by))
    more = b.cast(b.compute("round", b.compute("div", b.cast(rest, FLOAT32), b.cast(slope, FLOAT32))), INT32)
    slope = b.compute("add", slope, more) if divisor is None else slope
    rest = b.compute("sub", rest, b.compute("mul", more, slope))
    return b.compute("add", b.compute("shl", b.compute("add", estimate, more), _int(b, 1)), b.compute("sign", rest))


def _scaled(b: Builder, whole: Value, exponent: Value) -> tuple[Value, Value]:
    """The bits of the float nearest to whole * 2**(exponent - 26), to even between two; and True if it is infinite.

    Args:
        whole: in (2**25, 2**27).
    """
    zero, one = _int(b, 0), _int(b, 1)
    unused = b.select(b.compute("ge", whole, _int(b, 1 << 26)), _int(b, 3), _int(b, 2))
    biased = b.compute("add", b.compute("add", exponent, unused), _int(b, _BIAS - 3))
    missing = b.compute("max", b.compute("sub", one, biased), zero)  # bits of a subnormal result
    unused = b.compute("min", b.compute("add", unused, missing), _int(b, 30))
    odd = b.compute("and", b.compute("shr", whole, unused), one)
    below_half = b.compute("sub", b.compute("shl", one, b.compute("sub", unused, one)), one)
    nearest = b.compute("shr", b.compute("add", b.compute("add", whole, below_half), odd), unused)
    above = b.compute("max", b.compute("sub", biased, one), zero)
    return b.compute("add", nearest, _exponent_bits(b, above)), b.compute("gt", biased, _int(b, 2 * _BIAS))


def _exponent_bits(b: Builder, exponent: Value) -> Value:
    return b.compute("shl", exponent, _int(b, _FRACTION_BITS))


def _int(b: Builder, value: int) -> Value:
    return b.const(value, INT32)


def _float(b: Builder, value: float) -> Value:
    return b.const(value, FLOAT32)


_REPLACEMENTS: dict[tuple[str, Type], Callable[..., Value]] = {
    ("div", FLOAT16): _half_quotient,
    ("div", FLOAT32): _quotient,
    ("sqrt", FLOAT16): _half_root,
    ("sqrt", FLOAT32): _root,
}
