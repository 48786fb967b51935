"""The intermediate form in which every front end's kernels meet: typed, in single assignment, with structured control.

A front end makes a `Function`, fills it through a `Builder`, and gets SPIR-V from `lower(optimize(function))`.
"""

from __future__ import annotations

from vkcompute.errors import IrError
from vkcompute.ir.builder import Branch, Builder, Loop
from vkcompute.ir.divergence import divergent_barrier
from vkcompute.ir.emulate import float_atomics, without_float_atomics
from vkcompute.ir.function import Constant, Function, Memory, Value
from vkcompute.ir.intervals import certain_excess, most_passes
from vkcompute.ir.loop_cuts import with_cut_detection
from vkcompute.ir.lower import lower
from vkcompute.ir.optimize import optimize
from vkcompute.ir.printer import text
from vkcompute.ir.types import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    SCALARS,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Scalar,
    Type,
    Vector,
    vector,
)
from vkcompute.ir.verify import verify

__all__ = [
    "BOOL",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "SCALARS",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "Branch",
    "Builder",
    "Constant",
    "Function",
    "IrError",
    "Loop",
    "Memory",
    "Scalar",
    "Type",
    "Value",
    "Vector",
    "certain_excess",
    "divergent_barrier",
    "float_atomics",
    "lower",
    "most_passes",
    "optimize",
    "text",
    "vector",
    "verify",
    "with_cut_detection",
    "without_float_atomics",
]
