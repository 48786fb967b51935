"""Numba's `cuda`, by a shorter path."""

import sys

from vkcompute.compat.numba import cuda

sys.modules[__name__] = cuda
