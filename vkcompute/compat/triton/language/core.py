"""`triton.language.core`: the language, and names that libraries take from this module only."""

from __future__ import annotations

from vkcompute.blocks.compiler import types
from vkcompute.blocks.compiler.aggregates import aggregate
from vkcompute.blocks.compiler.functions import constexpr_function
from vkcompute.compat.triton.language import *  # noqa: F403
from vkcompute.compat.triton.language import constexpr

_aggregate = aggregate
CONSTEXPR_0 = constexpr(0)
get_int_dtype = constexpr_function(types.get_int_dtype)
