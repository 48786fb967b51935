"""Words that the invocations of a workgroup combine by atomic operations, with one barrier for each combination."""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Region, Value, walk
from vkcompute.ir.memory import Memory
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import UINT32

_N_TURNS = 3


class WorkgroupWords:
    """Three rows of words in workgroup memory.

    Between the barriers of two combinations, invocations read one row, change the next one, and clear the third.

    Args:
        function: gets the memory, and a start that clears it.
        n_words: in a row.
    """

    def __init__(self, function: Function, name: str, n_words: int) -> None:
        self._function, self._n_words = function, n_words
        self._words = function.shared(name, UINT32, _N_TURNS * n_words)
        self._turn = Memory(f"turn of {name}", UINT32, 1, private=True)

    def combined(self, b: Builder, name: str, value: Value, word: Value, clears: Value) -> Value:
        """Combines values that are not 0 by an atomic operation; returns the result.

        Args:
            word: the index of the word in its row.
            clears: True for one of the invocations that combine the same word.
        """
        first = b.const(0, UINT32)
        turn = b.load(self._turn, first)
        at = self._at(b, turn, word)
        branch = b.if_(b.compute("ne", value, first))
        with branch.then:
            b.atomic(name, self._words, at, value)
        is_last = b.compute("ge", turn, b.const(_N_TURNS - 1, UINT32))
        following = b.select(is_last, first, b.compute("add", turn, b.const(1, UINT32)))
        branch = b.if_(clears)
        with branch.then:
            b.store(self._words, self._at(b, following, word), first)
        b.barrier()
        b.store(self._turn, first, following)
        return b.load(self._words, at)

    def clear_first(self) -> None:
        """Clears the first row at the start of the function."""
        b, start = Builder(self._function), Region()
        with b.into(start):
            zero = b.const(0, UINT32)
            b.fill(self._turn, zero)
            index = b.builtin("local_index")
            branch = b.if_(b.compute("lt", index, b.const(self._n_words, UINT32)))
            with branch.then:
                b.store(self._words, index, zero)
            b.barrier()
        self._function.body.ops[:0] = start.ops[:-1]  # without the terminator

    def _at(self, b: Builder, turn: Value, word: Value) -> Value:
        return b.compute("add", b.compute("mul", turn, b.const(self._n_words, UINT32)), word)


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
