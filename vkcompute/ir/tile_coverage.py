"""Arrays that workgroups access in tiles of another size than the local size: elements left out, or written twice.

In `out[16 * group_id(0) + local_id(0)]`, tiles begin 16 elements apart. Workgroups of 8 access the first half of each.
Loops over a tile, several accesses, and steps between the elements of neighbouring invocations count. Tiles may begin
less than a workgroup apart, as those with a border do, if no two workgroups write the same element.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vkcompute.ir.function import Function, Op, walk
from vkcompute.ir.invocation_masks import Access, accesses
from vkcompute.ir.invocation_values import Array, Monomial, Polynomial, broadcasts, group_axis
from vkcompute.ir.memory import Memory

_MAX_STRIDE = 1 << 20
_WRITES = ("store", "atomic", "compare_exchange")


class TileMisfit(NamedTuple):
    """An access to tiles that do not fit the local size.

    Attributes:
        access: the operation.
        axis: that of the workgroups along which the tiles follow each other.
        stride: elements from the start of a tile to that of the next one.
        are_apart: True if elements between the tiles are left out, False if two workgroups write the same ones.
    """

    access: Op
    axis: int
    stride: int
    are_apart: bool


class _Tiles(NamedTuple):
    """The tiles of an access along one axis of workgroups.

    Attributes:
        op: the operation.
        axis: that of the workgroups.
        stride: elements between the starts of tiles.
        offsets: of the elements in a tile, by axes of loops and the axes z, y and x of the workgroup.
        certain: the invocations that execute it in some workgroup.
        steps: distances of which any multiple is accessed, too.
        is_explicit: True if the kernel has the stride, False if it follows from global ids or several axes.
    """

    op: Op
    axis: int
    stride: int
    offsets: Array
    certain: Array
    steps: tuple[int, ...]
    is_explicit: bool

    @property
    def local_steps(self) -> dict[int, int]:
        """Axis of the workgroup along which the offsets differ -> the greatest common divisor of the differences."""
        diffs = {axis: np.diff(self.offsets, axis=self.offsets.ndim - 1 - axis) for axis in range(3)}
        return {axis: int(np.gcd.reduce(diff, axis=None)) for axis, diff in diffs.items() if diff.any()}

    @property
    def residues(self) -> Array:
        """Returns which offsets an invocation of some workgroup accesses, modulo the stride, as bools."""
        reached = np.zeros(self.stride, bool)
        reached[self.offsets.reshape(-1) % self.stride] = True
        every = math.gcd(self.stride, *self.steps)
        return np.tile(reached.reshape(-1, every).any(axis=0), self.stride // every)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis of workgroups, and those of a workgroup."""
        return self.axis, *self.local_steps


def tile_misfits(function: Function) -> list[TileMisfit]:
    """Returns an access to tiles that do not fit the local size for each axis of workgroups that has one.

    An index of which something is unknown fits, and with it all accesses of the same kind to its array. Tiles apart
    fit, too, where others along the same axes are as large as the workgroup: the kernel is made for it.
    """
    if not any(op.code == "builtin" and op.attribute[0] == "group_id" for op in walk(function.body)):
        return []
    kinds: dict[tuple[Memory, bool], list[Access]] = defaultdict(list)
    for access in accesses(function):
        if access.op.memory in function.buffers:
            kinds[access.op.memory, access.op.code in _WRITES].append(access)
    groups = [tiles for entries in kinds.values() for tiles in _alike(entries, function.local_size)]
    made = {each.axes for tiles in groups for each in tiles if _fits(each)}
    misfits = [
        TileMisfit(tiles[0].op, tiles[0].axis, tiles[0].stride, True)
        for tiles in groups
        if _are_apart(tiles) and not made.intersection([each.axes for each in tiles])
    ]
    if function.shared_memory:
        twice = [each for tiles in groups for each in tiles if each.op.code == "store" and _overlap(each)]
        misfits += [TileMisfit(each.op, each.axis, each.stride, False) for each in twice]
    return list({misfit.axis: misfit for misfit in reversed(misfits)}.values())


def _are_apart(tiles: Sequence[_Tiles]) -> bool:
    """True if elements are left out that continue the pattern of those that neighbouring invocations access."""
    steps = [step for each in tiles for step in each.local_steps.values()]
    if not steps:
        return False
    reached = np.logical_or.reduce([each.residues for each in tiles])
    return not np.array_equal(reached, np.roll(reached, math.gcd(*steps)))


def _fits(tiles: _Tiles) -> bool:
    """True if the tiles are as large as the workgroup, in a kernel that gives their size."""
    step = math.gcd(*tiles.local_steps.values())
    return bool(step) and tiles.is_explicit and not _are_apart([tiles]) and _n_different(tiles) * step == tiles.stride


def _n_different(tiles: _Tiles) -> int:
    return len(np.unique(tiles.offsets))


