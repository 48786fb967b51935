"""Execution modes for floats: arithmetic keeps infinities, NaN and the sign of zero (SPV_KHR_float_controls)."""

from __future__ import annotations

from collections.abc import Collection

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.enums import Capability, ExecutionMode
from vkcompute.spirv.instruction import Instruction, string_words
from vkcompute.spirv.module import Module

_EXTENSION = "SPV_KHR_float_controls"
_DECLARED = {"SignedZeroInfNanPreserve", "FloatControls2"}  # with the latter, the mode is not allowed


def preserve_special_floats(spirv: bytes, capabilities: Collection[str], widths: Collection[int]) -> bytes:
    """Returns a module whose arithmetic on floats of these widths keeps infinities, NaN and the sign of zero.

    Without the mode, drivers may take them not to occur.

    Args:
        capabilities: those of the module, by their names. One that says itself what is kept is unchanged.
    """
    if not _DECLARED.isdisjoint(capabilities):
        return spirv
    module = Module.parse(spirv)
    used = [declaration.operands[1] for declaration in module.declarations if declaration.opcode == op.OpTypeFloat]
    chosen = sorted({width for width in used if width in widths})
    if not chosen:
        return spirv
    mode = ExecutionMode.SignedZeroInfNanPreserve
    module.capabilities.append(Instruction(op.OpCapability, (Capability.SignedZeroInfNanPreserve,)))
    module.extensions.append(Instruction(op.OpExtension, string_words(_EXTENSION)))
    entries = [entry_point.operands[1] for entry_point in module.entry_points]
    module.execution_modes += [
        Instruction(op.OpExecutionMode, (entry, mode, width)) for entry in entries for width in chosen
    ]
    return module.words()
