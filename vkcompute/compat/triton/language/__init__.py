"""Triton's language, `import vkcompute.compat.triton.language as tl`: the block language, with what only Triton has."""

from __future__ import annotations

from vkcompute.blocks import language
from vkcompute.blocks.compiler import functions
from vkcompute.blocks.compiler.aggregates import aggregate_replace
from vkcompute.blocks.language import *  # noqa: F403
from vkcompute.blocks.language import libdevice
from vkcompute.blocks.language import math as mathematics
from vkcompute.blocks.language import random as random
from vkcompute.compat.triton.language import extra, math, target_info
from vkcompute.compat.triton.language.type_names import str_to_ty
from vkcompute.compat.triton.refused import inline_asm_elementwise

__all__ = ["aggregate_replace", "extra", "inline_asm_elementwise", "math", "random", "str_to_ty", "target_info"]
__all__ += language.__all__

functions.PACKAGES.append("vkcompute.compat.triton")
functions.REMEDIES.update(
    {name: f"tl.extra.libdevice.{name}" for name in libdevice.__all__ if name not in __all__}
    | {name: f"tl.{name}" for name in __all__ if name not in mathematics.__all__}  # of tl.math
)
