"""Warps: 32 invocations with consecutive linear indices in their workgroup, whatever the device's subgroups are.

Their operations exchange values through workgroup memory, with barriers of the workgroup. So predication makes all
invocations of the workgroup go through them; the last operand is True for those that take part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import BOOL, UINT32, Scalar
from vkcompute.ir.workgroup_words import WorkgroupWords

WARP_SIZE = 32


def expand_warps(function: Function) -> Function:
    """Replaces the operations of warps, in place."""
    exchange = _Exchange(function)
    expand(function, lambda op: op.code in _EXPANSIONS, partial(_expanded, exchange))
    if exchange.ballots is not None:
        exchange.ballots.clear_first()
    return function


@dataclass(slots=True)
class _Exchange:
    """The workgroup memory of a function's warps."""

    function: Function
    values: dict[Scalar, Memory] = field(default_factory=dict)
    ballots: WorkgroupWords | None = None

    def of(self, kind: Scalar) -> Memory:
        """Returns memory for a value of each invocation."""
        if kind not in self.values:
            x, y, z = self.function.local_size
            self.values[kind] = self.function.shared(f"{kind} values of warps", kind, x * y * z)
        return self.values[kind]

    def words(self) -> WorkgroupWords:
        """Returns a word of each warp."""
        if self.ballots is None:
            x, y, z = self.function.local_size
            self.ballots = WorkgroupWords(self.function, "ballots of warps", -(-x * y * z // WARP_SIZE))
        return self.ballots


def _expanded(exchange: _Exchange, b: Builder, op: Op) -> Value | None:
    return _EXPANSIONS[op.code](exchange, b, *op.args)


def _lane(b: Builder) -> Value:
    return b.compute("and", b.builtin("local_index"), b.const(WARP_SIZE - 1, UINT32))


def _first(b: Builder) -> Value:
    """Returns the index of the warp's first invocation."""
    return b.compute("sub", b.builtin("local_index"), _lane(b))


def _ballot(exchange: _Exchange, b: Builder, condition: Value, active: Value) -> Value:
    bit = b.compute("shl", b.const(1, UINT32), _lane(b))
    value = b.select(b.compute("and", condition, active), bit, b.const(0, UINT32))
    warp = b.compute("div", b.builtin("local_index"), b.const(WARP_SIZE, UINT32))
    clears = b.compute("eq", _lane(b), b.const(0, UINT32))
    return exchange.words().combined(b, "or", value, warp, clears)


def _shuffle(exchange: _Exchange, b: Builder, value: Value, lane: Value, active: Value) -> Value:
    if value.type is BOOL:
        return b.cast(_shuffle(exchange, b, b.cast(value, UINT32), lane, active), BOOL)
    memory = _stored(exchange, b, value, active)
    at = b.compute("add", _first(b), b.compute("and", lane, b.const(WARP_SIZE - 1, UINT32)))
    result = b.load(memory, b.compute("min", at, b.const((memory.length or 1) - 1, UINT32)))
    b.barrier()
    return result


def _match(exchange: _Exchange, b: Builder, value: Value, active: Value) -> Value:
    """Returns the mask of lanes with the same bits."""
    if value.type is BOOL:
        return _match(exchange, b, b.cast(value, UINT32), active)
    present = _ballot(exchange, b, b.const(True, BOOL), active)
    memory = _stored(exchange, b, value, active)
    last, zero, one = (b.const(number, UINT32) for number in ((memory.length or 1) - 1, 0, 1))
    first = _first(b)
    loop = b.loop(zero, zero)
    with loop.body:
        lane, mask = loop.params
        branch = b.if_(b.compute("lt", lane, b.const(WARP_SIZE, UINT32)))
        with branch.otherwise:
            b.break_(loop, mask)
        other = b.load(memory, b.compute("min", b.compute("add", first, lane), last))
        bit = b.select(b.compute("eq", other, value), b.compute("shl", one, lane), zero)
        b.yield_(b.compute("add", lane, one), b.compute("or", mask, b.compute("and", bit, present)))
    b.barrier()
    return loop.results[0]


def _stored(exchange: _Exchange, b: Builder, value: Value, active: Value) -> Memory:
    """Stores a value of each invocation, for the others."""
    assert isinstance(value.type, Scalar)
    memory = exchange.of(value.type)
    branch = b.if_(active)
    with branch.then:
        b.store(memory, b.builtin("local_index"), value)
    b.barrier()
    return memory


def _barrier(exchange: _Exchange, b: Builder, active: Value) -> None:
    b.barrier()


_EXPANSIONS: dict[str, Callable[..., Value | None]] = {
    "warp_ballot": _ballot,
    "warp_shuffle": _shuffle,
    "warp_match": _match,
    "warp_barrier": _barrier,
}


_ACCESSES = "load", "store", "atomic", "compare_exchange"


def order_volatile(function: Function) -> Function:
    """Adds barriers of warps behind the accesses to volatile memory, in place."""
    return expand(function, _is_volatile, _ordered)


def _is_volatile(op: Op) -> bool:
    return op.code in _ACCESSES and op.memory is not None and op.memory.volatile


def _ordered(b: Builder, op: Op) -> Value | None:
    result: Value | None = None
    assert op.memory is not None
    if op.code == "load":
        result = b.load(op.memory, op.args[0])
    elif op.code == "store":
        b.store(op.memory, *op.args)
    elif op.code == "atomic":
        result = b.atomic(op.attribute[0], op.memory, *op.args)
    else:
        result = b.compare_exchange(op.memory, *op.args)
    b.warp("barrier")
    return result
