"""Programs that Triton refuses, and that the compiler could build: a program has the same meaning on both, or none.

Programs of the library itself may do more. Options without effect here have Triton's values, too.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from vkcompute.blocks.compiler.arithmetic import describe
from vkcompute.frontend.evaluator import Evaluator, Frame
from vkcompute.frontend.unsupported import UnsupportedError

_OWN = f"{__name__.partition('.')[0]}."
_DATA = bool, int, float, str, tuple
_SWITCH = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"


def is_users(frame: Frame) -> bool:
    """True for a function of users, as opposed to one of the library."""
    return not str(frame.function.__globals__.get("__name__")).startswith(_OWN)


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


def refuse_starred(e: Evaluator, node: ast.Assign) -> None:
    """Raises UnsupportedError for a target of the form *rest."""
    starred = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Starred)]
    if starred and is_users(e.frames[-1]):
        raise UnsupportedError("an assignment has no target with *; index the tuple, as x[1:]")


def refuse_return(e: Evaluator) -> None:
    """Raises UnsupportedError for a return within a loop."""
    if e.flow.scopes[-1].loops and is_users(e.frames[-1]):
        raise UnsupportedError("a loop has no return; assign the result, and make it a condition of the while loop")


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
            raise UnsupportedError(f"{name} is one of {', '.join(map(repr, known))}; got {describe(value)}")
