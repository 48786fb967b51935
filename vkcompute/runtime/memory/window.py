"""Windows: bindings that span several arrays.

A kernel that reaches many arrays by indices takes few bindings, and no branch chooses among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from vkcompute.core.buffer import PADDING
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.scheduling.access_history import Range
from vkcompute.runtime.scheduling.residency import Pin

_MOST_ELEMENTS = 2**31 - 1


class Window(Array):
    """The bytes from the first to the last of several arrays in a block of memory, bound together.

    A kernel accesses the bytes of these arrays only. The window begins in the buffer of the first one, and extends
    beyond it.

    Attributes:
        span: the range of the first array.
        others: the ranges of the other arrays.
    """

    __slots__ = ("_pin", "others")

    def __init__(self, members: Sequence[Array], start: int, nbytes: int, pin: Pin) -> None:
        first = members[0]
        itemsize = first.dtype.itemsize
        super().__init__(first.runtime, first.buffer, start, (nbytes // itemsize,), (itemsize,), first.dtype)
        self.launch_key = (*self.launch_key, object())  # windows of the same bytes may have different arrays
        self.span = (first.buffer, start, first.span[2])
        self.others: list[Range] = [*dict.fromkeys(member.span for member in members[1:] if member.size)]
        self._pin = pin  # keeps the members at their offsets


class WindowOffset(NamedTuple):
    """The place of an array in windows.

    Attributes:
        window: index of the window.
        start: index of the array's first element in it.
    """

    window: int
    start: int


def spans_of(arrays: Sequence[Array]) -> list[Range]:
    """Returns the ranges of arrays; in place of a window, those of its arrays."""
    return [span for array in arrays for span in (array.span, *(array.others if isinstance(array, Window) else ()))]


def ranges_overlap(groups: Sequence[Sequence[Range]]) -> bool:
    """True if ranges of different groups have bytes in common. Sweeps over the starts of all ranges."""
    ranges = [(id(buffer), start, stop, at) for at, group in enumerate(groups) for buffer, start, stop in group]
    ends: dict[int, tuple[int, int]] = {}  # of each group, the buffer and the furthest byte so far
    for buffer, start, stop, at in sorted(ranges):
        if start == stop:
            continue
        if any(its == buffer and start < end for other, (its, end) in ends.items() if other != at):
            return True
        its, end = ends.get(at, (buffer, 0))
        ends[at] = buffer, max(stop, end) if its == buffer else stop
    return False


def windows_over(arrays: Sequence[Array]) -> tuple[list[Window], list[WindowOffset]]:
    """Returns the fewest windows over arrays of one runtime and dtype, and the place of each array.

    Pins the buffers, which have memory, as long as one of the windows exists.

    Raises:
        ValueError: an array exceeds a binding.
    """
    runtime, itemsize, pin = arrays[0].runtime, arrays[0].dtype.itemsize, Pin()
    most = min(runtime.device.max_binding_bytes, _MOST_ELEMENTS * itemsize // PADDING * PADDING)
    with runtime.scheduler.device.lock:
        runtime.scheduler.residency.pin(pin, [array.buffer for array in arrays])
        align = runtime.device.memory.align
        windows: list[Window] = []
        offsets: dict[int, WindowOffset] = {}
        for group, begin, end in _groups(arrays, align, most):
            members = [arrays[at] for at in group]
            for at in group:
                offsets[at] = WindowOffset(len(windows), (_start(arrays[at]) - begin) // itemsize)
            windows.append(Window(members, begin - members[0].buffer.offset, end - begin, pin))
    return windows, [offsets[at] for at in range(len(arrays))]


def _start(array: Array) -> int:
    """Returns where an array begins in its block, in bytes; an empty one is at the start of its buffer."""
    return int(array.buffer.offset + (array.span[1] if array.size else 0))


def _groups(arrays: Sequence[Array], align: int, most: int) -> Iterator[tuple[list[int], int, int]]:
    """Yields the indices of the arrays of each window, by address, with its first byte and its end in the block."""
    group: list[int] = []
    block: Any = None
    begin = end = 0
    for at in sorted(range(len(arrays)), key=lambda at: (arrays[at].buffer.block.key, _start(arrays[at]))):
        array, start = arrays[at], _start(arrays[at])
        stop = array.buffer.offset + array.span[2] if array.size else start + 1
        first, last = start // align * align, -(-stop // PADDING) * PADDING
        if last - first > most:
            raise ValueError(
                f"an array among those that are bound together has {stop - start} bytes; {array.runtime.device} binds "
                f"at most {most}; pass parts of it"
            )
        if group and (array.buffer.block is not block or max(end, last) - begin > most):
            yield group, begin, end
            group = []
        if not group:
            block, begin, end = array.buffer.block, first, last
        group.append(at)
        end = max(end, last)
    yield group, begin, end
