"""Runs block programs on a device, or interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compat.triton import JITFunction
from vkcompute.dtypes import BFLOAT16
from vkcompute.errors import KernelError


def brain(x: Any) -> Any:
    """Returns numbers rounded to bfloat16, as float32."""
    return BFLOAT16.format.rounded(x).astype(np.float32)[()]


def run(
    gpu: vkcompute.Runtime | None,
    program: JITFunction,
    grid: tuple[int, ...],
    args: Sequence[Any],
    **named: Any,
) -> list[np.ndarray[Any, Any]]:
    """Returns the arrays among the arguments after a launch; without a runtime, after an interpreted one."""
    if gpu is None:
        args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        program.interpret[grid](*args, **named)
        return [arg for arg in args if isinstance(arg, np.ndarray)]
    given = [gpu.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    program[grid](*given, **named)
    return [arg.numpy() for arg in given if isinstance(arg, vkcompute.Array)]


def check_error(error: KernelError, message: str, text: str) -> None:
    """Checks an error's message, and that its line has a text and a caret."""
    first, line, caret = str(error).split("\n")[:3]
    assert message in first
    assert text in line
    assert caret.strip() == "^"


def launched(
    gpu: vkcompute.Runtime | None,
    program: JITFunction,
    grid: tuple[int, ...],
    args: Sequence[Any],
    **named: Any,
) -> list[Any]:
    """Returns the arguments after a launch, with NumPy's arrays; a list of arrays is given as a table of pointers."""

    def prepared(arg: Any) -> Any:
        if isinstance(arg, list):
            return triton.PointerTable([prepared(item) for item in arg])
        return arg if gpu is None or not isinstance(arg, np.ndarray) else gpu.array(arg)

    copies = [
        [array.copy() for array in arg] if isinstance(arg, list) else arg.copy() if isinstance(arg, np.ndarray) else arg
        for arg in args
    ]
    ready = [prepared(arg) for arg in copies]
    (program.interpret if gpu is None else program)[grid](*ready, **named)

    def found(arg: Any) -> Any:
        if isinstance(arg, triton.PointerTable):
            return [found(array) for array in arg.arrays]
        return arg.numpy() if isinstance(arg, vkcompute.Array) else arg

    return [found(arg) for arg in ready]


@triton.jit
def gathered(in_ptrs, arrays_ptr, offsets_ptr, out_ptr, n, DTYPE: tl.constexpr, N: tl.constexpr):
    for at in range(n):
        pointer = tl.load(in_ptrs + tl.load(arrays_ptr + at)).to(tl.pointer_type(DTYPE))
        x = tl.load(pointer + tl.load(offsets_ptr + at) + tl.arange(0, N))
        tl.store(out_ptr + at * N + tl.arange(0, N), x)


@triton.jit
def grouped_matmul(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_sizes, g_lds, group_size,
                   DTYPE: tl.constexpr, NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BK: tl.constexpr):  # fmt: skip
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_sizes + g * 3)
        gn = tl.load(group_sizes + g * 3 + 1)
        gk = tl.load(group_sizes + g * 3 + 2)
        num_m_tiles, num_n_tiles = tl.cdiv(gm, BM), tl.cdiv(gn, BN)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda, ldb, ldc = tl.load(g_lds + g * 3), tl.load(g_lds + g * 3 + 1), tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(DTYPE))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(DTYPE))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(DTYPE))
            tile_in_problem = tile_idx - last_problem_end
            tile_m, tile_n = tile_in_problem // num_n_tiles, tile_in_problem % num_n_tiles
            offs_am = tile_m * BM + tl.arange(0, BM)
            offs_bn = tile_n * BN + tl.arange(0, BN)
            offs_k = tl.arange(0, BK)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            accumulator = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(tl.cdiv(gk, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs, mask=(offs_am[:, None] < gm) & (kk * BK + offs_k[None, :] < gk), other=0.0)
                b = tl.load(b_ptrs, mask=(kk * BK + offs_k[:, None] < gk) & (offs_bn[None, :] < gn), other=0.0)
                accumulator += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * ldb
            c_ptrs = c_ptr + ldc * offs_am[:, None] + offs_bn[None, :]
            tl.store(c_ptrs, accumulator.to(DTYPE), mask=(offs_am[:, None] < gm) & (offs_bn[None, :] < gn))
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@triton.jit(debug=True)  # not in a test module, whose assertions pytest rewrites
def asserting(x_ptr, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.device_assert(x < n, "x is {small}", mask=at != 3)
    assert tl.sum(x, 0) >= 0, "sum"
    tl.store(x_ptr + at, x + 1)
