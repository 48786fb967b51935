"""Random functions: the verifier accepts them before and after every pass, and devices compute what numpy does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import interpreter
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.elimination import fold_branches
from vkcompute.ir.function import Op, walk
from vkcompute.ir.pipeline import LEGALIZATIONS, OPTIMIZATIONS
from vkcompute.ir.unrolling import unroll_loops

SOURCE = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
SPIRV_VAL = shutil.which("spirv-val")


def interpreted(function: ir.Function, bias: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    out = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
    interpreter.run(function, {"src": SOURCE, "out": out}, N_INVOCATIONS, {"bias": bias})
    return out


def on_device(gpu: vc.Runtime, function: ir.Function, bias: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    out = gpu.array(np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32))
    kernel = gpu.kernel(ir.lower(function).spirv, name="random")
    kernel(gpu.array(SOURCE), out, bias, grid=N_INVOCATIONS // function.local_size[0])
    return out.numpy()


@pytest.mark.pure
@given(function=functions(), bias=st.integers(-3, 3))
def test_no_pass_changes_what_is_computed(function: ir.Function, bias: int) -> None:
    ir.verify(function)
    expected = interpreted(function, bias)
    for each in (*OPTIMIZATIONS, *LEGALIZATIONS, ir.optimize):
        function = each(function)
        ir.verify(function)
        assert np.array_equal(interpreted(function, bias), expected), each


@pytest.mark.pure
@pytest.mark.skipif(SPIRV_VAL is None, reason="spirv-val is not installed")
@given(function=functions(), optimized=st.booleans())
@settings(max_examples=15)
def test_khronos_validator_accepts_what_is_emitted(
    tmp_path_factory: pytest.TempPathFactory, function: ir.Function, optimized: bool
) -> None:
    path: Path = tmp_path_factory.mktemp("ir") / "random.spv"
    path.write_bytes(ir.lower(ir.optimize(function) if optimized else function).spirv)
    done = subprocess.run(
        [str(SPIRV_VAL), "--target-env", "vulkan1.1", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{ir.text(function)}"


@given(function=functions(), bias=st.integers(-3, 3), optimized=st.booleans())
def test_devices_compute_what_numpy_does(gpu: vc.Runtime, function: ir.Function, bias: int, optimized: bool) -> None:
    expected = interpreted(function, bias)
    if optimized:
        ir.optimize(function)
    assert np.array_equal(on_device(gpu, function, bias), expected), ir.text(function)


@pytest.mark.parametrize("known", [False, True])
def test_a_branch_on_a_constant_that_starts_a_loop_over(gpu: vc.Runtime, known: bool) -> None:
    function = ir.Function("decided", (1, 1, 1))
    out = function.buffer("out", ir.INT32)
    b = ir.Builder(function)
    zero, one = b.const(0, ir.INT32), b.const(1, ir.INT32)
    loop = b.loop(zero)
    with loop.body:
        (n,) = loop.params
        done = b.if_(b.compute("ge", n, b.const(3, ir.INT32)))
        with done.then:
            b.break_(loop, n)
        way = b.if_(b.const(known, ir.BOOL))
        with way.then:
            b.continue_(loop, b.compute("add", n, one))
        with way.otherwise:
            b.store(out, one, n)
            b.continue_(loop, b.compute("add", n, b.const(2, ir.INT32)))
    b.store(out, zero, loop.results[0])
    ir.verify(function)
    fold_branches(function)
    ir.verify(function)
    array = gpu.full(2, -1, np.int32)
    gpu.kernel(ir.lower(function).spirv)(array, grid=1)
    assert array.numpy().tolist() == ([3, -1] if known else [4, 2])


def _counting(n: int, step: int, *, inner: bool = False) -> ir.Function:
    """A loop of so many trips that sums into out[0]; `inner`, another in it that counts to the counter."""
    function = ir.Function("counting", (1, 1, 1))
    out = function.buffer("out", ir.INT32)
    b = ir.Builder(function)
    zero = b.const(0, ir.INT32)

    def count(limit: ir.Value, start: ir.Value, depth: int) -> ir.Value:
        loop = b.loop(zero, start)
        with loop.body:
            i, total = loop.params
            more = b.if_(b.compute("lt", i, limit))
            with more.otherwise:
                b.break_(loop, total)
            total = count(i, total, depth - 1) if depth else b.compute("add", total, b.compute("mul", i, i))
            b.yield_(b.compute("add", i, b.const(step, ir.INT32)), total)
        return loop.results[0]

    b.store(out, zero, count(b.const(n * step, ir.INT32), b.load(out, zero), int(inner)))
    return function


@pytest.mark.pure
@pytest.mark.parametrize(
    ("n", "inner", "flat"), [(0, False, True), (32, False, True), (33, False, False), (6, True, True)]
)
@pytest.mark.parametrize("step", [1, 3])
def test_short_loops_are_unrolled(n: int, inner: bool, flat: bool, step: int) -> None:
    function, out = _counting(n, step, inner=inner), np.full(1, 5, np.int32)
    ir.verify(function)
    unroll_loops(function)
    ir.verify(function)
    assert flat is not any(op.code == "loop" for op in walk(function.body))
    interpreter.run(function, {"out": out}, 1)
    counted = range(0, n * step, step)
    sums = [k * k for i in counted for k in range(0, i, step)] if inner else [i * i for i in counted]
    assert out[0] == 5 + sum(sums)


@pytest.mark.pure
@pytest.mark.parametrize(("invocations", "waits", "flat"), [(64, True, True), (256, True, False), (256, False, True)])
def test_a_workgroup_that_waits_unrolls_less_the_more_invocations_it_has(
    invocations: int, waits: bool, flat: bool
) -> None:
    function = _counting(32, 1)
    function.local_size = (invocations // 4, 2, 2)
    reading = next(op for op in walk(function.body) if op.code == "loop").regions[0]
    reading.ops.insert(-1, Op("load", ir.INT32, [function.constant(0, ir.INT32)], function.buffers[0]))
    if waits:
        function.body.ops.insert(0, Op("barrier", None))
    unroll_loops(function)
    assert flat is not any(op.code == "loop" for op in walk(function.body))
