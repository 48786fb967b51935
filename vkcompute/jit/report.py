"""Reports: what an invocation leaves for the host, in a buffer that is bound behind the tensors.

`report(compiler, "{0} is odd", [number], fails=True)` builds it at the present place of the kernel: the launch then
fails with a KernelError of this text and place. Without `fails` the text is printed. The host does so when the launch
is first seen to be finished (`jit/records.py`).

The buffer is zero at first. It begins with a header of `N_HEADER` words; failures follow, in `N_FAILED` words, and then
what is printed. A record is the number of its site, from 1, the invocation's place along x, y and z, and the values, in
words of 32 bits. Of failures only those are recorded that come before all that were seen so far, in the order of the
invocations: few, the first one among them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vkcompute.ir import FLOAT16, FLOAT32, SCALARS, UINT32, UINT64, Memory, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.source import Refused

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions

N_HEADER, N_FAILED = 8, 1016
# The words of the header: those taken by what is printed, and how many reports found no room; the same of failures;
# how many failures there were; and how many invocations come after the first one that failed, counted from the end of
# uint32.
PRINTED, FAILED, N_FAILURES, AHEAD = 0, 2, 4, 5
_MOST_TAKEN = 1 << 31  # the count of words taken ends there, instead of beginning again


class Site(NamedTuple):
    """A place in a kernel that reports.

    Attributes:
        text: what is said, for `str.format` with the values; if it fails, with the names `invocation` and `more`, too.
        kinds: numpy's names of the values' types.
        fails: whether the launch fails.
    """

    text: str
    kinds: tuple[str, ...]
    fails: bool

    @property
    def n_words(self) -> int:
        """The size of a record."""
        return 4 + sum(2 if SCALARS[kind].bits == 64 else 1 for kind in self.kinds)


def report(
    c: Expressions, text: str, values: Sequence[Any], *, fails: bool = False, node: ast.AST | None = None
) -> None:
    """Has the invocations that come to the present place report.

    Args:
        text: for `str.format` with the values, at most 100. Of what fails, the place and the invocation are told, too.
        node: the place in the source, if it is not what is being compiled.
    """
    if c.checked is None:
        raise Refused("only what vc.kernel launches can report to the host; write values to a tensor")
    kinds = [c.kind(value).type for value in values]
    if fails:
        text = escaped(str(c.error(node or c.node, "\0"))).replace(
            "\0", f"{text}, in {{invocation}} of {c.function.name}{{more}}"
        )
    site = Site(text, tuple([kind.name for kind in kinds]), fails)
    if site not in c.sites:
        c.sites.append(site)
    words = [c.builder.const(c.sites.index(site) + 1, UINT32), *_place(c)]
    for value, kind in zip(values, kinds, strict=True):
        words += _words(c, c.cast(value, kind))
    if fails:
        _fail(c, words)
    else:
        start = c.builder.const(N_HEADER + N_FAILED, UINT32)
        _record(c, words, PRINTED, start, c.builder.binary("sub", c.builder.length(_memory(c)), start))


def escaped(text: str) -> str:
    """What `str.format` gives as this text."""
    return text.replace("{", "{{").replace("}", "}}")


def _memory(c: Expressions) -> Memory:
    """The buffer, the last one of the kernel."""
    if c.reports is None:
        c.reports = c.function.buffer("reports", UINT32)
    return c.reports


def _words(c: Expressions, value: Value) -> list[Value]:
    """A number in words, the low one first."""
    b, kind = c.builder, element_of(value.type)
    if kind.bits < 32:  # bools too
        value = b.cast(value, FLOAT32 if kind is FLOAT16 else UINT32)
    if kind.bits < 64:
        return [b.bitcast(value, UINT32)]
    bits = b.bitcast(value, UINT64)
    return [b.cast(bits, UINT32), b.cast(b.binary("shr", bits, b.const(32, UINT64)), UINT32)]


def _place(c: Expressions) -> list[Value]:
    """The invocation's place in the grid, in which groups along the first axis do not go on along the second."""
    b, place = c.builder, [c.builder.builtin("global_id", axis) for axis in range(3)]
    if c.folded:
        row = b.binary("mul", b.builtin("n_groups"), b.const(c.function.local_size[0], UINT32))
        place[:2] = b.binary("add", place[0], b.binary("mul", b.builtin("group_id", 1), row)), b.builtin("local_id", 1)
    return place


def _fail(c: Expressions, words: list[Value]) -> None:
    """Counts a failure, and records it if none before it is known."""
    b, memory = c.builder, _memory(c)
    b.atomic("add", memory, b.const(N_FAILURES, UINT32), b.const(1, UINT32))
    ahead = b.unary("not", b.linear_id())  # so that zero is the last
    branch = b.if_(b.binary("lt", b.atomic("max", memory, b.const(AHEAD, UINT32), ahead), ahead))
    with branch.then:
        _record(c, words, FAILED, b.const(N_HEADER, UINT32), b.const(N_FAILED, UINT32))


def _record(c: Expressions, words: list[Value], taken: int, start: Value, room: Value) -> None:
    """Stores a record behind those before it, if there is room for it."""
    b, memory, n_words = c.builder, _memory(c), c.builder.const(len(words), UINT32)
    count = b.const(taken, UINT32)
    at = b.atomic("add", memory, count, n_words)
    branch = b.if_(b.binary("le", at, b.binary("sub", room, n_words)))
    with branch.then:
        at = b.binary("add", at, start)
        for n, word in enumerate(words):
            b.store(memory, b.binary("add", at, b.const(n, UINT32)), word)
    with branch.otherwise:
        b.atomic("add", memory, b.const(taken + 1, UINT32), b.const(1, UINT32))
        b.atomic("min", memory, count, b.const(_MOST_TAKEN, UINT32))
