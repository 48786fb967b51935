"""Integers of all invocations of a workgroup at once: polynomials in ids of the workgroup, sizes and numbers of loops.

`16 * group_id(1) + local_id(1)` times a length n is `16 * group_id.1 * n + local_id(1) * n`. Its coefficients, 16 and
local_id(1), are arrays over the invocations. A loop with a known number of iterations adds an axis to such arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from vkcompute.ir.builtins import BUILTINS
from vkcompute.ir.function import Constant, Function, Op, Param, Push, Result, Value, back_edges, exits, walk
from vkcompute.ir.intervals import Intervals
from vkcompute.ir.iterations import intervals_of_builtins
from vkcompute.ir.types import BOOL, Scalar

Array = np.ndarray[Any, Any]
Atom = str
"""An unknown number that all invocations of a workgroup have in common.

It is "group_id.0", "global.0" (the same, read through a global id), "loop 3" (iterations before this one), "push n" or
"uniform 5".
"""
Monomial = tuple[Atom, ...]
Polynomial = Mapping[Monomial, Array]
"""Monomial, with sorted atoms -> its coefficients, never all 0; () -> the known part, which is always there."""

_MAX_ELEMENTS = 1 << 17  # of an array of coefficients
_MAX_TRIPS = 1 << 12
_MAX_TERMS = 16
_MAX_FACTOR = 1 << 31  # products of two fit int64


class InvocationValues:
    """The integers and bools of a kernel, computed on demand."""

    def __init__(self, function: Function) -> None:
        self._local_size = function.local_size
        self._intervals = Intervals(function.body, intervals_of_builtins(function))
        self._known: dict[Value, Polynomial | None] = {}
        self._n_axes, self._names = 1, itertools.count()
        written = {op.memory for op in walk(function.body) if op.operation.writes}
        self._read_only = {memory for memory in function.buffers if memory not in written}
        self._counters: dict[Op, Polynomial] = {}
        self._owners: dict[Value, tuple[Op, int]] = {
            value: (op, at)
            for op in walk(function.body)
            for values in (op.params, op.results)
            for at, value in enumerate(values)
        }
        z, y, x = np.indices(function.local_size[::-1])
        self._local_ids = [axis.reshape(-1) for axis in (x, y, z)]

    def of(self, value: Value) -> Polynomial | None:
        """Returns the polynomial of an integer or a bool; None if it is unknown, or differs in an unknown way."""
        if value not in self._known:
            self._known[value] = None  # while it is computed: it depends on itself
            if isinstance(value.type, Scalar) and (value.type.kind == "b" or _is_integer(value.type)):
                self._known[value] = self._checked(self._computed(value), value.type)
        return self._known[value]

    def known(self, value: Value) -> Array | None:
        """Returns the numbers of the invocations; None if they depend on more than local ids and constants."""
        polynomial = self.of(value)
        return polynomial[()] if polynomial is not None and len(polynomial) == 1 else None

    def differs(self, value: Value, seen: set[Value] | None = None) -> bool:
        """Returns whether a value may depend on the ids of invocations."""
        seen = set() if seen is None else seen
        if value in seen:
            return False
        seen.add(value)
        if isinstance(value, Op):
            return (value.code == "builtin" and not BUILTINS[value.attribute[0]].uniform) or any(
                self.differs(arg, seen) for arg in value.args
            )
        if isinstance(value, Param) and value in self._owners:
            loop, at = self._owners[value]
            return any(
                self.differs(each, seen) for each in (loop.args[at], *[end.args[at] for end in back_edges(loop)])
            )
        return isinstance(value, Result)

    def starts(self, loop: Op) -> Array:
        """Returns which iterations are the first one of a loop, as bools; of unknown ones, a single True."""
        return np.asarray(self._iterations(loop)[()] == 0)

    def _checked(self, polynomial: Polynomial | None, kind: Scalar) -> Polynomial | None:
        """Returns None for one with too many terms or too large a factor, or for numbers that wrap."""
        if polynomial is None or len(polynomial) > _MAX_TERMS:
            return None
        if any(int(np.abs(factors).max(initial=0)) >= _MAX_FACTOR for factors in polynomial.values()):
            return None
        is_unsigned = len(polynomial) == 1 and kind.kind == "u"
        return None if is_unsigned and int(polynomial[()].min(initial=0)) < 0 else polynomial

    def _computed(self, value: Value) -> Polynomial | None:
        if isinstance(value, Constant):
            return {(): np.array([int(value.value)])} if abs(int(value.value)) < _MAX_FACTOR else None
        if isinstance(value, Push):
            return _unknown(f"push {value.name}")
        if isinstance(value, Param) and value in self._owners:
            return self._carried(value)
        if isinstance(value, Result) and value in self._owners:
            return self._joined(*self._owners[value])
        return self._operation(value) if isinstance(value, Op) else None

    def _operation(self, op: Op) -> Polynomial | None:
        if op.code == "builtin":
            return self._builtin(*op.attribute)
        args = [self.of(arg) for arg in op.args]
        operands = [arg for arg in args if arg is not None]
        if not args or len(operands) < len(args):
            return None
        if op.code in ("cast", "bitcast"):
            return operands[0]
        if op.code in _EXACT:
            result = _EXACT[op.code](*operands)
        else:
            result = self._known_operation(op, [arg[()] for arg in operands]) if max(map(len, operands)) == 1 else None
        is_same = op.code in _NUMERIC or (op.code == "load" and op.memory in self._read_only)
        if result is None and is_same and all(map(_is_uniform, operands)):
            return _unknown(f"uniform {next(self._names)}")
        return result

    def _known_operation(self, op: Op, args: list[Array]) -> Polynomial | None:
        """Computes an operation on numbers that are known for each invocation."""
        rule = _RULES.get(op.code)
        if rule is None or (op.code == "not" and op.type is not BOOL) or not broadcasts(*args):
            return None
        if op.code in ("div", "mod", "rem") and not args[1].all():
            return None
        return {(): np.asarray(rule(*args))}

    def _builtin(self, name: str, axis: int) -> Polynomial | None:
        if name == "local_id":
            return {(): self._local_ids[axis]}
        if name == "local_index":
            return {(): np.arange(math.prod(self._local_size))}
        if name == "global_id":
            return {(): self._local_ids[axis], (f"global.{axis}",): np.array([self._local_size[axis]])}
        return _unknown(f"{name}.{axis}") if BUILTINS[name].uniform else None

    def _joined(self, op: Op, at: int) -> Polynomial | None:
        """The result of a branch between known numbers."""
        ends = [end.args[at] for end in exits(op)] if op.code == "if" else []
        numbers = [self.known(value) for value in (op.args[0], *ends)] if len(ends) == 2 else []
        if not numbers or any(each is None for each in numbers):
            return None
        return {(): np.where(*[np.asarray(each) for each in numbers])}

    def _carried(self, param: Param) -> Polynomial | None:
        """The value of a counter: where it starts, and its step times the iterations before this one."""
        loop, at = self._owners[param]
        steps = [_step(end.args[at], param) for end in back_edges(loop)]
        start = self.of(loop.args[at])
        if start is None or not steps or any(step is None or step[0] is not steps[0][0] for step in steps if steps[0]):
            return None
        by, sign = steps[0] or (None, 0)
        step = None if by is None else self.of(by)
        if step is None or not _is_uniform(step):
            return None
        return _sum(start, _product(self._iterations(loop), step), sign)

    def _iterations(self, loop: Op) -> Polynomial:
        """The number of iterations before one of a loop: on an axis of its own if the most are known."""
        if loop not in self._counters:
            trips = self._intervals.trips(loop)
            if trips is None or trips > _MAX_TRIPS:
                self._counters[loop] = _unknown(f"loop {len(self._counters)}")
            else:
                self._counters[loop] = {(): np.arange(trips + 1).reshape(-1, *[1] * self._n_axes)}
                self._n_axes += 1
        return self._counters[loop]


def group_axis(atom: Atom) -> int | None:
    """Returns the axis of an atom that is the id of a workgroup."""
    name, _, axis = atom.partition(".")
    return int(axis) if name in ("group_id", "global") else None


def grows(atom: Atom) -> bool:
    """True for an id of workgroups, and for the number of iterations before one."""
    return group_axis(atom) is not None or atom.startswith("loop ")


def broadcasts(*arrays: Array) -> bool:
    """True unless an array of the shape of all is too large to be computed here."""
    return math.prod(np.broadcast_shapes(*[array.shape for array in arrays])) <= _MAX_ELEMENTS


def difference(one: Polynomial, other: Polynomial) -> Polynomial | None:
    """Returns one - other; None if it is too large."""
    return _sum(one, other, -1)


def _unknown(atom: Atom) -> Polynomial:
    return {(): np.array([0]), (atom,): np.array([1])}


def _is_integer(kind: Scalar) -> bool:
    return kind.kind in "iu" and kind.bits >= 32


def _is_uniform(polynomial: Polynomial) -> bool:
    """True for the same number in all workgroups and iterations."""
    return polynomial[()].size == 1 and not any(grows(atom) for monomial in polynomial for atom in monomial)


def _step(value: Value, param: Param) -> tuple[Value, int] | None:
    """Returns what a counter is changed by, and 1 or -1 for more or less."""
    if not isinstance(value, Op) or value.code not in ("add", "sub"):
        return None
    one, other = value.args
    if one is param:
        return other, 1 if value.code == "add" else -1
    return (one, 1) if other is param and value.code == "add" else None


def _combined(terms: Iterable[tuple[Monomial, Array]]) -> Polynomial | None:
    """Returns the sum of terms; None if it is too large."""
    total: dict[Monomial, Array] = {(): np.array([0])}
    for monomial, factors in terms:
        before = total.get(monomial, np.array([0]))
        if not broadcasts(before, factors):
            return None
        total[monomial] = before + factors
    return {monomial: factors for monomial, factors in total.items() if not monomial or factors.any()}


def _sum(one: Polynomial, other: Polynomial | None, sign: int = 1) -> Polynomial | None:
    if other is None:
        return None
    return _combined([*one.items(), *[(monomial, sign * factors) for monomial, factors in other.items()]])


def _product(one: Polynomial, other: Polynomial) -> Polynomial | None:
    pairs = [(*a, *b) for a in one.items() for b in other.items()]
    if not all(broadcasts(a, b) for _, a, _, b in pairs):
        return None
    return _combined((tuple(sorted((*m, *n))), a * b) for m, a, n, b in pairs)


def _shifted(value: Polynomial, by: Polynomial) -> Polynomial | None:
    if len(by) > 1 or by[()].size != 1 or not 0 <= int(by[()].item()) < 32:
        return None
    return _product(value, {(): 1 << by[()]})


_EXACT: dict[str, Callable[..., Polynomial | None]] = {
    "add": _sum,
    "sub": difference,
    "mul": _product,
    "shl": _shifted,
    "neg": lambda x: _product(x, {(): np.array([-1])}),
}
"""Operation -> its result, from polynomials."""

_RULES: dict[str, Callable[..., Any]] = {
    "div": lambda x, y: abs(x) // abs(y) * np.sign(x) * np.sign(y),
    "mod": np.mod,
    "rem": np.fmod,
    "shr": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "not": lambda x: 1 - x,
    "select": lambda condition, one, other: np.where(condition, one, other),
    "lt": lambda x, y: (x < y) + 0,
    "le": lambda x, y: (x <= y) + 0,
    "gt": lambda x, y: (x > y) + 0,
    "ge": lambda x, y: (x >= y) + 0,
    "eq": lambda x, y: (x == y) + 0,
    "ne": lambda x, y: (x != y) + 0,
}
"""Operation -> its results, from arrays of int64."""
_NUMERIC = frozenset({*_RULES, *_EXACT})
