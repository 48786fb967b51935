"""Reports: records that invocations leave for the host, in a buffer that is bound after the arrays.

A report either prints a text or fails the launch with a KernelError. The host reads the buffer when the launch has
completed (`report_reader.py`).

The buffer starts as zeros. A header of `N_HEADER` words is followed by `N_FAILED` words of failures and then by the
printed records. A record is the number of its site (from 1), the global invocation ID along x, y and z, and the values
in words of 32 bits. A failure is recorded only if its invocation precedes all failed ones seen so far in grid order, so
that few are recorded, among them the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vkcompute.ir import FLOAT32, SCALARS, UINT32, UINT64, Builder, Function, Memory, Value
from vkcompute.ir.types import element_of

N_HEADER, N_FAILED = 8, 1016
# Words of the header. PRINTED: words taken by printed records, then the number of lost records. FAILED: the same of
# failures. N_FAILURES: the number of failures. AHEAD: 2**32 - 1 less the linear ID of the first failed invocation.
PRINTED, FAILED, N_FAILURES, AHEAD = 0, 2, 4, 5
_MOST_TAKEN = 1 << 31  # the count of words saturates here instead of wrapping


class Site(NamedTuple):
    """A place in a kernel that reports.

    Attributes:
        text: format string for `str.format` with the values; a failure's also has `invocation` and `more`.
        kinds: numpy's names of the types of the values.
        fails: True if the launch fails, False if the text is printed.
        error: Python's name of the error's class; "" for KernelError.
    """

    text: str
    kinds: tuple[str, ...]
    fails: bool
    error: str = ""

    @property
    def n_words(self) -> int:
        """Size of a record in words."""
        return 4 + sum(2 if SCALARS[kind].bits == 64 else 1 for kind in self.kinds)


class Reports:
    """The reports of one kernel.

    Attributes:
        sites: the source locations that report, in the order of their numbers.
        builder: appends reports to the kernel.
    """

    def __init__(self, function: Function, builder: Builder) -> None:
        self.sites: list[Site] = []
        self._function, self.builder = function, builder
        self._buffer: Memory | None = None

    def add(self, site: Site, values: Iterable[Value], place: Sequence[Value] | None = None) -> None:
        """Builds a report at the current place; `values` have the types `site.kinds`.

        Args:
            place: three uint32 that give the order of printed records in place of the global invocation ID.
        """
        b = self.builder
        if site not in self.sites:
            self.sites.append(site)
        invocation = [b.builtin("global_id", axis) for axis in range(3)] if place is None else place
        words = [b.const(self.sites.index(site) + 1, UINT32), *invocation]
        for value in values:
            words += self._words(value)
        if site.fails:
            self._fail(words)
        else:
            start = b.const(N_HEADER + N_FAILED, UINT32)
            self._record(words, PRINTED, start, b.compute("sub", b.length(self._memory()), start))

    def put_last(self) -> None:
        """Makes the buffer the last one of the kernel."""
        if self._buffer is not None:
            self._function.buffers.remove(self._buffer)
            self._function.buffers.append(self._buffer)

    def _memory(self) -> Memory:
        """Returns the buffer, the last one of the kernel."""
        if self._buffer is None:
            self._buffer = self._function.buffer("reports", UINT32, for_host=True)
        return self._buffer

    def _words(self, value: Value) -> list[Value]:
        """Returns a number as words, the low one first."""
        b, kind = self.builder, element_of(value.type)
        if kind.bits < 32:  # bools, too
            value = b.cast(value, FLOAT32 if kind.kind == "f" else UINT32)
        if kind.bits < 64:
            return [b.bitcast(value, UINT32)]
        bits = b.bitcast(value, UINT64)
        return [b.cast(bits, UINT32), b.cast(b.compute("shr", bits, b.const(32, UINT64)), UINT32)]

    def _fail(self, words: list[Value]) -> None:
        """Counts a failure, and records it if no earlier invocation is known to have failed."""
        b, memory = self.builder, self._memory()
        b.atomic("add", memory, b.const(N_FAILURES, UINT32), b.const(1, UINT32))
        ahead = b.compute("not", b.linear_id())  # so that 0 is the last invocation
        branch = b.if_(b.compute("lt", b.atomic("max", memory, b.const(AHEAD, UINT32), ahead), ahead))
        with branch.then:
            self._record(words, FAILED, b.const(N_HEADER, UINT32), b.const(N_FAILED, UINT32))

    def _record(self, words: list[Value], taken: int, start: Value, room: Value) -> None:
        """Appends a record to a section of the buffer, or counts it as lost if it does not fit."""
        b, memory, n_words = self.builder, self._memory(), self.builder.const(len(words), UINT32)
        count = b.const(taken, UINT32)
        at = b.atomic("add", memory, count, n_words)
        branch = b.if_(b.compute("le", at, b.compute("sub", room, n_words)))
        with branch.then:
            at = b.compute("add", at, start)
            for n, word in enumerate(words):
                b.store(memory, b.compute("add", at, b.const(n, UINT32)), word)
        with branch.otherwise:
            b.atomic("add", memory, b.const(taken + 1, UINT32), b.const(1, UINT32))
            b.atomic("min", memory, count, b.const(_MOST_TAKEN, UINT32))


def escaped(text: str) -> str:
    """Returns a format string for which `str.format` gives this text."""
    return text.replace("{", "{{").replace("}", "}}")
