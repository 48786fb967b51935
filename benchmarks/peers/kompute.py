"""Kompute: recorded sequences, single operations, and its logistic regression. compat.py runs them on vkcompute."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from logistic import RATE, START
from measure import Unavailable

from peers import Target
from peers.work import LOCAL_SIZE, WINDOW, Blocking, Floats, Outcome
from vkcompute import glsl

HINT = "pip install kp, or built as docs/kompute.md says"
DISTRIBUTIONS = ("kp",)
MANY = 100

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

_REGRESSION = f"""
layout(local_size_x = {LOCAL_SIZE}) in;
layout(set = 0, binding = 0) buffer B0 {{ float x_i[]; }};
layout(set = 0, binding = 1) buffer B1 {{ float x_j[]; }};
layout(set = 0, binding = 2) buffer B2 {{ float y[]; }};
layout(set = 0, binding = 3) buffer B3 {{ float w_in[]; }};
layout(set = 0, binding = 4) buffer B4 {{ float w_out_i[]; }};
layout(set = 0, binding = 5) buffer B5 {{ float w_out_j[]; }};
layout(set = 0, binding = 6) buffer B6 {{ float b_in[]; }};
layout(set = 0, binding = 7) buffer B7 {{ float b_out[]; }};
layout(set = 0, binding = 8) buffer B8 {{ float l_out[]; }};
layout(constant_id = 0) const float m = 0;
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    float y_hat = 1.0 / (1.0 + exp(-(w_in[0] * x_i[i] + w_in[1] * x_j[i] + b_in[0])));
    float d_z = (y_hat - y[i]) / m;
    w_out_i[i] = x_i[i] * d_z;
    w_out_j[i] = x_j[i] * d_z;
    b_out[i] = d_z;
    l_out[i] = -(y[i] * log(y_hat) + (1.0 - y[i]) * log(1.0 - y_hat));
}}
"""


class Peer:
    """The device with the target's index, opened by Kompute or its replacement."""

    def __init__(self, target: Target, module: str = "kp") -> None:
        self.about = f"device {target.index} of the Vulkan loader"
        self.index = target.index
        self.kp = import_module(module)
        self.manager = self.kp.Manager(target.index)

    def resident(self, a: Floats, b: Floats) -> Sequence:
        """The product of tensors on the device."""
        return Sequence(self, a, b, transfers=False)

    def from_host(self, a: Floats, b: Floats) -> Sequence:
        """Upload, product and download."""
        return Sequence(self, a, b, transfers=True)

    def eager(self, a: Floats, b: Floats) -> Eager:
        """The product as a single operation."""
        return Eager(self, a, b)

    def many(self, a: Floats, b: Floats) -> Many:
        """The product `MANY` times in a recorded sequence."""
        return Many(self, a, b)

    def opened(self, a: Floats, b: Floats) -> Opened:
        """A manager, created and destroyed."""
        return Opened(self, a, b)

    def regression(self, X: Floats, y: Floats, iterations: int) -> Regression:
        """Logistic regression with its weights updated on the host."""
        return Regression(self, X, y, iterations)


class Sequence(Blocking):
    """A recorded sequence; `eval` submits it and waits.

    Attributes:
        manager, dispatch: what it is made with, and the operation that multiplies.
    """

    def __init__(self, peer: Peer, a: Floats, b: Floats, *, transfers: bool) -> None:
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
        """Returns a copy of the output."""
        if not self._transfers:
            self._download.eval()
        computed: Floats = self._output.data().copy()
        return computed


class Eager(Blocking):
    """The product as a single operation."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._resident = peer.resident(a, b)
        self._sequence, self._operation = self._resident.manager.sequence(), self._resident.dispatch
        self.result = self._resident.result

    def enqueue(self) -> None:
        """Evaluates the operation."""
        self._sequence.eval(self._operation)


class Many(Eager):
    """Many products in one sequence."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        super().__init__(peer, a, b)
        for _ in range(MANY):
            self._sequence.record(self._operation)

    def enqueue(self) -> None:
        """Evaluates the operation."""
        self._sequence.eval()


class Opened(Blocking):
    """A manager that is created and destroyed. The result is computed by another one."""

    def __init__(self, peer: Peer, a: Floats, b: Floats) -> None:
        self._peer = peer
        resident = peer.resident(a, b)
        resident.enqueue()
        self.result = resident.result

    def enqueue(self) -> None:
        """Creates and destroys a manager."""
        self._peer.kp.Manager(self._peer.index).destroy()


class Regression(Blocking, Outcome):
    """Kompute's example: gradients and losses of each row on the device, sums and steps on the host."""

    def __init__(self, peer: Peer, X: Floats, y: Floats, iterations: int) -> None:
        self._iterations = iterations
        kp, mgr, n = peer.kp, peer.manager, len(y)
        self._weights, self._bias = mgr.tensor([START, START]), mgr.tensor([0.0])
        self._outputs = [mgr.tensor(np.zeros(n)) for _ in range(4)]
        i, j, b, loss = self._outputs
        params = [mgr.tensor(X[:, 0]), mgr.tensor(X[:, 1]), mgr.tensor(y), self._weights, i, j, self._bias, b, loss]
        mgr.sequence().eval(kp.OpTensorSyncDevice(params))
        algorithm = mgr.algorithm(params, glsl(_REGRESSION), (-(-n // LOCAL_SIZE), 1, 1), [n], [])
        self._sequence = mgr.sequence()
        self._sequence.record(kp.OpTensorSyncDevice([self._weights, self._bias]))
        self._sequence.record(kp.OpAlgoDispatch(algorithm))
        self._sequence.record(kp.OpTensorSyncLocal(self._outputs))

    def enqueue(self) -> None:
        """Trains the model."""
        self._weights.data()[:], self._bias.data()[0] = START, 0
        for _ in range(self._iterations):
            self._sequence.eval()
            self._weights.data()[0] -= RATE * self._outputs[0].data().sum()
            self._weights.data()[1] -= RATE * self._outputs[1].data().sum()
            self._bias.data()[0] -= RATE * self._outputs[2].data().sum()
        self.out = np.append(self._weights.data(), self._bias.data())
