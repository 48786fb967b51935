"""Loops, comprehensions and f-strings of block programs, as far as they differ from Python's."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from vkcompute.blocks.compiler.arithmetic import List, describe, describe_dynamic, is_sequence
from vkcompute.blocks.compiler.refusals import constants_of, kept_constants, refuse_constant, refuse_items
from vkcompute.blocks.compiler.types import POINTERS
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import store_to
from vkcompute.frontend.language import Iterations
from vkcompute.frontend.statements import for_each
from vkcompute.frontend.syntax import LOOP_CALLS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.ranges import Range
from vkcompute.jit.frontend.values import Number, is_static

_CONVERSIONS: dict[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}
"""Functions of values of f-strings, by the letter behind "!"."""


class LoopRange:
    """`tl.range` or `tl.static_range`, whose calls give the iterations of a for loop."""

    hints = (
        "num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm"
    )  # fmt: skip
    parameters = "arg1", "arg2", "step"

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def bounds(self, args: list[Any], named: dict[str, Any]) -> list[Any]:
        """Returns the arguments of `range`. Raises UnsupportedError for an unknown name."""
        allowed = (*self.parameters[len(args) :], *(self.hints if self.__name__ == "range" else ()))
        unknown = [name for name in named if name not in allowed]
        if unknown:
            raise UnsupportedError(
                f"tl.{self.__name__} has no parameter {unknown[0]} here; it has {', '.join(allowed)}"
            )
        given = {**dict(zip(self.parameters, args, strict=False)), **named}
        if "arg1" not in given or len(args) > len(self.parameters):
            raise UnsupportedError(f"tl.{self.__name__} takes 1 to 3 integers; got {len(args)}")
        start, stop, step = (given.get(name) for name in self.parameters)
        return [0 if stop is None else start, start if stop is None else stop, 1 if step is None else step]


def comprehension(c: Any, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
    """Returns the values of a comprehension over a tuple or a constant range, which is unrolled."""
    if len(node.generators) != 1:
        raise UnsupportedError("a comprehension has one for; write a loop, or one comprehension in another")
    (clause,), values = node.generators, []
    names = {name.id for name in ast.walk(clause.target) if isinstance(name, ast.Name)}
    flow = c.evaluator.flow
    before = {name: flow.env[name] for name in names if name in flow.env}
    for item in _items(c, clause.iter):
        if isinstance(clause.target, ast.Name):
            flow.assign(clause.target.id, item)  # constants stay such
        else:
            store_to(c.evaluator, clause.target, item)
        if all(map(partial(_holds, c), clause.ifs)):
            values.append(c.evaluator.value(node.elt))
    flow.env = {name: value for name, value in flow.env.items() if name not in names} | before
    return (List if isinstance(node, ast.ListComp) else tuple)(values)


def _holds(c: Any, test: ast.expr) -> bool:
    """Returns the value of a condition of a comprehension."""
    condition = c.evaluator.value(test)
    truth = c.truth(condition)
    if not isinstance(truth, bool):
        raise UnsupportedError(f"the condition of a comprehension is a constant; got {describe_dynamic(condition)}")
    return truth


def _items(c: Any, node: ast.expr) -> tuple[Any, ...]:
    """Returns the items of a tuple or of a constant range."""
    function = c.evaluator.value(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and (function is range or isinstance(function, LoopRange)):
        if c.is_users():
            raise UnsupportedError("a comprehension takes a tuple; got a range; write a loop over tl.static_range")
        args = [c.evaluator.value(arg) for arg in node.args] if function is range else _bounds(c, node)
        if all(type(arg) is int for arg in args):
            return tuple(range(*args))
        raise UnsupportedError(f"a range that is unrolled has constants; got {describe_dynamic(*args)}")
    items = c.evaluator.value(node)
    if not is_sequence(items):
        raise UnsupportedError(f"a comprehension takes a tuple, or a range of constants; got {describe(items)}")
    return tuple(items)


def for_loop(c: Any, node: ast.For) -> None:
    """Builds a loop; one over tl.static_range, or of one iteration of tl.range, is unrolled."""
    refuse_items(c.evaluator, node)
    if isinstance(node.target, ast.Name):
        refuse_constant(c.evaluator, node.target.id)
    function = c.evaluator.value(node.iter.func) if isinstance(node.iter, ast.Call) else None
    if isinstance(function, LoopRange) and _is_unrolled(c, function, node):
        _unroll(c, node, is_static=function.__name__ == "static_range")
        return
    with kept_constants(c.evaluator, constants_of(c.evaluator, node.body, is_loop=True)):
        for_each(c.evaluator, node, c.evaluator.located(c.iterations, node.iter))


def _is_unrolled(c: Any, function: LoopRange, node: ast.For) -> bool:
    """True for a loop over tl.static_range, and for one over tl.range that is known to run once."""
    if function.__name__ == "static_range":
        return True
    call: Any = node.iter
    if _leaves(node) or not all(isinstance(bound, (ast.Constant, ast.Name)) for bound in call.args):
        return False
    bounds = _bounds(c, call)
    return all(type(bound) is int for bound in bounds) and bounds[2] != 0 and len(range(*bounds)) == 1


def _unroll(c: Any, node: ast.For, *, is_static: bool) -> None:
    """Builds the body once per iteration, with the counter as a constant if it is static."""
    if node.orelse:
        raise UnsupportedError("a loop over tl.static_range has no else; write it behind the loop")
    if _leaves(node):
        raise UnsupportedError("a loop over tl.static_range has no break, continue or return; write range")
    call = node.iter
    args = _bounds(c, call)
    wrong = [arg for arg in args if type(arg) is not int]
    if wrong:
        raise UnsupportedError(f"tl.static_range takes ints known at compile time; got {describe_dynamic(*wrong)}")
    if not isinstance(node.target, ast.Name):
        raise UnsupportedError("a for loop over a range has one variable")
    for value in range(*args):
        c.evaluator.flow.env[node.target.id] = value if is_static else c.as_tensor(value)
        c.evaluator.block(node.body)


def iterations(c: Any, node: ast.expr) -> Iterations:
    """Evaluates the range of a for loop, Python's or `tl.range`. Hints for pipelining have no effect on either."""
    function = c.evaluator.value(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(function, LoopRange):
        return Range(c.kernels.numbers, _bounds(c, node))
    if function not in (range, *LOOP_CALLS):
        raise not_iterated(c, c.evaluator.value(node))
    if isinstance(node, ast.Call) and all(keyword.arg in LoopRange.hints for keyword in node.keywords):
        node = ast.copy_location(ast.Call(node.func, node.args, []), node)
    return Range(c.kernels.numbers, c.kernels.range_arguments(node))


def not_iterated(c: Any, value: Any) -> UnsupportedError:
    """Returns the error for a loop over a value that is not a sequence, or over a call that returns one."""
    remedy = ""
    if c.is_block(value):
        remedy = "; a block is computed as a whole: leave the loop out"
    elif is_sequence(value):
        remedy = "; assign it to a variable before the loop"
    elif isinstance(value, list):
        remedy = " from outside, which may change; make it a tuple"
    elif isinstance(value, (int, Number)) and c.element_type(value).kind in "iu":
        remedy = "; write range(n)"
    return UnsupportedError(
        "a for loop iterates over range(…), tl.range(…), tl.static_range(…), enumerate(…), zip(…), a tuple or a "
        f"list; got {describe(value)}{remedy}"
    )


def _bounds(c: Any, node: Any) -> list[Any]:
    """Evaluates the arguments of tl.range or tl.static_range."""
    args = [item for arg in node.args for item in c.evaluator.unpacked(arg)]
    named = {keyword.arg or "**": c.evaluator.value(keyword.value) for keyword in node.keywords}
    bounds: list[Any] = c.evaluator.value(node.func).bounds(args, named)
    return bounds


def _leaves(loop: ast.For) -> bool:
    """True if a loop has a break, continue or return."""
    return any(isinstance(node, (ast.Break, ast.Continue, ast.Return)) for node in ast.walk(loop))


def f_string(c: Any, node: ast.JoinedStr) -> str:
    """Returns an f-string, whose values are constants."""
    e: Evaluator = c.evaluator
    fields = [
        e.located(partial(_field, e), value) if isinstance(value, ast.FormattedValue) else e.value(value)
        for value in node.values
    ]
    return "".join(fields)


def _field(e: Evaluator, node: ast.FormattedValue) -> str:
    """Returns the text of one value."""
    value, spec = e.value(node.value), "" if node.format_spec is None else e.value(node.format_spec)
    if not is_static(value) or isinstance(value, POINTERS):
        raise UnsupportedError(
            f"an f-string has values known at compile time; got {describe(value)}; print numbers behind a text, as "
            'tl.device_print("x", x)'
        )
    if node.conversion >= 0:
        value = _CONVERSIONS[chr(node.conversion)](value)
    try:
        return format(value, spec)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"the format {spec!r} does not fit {describe(value)}: {error}") from None
