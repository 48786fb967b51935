"""Bindings of arrays beyond a device's limits: arrays that share a binding, and arrays that take several.

Where a kernel has more buffers than the device binds, some become parts of one buffer. Arrays that are in one buffer
share a binding of it; the launch copies others to one and back. A buffer that is larger than a binding becomes several,
and each access chooses one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value, walk
from vkcompute.ir.memory import ArrayBindings, Memory, Pack, Split, view_of
from vkcompute.ir.memory_views import merge_views
from vkcompute.ir.rewriting import expand
from vkcompute.ir.small_atomics import expand_small_atomics
from vkcompute.ir.target import Target
from vkcompute.ir.types import BOOL, UINT32, Type, element_of, vector

_ATOMIC = "atomic", "compare_exchange"


def bind_arrays(
    function: Function, target: Target, splits: Sequence[Split] = (), together: Sequence[Sequence[int]] = ()
) -> Function:
    """Splits buffers, and packs as many as the target requires, in place; sets `function.array_bindings`.

    Arrays that the kernel only reads are packed first, those with atomic operations last.

    Args:
        together: the arrays, by their indices, that are in one buffer, if the target requires packs.
    """
    declared = {*function.buffers}
    if not splits and excess_bindings(function, target) > 0:
        expand_small_atomics(function)  # a pack holds their words; in place, one may begin within a word
    apart = {at for at, memory in enumerate(function.buffers) if memory not in declared}
    arrays, accesses = [*function.buffers], [op for op in walk(function.body) if op.memory is not None]
    written = {op.memory for op in accesses if op.operation.writes}
    if splits:
        _split(function, {arrays[index]: (n, shift) for index, n, shift in splits})
    free = _free(function, arrays, accesses)
    shared = [[arrays[index] for index in indices if index not in apart] for indices in together]
    groups = _packed(function, target, free, shared)
    merge_views(function)
    packs = [
        Pack(tuple([(arrays.index(member), member in written, _index_bytes(member)) for member in group]), in_place)
        for group, in_place in groups
    ]
    if splits or packs:
        function.array_bindings = ArrayBindings(len(arrays), tuple(splits), tuple(packs))
    return function


def _packed(
    function: Function, target: Target, free: Mapping[Memory, Type], together: Sequence[Sequence[Memory]]
) -> list[tuple[list[Memory], bool]]:
    """Packs free buffers; returns those of each pack, and True for those that are in one buffer."""
    groups = [
        (kind, group, True)
        for members in together
        for kind, group in _by_type({member: free[member] for member in members if member in free})
    ]
    for kind, group, _ in groups:
        _replace(function, kind, group)
    rest = {memory: kind for memory, kind in free.items() if memory in function.buffers}
    excess = excess_bindings(function, target)
    by_type = _by_type(_excessive(rest, excess))
    if sum(len(group) - 1 for _, group in by_type) < excess:
        by_type = _of_words(rest, {op.memory for op in walk(function.body) if op.code in _ATOMIC}, excess)
    for kind, group in by_type:
        _replace(function, kind, group)
        groups.append((kind, group, False))
    return [(group, in_place) for _, group, in_place in groups]


def _split(function: Function, splits: dict[Memory | None, tuple[int, int]]) -> None:
    """Replaces each of these buffers by several: (their number, the power of two of elements in each)."""
    parts: dict[Memory | None, list[Memory]] = {
        memory: [Memory(memory.name, memory.element) for _ in range(splits[memory][0])]
        for memory in function.buffers
        if memory in splits
    }
    function.buffers = [buffer for memory in function.buffers for buffer in parts.get(memory, [memory])]

    def access(b: Builder, op: Op) -> Value | None:
        shift = b.const(splits[op.memory][1], UINT32)
        index = b.cast(op.args[0], UINT32)
        number = b.compute("shr", index, shift)
        rest = b.compute("sub", index, b.compute("shl", number, shift))
        return b.switch(number, parts[op.memory], lambda part: _access(b, op, part, rest))

    expand(function, lambda op: op.memory in parts, access)


def _free(function: Function, arrays: Sequence[Memory], accesses: Sequence[Op]) -> dict[Memory, Type]:
    """Returns the buffers that a pack may hold, the first to pack first, with the type of its members."""
    atomic = {op.memory for op in accesses if op.code in _ATOMIC}
    written = {op.memory for op in accesses if op.operation.writes}
    fixed = {op.memory for op in accesses if op.code == "length"}
    apart = (memory for memory in function.buffers if memory.texels or memory.for_host or memory.window)
    fixed |= {*apart, *[memory for memory in function.buffers if memory not in arrays]}
    free = [memory for memory in reversed(function.buffers) if memory not in fixed]
    free.sort(key=lambda memory: (memory in atomic, memory in written))
    return {memory: memory.type if memory in atomic else _word(memory) for memory in free}


def _by_type(free: Mapping[Memory, Type]) -> list[tuple[Type, list[Memory]]]:
    """Returns the buffers of each type of which there are several."""
    groups: dict[Type, list[Memory]] = {}
    for memory, kind in free.items():
        groups.setdefault(kind, []).append(memory)
    return [(kind, group) for kind, group in groups.items() if len(group) > 1]


def _excessive(free: Mapping[Memory, Type], n_excess: int) -> dict[Memory, Type]:
    """Returns the fewest buffers whose packs save so many bindings."""
    members: dict[Memory, Type] = {}
    for memory, kind in free.items():
        if len(members) - len({*members.values()}) >= n_excess:
            break
        members[memory] = kind
    return members


def _of_words(
    free: Mapping[Memory, Type], atomic: AbstractSet[Memory | None], n_excess: int
) -> list[tuple[Type, list[Memory]]]:
    """Returns the fewest buffers whose pack saves so many bindings, or all that share one: whatever their types."""
    members = [memory for memory in free if memory.lanes == 1 and (memory.element.bits == 32 or memory not in atomic)]
    return [(UINT32, members[: n_excess + 1])] if len(members) > 1 else []


def _index_bytes(memory: Memory) -> int:
    """Returns the bytes that an index selects."""
    return memory.lanes * (8 if memory.element is BOOL else memory.element.bits) // 8


def excess_bindings(function: Function, target: Target) -> int:
    """Returns the number of storage buffers beyond those that the target binds; not above 0 if it binds all."""
    n = sum(not memory.texels for memory in function.buffers)
    loops = target.cuts_loops and any(map(_loops, walk(function.body)))
    return 0 if target.max_storage_buffers is None else n + loops - target.max_storage_buffers


def _loops(op: Op) -> bool:
    """True for a loop, and for an operation that later passes replace by one."""
    if op.code in _ATOMIC:
        assert op.memory is not None
        return op.memory.element.bits < 32
    return op.code == "loop" or (op.code == "rem" and element_of(op.type).kind == "f")


def _word(memory: Memory) -> Type:
    """Returns the type of a pack for a buffer: 32-bit elements of all types share one."""
    if memory.element.bits != 32:
        return memory.type
    return UINT32 if memory.lanes == 1 else vector(UINT32, memory.lanes)


def _replace(function: Function, kind: Type, members: Sequence[Memory]) -> None:
    """Replaces the members of a pack by the pack, which becomes the last buffer.

    Members of other widths become views of it; so do those of other types that atomic operations access.
    """
    parts_of_words = max(member.parts for member in members)
    pack = Memory("pack", element_of(kind), lanes=members[0].lanes, parts=parts_of_words)
    starts = {member: function.push(f"{member.name}.start", UINT32) for member in members}
    function.buffers = [buffer for buffer in function.buffers if buffer not in members] + [pack]
    width, atomic = _index_bytes(pack), {op.memory for op in walk(function.body) if op.code in _ATOMIC}
    parts: dict[Memory | None, Memory] = {
        member: pack
        if _index_bytes(member) == width and (member.type == pack.type or member not in atomic)
        else view_of(pack, member.element)
        for member in members
    }

    def access(b: Builder, op: Op) -> Value | None:
        assert op.memory is not None
        index = b.compute("add", b.cast(op.args[0], UINT32), starts[op.memory])
        return _access(b, op, parts[op.memory], index)

    expand(function, lambda op: op.memory in starts, access)


def _access(b: Builder, op: Op, memory: Memory, index: Value) -> Value | None:
    """Builds an access to another memory, which may hold the bits as another type."""
    if op.code == "load":
        value = b.load(memory, index)
        return value if value.type == op.type else b.bitcast(value, op.type)
    if op.code == "store":
        value = op.args[1]
        b.store(memory, index, value if value.type == memory.type else b.bitcast(value, memory.type))
        return None
    if op.code == "atomic":
        return b.atomic(op.attribute[0], memory, index, op.args[1])
    return b.compare_exchange(memory, index, *op.args[1:])
