"""Sums over the invocations of a workgroup, by atomic additions in workgroup memory."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32
from vkcompute.ir.workgroup_words import WorkgroupWords


def expand_workgroup_sums(function: Function) -> Function:
    """Replaces sums by additions to a word, with one barrier each, in place."""
    if not any(map(_is_sum, walk(function.body))):
        return function
    words = WorkgroupWords(function, "sums of the workgroup", 1)

    def built(b: Builder, op: Op) -> Value:
        zero = b.const(0, UINT32)
        return words.combined(b, "add", op.args[0], zero, b.compute("eq", b.builtin("local_index"), zero))

    expand(function, _is_sum, built)
    words.clear_first()
    return function


def _is_sum(op: Op) -> bool:
    return op.code == "workgroup_sum"
