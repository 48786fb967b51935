"""Sums over the invocations of a workgroup, by atomic additions in workgroup memory."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Region, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32

_N_WORDS = 3


def expand_workgroup_sums(function: Function) -> Function:
    """Replaces sums by additions to one of three words, with one barrier each, in place.

    Between the barriers of two sums, invocations read one word, add to the next one, and the first clears the third.
    """
    if not any(map(_is_sum, walk(function.body))):
        return function
    words = function.shared("workgroup sums", UINT32, _N_WORDS)
    turn = Memory("turn of the sums", UINT32, 1, private=True)
    expand(function, _is_sum, lambda b, op: _sum(b, words, turn, op.args[0]))
    builder, start = Builder(function), Region()
    with builder.into(start):
        zero = builder.const(0, UINT32)
        builder.fill(turn, zero)
        _clear(builder, words, zero)
        builder.barrier()
    function.body.ops[:0] = start.ops[:-1]  # without the terminator
    return function


def _is_sum(op: Op) -> bool:
    return op.code == "workgroup_sum"


def _clear(b: Builder, words: Memory, at: Value) -> None:
    """Clears a word, by the first invocation."""
    zero = b.const(0, UINT32)
    branch = b.if_(b.compute("eq", b.builtin("local_index"), zero))
    with branch.then:
        b.store(words, at, zero)


def _sum(b: Builder, words: Memory, turn: Memory, value: Value) -> Value:
    at, first = b.load(turn, b.const(0, UINT32)), b.const(0, UINT32)
    branch = b.if_(b.compute("ne", value, first))
    with branch.then:
        b.atomic("add", words, at, value)
    last = b.compute("ge", at, b.const(_N_WORDS - 1, UINT32))
    following = b.select(last, first, b.compute("add", at, b.const(1, UINT32)))
    _clear(b, words, following)
    b.barrier()
    b.store(turn, first, following)
    return b.load(words, at)
