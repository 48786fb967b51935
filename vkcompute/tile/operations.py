"""The operations on blocks, beside those of `ir/` on numbers, which apply to each element."""

from __future__ import annotations

from typing import Any

from vkcompute.errors import IrError
from vkcompute.ir.function import Op, Region, Value
from vkcompute.ir.operation import Operation
from vkcompute.ir.operations import OPERATIONS, result_type
from vkcompute.ir.types import BOOL, Type, element_of
from vkcompute.tile.types import Block, block


def _given(operation: Operation, operands: list[Type], attribute: Any) -> Type | None:
    """Returns the attribute: the builder has computed the type."""
    return attribute if isinstance(attribute, Block) else None


def _row(name: str, **traits: Any) -> Operation:
    return Operation(name, _given, **traits)


BLOCK_OPERATIONS = {
    row.name: row
    for row in (
        # Their attribute is the type of the result.
        _row("arange"),
        _row("splat"),
        _row("reshape"),
        _row("broadcast"),
        _row("permute"),
        # Their attribute is a `Access`, a `Reduction` or the like.
        _row("load_block", reads=True),
        _row("store_block", effect=True, writes=True),
        _row("atomic_block", effect=True, reads=True, writes=True),
        _row("reduce"),
        _row("scan"),
        _row("mirror"),  # its attribute is a mask: element k of the result is element k ^ mask of the operand
        _row("gather"),  # its attribute is an axis
        _row("histogram"),
        _row("dot"),  # its attribute is "bfloat16" if the operands are the bits of such numbers, else None
        _row("stage"),  # its attribute is a `Staged`
        _row("part"),  # its attribute is an axis; its operands are the result of a stage and the number of the part
        _row("report", effect=True),  # its attribute is a `Report`; its operands are values, and perhaps a mask
        _row("assume", effect=True),  # its operand is not negative
    )
}
"""Operations on blocks."""


class BlockOp(Op):
    """An operation on blocks; it may have parameters and a region, the function by which a reduction combines."""

    __slots__ = ()

    def __init__(
        self,
        code: str,
        kind: Type | None,
        args: tuple[Value, ...],
        attribute: Any = None,
        regions: tuple[Region, ...] = (),
        loc: object = None,
    ) -> None:
        super().__init__("yield", kind, args, attribute, regions, loc)
        self.code, self.operation = code, BLOCK_OPERATIONS.get(code) or OPERATIONS[code]


def elementwise_type(code: str, operands: list[Type], attribute: Any) -> Type:
    """Returns the type of an operation of `ir/` on blocks of one shape, or a select by a block of bools."""
    blocks = [kind for kind in operands if isinstance(kind, Block)]
    shapes = {kind.shape for kind in blocks}
    if len(shapes) != 1 or len(blocks) != len(operands):
        raise IrError(f"{code} takes blocks of one shape; got {', '.join(map(str, operands))}")
    of = element_of(attribute) if isinstance(attribute, Block) else attribute
    result = result_type(code, [element_of(kind) for kind in operands], of)
    return block(element_of(result or BOOL), blocks[0].shape)