def _overlap(tiles: _Tiles) -> bool:
    """True if several workgroups access the same elements, each with another invocation."""
    if not tiles.is_explicit or tiles.steps or not tiles.local_steps or not broadcasts(tiles.offsets, tiles.certain):
        return False
    offsets, certain = np.broadcast_arrays(tiles.offsets, tiles.certain)
    reached = np.unique(offsets[certain])
    return len(np.unique(reached % tiles.stride)) < len(reached)


def _alike(entries: Sequence[Access], local_size: tuple[int, int, int]) -> list[list[_Tiles]]:
    """Returns the tiles of all accesses to an array, together those that differ by known numbers only.

    None of those that differ in something unknown: one may access what the other leaves out.
    """
    factors: dict[tuple[Monomial, int], dict[object, list[_Tiles]]] = defaultdict(lambda: defaultdict(list))
    for access in entries:
        tiled = None if access.element is None else _tiled(access, access.element, local_size)
        if tiled is None:
            return []
        for factor, key, tiles in tiled:
            factors[factor, tiles.axis][tiles.stride, key].append(tiles)
    return [tiles for by_key in factors.values() if len(by_key) == 1 for tiles in by_key.values()]


def _tiled(
    access: Access, index: Polynomial, local_size: tuple[int, int, int]
) -> list[tuple[Monomial, object, _Tiles]] | None:
    """Returns the tiles of an index, one per factor, such as the length of a row, that multiplies ids of workgroups.

    Each with its factor, and with the unknown rest of the index. None if the index has another form.
    """
    strides: dict[Monomial, dict[str, int]] = defaultdict(dict)
    for monomial, numbers in index.items():
        ids = [atom for atom in monomial if group_axis(atom) is not None]
        if len(ids) > 1 or (ids and numbers.size > 1):
            return None
        if ids:
            strides[_without(monomial, (ids[0],))][ids[0]] = int(numbers.item())
    if not strides and (len(index) > 1 or index[()].size > 1):
        return None  # it may be any element
    result = []
    for factor, by_id in strides.items():
        steps, rest = _rest(index, factor, strides)
        offsets, certain = (
            _by_axis(each, local_size) for each in (index.get(factor, np.array([0])), access.mask.certain)
        )
        for axis, stride, numbers, is_explicit in _by_digit(by_id, offsets):
            if 0 < stride <= _MAX_STRIDE:
                result.append((factor, rest, _Tiles(access.op, axis, stride, numbers, certain, steps, is_explicit)))
    return result


def _rest(
    index: Polynomial, factor: Monomial, strides: dict[Monomial, dict[str, int]]
) -> tuple[tuple[int, ...], object]:
    """Returns the steps of loops over tiles with this factor, and what else may move them."""
    steps, rest = [], set()
    for monomial, numbers in index.items():
        others = [each for each in strides if each != factor and _contains(monomial, each) and _contains(each, factor)]
        if monomial == factor or not _contains(monomial, factor) or others or any(map(_is_group, monomial)):
            continue
        if numbers.size == 1 and all(atom.startswith(("loop ", "n_groups.")) for atom in _without(monomial, factor)):
            steps.append(int(numbers.item()))
        else:
            rest.add((monomial, numbers.tobytes()))
    return tuple(steps), frozenset(rest)


def _by_digit(strides: dict[str, int], offsets: Array) -> list[tuple[int, int, Array, bool]]:
    """Returns (axis of workgroups, stride, offsets, True if explicit) of tiles along one axis, or along two.

    Of `48 * y + x`, with tiles along both, the offsets of y are quotients, and those of x remainders.
    """
    row = max((int(diff.max()) for axis in range(1, 4) if (diff := np.diff(offsets, axis=-axis)).size), default=1)
    along_y = {atom: stride // row for atom, stride in strides.items() if row > 1 and stride % row == 0}
    along_x = {atom: stride for atom, stride in strides.items() if atom not in along_y and abs(stride) < row}
    if len(along_y) == len(along_x) == 1 and len(strides) == 2:
        return [*_by_digit(along_y, offsets // row), *_by_digit(along_x, offsets % row)]
    atom = min(strides, key=lambda atom: abs(strides[atom]))
    is_explicit = len(strides) == 1 and atom.startswith("group_id")
    return [(group_axis(atom) or 0, math.gcd(*strides.values()), offsets, is_explicit)]


def _by_axis(numbers: Array, local_size: tuple[int, int, int]) -> Array:
    """Returns an array over the invocations with the axes z, y and x instead of its last one."""
    return numbers.reshape(*numbers.shape[:-1], *(local_size[::-1] if numbers.shape[-1] > 1 else (1, 1, 1)))


def _is_group(atom: str) -> bool:
    return group_axis(atom) is not None


def _contains(monomial: Monomial, factor: Monomial) -> bool:
    return all(monomial.count(atom) >= factor.count(atom) for atom in factor)


def _without(monomial: Monomial, factor: Monomial) -> Monomial:
    left = list(monomial)
    for atom in factor:
        left.remove(atom)
    return tuple(left)
