"""Integers of 64 bits of which only the low words are used: they are computed in 32 bits.

uint32 beside int32 is int64, as in NumPy, and the result is often stored as uint32 again. Many GPUs compute 64 bits in
several instructions, and some devices have no such integers.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Constant, Function, Op, Value, walk
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import BOOL, INT32, UINT32, Scalar

_MODULAR = "add", "sub", "mul", "and", "or", "xor", "not", "neg"
"""Operations whose low words depend on the low words of the operands only."""
_COMPARISONS = "eq", "ne", "lt", "le", "gt", "ge"
_QUOTIENTS = "div", "rem", "mod"
_ENDS = frozenset(("cast", *_COMPARISONS))
_BOTH = frozenset("su")
_NONE = frozenset[str]()


def narrow_integers(function: Function) -> Function:
    """Computes in 32 bits what becomes an integer of at most 32 bits, or is compared, if no result differs; in place.

    An operation with several uses stays, as its result may be needed in 64 bits.
    """
    ops = walk(function.body)
    if not any(_is_wide(op) for op in ops if op.has_result):
        return function
    narrowing = _Narrowing(Counter(chain.from_iterable([op.args for op in ops])))
    possible = frozenset([op for op in ops if op.code in _ENDS and narrowing.is_possible(op)])
    return expand(function, possible.__contains__, narrowing.narrowed)


def _is_wide(value: Value) -> bool:
    return isinstance(value.type, Scalar) and value.type.kind in "iu" and value.type.bits == 64


def _is_narrow(kind: object) -> bool:
    return isinstance(kind, Scalar) and (kind is BOOL or (kind.kind in "iu" and kind.bits <= 32))


class _Narrowing:
    def __init__(self, uses: Counter[Value]) -> None:
        self._uses = uses

    def is_possible(self, op: Op) -> bool:
        """True for a conversion to at most 32 bits, or a comparison, that needs no more bits of its operands."""
        if op.code == "cast":
            to_integer = _is_narrow(op.type) and op.type is not BOOL
            return to_integer and _is_wide(op.args[0]) and not isinstance(op.args[0], Constant) and self._fits(*op.args)
        if op.code in _COMPARISONS and _is_wide(op.args[0]):
            return all(map(self._fits, op.args)) and bool(_extensions(op.args[0]) & _extensions(op.args[1]))
        return False

    def narrowed(self, b: Builder, op: Op) -> Value:
        """Builds the operation in 32 bits."""
        if op.code == "cast":
            return b.cast(_low(b, op.args[0]), op.type)
        # Sign extension keeps the order of words as unsigned numbers, too.
        kinds, kind = _extensions(op.args[0]) & _extensions(op.args[1]), op.args[0].type
        is_signed = "u" not in kinds and isinstance(kind, Scalar) and kind.kind == "i"
        words = [_word(b, arg, INT32 if is_signed else UINT32) for arg in op.args]
        return b.compute(op.code, *words)

    def _fits(self, value: Value) -> bool:
        """True if the low word of a value can be computed in 32 bits."""
        if isinstance(value, Constant):
            return True
        if not isinstance(value, Op):
            return False
        if value.code in ("cast", "bitcast"):
            (source,) = value.args
            return (_is_narrow(source.type) and value.code == "cast") or (_is_wide(source) and self._fits(source))
        if self._uses[value] > 1:
            return False
        if value.code in _MODULAR:
            return all(map(self._fits, value.args))
        if value.code == "select":
            return all(map(self._fits, value.args[1:]))
        if value.code in ("shl", "shr"):
            return all(map(self._fits, value.args)) and (value.code == "shl" or bool(_extensions(value)))
        return value.code in _QUOTIENTS and bool(_extensions(value)) and all(map(self._fits, value.args))


def _extensions(value: Value) -> frozenset[str]:
    """Returns "s" if a value is the sign extension of its low word, and "u" if it is the zero extension."""
    if isinstance(value, Constant):
        number = int(value.value)
        return frozenset(("s" if -(2**31) <= number < 2**31 else "") + ("u" if 0 <= number < 2**32 else ""))
    if not isinstance(value, Op):
        return _NONE
    if value.code in ("cast", "bitcast"):
        source = value.args[0].type
        if not isinstance(source, Scalar) or not (_is_narrow(source) or _is_wide(value.args[0])):
            return _NONE
        if _is_wide(value.args[0]):
            return _extensions(value.args[0])
        return frozenset("s") if source.kind == "i" else _BOTH if source.bits < 32 else frozenset("u")
    if value.code in ("select", "or", "xor"):
        return _extensions(value.args[-2]) & _extensions(value.args[-1])
    if value.code == "and":
        one, other = map(_extensions, value.args)
        return (one & other) | ((one | other) & frozenset("u")) | (_BOTH if _BOTH in (one, other) else _NONE)
    if value.code == "shr":
        kinds, is_signed = _extensions(value.args[0]), getattr(value.type, "kind", "") == "i"
        return kinds & frozenset("u") or (kinds if is_signed else _NONE)
    if value.code in _QUOTIENTS:
        return _extensions(value.args[0]) & _extensions(value.args[1]) & frozenset("u")
    return _NONE


def _word(b: Builder, value: Value, kind: Scalar) -> Value:
    """Builds the low word of a value, as an integer of this type."""
    if isinstance(value, Op) and value.code == "cast" and value.args[0].type is kind:
        return value.args[0]
    return b.cast(_low(b, value), kind)


def _low(b: Builder, value: Value) -> Value:
    """Builds the low word of a value, as uint32."""
    if isinstance(value, Constant):
        return b.const(int(value.value) & 0xFFFFFFFF, UINT32)
    assert isinstance(value, Op)
    if value.code in ("cast", "bitcast"):
        (source,) = value.args
        return _low(b, source) if _is_wide(source) else b.cast(source, UINT32)
    if value.code == "select":
        return b.select(value.args[0], _low(b, value.args[1]), _low(b, value.args[2]))
    args = [_low(b, arg) for arg in value.args]
    if value.code in ("shl", "shr"):
        return _shifted(b, value, *args)
    if value.code == "neg":  # of uint32, there is none
        return b.compute("sub", b.const(0, UINT32), *args)
    return b.compute(value.code, *args)


def _shifted(b: Builder, op: Op, given: Value, amount: Value) -> Value:
    """Builds the low word of a shift by 0 to 63."""
    last = b.const(31, UINT32)
    if op.code == "shr" and "u" not in _extensions(op.args[0]):
        return b.cast(b.compute("shr", b.cast(given, INT32), b.cast(b.compute("min", amount, last), INT32)), UINT32)
    shifted = b.compute(op.code, given, b.compute("and", amount, last))
    return b.select(b.compute("le", amount, last), shifted, b.const(0, UINT32))
