"""Programs that Triton refuses, and that the compiler could build: a program has the same meaning on both, or none.

Programs of the library itself may do more. Options without effect here have Triton's values, too.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute.blocks.compiler.aggregates import Aggregate
from vkcompute.blocks.compiler.arithmetic import describe, is_sequence
from vkcompute.blocks.compiler.types import OF_SCALAR, POINTERS
from vkcompute.frontend.control_flow import CHOSEN, RESULT
from vkcompute.frontend.evaluator import Evaluator, Frame
from vkcompute.frontend.scopes import NOTHING
from vkcompute.frontend.syntax import assigned, names_in
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, Scalar
from vkcompute.ir.types import element_of
from vkcompute.jit.frontend.values import Complex, Kind, Number

_OWN = f"{__name__.partition('.')[0]}."
PYTHONIC = "__vkcompute_pythonic__"
"""Attribute of functions that have all of the syntax that the compiler knows, and not only Triton's."""
_DATA = bool, int, float, str, tuple
_SWITCH = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"
_MISMATCHES = {
    RESULT: "Return type mismatch",
    CHOSEN: "Ternary expression with dynamic condition has inconsistent types",
}
"""Words with which errors for values of two types begin, as Triton's do."""


def is_users(frame: Frame) -> bool:
    """True for a function with Triton's rules, as opposed to one of the library, or made by `block_program`."""
    function = frame.function
    return not hasattr(function, PYTHONIC) and not str(function.__globals__.get("__name__")).startswith(_OWN)


def is_library(function: Any) -> bool:
    """True for a function of the library, which programs call by its name."""
    return str(getattr(function, "__module__", "")).startswith(_OWN)


def refuse_condition(e: Evaluator, value: Any) -> None:
    """Raises UnsupportedError for a constant as a condition that is no bool, int or None, in a program of users."""
    is_constant = isinstance(value, (float, str, tuple)) and not isinstance(value, (*POINTERS, Complex))
    if is_constant and is_users(e.frames[-1]):
        raise UnsupportedError(f"a constant condition is a bool, an int or None; got {describe(value)}; compare it")


def refuse_mixed(e: Evaluator, one: Any, other: Any) -> None:
    """Raises UnsupportedError for types of one value that differ, depending on the path, in a program of users."""
    if is_sequence(one) and is_sequence(other):
        for pair in zip(one, other, strict=False):
            refuse_mixed(e, *pair)
    kinds = [kind.type for kind in (one, other) if isinstance(kind, Kind) and isinstance(kind.type, Scalar)]
    if len(kinds) == 2 and kinds[0] is not kinds[1] and is_users(e.frames[-1]):
        raise UnsupportedError(
            f"{OF_SCALAR[kinds[0]]} on one path and {OF_SCALAR[kinds[1]]} on another; give it one type, as by "
            "x.to(tl.float32)"
        )


def text_of_mismatch(name: str, why: str) -> str:
    """Returns the text of an error for a value whose types differ, depending on the path: it begins with Triton's."""
    return f"{_MISMATCHES.get(name, f'Mismatched type for {name}')}: {why}"


def _is_bool(value: Any) -> bool:
    return element_of(value.kind.type) is BOOL if isinstance(value, Number) else isinstance(value, bool)


def demand_truths(e: Evaluator, sign: str, *values: Any) -> None:
    """Raises UnsupportedError for operands of `and`, `or` and `not` that are no bools, in a program of users."""
    for value in values:
        if not _is_bool(value) and is_users(e.frames[-1]):
            raise UnsupportedError(
                f"{sign} takes bools beside a value of the device; got {describe(value)}; write x != 0"
            )


def refuse_global(e: Evaluator, name: str, value: Any) -> None:
    """Raises UnsupportedError for a number, text or tuple from outside of a program that is no tl.constexpr."""
    frame = e.frames[-1]
    if type(value) not in _DATA or not is_users(frame) or os.environ.get(_SWITCH) == "1":
        return
    if _is_variable(frame, name):
        return
    annotations: Mapping[str, Any] = frame.function.__globals__.get("__annotations__", {})
    if "constexpr" not in str(annotations.get(name, "")).lower():
        raise UnsupportedError(
            f"{name} is a number, text or tuple from outside of the program, which a program takes as tl.constexpr "
            f"only; write {name} = tl.constexpr({value!r}), or pass it as an argument"
        )


def _is_variable(frame: Frame | None, name: str) -> bool:
    """True for a name of the function, or of one around it that is being built."""
    while frame is not None:
        if name in frame.locals:
            return True
        frame = frame.outer
    return False


