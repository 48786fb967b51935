"""Operations of warps: functions that have a value in kernels only.

A warp is 32 invocations with consecutive linear indices in their workgroup, x fastest, on every device, as in CUDA. The
last warp of a workgroup may have fewer. `local_id()` is the lane of an invocation.

All of these functions operate on the active lanes: in a branch or a loop the lanes that take it, after a return those
that did not. Calls in different places never combine. They exchange values through workgroup memory, with barriers, so
functions of `vc.subgroup` are faster where the device's size of subgroups serves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, INT32, SCALARS, UINT32, WARP_SIZE, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import intrinsic
from vkcompute.jit.frontend.values import Kind, Number, Vector, describe
from vkcompute.jit.library.ids import refuse_outside_kernel

__all__ = """
    active_mask all any ballot barrier broadcast count elect id local_id match_all match_any shuffle shuffle_down
    shuffle_up shuffle_xor size
""".split()

_ALL_LANES = 2**WARP_SIZE - 1


def _index(c: Compiler) -> Value:
    index = c.builder.builtin("local_index")
    c.ids.add(index)
    return index


def _lane(c: Compiler) -> Value:
    return c.builder.compute("and", _index(c), c.builder.const(WARP_SIZE - 1, UINT32))


def _int(c: Compiler, value: Value) -> Number:
    return Number(c.builder.cast(value, INT32), Kind(INT32))


def _warp_id(c: Compiler) -> Number:
    return _int(c, c.builder.compute("div", _index(c), c.builder.const(WARP_SIZE, UINT32)))


def _count(c: Compiler) -> int:
    x, y, z = c.function.local_size
    return -(-x * y * z // WARP_SIZE)


def _operation(c: Compiler, name: str, *args: Value) -> Value:
    value = c.builder.warp(name, *args)
    assert value is not None, "only barriers have no result"
    return value


def _votes(c: Compiler, condition: Any, mask: Any, *, holds: bool = True) -> Value:
    """Returns the mask of lanes among those of `mask` for which a condition holds, or does not."""
    b, truth = c.builder, c.truth(condition)
    value = b.const(truth, BOOL) if isinstance(truth, bool) else truth
    votes = _operation(c, "ballot", value if holds else b.compute("not", value))
    return votes if mask == _ALL_LANES else b.compute("and", votes, _mask(c, mask))


def _mask(c: Compiler, mask: Any) -> Value:
    if isinstance(mask, int) and not 0 <= mask <= _ALL_LANES:
        raise UnsupportedError(f"a mask of lanes has {WARP_SIZE} bits; got {mask}; write 0xFFFFFFFF for all")
    return c.cast(mask, UINT32)


def _ballot(c: Compiler, condition: Any, mask: Any = _ALL_LANES) -> Number:
    return Number(_votes(c, condition, mask), Kind(UINT32))


def _any(c: Compiler, condition: Any, mask: Any = _ALL_LANES) -> Number:
    return Number(c.builder.compute("ne", _votes(c, condition, mask), c.builder.const(0, UINT32)), Kind(BOOL))


def _all(c: Compiler, condition: Any, mask: Any = _ALL_LANES) -> Number:
    votes = _votes(c, condition, mask, holds=False)
    return Number(c.builder.compute("eq", votes, c.builder.const(0, UINT32)), Kind(BOOL))


def _elect(c: Compiler) -> Number:
    first = c.builder.compute("find_lsb", _votes(c, True, _ALL_LANES))
    return Number(c.builder.compute("eq", first, _lane(c)), Kind(BOOL))


def _match(c: Compiler, value: Any) -> Value:
    kind = c.kind(value).type
    number = c.cast(value, kind)
    unsigned = kind if kind is BOOL else SCALARS[f"uint{element_of(kind).bits}"]
    return _operation(c, "match", c.builder.bitcast(number, unsigned))


def _match_any(c: Compiler, value: Any, mask: Any = _ALL_LANES) -> Number:
    return Number(c.builder.compute("and", _match(c, value), _mask(c, mask)), Kind(UINT32))


def _match_all(c: Compiler, value: Any, mask: Any = _ALL_LANES) -> Number:
    present = _votes(c, True, mask)
    alike = c.builder.compute("and", _match(c, value), present)
    return Number(c.builder.compute("eq", alike, present), Kind(BOOL))


def _shuffled(name: str, c: Compiler, x: Any, lane: Any) -> Number | Vector:
    if isinstance(x, Vector):
        return c.elementwise(lambda value: _shuffled(name, c, value, lane), x)
    if isinstance(lane, int) and not 0 <= lane < WARP_SIZE:
        raise UnsupportedError(f"lanes of a warp are 0 to {WARP_SIZE - 1}; got {describe(lane)} {lane}")
    kind, number = c.kind(x), c.builder.cast(c.index(lane), UINT32)
    source = _source(name, c, number)
    return Number(_operation(c, "shuffle", c.cast(x, kind.type), source), Kind(kind.type, kind.weak))


def _source(name: str, c: Compiler, number: Value) -> Value:
    """Returns the lane that a shuffle reads; the invocation's own where it does not exist."""
    b, own = c.builder, _lane(c)
    if name == "shuffle":
        return number
    if name == "shuffle_xor":
        return b.compute("xor", own, number)
    if name == "shuffle_up":
        return b.select(b.compute("lt", own, number), own, b.compute("sub", own, number))
    x, y, z = c.function.local_size
    n = b.const(x * y * z, UINT32)
    left = b.compute("sub", n, b.compute("sub", _index(c), own))  # lanes of this warp
    above = b.compute("add", own, number)
    return b.select(b.compute("ge", above, b.compute("min", left, b.const(WARP_SIZE, UINT32))), own, above)


