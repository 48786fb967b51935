"""The array multiply: small and large arrays on the device, and host arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import ours
import peers.numpy
from context import Cases, Context, count_of
from measure import Case, Contender, Local
from peers.work import pair, product

TITLE = "multiply of float32"


def cases(context: Context) -> Cases:
    """Arrays on the device in two sizes, then host arrays."""
    small, large = context.sizes.small, context.sizes.large
    for key, n in (("multiply.small", small), ("multiply.large", large)):
        title = f"multiply, {count_of(n)} float32, resident on the device"
        yield Case(key, title, "numpy", _resident(context, n))
    title = f"multiply, {count_of(small)} float32, from host arrays to a host array"
    yield Case("multiply.host", title, "numpy", _from_host(context, small))


def _resident(context: Context, n: int) -> list[Contender]:
    return [
        _local("numpy", partial(_made, peers.numpy.Resident), n),
        _local("vkcompute", partial(_made, ours.BuiltIn, context.runtime), n),
        _local("vkcompute, naive GLSL", partial(_made, ours.Naive, context.runtime), n),
        *context.remote("resident", n),
    ]


def _from_host(context: Context, n: int) -> list[Contender]:
    return [
        _local("numpy", partial(_made, peers.numpy.FromHost), n),
        _local("vkcompute", partial(_made, ours.FromHost, context.runtime), n),
        *context.remote("from_host", n),
    ]


def _made(program: Any, *arguments: Any) -> Any:
    n = arguments[-1]
    return program(*arguments[:-1], *pair(n))


def _local(name: str, make: Any, n: int) -> Local:
    return Local(name, partial(make, n), partial(product, n))
