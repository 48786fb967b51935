"""Launches of block programs among other work: in graphs, on expressions, on views, and from threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import Runtime

N = 1000


@triton.jit
def add_scaled(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.load(x_ptr + at, mask=mask) + scale * tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, total, mask=mask)


@triton.jit
def row_maxima(x_ptr, stride, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.max(tl.load(x_ptr + row * stride + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def store_then_load(x_ptr, out_ptr, kept_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at.to(tl.float32))
    tl.store(kept_ptr + at, tl.load(x_ptr + at))


@triton.jit
def annotated(out_ptr, high: tl.int64, small: "tl.int8", half: tl.float16, brain: tl.bfloat16, flag: tl.int1):  # noqa: UP037
    tl.static_assert(high.dtype == tl.int64 and small.dtype == tl.int8 and half.dtype == tl.float16)
    tl.static_assert(brain.dtype == tl.bfloat16 and flag.dtype == tl.int1)
    tl.store(out_ptr, (high * 65536 * 65536 >> 32).to(tl.float32))
    tl.store(out_ptr + 1, (small + small).to(tl.float32))
    tl.store(out_ptr + 2, half.to(tl.float32))
    tl.store(out_ptr + 3, brain.to(tl.float32))
    tl.store(out_ptr + 4, flag.to(tl.float32))


@triton.jit
def annotated_for_all(out_ptr, small: tl.int8, scale: tl.float32):
    tl.static_assert(small.dtype == tl.int8 and scale.dtype == tl.float32)
    tl.store(out_ptr, (small + small) * scale)


def numbers(seed: int, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1000, 1000, n).astype(np.float32)


def test_a_graph_replays_programs_on_what_its_arrays_hold(gpu: Runtime):
    x, y, total, maxima = gpu.array(numbers(0)), gpu.array(numbers(1)), gpu.empty(N), gpu.empty(10)
    with gpu.record() as graph:
        add_scaled[(8,)](x, y, total, N, 2.0, BLOCK=128)
        row_maxima[(10,)](total, 100, maxima, BLOCK=64)
    for seed in (2, 3):
        x[...] = numbers(seed)
        graph.run()
        expected = numbers(seed) + 2 * numbers(1)
        assert np.array_equal(maxima.numpy(), expected.reshape(10, 100)[:, :64].max(axis=1))


def test_the_inputs_of_a_graph_are_replaced_by_run(gpu: Runtime):
    y, out = gpu.array(numbers(1)), gpu.empty(N)
    with gpu.record(x=gpu.array(numbers(0)), scale=1.0) as graph:
        add_scaled[(8,)](graph["x"], y, out, N, graph["scale"], BLOCK=128)
    graph.run(x=gpu.array(numbers(5)), scale=3.0)
    assert np.array_equal(out.numpy(), numbers(5) + 3 * numbers(1))


def test_an_input_of_a_graph_may_overlap_what_a_program_writes(like_a_gpu: Runtime):
    """On a CPU, a program of one subgroup computes the same without the barrier."""
    gpu = like_a_gpu
    memory, kept = gpu.zeros(1088), gpu.empty(1024)
    with gpu.record(x=gpu.zeros(1024)) as graph:
        store_then_load[(1,)](graph["x"], memory[:1024], kept, BLOCK=1024)
    graph.run(x=memory[64:])
    assert np.array_equal(kept.numpy(), np.append(np.arange(64, 1024), np.zeros(64)))


def test_a_constexpr_is_no_input_of_a_graph(gpu: Runtime):
    x = gpu.empty(N)
    with gpu.record(block=128) as graph, pytest.raises(TypeError, match=r"BLOCK is a tl\.constexpr"):
        add_scaled[(8,)](x, x, x, N, 1.0, BLOCK=graph["block"])


def test_the_whole_numbers_of_a_graph_are_general_in_its_programs(gpu: Runtime):
    """1 and multiples of 16 are special otherwise."""
    x, out = gpu.array(numbers(0)), gpu.zeros(N)
    with gpu.record(n=1) as graph:
        add_scaled[(8,)](x, x, out, graph["n"], 1.0, BLOCK=128)
    graph.run(n=999)
    assert np.array_equal(out.numpy(), np.append(2 * numbers(0)[:999], 0))


@pytest.mark.parametrize("high", [1, 7])
def test_numbers_have_the_types_of_their_annotations(high: int):
    result = np.zeros(5, np.float32)
    annotated.interpret[(1,)](result, high, 100, 0.1, 1 / 3, True)
    assert result.tolist() == [high, -56, np.float16(0.1), 0.333984375, 1]


def test_annotated_numbers_on_a_device(gpu: Runtime):
    out = gpu.zeros(1)
    for small, wanted in ((1, 2), (100, -56), (-128, 0)):
        annotated_for_all[(1,)](out, small, 1)
        assert out.numpy()[0] == wanted
    with pytest.raises(ValueError, match=r"small is annotated as tl.int8, which holds -128 to 127; got 300"):
        annotated_for_all[(1,)](out, 300, 1)
    with pytest.raises(TypeError, match=r"small is annotated as tl.int8; got 1.5; pass an int"):
        annotated_for_all[(1,)](out, 1.5, 1)
    with gpu.record(small=1) as graph:
        annotated_for_all[(1,)](out, graph["small"], 1)
    graph.run(small=100)
    assert out.numpy()[0] == -56


def test_an_expression_is_computed_before_a_program_reads_it(gpu: Runtime):
    x, out = gpu.array(numbers(0)), gpu.empty(N)
    add_scaled[(8,)]((x + 1) * 2, x, out, N, 1.0, BLOCK=128)
    assert np.array_equal(out.numpy(), (numbers(0) + 1) * 2 + numbers(0))


def test_an_expression_keeps_the_values_that_a_program_overwrites(gpu: Runtime):
    x, out = gpu.array(numbers(0)), gpu.array(numbers(1))
    doubled = out * 2
    add_scaled[(8,)](x, x, out, N, 1.0, BLOCK=128)
    assert np.array_equal(doubled.numpy(), numbers(1) * 2)


def test_a_pointer_to_a_view_points_at_its_first_element(gpu: Runtime):
    table, maxima = gpu.array(numbers(0).reshape(10, 100)), gpu.empty(5)
    row_maxima[(5,)](table[::2, 3:], 200, maxima, BLOCK=64)
    assert np.array_equal(maxima.numpy(), numbers(0).reshape(10, 100)[::2, 3:67].max(axis=1))


def test_threads_launch_programs_at_once(gpu: Runtime):
    def total(seed: int) -> bool:
        x, out = gpu.array(numbers(seed)), gpu.empty(N)
        for scale in range(20):
            add_scaled[(8,)](x, x, out, N, float(scale), BLOCK=128)
        return np.array_equal(out.numpy(), 20 * numbers(seed))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(total, range(8)))


@triton.jit
def row_sums(x_ptr, out_ptr, n_rows, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=num_stages):
        tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * n + at, at < n, other=0.0), 0))


def test_a_program_that_is_compiled_before_its_launch(gpu: Runtime) -> None:
    host = np.random.default_rng(0).normal(size=(6, 60)).astype(np.float32)
    x, out = gpu.array(host), gpu.zeros(6, np.float32)
    kernel = row_sums.warmup(x, out, 6, 60, BLOCK=64, num_stages=2, num_warps=1, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs >= 1
    assert kernel.n_spills >= 0
    assert kernel.metadata.num_warps == 1
    assert kernel.local_size == row_sums.kernel(x, out, 6, 60, 64, 2, num_warps=1, grid=(1,)).local_size
    for constants in ((), (64, 2)):
        out.fill(0)
        kernel[(2, 1, 1)](x, out, 6, 60, *constants)
        np.testing.assert_allclose(out.numpy(), host.sum(1), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="row_sums is compiled for BLOCK=64; got 128; launch the program"):
        kernel[(2,)](x, out, 6, 60, 128, 2)
    with pytest.raises(TypeError, match="takes 4 arguments beside constants; got 5"):
        kernel[(2,)](x, out, 6, 60, 64)
    out.fill(0)
    kernel[(2,)](x, out, 6, 60, num_warps=2)
    np.testing.assert_allclose(out.numpy(), host.sum(1), rtol=1e-5, atol=1e-6)


@triton.jit
def of_workgroup(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0))


def test_the_workgroup_memory_of_a_program(gpu: Runtime) -> None:
    x = gpu.zeros(2048, np.int32)
    few, many = (of_workgroup.warmup(x, n, grid=(1,)).metadata.shared for n in (4, 2048))
    assert 1 <= few < many <= gpu.device.physical.limits["maxComputeSharedMemorySize"]


def test_keywords_without_effect(gpu: Runtime) -> None:
    x, y = gpu.array(np.arange(64, dtype=np.int32)), gpu.zeros(64, np.int32)
    options = {"enable_fp_fusion": False, "launch_pdl": True, "launch_cooperative_grid": False, "extern_libs": None}
    program = triton.jit(of_workgroup.fn)
    program[(1,)](y, N=64, sanitize_overflow=True, ir_override=None, num_stages=3, **options)
    program[(1,)](x, N=64, **options)
    np.testing.assert_array_equal(x.numpy(), np.cumsum(np.arange(64)))


DRIVER = """
import vkcompute.compat.triton as triton

assert triton.runtime.driver.active.get_current_device() == 0
assert triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"] >= 16384
assert triton.runtime.JITFunction is triton.runtime.jit.JITFunction is triton.JITFunction
assert triton.runtime.autotuner.Autotuner is triton.runtime.Autotuner
assert issubclass(triton.runtime.errors.OutOfResources, Exception)
runtime = triton.runtime
triton.install_as_triton()
import triton as installed
import triton.runtime.jit
assert installed.runtime is runtime and installed.runtime.jit is triton.runtime.jit
assert isinstance(triton.cdiv, triton.runtime.jit.ConstexprFunction)  # Inductor asks for it
print("done")
"""


def test_the_driver_is_found_without_an_installation(run_python: Any) -> None:
    done = run_python(DRIVER)
    assert done.stdout == "done\n", done.stderr
