"""Products by cooperative matrices, of each type and shape that a device multiplies; integers make results exact."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vkcompute import nn
from vkcompute.compat import triton
from vkcompute.compat.triton import language as tl
from vkcompute.gpu_report.items import Item, Items, Session, Unavailable, equal
from vkcompute.tile.device import matrices_of

_SHAPES = (16, 16, 16), (32, 32, 32), (64, 64, 32), (128, 64, 64), (32, 32, 256)
_TYPES = ("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32"), ("float16", "float16")


def items() -> Items:
    """Returns the items by name."""
    by_name: dict[str, Item] = {}
    for operand, sums in _TYPES:
        for shape in _SHAPES:
            name = f"{operand} to {sums}, {' x '.join(map(str, shape))}"
            by_name[name] = partial(_product, operand, sums, shape)
    return by_name | {"a layer": _layer}


@triton.jit
def _multiplied(a_ptr, b_ptr, out_ptr, n_steps, sums: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros((M, N), sums)
    for step in range(n_steps):
        a = tl.load(a_ptr + rows * n_steps * K + step * K + inner[None, :])
        b = tl.load(b_ptr + (step * K + inner[:, None]) * N + columns)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows * N + columns, total)


def _product(operand: str, sums: str, shape: tuple[int, int, int], session: Session) -> dict[str, Any]:
    """Multiplies in three steps, by 2, 4 and 8 warps."""
    shapes = [matrix for matrix in matrices_of(session.gpu) if (matrix.operand, matrix.sums) == (operand, sums)]
    if not shapes:
        raise Unavailable(f"no cooperative matrices of {operand} to {sums}")
    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    low = 0 if operand[0] == "u" else -4
    hosts = [random.integers(low, 5, size) for size in ((m, 3 * k), (3 * k, n))]
    expected = (hosts[0] @ hosts[1]).astype(sums)  # at most 3 * 256 * 16, but float16 holds 2048
    if sums == "float16":
        hosts = [host % 2 for host in hosts]
        expected = (hosts[0] @ hosts[1]).astype(sums)
    a, b = (_given(session, host, operand) for host in hosts)
    for n_warps in (2, 4, 8):
        out = session.gpu.zeros((m, n), sums)
        _multiplied[(1,)](a, b, out, 3, getattr(tl, sums), M=m, N=n, K=k, num_warps=n_warps)
        equal(out, expected)
    return {"shapes": [list(matrix[:3]) for matrix in shapes]}


def _given(session: Session, host: np.ndarray[Any, Any], operand: str) -> Any:
    """Returns a device array of a type."""
    if operand != "bfloat16":
        return session.gpu.array(host.astype(operand))
    words = (host.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return triton.reinterpret(session.gpu.array(words), tl.bfloat16)


def _layer(session: Session) -> None:
    """A product of float16 with a bias and an activation, of shapes that are no multiples of matrices."""
    random = np.random.default_rng(7)
    for rows, columns, inner in ((64, 64, 64), (33, 70, 130), (300, 5, 64)):
        x, weight = (random.integers(-3, 4, size).astype(np.float16) for size in ((rows, inner), (columns, inner)))
        bias = random.integers(-3, 4, columns).astype(np.float16)
        exact = x.astype(np.int64) @ weight.T.astype(np.int64) + bias.astype(np.int64)
        given = [session.gpu.array(host) for host in (x, weight, bias)]
        equal(nn.linear(given[0], given[1], given[2], "relu"), np.maximum(exact, 0).astype(np.float16))
