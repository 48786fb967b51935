"""x = a * x + b in place, by a kernel of each interface that takes the arrays of the others."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.compat.cupyx as cupyx
from vkcompute.compat import triton
from vkcompute.compat.numba import cuda
from vkcompute.compat.triton import language as tl

N = 2048
HOST = np.arange(N, dtype=np.float32) % 3


@vc.kernel
def step_of_vc(x, a, b):
    i = vc.global_id(0)
    x[i] = a * x[i] + b


@cuda.jit
def step_of_numba(x, a, b):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i] + b


@cupyx.jit.rawkernel()
def step_of_cupy(x, a, b):
    i = cupyx.jit.grid(1)
    x[i] = a * x[i] + b


@triton.jit
def step_of_triton(x, a, b, n: tl.constexpr):
    offsets = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(x + offsets, a * tl.load(x + offsets) + b)


def by_vc(x: Any, a: float, b: float, n: int = N) -> None:
    step_of_vc[n // 64, 64](x, a, b)


def by_numba(x: Any, a: float, b: float) -> None:
    step_of_numba[N // 128, 128](x, a, b)


def by_cupy(x: Any, a: float, b: float) -> None:
    step_of_cupy[N // 128, 128](x, a, b)


def by_triton(x: Any, a: float, b: float) -> None:
    step_of_triton[(N // 256,)](x, a, b, 256)
