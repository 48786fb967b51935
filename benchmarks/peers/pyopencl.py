"""PyOpenCL on the first usable OpenCL device; with PoCL, that is the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from measure import Unavailable

from peers import Target
from peers.work import Blocking, Floats, Outcome

HINT = "pip install pyopencl pocl-binary-distribution, or Debian's pocl-opencl-icd"
DISTRIBUTIONS = ("pyopencl", "pocl-binary-distribution")

_SOURCE = """
__kernel void multiply(__global const float *a, __global const float *b, __global float *c) {
    size_t i = get_global_id(0);
    c[i] = a[i] * b[i];
}
"""


class Peer:
    """The first platform whose compiler works; some do not support newer CPUs."""

    def __init__(self, target: Target) -> None:
        self.cl = import_module("pyopencl")
        refusals = [why for platform in self.cl.get_platforms() if (why := self._refusal(platform))]
        if not hasattr(self, "queue"):
            raise Unavailable(f"no OpenCL platform compiles: {'; '.join(refusals) or 'there is none'}")

    def _refusal(self, platform: Any) -> str:
        """Opens the platform if none is open. Returns the reason for a failure, or an empty string."""
        if hasattr(self, "queue"):
            return ""
        try:
            self.context = self.cl.Context(platform.get_devices())
            self.kernel = self.cl.Kernel(self.cl.Program(self.context, _SOURCE).build(), "multiply")
        except self.cl.Error as error:
            return f"{platform.version}: {str(error).strip().splitlines()[-1]}"
        self.about = f"{platform.version}, {', '.join(each.name for each in self.context.devices)}"
        self.queue = self.cl.CommandQueue(self.context)
        return ""

    def resident(self, a: Floats, b: Floats) -> Resident:
        """The product of buffers on the device."""
        return Resident(self, a, b)

    def from_host(self, a: Floats, b: Floats) -> FromHost:
        """Upload, product and download."""
        return FromHost(self, a, b)


class Resident:
    """The product of buffers on the device."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer, self._n = peer, a.size
        flags = peer.cl.mem_flags
        given = flags.READ_ONLY | flags.COPY_HOST_PTR
        self.inputs = [peer.cl.Buffer(peer.context, given, hostbuf=array) for array in (a, b)]
        self.output: Any = peer.cl.Buffer(peer.context, flags.WRITE_ONLY, a.nbytes)
        peer.kernel.set_args(*self.inputs, self.output)

    def enqueue(self) -> None:
        """Starts the kernel."""
        self._peer.cl.enqueue_nd_range_kernel(self._peer.queue, self._peer.kernel, (self._n,), None)

    def wait(self) -> None:
        """Waits for the queue."""
        self._peer.queue.finish()

    def result(self) -> Floats:
        """Returns a copy of the output."""
        out = np.empty(self._n, np.float32)
        self._peer.cl.enqueue_copy(self._peer.queue, out, self.output)
        return out


class FromHost(Blocking, Outcome):
    """Upload, product and download."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer, self._arrays, self._resident = peer, (a, b), Resident(peer, a, b)

    def enqueue(self) -> None:
        """Runs all three steps."""
        for buffer, array in zip(self._resident.inputs, self._arrays, strict=True):
            self._peer.cl.enqueue_copy(self._peer.queue, buffer, array, is_blocking=False)
        self._resident.enqueue()
        self.out = self._resident.result()
