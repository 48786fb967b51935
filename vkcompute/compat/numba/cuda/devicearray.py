"""Numba's `cudadrv.devicearray`: arrays of the device, and the functions that make and check them."""

from __future__ import annotations

from vkcompute.compat.numba.cuda.arrays import *  # noqa: F403
from vkcompute.compat.numba.cuda.factories import *  # noqa: F403
