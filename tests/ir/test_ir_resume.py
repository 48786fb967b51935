"""Kernels that stop after a few passes and go on in the next launch: random programs come to the same results."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.function import walk

SOURCE = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
OUT = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
MOST_LAUNCHES = 3000


def halves(function: ir.Function, budget: int, optimized: bool) -> tuple[ir.Function, ir.Function, int]:
    """The kernel for the first launch, that for the others, and the words of state per invocation."""
    found = []
    for again in (False, True):
        one, n_words = ir.resumable(function, budget, again=again)
        ir.verify(one)
        if optimized:
            ir.optimize(one)
            ir.verify(one)
        found.append(one)
    return found[0], found[1], n_words


def has_loop(function: ir.Function) -> bool:
    return any(op.code == "loop" for op in walk(function.body))


@pytest.mark.pure
@given(
    function=functions().filter(has_loop), bias=st.integers(-3, 3), budget=st.integers(1, 9), optimized=st.booleans()
)
def test_stopped_programs_compute_the_same(function: ir.Function, bias: int, budget: int, optimized: bool) -> None:
    expected, out = OUT.copy(), OUT.copy()
    interpreter.run(function, {"src": SOURCE, "out": expected}, N_INVOCATIONS, {"bias": bias})
    first, again, n_words = halves(function, budget, optimized)
    state = np.full(n_words * N_INVOCATIONS, 0xDEADBEEF, np.uint32)
    for n in range(MOST_LAUNCHES):
        status = np.zeros(1, np.uint32)
        arrays = {"src": SOURCE, "out": out, "state": state, "status": status}
        interpreter.run(again if n else first, arrays, N_INVOCATIONS, {"bias": bias})
        if not status[0]:
            break
    assert np.array_equal(out, expected), f"{ir.text(function)}\n{ir.text(first)}\n{ir.text(again)}"


@given(function=functions().filter(has_loop), bias=st.integers(-3, 3), budget=st.integers(1, 5))
@settings(max_examples=6)
def test_stopped_programs_on_a_device(gpu: vc.Runtime, function: ir.Function, bias: int, budget: int) -> None:
    expected = OUT.copy()
    interpreter.run(function, {"src": SOURCE, "out": expected}, N_INVOCATIONS, {"bias": bias})
    *parts, n_words = halves(function, budget, True)
    kernels = [gpu.kernel(ir.lower(part), name="stopped") for part in parts]
    out, source, status = gpu.tensor(OUT), gpu.tensor(SOURCE), gpu.zeros(1, np.uint32)
    state = gpu.full(n_words * N_INVOCATIONS, 0xDEADBEEF, np.uint32)
    for n in range(MOST_LAUNCHES):
        status.fill(0)
        kernels[n > 0](source, out, status, state, bias, grid=N_INVOCATIONS // function.local_size[0])
        if not status.numpy()[0]:
            break
    assert np.array_equal(out.numpy(), expected), ir.text(function)