def refuse_variable(e: Evaluator, name: str, value: Any) -> None:
    """Raises UnsupportedError for a variable of users with a text or a function, which is no number of the device."""
    for item in value if is_sequence(value) and not isinstance(value, Aggregate) else ():
        refuse_variable(e, name, item)
    if (isinstance(value, str) or callable(value)) and is_users(e.frames[-1]):
        raise UnsupportedError(
            f"a variable has numbers and blocks; got {describe(value)}; write {name}: tl.constexpr = …"
        )


def demand_bool(value: Any) -> None:
    """Raises UnsupportedError for the condition of a while loop that is no bool, and no integer of the device."""
    is_integer = isinstance(value, Number) and element_of(value.kind.type).kind in "iu"
    if not is_integer and not _is_bool(value):
        raise UnsupportedError(f"the condition of a while loop is a bool; got {describe(value)}; write x != 0")


def _is_static(node: ast.For | ast.comprehension) -> bool:
    """True for a loop whose variable is a constant in each iteration."""
    return isinstance(node, ast.comprehension) or "static_range" in ast.unparse(node.iter)


def constants_of(e: Evaluator, body: list[ast.stmt], *, is_loop: bool) -> dict[str, Any]:
    """Returns the constants before a loop or branch of users that its body may not assign to, and which it names.

    A branch may assign to a variable that is None, which has no value behind it then.
    """
    if not is_users(e.frames[-1]):
        return {}
    nodes = [node for part in body for node in ast.walk(part)]
    targets = [node.target for node in nodes if isinstance(node, (ast.For, ast.comprehension)) and _is_static(node)]
    own = {name.id for target in targets for name in names_in(target)}
    values = {name: e.flow.env.get(name, NOTHING) for name in sorted(assigned(body) - own)}
    return {
        name: value
        for name, value in values.items()
        if type(value) in (bool, int, float) or (is_loop and value is None)
    }


@contextmanager
def kept_constants(e: Evaluator, constants: Mapping[str, Any]) -> Iterator[None]:
    """Adds constants to those that the statements being built do not change, until the end of the context."""
    scope = e.flow.scopes[-1]
    outer, scope.constants = scope.constants, {**scope.constants, **constants}
    try:
        yield
    finally:
        scope.constants = outer


def refuse_constant(e: Evaluator, name: str) -> None:
    """Raises UnsupportedError for an assignment to a constant from before an enclosing loop or branch."""
    constants = e.flow.scopes[-1].constants
    if name in constants:
        raise UnsupportedError(
            f"{name} is the constant {constants[name]!r}, which cannot be reassigned in a loop or branch; assign it to "
            "another variable before"
        )


def refuse_return(e: Evaluator) -> None:
    """Raises UnsupportedError for a return within a loop."""
    if e.flow.scopes[-1].loops and is_users(e.frames[-1]):
        raise UnsupportedError("a loop has no return; assign the result, and make it a condition of the while loop")


