"""Lowers functions of floats that devices lack, or compute inaccurately, to operations that are accurate everywhere.

Vulkan allows an absolute error of 2**-11 for the sine and relative errors of about 2**-10 for others (Vulkan 1.3,
Precision of core SPIR-V instructions). For float64 it has none of these functions. Their implementations in the kernel
language are compiled once, and copied in place of each operation. Where there are many, the module calls a function.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Set
from typing import Any

from vkcompute import ir
from vkcompute.frontend.source import read
from vkcompute.ir import FLOAT16, FLOAT32, FLOAT64, UINT32, Scalar, Value
from vkcompute.ir.elimination import eliminate_common_subexpressions
from vkcompute.ir.function import NO_CONTRACTION, Constant, Op, Param, Region, Routine, walk
from vkcompute.ir.rewriting import expand
from vkcompute.ir.target import ANY
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.type_rules import KernelTypes
from vkcompute.jit.frontend.values import Kind, Number
from vkcompute.jit.library import catalog, elementary, special, trigonometric  # noqa: F401
from vkcompute.jit.library.coefficients import Double, Single
from vkcompute.jit.library.fixed_point import FixedPoint

_MOST_COPIES = 2
_IMPLEMENTATIONS = elementary, trigonometric, special


def lower_math(function: ir.Function, *, fast: bool, target: ir.Target = ANY) -> ir.Function:
    """Lowers the functions of floats of an optimized function, in place.

    Args:
        fast: True to keep those for which the device has an instruction.
        target: the device. Without float64, it computes polynomials in fixed point.
    """
    replaced = {op for op in walk(function.body) if _is_replaced(op, fast)}
    if not replaced:
        return function
    called = _called(replaced)
    by_words = FLOAT64.name in target.missing_types
    function.routines = {(op.code, _wide(op)): _routine(op.code, _wide(op), by_words) for op in called}

    def build(builder: ir.Builder, op: Op) -> Value:
        return _call(builder, op) if op in called else _copy(builder, op, by_words)

    expand(function, replaced.__contains__, build)
    if len(replaced) - len(called) > 1:
        eliminate_common_subexpressions(function)  # the sine and the cosine of a number have operations in common
    return function


def _called(ops: Set[Op]) -> set[Op]:
    """Returns the operations that become calls: many of one function, of values that no other one takes.

    Copies have operations in common with those of the same value, and are simplified for constants.
    """
    n_uses = Counter([arg for op in ops for arg in {*op.args}])
    candidates = [op for op in ops if not any(type(arg) is Constant or n_uses[arg] > 1 for arg in op.args)]
    counts = Counter([(op.code, _wide(op)) for op in candidates])
    return {op for op in candidates if counts[op.code, _wide(op)] > _MOST_COPIES}


def without_contraction(function: ir.Function) -> ir.Function:
    """Marks the arithmetic on floats, comparisons included, in place: drivers must not contract or reassociate it."""
    for op in walk(function.body):
        if op.operation.arity and op.code != "fma" and element_of(op.args[0].type).kind == "f":
            op.attribute = NO_CONTRACTION
    return function


def _is_replaced(op: Op, fast: bool) -> bool:
    if not op.operation.elementary:
        return False
    has_instruction = op.operation.extended and op.code != "pow"  # which GLSL has for x > 0 only
    return not fast or not has_instruction or op.args[0].type.bits == 64


def _wide(op: Op) -> Scalar:
    """Returns the type in which an operation is computed."""
    return FLOAT32 if op.type is FLOAT16 else op.type  # type: ignore[return-value]


def _call(builder: ir.Builder, op: Op) -> Value:
    result = builder.compute(op.code, *[builder.cast(arg, _wide(op)) for arg in op.args])
    return builder.cast(result, op.type)


def _copy(builder: ir.Builder, op: Op, by_words: bool) -> Value:
    params, body = _routine(op.code, _wide(op), by_words)
    env = dict[Value, Value](zip(params, [builder.cast(arg, _wide(op)) for arg in op.args], strict=True))
    *ops, end = body.ops
    for inner in ops:
        builder.copy(inner, env)
    return builder.cast(env.get(end.args[0], end.args[0]), op.type)


@functools.cache
def _routine(code: str, kind: Scalar, by_words: bool = False) -> Routine:
    """Compiles the implementation of a function; the device must not contract its operations."""
    form: Any = Single if kind is FLOAT32 else FixedPoint if by_words else Double
    function = ir.Function(code)
    compiler = Compiler(function, KernelTypes(kind))
    written = next(getattr(module, code) for module in _IMPLEMENTATIONS if hasattr(module, code))
    params = tuple([Param(kind) for _ in range(written.__code__.co_argcount - 1)])
    args: list[Any] = [Number(param, Kind(kind)) for param in params]
    value = compiler.inline(written, [*args, form], {}, read(written).tree)
    memory = function.buffer("result", kind)
    compiler.builder.store(memory, compiler.builder.const(0, UINT32), compiler.cast(value, kind))
    *ops, store = ir.legalize(ir.optimize(without_contraction(function))).body.ops
    return Routine(params, Region([*ops, Op("yield", None, (store.args[1],))]))
