"""The entry point `dask.sizeof`: Dask calls it on import, so it loads nothing before the first device array."""

from __future__ import annotations

import importlib
from typing import Any


def register(sizeof: Any) -> None:
    """Registers the import of `vkcompute.dask` for the first object of this package whose size Dask asks for."""
    sizeof.register_lazy("vkcompute", lambda: importlib.import_module("vkcompute.dask"))