def _is_path(node: ast.expr) -> bool:
    """True for a name, or attributes of one, which may be evaluated twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def refuse_unused(e: Evaluator, node: ast.expr) -> None:
    """Raises UnsupportedError for a call that is a statement, and whose result must be used."""
    reason = None
    if isinstance(node, ast.Call) and _is_path(node.func):
        reason = getattr(e.value(node.func), "must_use_result", False)
    if isinstance(node, ast.Call) and reason:
        why = f": {reason}" if isinstance(reason, str) else ""
        raise UnsupportedError(f"the result of {ast.unparse(node.func)} is dropped, and must be used; assign it{why}")


def refuse_noinline_blocks(
    function: Any, args: list[Any], named: dict[str, Any], shape_of: Callable[[Any], tuple[int, ...]]
) -> None:
    """Raises UnsupportedError for a block of several elements that is passed to a function with noinline=True."""
    if not getattr(function, "noinline", False):
        return
    for name, value in [*zip(function.arg_names, args, strict=False), *named.items()]:
        if math.prod(shape_of(value)) != 1:
            raise UnsupportedError(
                f"{function.__name__} is marked noinline, but was called with non-scalar argument {name}, "
                f"{describe(value)}; drop noinline"
            )


_CHOICES: dict[str, tuple[Any, ...]] = {
    "sem": (None, "acquire", "release", "acq_rel", "relaxed"),
    "sem_of_load": (None, "acquire", "relaxed"),
    "sem_of_store": (None, "release", "relaxed"),
    "scope": (None, "gpu", "cta", "sys"),
    "cache_modifier": ("", ".ca", ".cg", ".cv", ".cs", ".wb", ".wt"),
    "eviction_policy": ("", "evict_first", "evict_last", "evict_normal"),
    "input_precision": (None, "tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
}


def check_choices(**given: Any) -> None:
    """Raises UnsupportedError for an option that Triton does not have, given by its name."""
    for name, value in given.items():
        known = _CHOICES[name]
        if not any(value == choice and type(value) is type(choice) for choice in known):
            raise UnsupportedError(
                f"{name.partition('_of_')[0]} is one of {', '.join(map(repr, known))}; got {describe(value)}"
            )


# -- syntax -----------------------------------------------------------------------------------------------------------

Handlers = dict[type[ast.AST], Callable[[Evaluator, Any], Any]]
_ELSE = "else of a loop; write it behind the loop"
_BUILTINS = (
    abs, all, any, bool, enumerate, max, min, pow, reversed, round, sorted, str, sum, tuple, zip
)  # fmt: skip
_LACKING = frozenset({function.__name__ for function in _BUILTINS} - {"max", "min"})
"""Functions of Python that Triton lacks."""


def refuse_name(e: Evaluator, name: str, value: Any) -> None:
    """Raises UnsupportedError for a function of Python, by its name, in a program of users."""
    if not is_users(e.frames[-1]):
        return
    if name in _LACKING and value in _BUILTINS:
        raise UnsupportedError(f"{name} is not a function of block programs; write functions of tl")
    if isinstance(value, FunctionType) and not is_library(value):
        raise UnsupportedError(f"{name} is a function of Python, and block programs call those made by triton.jit")


def _has_starred(node: ast.List | ast.Tuple) -> bool:
    return any(isinstance(part, ast.Starred) for part in node.elts)


def _is_of_match(node: ast.Assign) -> bool:
    """True for the assignment of the subject of a match."""
    target = node.targets[0]
    return isinstance(target, ast.Name) and target.id.startswith("subject of ")


def has_rest(e: Evaluator) -> bool:
    """True in a function with a parameter *args, whose values loops go through."""
    return e.frames[-1].source.tree.args.vararg is not None


def refuse_items(e: Evaluator, node: ast.For) -> None:
    """Raises UnsupportedError for a loop that was over items, in a function of users without a parameter *args."""
    was_over_items = isinstance(node.target, ast.Name) and node.target.id.startswith("index of ")
    if was_over_items and is_users(e.frames[-1]) and not has_rest(e):
        raise UnsupportedError("block programs have no loop over items; write for n in tl.static_range(2), and x[n]")


def _always(_: ast.AST) -> bool:
    return True


_FORMS: dict[type[ast.AST], list[tuple[Callable[[Any], Any], str]]] = {
    ast.Assign: [
        (_is_of_match, "match; write if and elif"),
        (lambda node: len(node.targets) > 1, "a = b = x; write two assignments"),
        (lambda node: isinstance(node.targets[0], ast.List), "[a, b] = x; write a, b = x"),
        (
            lambda node: isinstance(node.targets[0], ast.Tuple) and _has_starred(node.targets[0]),
            "target with *, as an assignment has no target with *; index the tuple, as x[1:]",
        ),
    ],
    ast.Break: [(_always, "break; make it a condition of the while loop")],
    ast.Compare: [
        (lambda node: isinstance(node.ops[0], (ast.In, ast.NotIn)), "in; write (x == 1) | (x == 4)"),
    ],
    ast.Continue: [(_always, "continue; write if")],
    ast.For: [(lambda node: node.orelse, _ELSE)],
    ast.FunctionDef: [(_always, "functions inside of programs; define it outside, with triton.jit")],
    ast.GeneratorExp: [(_always, "generators; write [x for x in values]")],
    ast.Lambda: [(_always, "lambda; define a function outside, with triton.jit")],
    ast.List: [(_has_starred, "* in lists; write x + y of two tuples")],
    ast.ListComp: [
        (lambda node: any(part.ifs for part in node.generators), "if in comprehensions; write if in a loop"),
    ],
    ast.Tuple: [(_has_starred, "* in tuples; write x + y")],
    ast.While: [(lambda node: node.orelse, _ELSE)],
}
"""Syntax that Triton lacks: tests of a node -> description, with a remedy."""


def _refusing(
    handler: Callable[[Evaluator, Any], Any], forms: list[tuple[Callable[[Any], Any], str]], e: Evaluator, node: Any
) -> Any:
    """Evaluates a node, unless it has a form that Triton lacks."""
    if is_users(e.frames[-1]):
        for has, text in forms:
            if has(node):
                raise UnsupportedError(f"block programs have no {text}")
    return handler(e, node)


def without_refused(handlers: Handlers) -> Handlers:
    """Returns handlers of syntax that refuse what Triton lacks in functions of users."""
    return {
        kind: partial(_refusing, handler, _FORMS[kind]) if kind in _FORMS else handler
        for kind, handler in handlers.items()
    }
