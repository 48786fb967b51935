"""Push constants and specialization constants: Python values in, bytes of the declared type out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.spirv.interface import Block, SpecConstant

_CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d", "bool": "I",
}  # fmt: skip


class PushConstants:
    """Packs the values of one block, given in order or by name.

    Attributes:
        nbytes: size of the block, 0 where a kernel has none.
        names: of the members, in order.
    """

    def __init__(self, kernel: str, block: Block | None) -> None:
        self.kernel = kernel
        members = block.members if block else ()
        self.nbytes = block.nbytes if block else 0
        self.names = tuple(member.name or f"f{i}" for i, member in enumerate(members))
        self._dtype: np.dtype[np.void] | None = None
        self._pack: Callable[..., bytes] | None = None
        if block is None:
            return
        if all(member.dtype in _CODES and not member.shape for member in members):
            self._codes = [_CODES[member.dtype] for member in members]
            self._pack = struct.Struct(_struct_format(block)).pack
        else:
            self._dtype = block.dtype

    def pack(self, values: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        """The bytes of the block.

        Raises:
            TypeError: a value is missing, too many, unknown by name, or a float for an integer member.
            ValueError: a value does not fit its member.
        """
        if named:
            values = self._in_order(values, named)
        if len(values) != len(self.names):
            raise TypeError(
                f"{self.kernel} takes {len(self.names)} push constants ({', '.join(self.names) or 'none'}) after its "
                f"tensors; got {len(values)}"
            )
        if self._pack is not None:
            try:
                return self._pack(*values)
            except (struct.error, OverflowError, TypeError) as error:
                raise self._misfit(values, error) from None
        return self._structured(values)

    def _in_order(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        rest = self.names[len(values) :]
        unknown = [name for name in named if name not in rest]
        missing = [name for name in rest if name not in named]
        if unknown or missing:
            raise TypeError(
                f"{self.kernel} takes the push constants {', '.join(self.names) or 'none'}; "
                + "; ".join(
                    [f"{name} is unknown or given twice" for name in unknown]
                    + [f"{name} is missing" for name in missing]
                )
            )
        return [*values, *(named[name] for name in rest)]

    def _misfit(self, values: Sequence[Any], error: Exception) -> Exception:
        """The error for the first value that does not fit, with its member's name."""
        for name, code, value in zip(self.names, self._codes, values, strict=True):
            if not _fits(code, value):
                wanted = next(dtype for dtype, known in _CODES.items() if known == code)
                number = isinstance(value, (int, np.integer)) or (
                    code in "efd" and isinstance(value, (float, np.floating))
                )
                kind = ValueError if number else TypeError
                return kind(
                    f"push constant {name} of {self.kernel} is {wanted}; got {value!r} ({type(value).__name__})"
                )
        return error

    def _structured(self, values: Sequence[Any]) -> bytes:
        record = np.zeros((), self._dtype)
        for name, value in zip(record.dtype.names or (), values, strict=True):
            field = record.dtype[name]
            given = np.asarray(value)
            where = f"push constant {name} of {self.kernel}"
            if field.base.kind in "iu" and given.dtype.kind in "iu":
                limits = np.iinfo(field.base)
                if given.size and not limits.min <= given.min() <= given.max() <= limits.max:
                    raise ValueError(f"{where} is {field.base}, {limits.min} to {limits.max}; got {value!r}")
            elif not np.can_cast(given.dtype, field.base, "same_kind"):
                raise TypeError(f"{where} is {field.base}; got {given.dtype}")
            if given.shape != field.shape:
                raise ValueError(f"{where} has shape {field.shape}; got {given.shape}")
            record[name] = given
        return record.tobytes()


def _fits(code: str, value: Any) -> bool:
    try:
        struct.pack(f"<{code}", value)
    except (struct.error, OverflowError, TypeError):
        return False
    return True


def _struct_format(block: Block) -> str:
    parts, at = ["<"], 0
    for member in block.members:
        parts.append(f"{member.offset_bytes - at}x" if member.offset_bytes > at else "")
        parts.append(_CODES[member.dtype])
        at = member.offset_bytes + struct.calcsize("<" + _CODES[member.dtype])
    parts.append(f"{block.nbytes - at}x")
    return "".join(parts)


def specialize(
    kernel: str, declared: Sequence[SpecConstant], wanted: Mapping[int | str, Any]
) -> tuple[tuple[int, bytes], ...]:
    """(id, bytes) of each specialization constant in `wanted`, which names them by id or by name.

    Raises:
        ValueError: the kernel declares no such constant, or the value does not fit.
        TypeError: a float for an integer constant.
    """
    by_key: dict[int | str, SpecConstant] = {constant.spec_id: constant for constant in declared}
    by_key.update({constant.name: constant for constant in declared if constant.name})
    found = {}
    for key, value in wanted.items():
        constant = by_key.get(key)
        if constant is None:
            known = ", ".join(f"{c.name or 'unnamed'} (id {c.spec_id})" for c in declared) or "none"
            raise ValueError(f"{kernel} has no specialization constant {key!r}; it has {known}")
        found[constant.spec_id] = _spec_bytes(kernel, constant, value)
    return tuple(sorted(found.items()))


def _spec_bytes(kernel: str, constant: SpecConstant, value: Any) -> bytes:
    value = bool(value) if constant.dtype == "bool" else value
    try:
        return struct.pack("<" + _CODES[constant.dtype], value)
    except (struct.error, OverflowError, TypeError):
        kind = ValueError if isinstance(value, (int, np.integer)) else TypeError
        label = constant.name or f"with id {constant.spec_id}"
        raise kind(f"specialization constant {label} of {kernel} is {constant.dtype}; got {value!r}") from None
