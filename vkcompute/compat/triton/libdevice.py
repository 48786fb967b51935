"""Functions of `tl.extra.libdevice`: those of CUDA's library that devices of Vulkan have."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.triton.arithmetic import told
from vkcompute.compat.triton.compiler import BlockCompiler
from vkcompute.compat.triton.elementwise import abs, div_rn, fma, real_function
from vkcompute.compat.triton.functions import block_function
from vkcompute.compat.triton.math import ceil, cos, erf, exp, exp2, fdiv, floor, log, log2, rsqrt, sin, sqrt, sqrt_rn
from vkcompute.ir import INT32, UINT32, Value
from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.tile import shape_of

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "brev", "cbrt", "ceil", "clz", "cos", "cosh",
    "div_rn", "erf", "erfc", "exp", "exp2", "expm1", "fast_dividef", "fast_expf", "fast_logf", "ffs", "floor", "fma",
    "fmod", "hypot", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "nearbyint", "pow", "rint", "rsqrt", "sin", "sinh", "sqrt", "sqrt_rn",
    "tan", "tanh", "tgamma", "trunc",
]  # fmt: skip

acos, acosh, asin, asinh = (real_function(name, is_method=False) for name in ("acos", "acosh", "asin", "asinh"))
atan, atanh, sinh, cosh = (real_function(name, is_method=False) for name in ("atan", "atanh", "sinh", "cosh"))
tan, tanh, cbrt, erfc = (real_function(name, is_method=False) for name in ("tan", "tanh", "cbrt", "erfc"))
expm1, log10, log1p, lgamma = (real_function(name, is_method=False) for name in ("expm1", "log10", "log1p", "lgamma"))
tgamma, trunc = real_function("tgamma", "gamma", is_method=False), real_function("trunc", is_method=False)
rint, nearbyint = (real_function(name, "round", is_method=False) for name in ("rint", "nearbyint"))
isnan, isinf = (real_function(name, is_method=False) for name in ("isnan", "isinf"))
atan2, hypot, fmod = real_function("atan2", n=2), real_function("hypot", n=2), real_function("fmod", "rem", n=2)
pow = real_function("pow", n=2)
fast_dividef, fast_expf, fast_logf = fdiv, exp, log  # as accurate as the others


def _word(c: BlockCompiler, x: Any, name: str) -> Value:
    kind = c.element_type(x)
    if kind.kind not in "iu" or kind.bits != 32:
        raise UnsupportedError(f"libdevice.{name} takes integers of 32 bits; got {told(x)}")
    return c.builder.bitcast(c.cast(x, kind), UINT32)


@block_function
def brev(c: BlockCompiler, x: Any) -> Any:
    """The bits in reverse order."""
    return c.number(c.builder.bitcast(c.builder.compute("bit_reverse", _word(c, x, "brev")), c.element_type(x)))


@block_function
def clz(c: BlockCompiler, x: Any) -> Any:
    """The number of zeros above the highest bit, 32 for 0."""
    b, word = c.builder, _word(c, x, "clz")
    highest = b.cast(b.compute("find_msb", word), INT32)  # -1 for 0
    return c.number(b.compute("sub", b.full(b.const(31, INT32), shape_of(word.type)), highest))


@block_function
def ffs(c: BlockCompiler, x: Any) -> Any:
    """The position of the lowest bit, from 1; 0 for 0."""
    b, word = c.builder, _word(c, x, "ffs")
    lowest = b.cast(b.compute("find_lsb", word), INT32)
    return c.number(b.compute("add", lowest, b.full(b.const(1, INT32), shape_of(word.type))))
