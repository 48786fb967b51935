"""Polynomials of offsets, which show where several of them are adjacent and aligned."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Any

from vkcompute.ir import INT32, UINT32, Constant, Scalar, Value
from vkcompute.ir.function import Function, Op, back_edges, walk
from vkcompute.ir.types import element_of

Polynomial = dict[tuple[Value, ...], int]
"""Monomial -> coefficient modulo 2**32. A monomial is a product of values, in order of their identity."""

_MOST_TERMS = 12
_MOST_FACTORS = 3


class Offsets:
    """The polynomials of 32-bit integers.

    Args:
        divisors: known divisors of values, powers of two.
        naturals: values that are known not to be negative.
    """

    def __init__(self, divisors: MutableMapping[Value, int], naturals: Collection[Value]) -> None:
        self._divisors, self._naturals = Divisors(divisors), _Naturals(naturals)
        self._divided: dict[tuple[Any, ...], Value] = {}
        self._parts: dict[Value, Value] = {}
        self._known: dict[Value, Polynomial] = {}

    def adjacent(self, values: Sequence[Value]) -> bool:
        """True if offsets count upwards by one, from a multiple of their number."""
        return self._is_multiple(self.polynomial(values[0]), len(values)) and self.consecutive(values)

    def consecutive(self, values: Sequence[Value]) -> bool:
        """True if offsets count upwards by one."""
        first = self.polynomial(values[0])
        return all(self._difference(self.polynomial(value), first) == {(): at} for at, value in enumerate(values) if at)

    def between_multiples(self, values: Sequence[Value], bound: Value) -> bool:
        """True if values count upwards by one from a multiple of their number, and a bound is a multiple, too."""
        return self._is_multiple(self.polynomial(bound), len(values)) and self.adjacent(values)

    def is_run(self, values: Sequence[Value]) -> bool:
        """True if integers of 32 or 64 bits are known to count upwards by one from a multiple of their number.

        An extension of such int32 counts upwards, too: the multiples have no overflow between them.
        """
        if element_of(values[0].type).bits == 32:
            return self.adjacent(values)
        ops = [value for value in values if isinstance(value, Op)]
        if len(ops) < len(values) or len({op.code for op in ops}) > 1:
            return False
        columns = list(zip(*[op.args for op in ops], strict=True))
        if ops[0].code in ("cast", "bitcast"):
            return element_of(columns[0][0].type).kind in "iu" and self.is_run(columns[0])
        if ops[0].code != "add":
            return False
        n = len(values)
        return any(
            all(value is base[0] for value in base) and self._divisors.of(base[0]) % n == 0 and self.is_run(run)
            for base, run in (columns, columns[::-1])
        )

    def _is_multiple(self, polynomial: Polynomial, n: int) -> bool:
        return not any(self._divisor_of(monomial, factor) % n for monomial, factor in polynomial.items())

    def steps(self, values: Sequence[Value]) -> dict[int, int]:
        """Returns for constant differences of the offsets along a bit of their number the bit, as a mask."""
        bits: dict[int, int] = {}
        for at in reversed(range(len(values).bit_length() - 1)):
            difference = self._difference(*map(self.polynomial, (values[1 << at], values[0])))
            if difference.keys() == {()}:
                bits[difference[()]] = 1 << at
        return bits

    def _difference(self, one: Polynomial, other: Polynomial) -> Polynomial:
        return _sum(one, {monomial: -factor for monomial, factor in other.items()})

    def polynomial(self, value: Value) -> Polynomial:
        """Returns a value as a sum of products of other values."""
        if value not in self._known:
            polynomial = self._polynomial(value)
            self._known[value] = {(value,): 1} if polynomial is None or len(polynomial) > _MOST_TERMS else polynomial
        return self._known[value]

    def _polynomial(self, value: Value) -> Polynomial | None:
        if value.type not in (INT32, UINT32):
            return None
        if isinstance(value, Constant):
            number = int(value.value) & 0xFFFFFFFF
            return {(): number} if number else {}
        if not isinstance(value, Op):
            return None
        args = value.args
        if value.code == "add":
            return _sum(*map(self.polynomial, args))
        if value.code == "sub":
            return self._difference(*map(self.polynomial, args))
        if value.code == "mul":
            return _product(*map(self.polynomial, args))
        if value.code == "shl" and isinstance(args[1], Constant):
            return _product(self.polynomial(args[0]), {(): 1 << (int(args[1].value) & 31)})
        if value.code in ("div", "rem"):
            return self._divided_by(value)
        if value.code in ("bitcast", "cast") and args[0].type in (INT32, UINT32):
            return self.polynomial(args[0])
        return None

    def _divided_by(self, op: Op) -> Polynomial | None:
        """Returns (x + c) // n as x // n, and (x + c) % n as x % n + c.

        For x >= 0 and n that are multiples of a power of two that exceeds c; None for other operands.
        """
        dividend, n = op.args
        if dividend not in self._naturals:
            return None
        terms = self.polynomial(dividend)
        constant, rest = terms.get((), 0), {term: factor for term, factor in terms.items() if term}
        step = math.gcd(self._divisors.of(n), *[self._divisor_of(*entry) for entry in rest.items()])
        divisor = int(n.value) if isinstance(n, Constant) else n
        key = op.code, divisor, tuple(sorted((tuple(map(id, term)), at) for term, at in rest.items())), constant // step
        first = self._divided.setdefault(key, op)
        return {(first,): 1} if op.code == "div" else _sum(self._whole(first, step), {(): constant % step})

    def _whole(self, op: Value, step: int) -> Polynomial:
        """Returns the part of a remainder that is a multiple of a step, as a value of its own."""
        if op not in self._parts:
            part = self._parts[op] = Value(op.type)
            self._divisors.known[part] = step
        return {(self._parts[op],): 1}

    def _divisor_of(self, monomial: tuple[Value, ...], factor: int) -> int:
        return math.prod(map(self._divisors.of, monomial)) * (factor & -factor or 1 << 32)


def _sum(one: Polynomial, other: Polynomial) -> Polynomial:
    total = dict(one)
    for monomial, factor in other.items():
        total[monomial] = (total.get(monomial, 0) + factor) & 0xFFFFFFFF
    return {monomial: factor for monomial, factor in total.items() if factor}


def _product(one: Polynomial, other: Polynomial) -> Polynomial | None:
    product: Polynomial = {}
    for a, x in one.items():
        for b, y in other.items():
            monomial = tuple(sorted((*a, *b), key=id))
            if len(monomial) > _MOST_FACTORS:
                return None
            product = _sum(product, {monomial: x * y})
    return product


class Divisors:
    """Powers of two that divide integers.

    Attributes:
        known: those that are given; more may be added for values that were not asked for yet.
    """

    def __init__(self, known: MutableMapping[Value, int]) -> None:
        self.known = known
        self._found: dict[Value, int] = {}  # expressions share parts

    def of(self, value: Value) -> int:
        """Returns a power of two that divides an integer; 1 << 32 for 0."""
        if value in self.known:
            return self.known[value]
        if isinstance(value, Constant):
            number = int(value.value)
            return number & -number or 1 << 32
        if not isinstance(value, Op):
            return 1
        if value not in self._found:
            self._found[value] = self._of_operation(value)
        return self._found[value]

    def _of_operation(self, op: Op) -> int:
        if op.code in ("add", "sub", "min", "max"):
            return math.gcd(*map(self.of, op.args))
        if op.code == "mul":
            return min(math.prod(map(self.of, op.args)), 1 << 32)
        if op.code == "shl" and isinstance(op.args[1], Constant):
            return min(self.of(op.args[0]) << (int(op.args[1].value) & 31), 1 << 32)
        if op.code == "and":
            return max(map(self.of, op.args))
        if op.code == "select":
            return math.gcd(*map(self.of, op.args[1:]))
        kind = op.args[0].type if op.code in ("bitcast", "cast") else None
        if isinstance(kind, Scalar) and kind.kind in "iu" and kind.bits >= 32:
            return self.of(op.args[0])
        return 1


class _Naturals:
    """Set of the integers that are not negative, found from their operations, unless they have overflowed.

    Args:
        known: some of them.
    """

    def __init__(self, known: Collection[Value]) -> None:
        self._known = known
        self._found: dict[Value, bool] = {}

    def __contains__(self, value: Value) -> bool:
        if value in self._known or value.type.kind == "u":  # type: ignore[union-attr]
            return True
        if isinstance(value, Constant):
            return int(value.value) >= 0
        if not isinstance(value, Op):
            return False
        if value not in self._found:
            self._found[value] = self._of_operation(value)
        return self._found[value]

    def _of_operation(self, op: Op) -> bool:
        if op.code in ("add", "mul", "div", "min"):
            return all(arg in self for arg in op.args)
        if op.code in ("rem", "shl", "shr"):
            return op.args[0] in self
        if op.code in ("and", "max"):
            return any(arg in self for arg in op.args)
        if op.code == "select":
            return all(arg in self for arg in op.args[1:])
        return op.code in ("cast", "bitcast") and isinstance(op.args[0], Op) and op.args[0].code == "builtin"


def divisors_with_params(function: Function, divisors: Mapping[Value, int]) -> dict[Value, int]:
    """Returns the divisors of push constants, and of the loop-carried numbers."""
    known: dict[Value, int] = {**divisors}
    loops = [op for op in walk(function.body) if op.code == "loop"]
    known |= {param: 1 << 32 for op in loops for param in op.params if element_of(param.type).kind in "iu"}
    changed = True
    while changed:
        changed = False
        for op in loops:
            for at, param in enumerate(op.params):
                if param not in known:
                    continue
                sources = [op.args[at], *[end.args[at] for end in back_edges(op)]]
                least = min(map(Divisors(known).of, sources))
                changed, known[param] = changed or least < known[param], min(least, known[param])
    return known
