"""`triton.language.core`: the language, and names that libraries take from this module only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.blocks.compiler.aggregates import aggregate
from vkcompute.blocks.compiler.block_compiler import BlockCompiler
from vkcompute.blocks.compiler.functions import BlockFunction, block_function, constexpr_function
from vkcompute.compat.triton.language import *  # noqa: F403
from vkcompute.compat.triton.language import constexpr, type_names

_aggregate = aggregate
CONSTEXPR_0 = constexpr(0)
get_int_dtype = constexpr_function(type_names.get_int_dtype)


def builtin(function: Callable[..., Any]) -> BlockFunction:
    """Makes a function of the language of one of the host, which gets the compiler as `_semantic`."""

    def emit(c: BlockCompiler, *args: Any, **named: Any) -> Any:
        return function(*args, **named, _semantic=c)

    emit.__name__, emit.__doc__ = function.__name__, function.__doc__
    return block_function(emit)
