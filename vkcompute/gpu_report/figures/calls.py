"""The host's time of a call: functions of small arrays, in units of a bare launch with `out=`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.gpu_report.figures.timing import milliseconds, rounded
from vkcompute.gpu_report.items import Items, Session, equal

_SIDE = 64
_UNIT = "elementwise with out="
Arrays = dict[str, Any]


def items() -> Items:
    """Returns the items by name."""
    return {name: partial(_measured, call) for name, call in _CALLS.items()} | {"results": _results}


def _arrays(gpu: vc.Runtime) -> Arrays:
    random = np.random.default_rng(0)
    square, images = (random.normal(size=size).astype(np.float32) for size in ((_SIDE, _SIDE), (1, 4, 16, 16)))
    hosts = {"x": square, "y": square[::-1].copy(), "line": square[0].copy(), "images": images}
    hosts |= {"filters": random.normal(size=(4, 4, 3, 3)).astype(np.float32)}
    hosts |= {"heads": random.normal(size=(1, 2, _SIDE, 16)).astype(np.float32)}
    hosts |= {"at": random.integers(0, _SIDE, 40).astype(np.int64)}
    return {name: gpu.array(host) for name, host in hosts.items()} | {"out": gpu.empty((_SIDE, _SIDE))}


_ADD = vc.elementwise("x + y")
_HOST = np.ones((_SIDE, _SIDE), np.float32)
_CALLS: dict[str, Callable[[Arrays], Any]] = {
    _UNIT: lambda a: _ADD(a["x"], a["y"], out=a["out"]),
    "elementwise": lambda a: _ADD(a["x"], a["y"]),
    "x + y, lazy": lambda a: a["x"] + a["y"],
    "sum": lambda a: vnp.sum(a["x"]),
    "var": lambda a: vnp.var(a["x"], axis=1),
    "argmax": lambda a: vnp.argmax(a["x"], axis=1),
    "cumsum": lambda a: vnp.cumsum(a["line"]),
    "sort": lambda a: vnp.sort(a["x"], axis=1),
    "matmul": lambda a: a["x"] @ a["y"],
    "take": lambda a: vnp.take(a["x"], a["at"], axis=0),
    "index array": lambda a: a["x"][a["at"]],
    "concat": lambda a: vnp.concat([a["x"], a["y"]]),
    "softmax": lambda a: nn.softmax(a["x"], dim=-1),
    "layer_norm": lambda a: nn.layer_norm(a["x"], (_SIDE,)),
    "linear": lambda a: nn.linear(a["x"], a["y"], a["line"]),
    "conv2d": lambda a: nn.conv2d(a["images"], a["filters"], padding=1),
    "attention": lambda a: nn.scaled_dot_product_attention(a["heads"], a["heads"], a["heads"]),
    "upload": lambda a: a["x"].write(_HOST),
    "download": lambda a: a["x"].numpy(),
}


def _measured(call: Callable[[Arrays], Any], session: Session) -> dict[str, float]:
    """Measures a call, and the bare launch of the same moment."""
    arrays, gpu = _arrays(session.gpu), session.gpu
    times = []
    for function in (call, _CALLS[_UNIT]):
        bound = partial(function, arrays)
        bound()
        gpu.wait()
        times.append(milliseconds(bound, gpu.wait))
    (total, host), (_, unit) = times
    return {"host_us": rounded(host * 1e3), "ms": rounded(total), "launches": rounded(host / unit)}


def _results(session: Session) -> None:
    """Compares results of some of the calls, so that the times are of right ones."""
    arrays = _arrays(session.gpu)
    x, y = arrays["x"].numpy(), arrays["y"].numpy()
    equal(_CALLS["elementwise"](arrays), x + y)
    equal(_CALLS["sort"](arrays), np.sort(x, axis=1))
    equal(_CALLS["matmul"](arrays), (x.astype(np.float64) @ y).astype(np.float32), 1e-5)
    equal(_CALLS["concat"](arrays), np.concatenate([x, y]))
