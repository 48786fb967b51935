"""Operands of functions that a driver may take for constants, hidden from its constant propagation.

SPIRV-Tools' pass "ccp" leaves some functions of constants without a value: those of GLSL.std.450 that it has a rule
for, but does not fold under the execution modes of SPV_KHR_float_controls. A phi that joins such a result with a
constant becomes that constant. `v = 1.5; if (x > 3) v = sqrt(2.0);` is 1.5 for all x.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vkcompute.spirv import glsl_std_450 as glsl
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.builder import Builder, may_call
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import Module

# The functions with a rule in SPIRV-Tools' source/opt/const_folding_rules.cpp, as of 2026.
_FOLDED = {
    *(glsl.FMix, glsl.FClamp, glsl.NClamp, glsl.SClamp, glsl.UClamp, glsl.Sqrt, glsl.Pow),
    *(glsl.FMin, glsl.NMin, glsl.SMin, glsl.UMin, glsl.FMax, glsl.NMax, glsl.SMax, glsl.UMax),
    *(glsl.Sin, glsl.Cos, glsl.Tan, glsl.Asin, glsl.Acos, glsl.Atan, glsl.Atan2),
    *(glsl.Exp, glsl.Exp2, glsl.Log, glsl.Log2),
}


def hide_constant_operands(spirv: bytes) -> bytes:
    """Returns a valid module in which no such function has constants alone as operands.

    The first operand becomes a selection by a specialization constant, which is True and cannot be set. Which operands
    are constants depends on other passes, so that of every such function does.
    """
    if not may_call(np.frombuffer(spirv, np.uint32), _FOLDED):
        return spirv
    module = Module.parse(spirv)
    builder = Builder(module)
    module.functions = [
        instruction for given in module.functions for instruction in _with_hidden_operand(builder, given)
    ]
    return module.words()


def _is_folded(builder: Builder, given: Instruction) -> bool:
    return given.opcode == op.OpExtInst and given.operands[2] in builder.glsl and given.operands[3] in _FOLDED


def _with_hidden_operand(builder: Builder, given: Instruction) -> Iterator[Instruction]:
    builder.define(given)
    if _is_folded(builder, given):
        start, first, rest = given.operands[:4], given.operands[4], given.operands[5:]
        builder.code = []
        hidden = builder.hidden(first)
        yield from builder.code
        given = given._replace(operands=(*start, hidden, *rest))
    yield given
