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
    return any(_depth(each, functions) > limit for each in functions)


def _functions(instructions: Sequence[Instruction]) -> Iterator[tuple[int, list[Instruction]]]:
    """Yields id and instructions of each function."""
    starts = np.cumsum([each.opcode == op.OpFunction for each in instructions]).tolist()
    for _, group in groupby(zip(starts, instructions, strict=True), lambda pair: pair[0]):
        found = [each for _, each in group]
        yield found[0].operands[1], found


def _depth(function: int, functions: dict[int, list[Instruction]]) -> int:
    """Returns the depth in a function, and in those that it calls.

    Drivers turn a return in a loop into a break. They move code after another construct that returns into an else, with
    one more test at the end.
    """
    deepest, merges, loops = 0, list[int](), [False]  # of the open constructs: merge blocks, True inside of a loop
    after, returns = [0], [False]  # constructs inside of each that return, and True if one does
    for each in functions[function]:
        if each.opcode == op.OpLabel:
            while merges and merges[-1] == each.operands[0]:
                for stack in (merges, loops, after):
                    stack.pop()
                returned = returns.pop()
                after[-1] += returned and not loops[-1]
                returns[-1] |= returned
        elif each.opcode in _MERGES:
            merges.append(each.operands[0])
            loops.append(loops[-1] or each.opcode == op.OpLoopMerge)
            after.append(0)
            returns.append(False)
        elif each.opcode in _RETURNS:
            returns[-1] = True
        depth = len(merges) + sum(after) + any(after)
        if each.opcode == op.OpFunctionCall:
            depth += _depth(each.operands[2], functions)
        deepest = max(deepest, depth)
    return deepest
