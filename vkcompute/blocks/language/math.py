"""Mathematical functions of the block language, `tl.math`."""

from __future__ import annotations

from vkcompute.blocks.language.elementwise import abs, cdiv, div_rn, fdiv, fma, real_function, umulhi

__all__ = [
    "abs", "cdiv", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "floor", "fdiv", "fma", "log", "log2", "rsqrt", "sin",
    "sqrt", "sqrt_rn", "umulhi",
]  # fmt: skip

exp, exp2, log, log2 = (real_function(name) for name in ("exp", "exp2", "log", "log2"))
sin, cos, erf = (real_function(name) for name in ("sin", "cos", "erf"))
sqrt, rsqrt, floor, ceil = (real_function(name) for name in ("sqrt", "rsqrt", "floor", "ceil"))
sqrt_rn = real_function("sqrt_rn")
