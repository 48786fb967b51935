"""Dask on devices: collections of device arrays, and clusters with a worker per device.

    import dask
    import vkcompute.dask

    dask.config.set({"array.backend": "vkcompute"})
    with vkcompute.dask.LocalCluster() as cluster, cluster.get_client():
        print(dask.array.random.random((10_000, 10_000)).mean().compute())

LocalCluster(...)    a worker process per device of this machine
Client(...)          a client of a cluster; without an address, of a new LocalCluster
dask_setup           makes a worker one of a device: dask worker tcp://... --preload vkcompute.dask

The import registers device arrays with dask.array. `distributed` is imported on first use.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from vkcompute.dask.backend import Backend as Backend

if TYPE_CHECKING:
    from vkcompute.dask.cluster import Client as Client
    from vkcompute.dask.cluster import LocalCluster as LocalCluster
    from vkcompute.dask.worker import dask_setup as dask_setup

_HOMES = {"LocalCluster": "cluster", "Client": "cluster", "dask_setup": "worker"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
