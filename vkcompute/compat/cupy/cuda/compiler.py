"""The compiler of the texts of kernels, by CuPy's names."""

from __future__ import annotations

from vkcompute.compat.cupy.kernel_texts import CompileException as CompileException
