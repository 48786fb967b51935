"""Kompute: a recorded sequence, evaluated again and again."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from measure import Unavailable

from peers import Target
from peers.work import LOCAL_SIZE, WINDOW, Blocking, Floats

HINT = "pip install kp"
DISTRIBUTIONS = ("kp",)

_SOURCE = f"""
layout(local_size_x = {LOCAL_SIZE}) in;
layout(set = 0, binding = 0) buffer A {{ float a[]; }};
layout(set = 0, binding = 1) buffer B {{ float b[]; }};
layout(set = 0, binding = 2) buffer C {{ float c[]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < c.length()) c[i] = a[i] * b[i];
}}
"""


class Peer:
    """The device of the loader's index, by Kompute or what takes its place."""

    def __init__(self, target: Target, module: str = "kp") -> None:
        self.about = f"device {target.index} of the Vulkan loader"
        self.kp = import_module(module)
        self.manager = self.kp.Manager(target.index)

    def resident(self, a: Floats, b: Floats) -> Sequence:
        """The product of tensors on the device."""
        return Sequence(self, a, b, transfers=False)

    def from_host(self, a: Floats, b: Floats) -> Sequence:
        """Upload, product and readback."""
        return Sequence(self, a, b, transfers=True)


class Sequence(Blocking):
    """Recorded once; `eval` submits it and waits.

    Attributes:
        manager, dispatch: what it is made with, and the operation that multiplies.
    """

    def __init__(self, peer: Peer, a: Floats, b: Floats, *, transfers: bool) -> None:
        from vkcompute import glsl

        if a.size > WINDOW:
            raise Unavailable(f"it binds whole tensors and launches one dimension: at most {WINDOW:,} elements")
        kp, manager = peer.kp, peer.manager
        self.manager = manager
        self._inputs = [manager.tensor(a), manager.tensor(b)]
        self._output: Any = manager.tensor(0 * a)
        self._host, self._transfers = (a, b), transfers
        tensors = [*self._inputs, self._output]
        program = manager.algorithm(tensors, glsl(_SOURCE), (-(-a.size // LOCAL_SIZE), 1, 1), [], [])
        upload, download = kp.OpTensorSyncDevice(tensors), kp.OpTensorSyncLocal([self._output])
        manager.sequence().record(upload).eval()
        self._download = manager.sequence().record(download)
        self._sequence, self.dispatch = manager.sequence(), kp.OpAlgoDispatch(program)
        for operation in (upload, self.dispatch, download) if transfers else (self.dispatch,):
            self._sequence.record(operation)

    def enqueue(self) -> None:
        """Runs the sequence."""
        if self._transfers:
            for tensor, array in zip(self._inputs, self._host, strict=True):
                tensor.data()[:] = array
        self._sequence.eval()

    def result(self) -> Floats:
        """A copy of the output."""
        if not self._transfers:
            self._download.eval()
        found: Floats = self._output.data().copy()
        return found
