"""Workgroup memory of a block program: what one exchange has read is overwritten by the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vkcompute.ir import FLOAT32, INT32, UINT32, Builder, Function, Memory, Scalar, Value
from vkcompute.ir.function import walk
from vkcompute.jit.frontend.source import UnsupportedError


class Numbers(NamedTuple):
    """Numbers of a type in workgroup memory, from index `first` on. Types of up to 32 bits share an array of words."""

    memory: Memory
    kind: Scalar
    first: int

    def store(self, b: Builder, at: Value, value: Value) -> None:
        """Stores a number."""
        if self.kind.bits <= 32:
            value = b.bitcast(b.cast(value, _wide(self.kind)), UINT32)
        b.store(self.memory, self._place(b, at), value)

    def load(self, b: Builder, at: Value) -> Value:
        """Loads a number."""
        found = b.load(self.memory, self._place(b, at))
        return b.cast(b.bitcast(found, _wide(self.kind)), self.kind) if self.kind.bits <= 32 else found

    def _place(self, b: Builder, at: Value) -> Value:
        return b.compute("add", at, b.const(self.first, INT32)) if self.first else at


class WorkgroupMemory:
    """The arrays of a kernel in workgroup memory, one for each use; each is as long as the longest that is asked for.

    Args:
        nbytes: of workgroup memory.
    """

    def __init__(self, function: Function, nbytes: int) -> None:
        self._function, self._nbytes = function, nbytes
        self._arrays: dict[str, list[Memory]] = {}

    def numbers(self, kinds: Sequence[Scalar], n: int) -> list[Numbers]:
        """Returns memory for `n` numbers of each type."""
        words = [UINT32 if kind.bits <= 32 else kind for kind in kinds]
        memories = {word: self.array(f"exchange {word}", word, n * words.count(word)) for word in words}
        return [
            Numbers(memories[word], kind, n * words[:at].count(word))
            for at, (kind, word) in enumerate(zip(kinds, words, strict=True))
        ]

    def array(self, use: str, element: Scalar, n: int, lanes: int = 1) -> Memory:
        """Returns the array for a use, with at least `n` numbers or vectors."""
        known = self._arrays.setdefault(use, [])
        if not known or (known[-1].length or 0) < n:
            made = Memory(use, element, n, lanes=lanes)
            used = sum(each[-1].nbytes for key, each in self._arrays.items() if key != use and each)
            if used + made.nbytes > self._nbytes:
                raise UnsupportedError(
                    f"this exchanges {made.nbytes} bytes between the invocations, and {self._nbytes - used} of "
                    f"{self._nbytes} bytes of workgroup memory are left; use smaller blocks"
                )
            known.append(made)
        return known[-1]

    def declare(self) -> None:
        """Declares the longest array of each use, and has all operations access that one."""
        longest = {each: known[-1] for known in self._arrays.values() for each in known}
        self._function.shared_memory += dict.fromkeys(longest.values())
        for op in walk(self._function.body):
            if op.memory in longest:
                memory = longest[op.memory]
                op.attribute = (op.attribute[0], memory) if isinstance(op.attribute, tuple) else memory


def _wide(kind: Scalar) -> Scalar:
    """Returns the type of 32 bits for numbers of up to 32."""
    return FLOAT32 if kind.kind == "f" else INT32 if kind.kind == "i" else UINT32
