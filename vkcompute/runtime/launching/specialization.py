"""Specialization constants: Python values in, bytes of the declared type out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vkcompute.runtime.launching.push_constants import CODES, error_for
from vkcompute.spirv.interface import SpecConstant


def specialize(
    kernel: str, declared: Sequence[SpecConstant], wanted: Mapping[int | str, Any]
) -> tuple[tuple[int, bytes], ...]:
    """Returns (id, bytes) of each specialization constant in `wanted`, whose keys are ids or names.

    Raises:
        ValueError: the kernel declares no such constant, it is given twice, or the value does not fit.
        TypeError: a float for an integer constant.
    """
    by_key: dict[int | str, SpecConstant] = {constant.spec_id: constant for constant in declared}
    by_key.update({constant.name: constant for constant in declared if constant.name})
    values: dict[int, bytes] = {}
    for key, value in wanted.items():
        constant = by_key.get(key)
        if constant is None:
            known = ", ".join(f"{c.name or 'unnamed'} (id {c.spec_id})" for c in declared) or "none"
            raise ValueError(f"{kernel} has no specialization constant {key!r}; it has {known}")
        if constant.spec_id in values:
            raise ValueError(f"{_label(constant)} of {kernel} is given twice, by name and by id")
        values[constant.spec_id] = _spec_bytes(kernel, constant, value)
    return tuple(sorted(values.items()))


def _label(constant: SpecConstant) -> str:
    return f"specialization constant {constant.name or f'with id {constant.spec_id}'}"


def _spec_bytes(kernel: str, constant: SpecConstant, value: Any) -> bytes:
    if constant.dtype == "bool" and isinstance(value, (bool, np.bool_)):
        value = int(value)
    try:
        if constant.dtype == "bool" and value not in (0, 1):
            raise OverflowError
        return struct.pack("<" + CODES[constant.dtype], value)
    except (struct.error, OverflowError, TypeError):
        kind = error_for(constant.dtype, value)
        raise kind(f"{_label(constant)} of {kernel} is {constant.dtype}; got {value!r}") from None
