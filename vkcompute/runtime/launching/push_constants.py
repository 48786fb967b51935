"""Push constants: Python values in, the bytes of their block out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vkcompute.spirv.interface import InterfaceBlock

CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d", "bool": "I",
}  # fmt: skip
"""dtype -> its code in `struct`"""


class PushConstants:
    """Packs the values of a kernel's push constant block, in order or by name.

    Attributes:
        nbytes: size of the block; 0 if the kernel has none.
        names: of the members, in order.
        packer: packs valid values in order; None if `struct` cannot.
        limits: (index, dtype) for each int that must fit a narrower type than that of its member, too.
    """

    def __init__(self, kernel: str, block: InterfaceBlock | None) -> None:
        self.kernel = kernel
        members = block.members if block else ()
        self.nbytes = block.nbytes if block else 0
        self.names = tuple(member.name or f"f{i}" for i, member in enumerate(members))
        self.packer: Callable[..., bytes] | None = None
        self.limits: Sequence[tuple[int, str]] = ()
        if block is None:
            return
        self._dtype = block.dtype
        offsets = [member.offset_bytes for member in members]
        if offsets == sorted(offsets) and all(member.dtype in CODES and not member.shape for member in members):
            self.packer = struct.Struct(_struct_format(block)).pack

    def restrict(self, limits: Sequence[tuple[int, str]]) -> None:
        """Sets `limits`, once; without any, packing does not pay for them."""
        ranges = [(n, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for n, dtype in limits]
        self.limits, packer = limits, self.packer

        def checked(*values: Any) -> bytes:
            for n, low, high in ranges:
                if not low <= values[n] <= high:
                    raise OverflowError  # `pack` raises the error for the user
            return packer(*values)  # type: ignore[misc]

        if limits and packer is not None:
            self.packer = checked

    def pack(self, values: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        """Packs the block; `values` may be its bytes, already packed.

        Raises:
            TypeError: a value is missing, superfluous, of an unknown name, or a float for an integer member.
            ValueError: a value does not fit its member.
            OverflowError: a value does not fit its limit.
        """
        if len(values) == 1 and type(values[0]) is bytes and len(values[0]) == self.nbytes:
            return values[0]
        if named:
            values = self.in_order(values, named)
        if len(values) != len(self.names):
            raise TypeError(
                f"{self.kernel} takes {len(self.names)} push constants ({', '.join(self.names) or 'none'}) after its "
                f"arrays; got {len(values)}"
            )
        if self.packer is not None:
            with suppress(struct.error, OverflowError, TypeError):
                return self.packer(*values)
        return self._structured(values)

    def in_order(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The values of all members in order: first `values`, then the others by name."""
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

    def _structured(self, values: Sequence[Any]) -> bytes:
        record = np.zeros((), self._dtype)
        for field, name, value in zip(record.dtype.names or (), self.names, values, strict=True):
            record[field] = _array(f"push constant {name} of {self.kernel}", record.dtype[field], value)
        for n, dtype in self.limits:
            demand_fit(self.kernel, self.names[n], values[n], dtype)
        return record.tobytes()


def _array(where: str, field: np.dtype[Any], value: Any) -> np.ndarray[Any, Any]:
    """Converts `value` to an array of a member's type and shape, exactly but for rounding of floats."""
    try:
        given = np.asarray(value)
    except ValueError:  # nested sequences of different lengths
        raise ValueError(f"{where} has shape {field.shape}; got {value!r}") from None
    base = field.base
    limits = np.iinfo(base) if base.kind in "iu" else None
    kind = f"{base}, {limits.min} to {limits.max}" if limits else f"{base}"
    refusal = f"{where} is {kind}; got {value!r} ({type(value).__name__})"
    if given.dtype == object:
        item = next((element for element in given.flat if not _fits(CODES.get(base.name, "I"), element)), None)
        raise error_for(base.name, item)(refusal)
    if limits and given.dtype.kind in "iu":
        if given.size and not limits.min <= int(given.min()) <= int(given.max()) <= limits.max:
            raise ValueError(refusal)
    elif not np.can_cast(given.dtype, base, "same_kind"):
        raise TypeError(refusal)
    if given.shape != field.shape:
        raise ValueError(f"{where} has shape {field.shape}; got {given.shape}")
    with np.errstate(over="ignore"):
        cast: np.ndarray[Any, Any] = given.astype(base)
    if base.kind == "f" and (np.isinf(cast) & np.isfinite(given)).any():
        raise ValueError(refusal)
    return cast


def demand_fit(kernel: str, name: str, value: Any, dtype: str) -> None:
    """Raises numpy's OverflowError if an int argument that takes a type does not fit it."""
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        wide = "int32" if -(2**31) <= value < 2**31 else "int64"
        raise OverflowError(
            f"Python integer {value} out of bounds for {dtype}, {limits.min} to {limits.max}: the argument {name} of "
            f"{kernel} takes this type from its other operand; pass np.{wide}({value}), or convert the other operand"
        )


def error_for(dtype: str, value: Any) -> type[Exception]:
    """ValueError if the value is a number of the right kind that does not fit, else TypeError."""
    number = isinstance(value, (int, np.integer)) or (
        dtype.startswith("float") and isinstance(value, (float, np.floating))
    )
    return ValueError if number else TypeError


def _fits(code: str, value: Any) -> bool:
    try:
        struct.pack(f"<{code}", value)
    except (struct.error, OverflowError, TypeError):
        return False
    return True


def _struct_format(block: InterfaceBlock) -> str:
    parts, at = ["<"], 0
    for member in block.members:
        parts.append(f"{member.offset_bytes - at}x" if member.offset_bytes > at else "")
        parts.append(CODES[member.dtype])
        at = member.offset_bytes + struct.calcsize("<" + CODES[member.dtype])
    parts.append(f"{block.nbytes - at}x")
    return "".join(parts)
