"""SPIR-V rewritten for a driver, and kept on disk: rewriting a large module takes longer than launching it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vkcompute import disk, spirv
from vkcompute.code_version import code_version
from vkcompute.core.physical import PhysicalDevice
from vkcompute.core.quirks import quirks_of
from vkcompute.runtime.launching.program import Program
from vkcompute.spirv.branch_folding import fold_branches
from vkcompute.spirv.constant_operands import hide_constant_operands
from vkcompute.spirv.conversions import replace_conversions
from vkcompute.spirv.divisors import hide_divisors
from vkcompute.spirv.float_controls import preserve_special_floats
from vkcompute.spirv.zeros import hide_zeros

_FOLDERS = Path(spirv.__file__).parent, Path(__file__).parent
_UNCHANGED = b""  # the content of the entry of a module that needs no rewriting

Step = tuple[Callable[..., bytes], tuple[Any, ...]]
"""A function from SPIR-V to SPIR-V, and its arguments behind the module. Their repr is equal only if they are."""


def rewritten(program: Program, physical: PhysicalDevice, values: Mapping[int, int]) -> bytes:
    """Returns a program's SPIR-V without the instructions that a device's driver computes wrongly, or slowly.

    Args:
        values: of the specialization constants that are set, as integers, by their ids.
    """
    steps = _steps(program, physical, values)
    entry = _entry(program, steps) if steps else None
    binary = None if entry is None else disk.read_cached(entry)
    if binary is None:
        binary = program.spirv
        for function, args in steps:
            binary = function(binary, *args)
        if entry is not None:
            disk.keep_cached(entry, _UNCHANGED if binary == program.spirv else binary)
    return program.spirv if binary == _UNCHANGED else binary


def _steps(program: Program, physical: PhysicalDevice, values: Mapping[int, int]) -> list[Step]:
    """Returns what to do, in order."""
    quirks, preserved = quirks_of(physical), physical.preserved_floats
    steps: tuple[tuple[Any, Step], ...] = (
        (quirks.masks_branches, (fold_branches, (dict(sorted(values.items())),))),
        (preserved, (preserve_special_floats, (program.interface.capabilities, preserved))),
        (quirks.wrong_conversions, (replace_conversions, (quirks.wrong_conversions,))),
        (quirks.simplifies_zeros, (hide_zeros, ())),
        (quirks.divides_by_known_lanes, (hide_divisors, ())),
        (quirks.loses_functions_of_constants, (hide_constant_operands, ())),
    )
    return [step for needed, step in steps if needed]


def _entry(program: Program, steps: list[Step]) -> Path | None:
    """Returns the file of a rewritten module; None if the installed code has no version."""
    version = code_version(*_FOLDERS)
    if version is None:
        return None
    text = repr([version, *[(function.__name__, *args) for function, args in steps]])
    digest = hashlib.sha256(text.encode() + b"\0" + program.spirv).hexdigest()
    return disk.cache_folder() / "rewritten" / digest
