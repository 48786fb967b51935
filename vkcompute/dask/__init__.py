"""Dask on devices: collections of dask.array whose chunks are device arrays.

import dask
import vkcompute.dask

dask.config.set({"array.backend": "vkcompute"})
print(dask.array.random.random((10_000, 10_000)).mean().compute())
"""

from __future__ import annotations

from vkcompute.dask.backend import Backend as Backend
