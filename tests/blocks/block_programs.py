"""Runs block programs on a device, or interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compat.triton import JITFunction


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


@triton.jit(debug=True)  # not in a test module, whose assertions pytest rewrites
def asserting(x_ptr, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.device_assert(x < n, "x is {small}", mask=at != 3)
    assert tl.sum(x, 0) >= 0, "sum"
    tl.store(x_ptr + at, x + 1)
