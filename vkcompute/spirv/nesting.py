"""Depth of structured control flow in a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from vkcompute.spirv import opcodes as op
from vkcompute.spirv.instruction import Instruction
from vkcompute.spirv.module import scan

_MERGES = op.OpSelectionMerge, op.OpLoopMerge
_RETURNS = op.OpReturn, op.OpReturnValue, op.OpKill
_OPCODES = frozenset((op.OpFunction, op.OpFunctionCall, op.OpLabel, *_MERGES, *_RETURNS))


def exceeds_depth(spirv: bytes, limit: int) -> bool:
    """True if branches and loops of a valid module are nested deeper than `limit`."""
    functions = dict(_functions([*scan(spirv, _OPCODES)]))
    return any(_depth(function, functions) > limit for function in functions)


def _functions(instructions: Sequence[Instruction]) -> Iterator[tuple[int, list[Instruction]]]:
    """Yields id and instructions of each function."""
    starts = np.cumsum([instruction.opcode == op.OpFunction for instruction in instructions]).tolist()
    for _, group in groupby(zip(starts, instructions, strict=True), lambda pair: pair[0]):
        body = [instruction for _, instruction in group]
        yield body[0].operands[1], body


def _depth(function: int, functions: dict[int, list[Instruction]]) -> int:
    """Returns the depth in a function, and in those that it calls.

    Drivers turn a return in a loop into a break. They move code after another construct that returns into an else, with
    one more test at the end.
    """
    deepest, merges, loops = 0, list[int](), [False]  # of the open constructs: merge blocks, True inside of a loop
    after, returns = [0], [False]  # constructs inside of each that return, and True if one does
    for instruction in functions[function]:
        if instruction.opcode == op.OpLabel:
            while merges and merges[-1] == instruction.operands[0]:
                for stack in (merges, loops, after):
                    stack.pop()
                returned = returns.pop()
                after[-1] += returned and not loops[-1]
                returns[-1] |= returned
        elif instruction.opcode in _MERGES:
            merges.append(instruction.operands[0])
            loops.append(loops[-1] or instruction.opcode == op.OpLoopMerge)
            after.append(0)
            returns.append(False)
        elif instruction.opcode in _RETURNS:
            returns[-1] = True
        depth = len(merges) + sum(after) + any(after)
        if instruction.opcode == op.OpFunctionCall:
            depth += _depth(instruction.operands[2], functions)
        deepest = max(deepest, depth)
    return deepest
