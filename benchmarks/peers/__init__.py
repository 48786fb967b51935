"""Other ways to multiply arrays from Python, one file each: the same work, written as their own documentation does.

Each file has `HINT`, how to get it; `DISTRIBUTIONS`, the packages whose versions are noted; and `Peer`, opened on the
device (as far as the peer lets one choose), whose methods `resident` and `from_host` make programs; Kompute's has more.
Its `about` says what it runs on.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

NAMES = ("wgpu", "taichi", "pyopencl", "numba", "kompute")


@dataclass(frozen=True)
class Target:
    """The Vulkan device to run on: its index in the loader's order, and its name."""

    index: int
    name: str


def load(name: str) -> Any:
    """The module of a peer; the peer itself is imported when its `Peer` is opened."""
    return import_module(f"peers.{name}")
