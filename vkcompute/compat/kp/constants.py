"""Push and specialization constants as Kompute takes them: a flat list or array, or one structured value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.spirv.interface import Block, Member, SpecConstant

_WORD = 4


def push_bytes(block: Block | None, values: Any) -> bytes:
    """The bytes of a shader's push constants.

    The n-th value of a list or array stands for what the shader has at byte 4 n; where something in the block is wider
    than 4 bytes, or the values are a structure's, they stand for its numbers in order. Arrays of 32-bit elements are
    taken bit for bit, anything else by value, converted to the shader's type. What the shader does not declare is left
    out.

    Raises:
        KomputeError: there are too few, or one does not fit.
    """
    if block is None:
        return b""
    leaves = sorted(_leaves(block.members))
    by_word = all(dtype.itemsize == _WORD for _, dtype in leaves) and not _structured(values)
    items = _items(values)
    out = bytearray(block.nbytes)
    for number, (offset, dtype) in enumerate(leaves):
        place = offset // _WORD if by_word else number
        if place >= len(items):
            raise KomputeError(
                f"the shader has {block.nbytes} bytes of push constants, {len(leaves)} numbers; got {len(items)} values"
            )
        value = dtype.type(_number(items[place], dtype, f"push constant {place}"))
        out[offset : offset + dtype.itemsize] = value.tobytes()
    return bytes(out)


def n_values(values: Any) -> int:
    """How many push constants these are."""
    return len(_items(values))


def specialization(declared: Sequence[SpecConstant], values: Any) -> dict[int | str, Any]:
    """Values of specialization constants by their id: the n-th is that of id n. Undeclared ids are left out.

    Arrays of 32-bit elements are taken bit for bit, anything else by value.

    Raises:
        KomputeError: a value does not fit.
    """
    items = _items(values)
    found: dict[int | str, Any] = {}
    for constant in declared:
        if constant.spec_id < len(items):
            item = items[constant.spec_id]
            if constant.dtype == "bool":
                found[constant.spec_id] = bool(item)
            else:
                where = f"specialization constant {constant.spec_id}"
                found[constant.spec_id] = _number(item, np.dtype(constant.dtype), where)
    return found


def _leaves(members: Sequence[Member], start: int = 0) -> Iterator[tuple[int, np.dtype[Any]]]:
    """(offset in bytes, dtype) of every number in a block."""
    for member in members:
        places = [start + member.offset_bytes]
        for length, stride in zip(member.shape, member.strides_bytes, strict=True):
            places = [place + i * stride for place in places for i in range(length)]
        for place in places:
            if member.members:
                yield from _leaves(member.members, place)
            else:
                yield place, np.dtype("uint32" if member.dtype == "bool" else member.dtype)


def _structured(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "names", None) is not None


def _items(values: Any) -> list[Any]:
    """The values one by one: numpy's scalars where an array has 32-bit elements, else Python's."""
    array = np.asarray(values)
    if array.dtype.names is not None:
        if array.size != 1:
            raise KomputeError(f"structured constants are one record; got {array.size}")
        return [item for name in array.dtype.names for item in _items(array[name])]
    flat = array.ravel()
    if flat.size and flat.dtype.kind not in "biuf":
        raise TypeError(f"constants are numbers; got {flat.dtype}")
    return list(flat) if isinstance(values, np.ndarray) and flat.itemsize == _WORD else list(flat.tolist())


def _number(item: Any, dtype: np.dtype[Any], where: str) -> int | float:
    """A value of the shader's type, as a Python number."""
    if isinstance(item, np.generic) and dtype.itemsize == _WORD:
        same: int | float = np.frombuffer(item.tobytes(), dtype)[0].item()
        return same
    if dtype.kind == "f":
        return float(item)
    limits = np.iinfo(dtype)
    if not limits.min <= item <= limits.max or item != int(item):
        raise KomputeError(f"{where} is {dtype}, {limits.min} to {limits.max}; got {item!r}")
    return int(item)
