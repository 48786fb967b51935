"""Numba's interface for CUDA: kernels in Python, on any device, without Numba.

from vkcompute.compat.numba import cuda, float32
"""

from __future__ import annotations

from vkcompute.compat.numba import config, cuda, errors, extending, types
from vkcompute.compat.numba import types as numpy_support  # noqa: F401  # Numba has its functions there
from vkcompute.compat.numba.cuda.vectorizers import guvectorize, vectorize
from vkcompute.compat.numba.extending import jit, njit, prange
from vkcompute.compat.numba.types import *  # noqa: F403
from vkcompute.compat.numba.types import from_dtype, typeof
from vkcompute.compat.replacement import install_as_numba

__all__ = [
    "config", "cuda", "errors", "extending", "from_dtype", "guvectorize", "install_as_numba", "jit", "njit", "prange",
    "typeof", "types", "vectorize",
    *types.__all__,
]  # fmt: skip

__version__ = "0.68.1"
"""The version of Numba whose language this is, for libraries that compare it."""
