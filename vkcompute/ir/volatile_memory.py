"""Volatile workgroup memory: the accesses of a warp are in lockstep, as older programs for CUDA rely on.

Each access ends in a barrier of the warp. So all lanes have loaded before one of them stores, and the reverse.
"""

from __future__ import annotations

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value
from vkcompute.ir.rewriting import expand

_ACCESSES = "load", "store", "atomic", "compare_exchange"


def order_volatile(function: Function) -> Function:
    """Adds barriers of warps behind the accesses to volatile memory, in place."""
    return expand(function, _is_volatile, _ordered)


def _is_volatile(op: Op) -> bool:
    return op.code in _ACCESSES and op.memory is not None and op.memory.volatile


def _ordered(b: Builder, op: Op) -> Value | None:
    result: Value | None = None
    assert op.memory is not None
    if op.code == "load":
        result = b.load(op.memory, op.args[0])
    elif op.code == "store":
        b.store(op.memory, *op.args)
    elif op.code == "atomic":
        result = b.atomic(op.attribute[0], op.memory, *op.args)
    else:
        result = b.compare_exchange(op.memory, *op.args)
    b.warp("barrier")
    return result
