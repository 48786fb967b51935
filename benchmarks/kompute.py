"""Kompute's programs on vkcompute.compat.kp, beside Kompute itself where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from context import Cases, Context
from logistic import RATE, START, by_numpy, table
from measure import Case, Contender, Local
from peers import Target
from peers.kompute import Peer
from peers.work import LOCAL_SIZE, Blocking, Floats, Outcome, pair, product
from peers.worker import Remote

import vkcompute as vc
from vkcompute.compat import kp

TITLE = "Kompute's programs"
OURS = "compat.kp"
N, MANY = 1024, 100
_TOLERANCE = 1e-4
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


def cases(context: Context) -> Cases:
    """Recorded and replayed, one operation at a time, many dispatches, a regression, and a manager's construction."""
    target, expected = context.target, partial(product, N)
    theirs = [Remote("kompute", target, "from_host", N)] if "kompute" in context.peers else []
    replay = Local(OURS, lambda: Peer(target, "vkcompute.compat.kp").from_host(*pair(N)), expected)
    yield Case("kompute.replay", f"sync, dispatch and sync of {N:,} floats, recorded", OURS, [replay, *theirs])
    programs: tuple[tuple[str, str, Callable[[Target], Any]], ...] = (
        ("eager", "one dispatch, evaluated as an operation", Eager),
        ("many", f"{MANY} recorded dispatches", Many),
        ("manager", "a Manager, made and destroyed", Opened),
    )
    for key, title, make in programs:
        yield Case(f"kompute.{key}", title, OURS, [Local(OURS, partial(make, target), expected)])
    for n_rows in context.sizes.rows:
        yield _regression(n_rows, context.sizes.iterations, target)


def _regression(n_rows: int, iterations: int, target: Target) -> Case:
    X, y = table(n_rows)
    expected = partial(by_numpy, X, y, iterations)
    ours: list[Contender] = [Local(OURS, partial(Regression, target, X, y, iterations), expected, tolerance=_TOLERANCE)]
    title = f"logistic regression, {n_rows:,} x 2, {iterations} iterations, weights updated on the host"
    return Case(f"kompute.logistic.{n_rows}", title, OURS, ours)


class Eager(Blocking):
    """The product, dispatched by itself each time."""

    def __init__(self, target: Target) -> None:
        self._resident = Peer(target, "vkcompute.compat.kp").resident(*pair(N))
        self._sequence, self._operation = self._resident.manager.sequence(), self._resident.dispatch
        self.result = self._resident.result

    def enqueue(self) -> None:
        """Evaluates it."""
        self._sequence.eval(self._operation)


class Many(Eager):
    """The product many times over, in one sequence."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        for _ in range(MANY):
            self._sequence.record(self._operation)

    def enqueue(self) -> None:
        """Evaluates it."""
        self._sequence.eval()


class Opened(Blocking):
    """A manager that is made and destroyed; the result is another's."""

    def __init__(self, target: Target) -> None:
        self._index = target.index
        resident = Peer(target, "vkcompute.compat.kp").resident(*pair(N))
        resident.enqueue()
        self.result = resident.result

    def enqueue(self) -> None:
        """Makes one."""
        kp.Manager(self._index).destroy()


class Regression(Blocking, Outcome):
    """Kompute's own example: gradients and losses of each row on the device, sums and steps on the host."""

    def __init__(self, target: Target, X: Floats, y: Floats, iterations: int) -> None:
        self._iterations = iterations
        mgr = kp.Manager(target.index)
        n = len(y)
        self._weights, self._bias = mgr.tensor([START, START]), mgr.tensor([0.0])
        self._outputs = [mgr.tensor(np.zeros(n)) for _ in range(4)]
        i, j, b, loss = self._outputs
        params = [mgr.tensor(X[:, 0]), mgr.tensor(X[:, 1]), mgr.tensor(y), self._weights, i, j, self._bias, b, loss]
        mgr.sequence().eval(kp.OpSyncDevice(params))
        algorithm = mgr.algorithm(params, vc.glsl(_REGRESSION), (-(-n // LOCAL_SIZE), 1, 1), [n])
        self._sequence = mgr.sequence()
        self._sequence.record(kp.OpSyncDevice([self._weights, self._bias]))
        self._sequence.record(kp.OpAlgoDispatch(algorithm))
        self._sequence.record(kp.OpSyncLocal(self._outputs))

    def enqueue(self) -> None:
        """Trains."""
        self._weights.data()[:], self._bias.data()[0] = START, 0
        for _ in range(self._iterations):
            self._sequence.eval()
            self._weights.data()[0] -= RATE * self._outputs[0].data().sum()
            self._weights.data()[1] -= RATE * self._outputs[1].data().sum()
            self._bias.data()[0] -= RATE * self._outputs[2].data().sum()
        self.out = np.append(self._weights.data(), self._bias.data())
