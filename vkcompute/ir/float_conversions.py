"""Conversions of floats to integers, with one result on every device: SPIR-V leaves what does not fit undefined.

A number that does not fit an integer of 32 or 64 bits becomes the nearest one that does, and NaN becomes 0, as by the
instructions of most GPUs. Integers of 8 and 16 bits are the low bits of an int32, as NumPy has it.
"""

from __future__ import annotations

import numpy as np

from vkcompute.ir.builder import Builder
from vkcompute.ir.function import Function, Op, Value
from vkcompute.ir.rewriting import expand
from vkcompute.ir.types import FLOAT32, INT32, Matrix, Scalar, Vector, element_of


def saturate_conversions(function: Function) -> Function:
    """Replaces the conversions of floats to integers by some that are defined for every float, in place."""
    return expand(function, _is_chosen, _build)


def _is_chosen(op: Op) -> bool:
    if op.code != "cast" or isinstance(op.type, Matrix):
        return False
    return element_of(op.args[0].type).kind == "f" and element_of(op.type).kind in "iu"


def _build(b: Builder, op: Op) -> Value:
    (x,), target = op.args, element_of(op.type)
    if isinstance(x.type, Vector):
        return b.vector(*[_saturated(b, b.extract(x, at), target) for at in range(x.type.n)])
    return _saturated(b, x, target)


def _saturated(b: Builder, x: Value, target: Scalar) -> Value:
    if target.bits < 32:
        return b.cast(_saturated(b, x, INT32), target)
    kind = element_of(x.type)
    if kind.bits < 32:
        x, kind = b.cast(x, FLOAT32), FLOAT32
    limits = np.iinfo(target.name)
    bound = b.const(float(limits.max) + 1, kind)  # a power of two
    if target.kind == "i":
        fits = b.compute("lt", b.compute("abs", x), bound)
    else:
        fits = b.compute("and", b.compute("gt", x, b.const(-1, kind)), b.compute("lt", x, bound))
    result = b.cast(b.select(fits, x, b.const(0, kind)), target)
    result = b.select(b.compute("ge", x, bound), b.const(limits.max, target), result)
    if target.kind == "u":
        return result
    return b.select(b.compute("le", x, b.const(float(limits.min), kind)), b.const(limits.min, target), result)
