"""Taichi, on its Vulkan backend."""

# No `from __future__ import annotations`: Taichi needs annotations as objects.

import os
from importlib import import_module
from typing import Any, no_type_check

import numpy as np

from peers import Target
from peers.work import Blocking, Floats, Outcome

HINT = "pip install taichi"
DISTRIBUTIONS = ("taichi",)


class Peer:
    """The device with the target's index."""

    def __init__(self, target: Target) -> None:
        self.about = f"device {target.index} of the Vulkan loader"
        os.environ["TI_VISIBLE_DEVICE"] = str(target.index)
        self.ti = import_module("taichi")
        self.ti.init(arch=self.ti.vulkan)
        array = self.ti.types.ndarray(dtype=self.ti.f32, ndim=1)

        @no_type_check  # Taichi's annotations are not types
        def multiply(a: array, b: array, c: array):  # noqa: ANN202
            for i in c:
                c[i] = a[i] * b[i]

        self.kernel = self.ti.kernel(multiply)

    def resident(self, a: Floats, b: Floats) -> "Resident":
        """The product of arrays on the device."""
        return Resident(self, a, b)

    def from_host(self, a: Floats, b: Floats) -> "FromHost":
        """Upload, product and download; Taichi copies numpy arrays automatically."""
        return FromHost(self, a, b)


class Resident:
    """The product of arrays on the device."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer = peer
        self._arrays: list[Any] = [peer.ti.ndarray(peer.ti.f32, a.size) for _ in range(3)]
        for array, data in zip(self._arrays, (a, b), strict=False):
            array.from_numpy(data)

    def enqueue(self) -> None:
        """Starts the kernel."""
        self._peer.kernel(*self._arrays)

    def wait(self) -> None:
        """Waits for all kernels."""
        self._peer.ti.sync()

    def result(self) -> Floats:
        """Returns a copy of the output."""
        computed: Floats = self._arrays[2].to_numpy()
        return computed


class FromHost(Blocking, Outcome):
    """Upload, product and download; Taichi copies numpy arrays automatically."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer, self._a, self._b = peer, a, b

    def enqueue(self) -> None:
        """Runs all three steps."""
        self.out = np.empty_like(self._a)
        self._peer.kernel(self._a, self._b, self.out)
        self._peer.ti.sync()
