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
from vkcompute.ir import passes

SOURCE = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
SPIRV_VAL = shutil.which("spirv-val")


def interpreted(function: ir.Function, bias: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    out = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
    interpreter.run(function, {"src": SOURCE, "out": out}, N_INVOCATIONS, {"bias": bias})
    return out


def on_device(gpu: vc.Runtime, function: ir.Function, bias: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    out = gpu.tensor(np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32))
    kernel = gpu.kernel(ir.lower(function), name="random")
    kernel(gpu.tensor(SOURCE), out, bias, grid=N_INVOCATIONS // function.local_size[0])
    return out.numpy()


@pytest.mark.pure
@given(function=functions(), bias=st.integers(-3, 3))
def test_no_pass_changes_what_is_computed(function: ir.Function, bias: int) -> None:
    ir.verify(function)
    expected = interpreted(function, bias)
    for step in (passes.decide, passes.hoist, passes.share, passes.drop, ir.optimize):
        step(function)
        ir.verify(function)
        assert np.array_equal(interpreted(function, bias), expected), step.__name__


@pytest.mark.pure
@pytest.mark.skipif(SPIRV_VAL is None, reason="spirv-val is not installed")
@given(function=functions(), optimized=st.booleans())
@settings(max_examples=15)
def test_khronos_validator_accepts_what_is_emitted(
    tmp_path_factory: pytest.TempPathFactory, function: ir.Function, optimized: bool
) -> None:
    path: Path = tmp_path_factory.mktemp("ir") / "random.spv"
    path.write_bytes(ir.lower(ir.optimize(function) if optimized else function))
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
        done = b.if_(b.binary("ge", n, b.const(3, ir.INT32)))
        with done.then:
            b.break_(loop, n)
        way = b.if_(b.const(known, ir.BOOL))
        with way.then:
            b.continue_(loop, b.binary("add", n, one))
        with way.otherwise:
            b.store(out, one, n)
            b.continue_(loop, b.binary("add", n, b.const(2, ir.INT32)))
    b.store(out, zero, loop.results[0])
    ir.verify(function)
    passes.decide(function)
    ir.verify(function)
    tensor = gpu.full(2, -1, np.int32)
    gpu.kernel(ir.lower(function))(tensor, grid=1)
    assert tensor.numpy().tolist() == ([3, -1] if known else [4, 2])
