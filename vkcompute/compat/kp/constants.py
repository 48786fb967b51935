"""Push and specialization constants as Kompute takes them: a flat list or array, or one structured value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vkcompute.errors import KomputeError

if TYPE_CHECKING:
    from vkcompute.spirv.interface import InterfaceBlock, Member, SpecConstant

_WORD = 4


def pack_push_constants(block: InterfaceBlock | None, values: Any) -> bytes:
    """Packs values into the push constant block of a shader.

    Value n of a list or array is for the member at byte 4 n. If the block has a member wider than 4 bytes, or `values`
    is a record, the values are for the numbers of the block in order. Arrays of 32-bit elements are copied bit for bit;
    other values are converted to the member's type. Values without a member are ignored.

    Raises:
        KomputeError: there are too few values, or one does not fit its type.
    """
    if block is None:
        return b""
    numbers = sorted(_numbers(block.members))
    by_offset = all(dtype.itemsize == _WORD for _, dtype in numbers) and not _is_structured(values)
    items = _items(values)
    packed = bytearray(block.nbytes)
    for n, (offset, dtype) in enumerate(numbers):
        at = offset // _WORD if by_offset else n
        if at >= len(items):
            n_values = f"{len(numbers)} numbers; got {len(items)} values"
            raise KomputeError(f"the shader has {block.nbytes} bytes of push constants, {n_values}")
        value = dtype.type(_converted(items[at], dtype, f"push constant {at}"))
        packed[offset : offset + dtype.itemsize] = value.tobytes()
    return bytes(packed)


def count_values(values: Any) -> int:
    """Counts the numbers in a list, array or record."""
    return len(_items(values))


def python_values(values: Any) -> list[Any]:
    """Returns the numbers in a list, array or record as Python numbers."""
    return [item.item() if isinstance(item, np.generic) else item for item in _items(values)]


def specialization_constants(declared: Sequence[SpecConstant], values: Any) -> dict[int | str, Any]:
    """Maps ids of specialization constants to values: value n is for id n. Ids that are not declared are ignored.

    Arrays of 32-bit elements are taken bit for bit; other values are converted to the constant's type.

    Raises:
        KomputeError: a value does not fit its type.
    """
    items = _items(values)
    constants: dict[int | str, Any] = {}
    for constant in declared:
        if constant.spec_id < len(items):
            item = items[constant.spec_id]
            if constant.dtype == "bool":
                constants[constant.spec_id] = bool(item)
            else:
                what = f"specialization constant {constant.spec_id}"
                constants[constant.spec_id] = _converted(item, np.dtype(constant.dtype), what)
    return constants


def _numbers(members: Sequence[Member], start: int = 0) -> Iterator[tuple[int, np.dtype[Any]]]:
    """Yields the byte offset and dtype of each number in a block."""
    for member in members:
        offsets = [start + member.offset_bytes]
        for length, stride in zip(member.shape, member.strides_bytes, strict=True):
            offsets = [offset + i * stride for offset in offsets for i in range(length)]
        for offset in offsets:
            if member.members:
                yield from _numbers(member.members, offset)
            else:
                yield offset, np.dtype("uint32" if member.dtype == "bool" else member.dtype)


def _is_structured(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "names", None) is not None


def _items(values: Any) -> list[Any]:
    """Lists the values: as numpy scalars if from an array of 32-bit elements, else as Python numbers."""
    array = np.asarray(values)
    if array.dtype.names is not None:
        if array.size != 1:
            raise KomputeError(f"structured constants are one record; got {array.size}")
        return [item for name in array.dtype.names for item in _items(array[name])]
    flat = array.ravel()
    if flat.size and flat.dtype.kind not in "biuf":
        raise TypeError(f"constants are numbers; got {flat.dtype}")
    return list(flat) if isinstance(values, np.ndarray) and flat.itemsize == _WORD else list(flat.tolist())


def _converted(item: Any, dtype: np.dtype[Any], what: str) -> int | float:
    """Returns an item as a Python number that `dtype` holds."""
    if isinstance(item, np.generic) and dtype.itemsize == _WORD:
        same_bits: int | float = np.frombuffer(item.tobytes(), dtype)[0].item()
        return same_bits
    if dtype.kind == "f":
        return float(item)
    limits = np.iinfo(dtype)
    if not limits.min <= item <= limits.max or item != int(item):
        raise KomputeError(f"{what} is {dtype}, {limits.min} to {limits.max}; got {item!r}")
    return int(item)