@intrinsic(lambda c: WARP_SIZE)
def size() -> int:
    """Number of lanes of a warp: 32, a compile-time constant."""
    refuse_outside_kernel("warp.size()")


@intrinsic(_count)
def count() -> int:
    """Number of warps of the workgroup, a compile-time constant; the last one may have fewer lanes."""
    refuse_outside_kernel("warp.count()")


@intrinsic(_warp_id)
def id() -> int:
    """Index of the warp in its workgroup; int32."""
    refuse_outside_kernel("warp.id()")


@intrinsic(lambda c: _int(c, _lane(c)))
def local_id() -> int:
    """Lane of the invocation: its linear index in the workgroup modulo 32; int32."""
    refuse_outside_kernel("warp.local_id()")


@intrinsic(lambda c: Number(_votes(c, True, _ALL_LANES), Kind(UINT32)))
def active_mask() -> int:
    """Mask of the active lanes; uint32."""
    refuse_outside_kernel("warp.active_mask()")


@intrinsic(_ballot)
def ballot(condition: Any, mask: int = _ALL_LANES) -> int:
    """Mask of the active lanes, among those of `mask`, for which a condition is true; uint32."""
    refuse_outside_kernel("warp.ballot(condition)")


@intrinsic(_any)
def any(condition: Any, mask: int = _ALL_LANES) -> bool:
    """True if a condition is true in at least one active lane of the mask."""
    refuse_outside_kernel("warp.any(condition)")


@intrinsic(_all)
def all(condition: Any, mask: int = _ALL_LANES) -> bool:
    """True if a condition is true in all active lanes of the mask."""
    refuse_outside_kernel("warp.all(condition)")


@intrinsic(_elect)
def elect() -> bool:
    """True in the lowest active lane, False in the others."""
    refuse_outside_kernel("warp.elect()")


@intrinsic(_match_any)
def match_any(value: Any, mask: int = _ALL_LANES) -> int:
    """Mask of the active lanes whose value has the same bits, among those of `mask`; uint32."""
    refuse_outside_kernel("warp.match_any(value)")


@intrinsic(_match_all)
def match_all(value: Any, mask: int = _ALL_LANES) -> bool:
    """True if the values of all active lanes of the mask have the same bits as this one."""
    refuse_outside_kernel("warp.match_all(value)")


@intrinsic(partial(_shuffled, "shuffle"))
def shuffle(value: Any, lane: int) -> Any:
    """Value of another lane, which each lane chooses for itself; undefined for an inactive lane."""
    refuse_outside_kernel("warp.shuffle(value, lane)")


@intrinsic(partial(_shuffled, "shuffle"))
def broadcast(value: Any, lane: int) -> Any:
    """Value of one lane, the same for the whole warp."""
    refuse_outside_kernel("warp.broadcast(value, lane)")


@intrinsic(partial(_shuffled, "shuffle_xor"))
def shuffle_xor(value: Any, mask: int) -> Any:
    """Value of the lane `local_id() ^ mask`."""
    refuse_outside_kernel("warp.shuffle_xor(value, mask)")


@intrinsic(partial(_shuffled, "shuffle_up"))
def shuffle_up(value: Any, delta: int) -> Any:
    """Value of the lane `delta` below; where there is none, the invocation's own value."""
    refuse_outside_kernel("warp.shuffle_up(value, delta)")


@intrinsic(partial(_shuffled, "shuffle_down"))
def shuffle_down(value: Any, delta: int) -> Any:
    """Value of the lane `delta` above; where there is none, the invocation's own value."""
    refuse_outside_kernel("warp.shuffle_down(value, delta)")


@intrinsic(lambda c: c.builder.warp("barrier"))
def barrier() -> None:
    """Waits for the active lanes of the warp; makes their earlier writes to arrays visible to them."""
    refuse_outside_kernel("warp.barrier()")


def __dir__() -> list[str]:
    return __all__
