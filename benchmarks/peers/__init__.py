"""Other libraries that multiply arrays from Python, one file each, used as their documentation shows.

Each file has `HINT`, the way to install the library; `DISTRIBUTIONS`, the packages whose versions are recorded; and
`Peer`, opened on the device if the library can select it. The methods `resident` and `from_host` of a `Peer` create
programs; Kompute's has more. `about` describes the device that is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

NAMES = ("wgpu", "taichi", "pyopencl", "numba", "kompute")


@dataclass(frozen=True)
class Target:
    """The Vulkan device: its index in the loader's order, and its name."""

    index: int
    name: str


def load(name: str) -> Any:
    """The module of a peer. The library itself is imported when its `Peer` is opened."""
    return import_module(f"peers.{name}")
