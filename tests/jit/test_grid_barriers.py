"""Barriers of the whole grid: the launch is divided there, and what lives across is kept in memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from grid_programs import LOCAL, Program
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.errors import KernelError


@vc.kernel(local_size=32)
def relaxed(x, y, n, steps):  # Jacobi's iteration: the commonest use of a grid barrier
    i = vc.global_id(0)
    for _ in range(steps):
        if i < n:
            y[i] = (x[max(i - 1, 0)] + x[min(i + 1, n - 1)]) / 2
        vc.grid_barrier()
        if i < n:
            x[i] = y[i]
        vc.grid_barrier()


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("n", [1, 96, 100])
def test_an_iteration(gpu: vc.Runtime, n: int, steps: int) -> None:
    x = np.random.default_rng(n).integers(0, 1 << 8, n).astype(np.float32)
    device = gpu.array(x)
    for _ in range(2):
        relaxed[-(-n // 32)](device, gpu.zeros(n), n, steps)
    for _ in range(2 * steps):
        x = (np.concatenate([x[:1], x[:-1]]) + np.concatenate([x[1:], x[-1:]])) / 2
    np.testing.assert_array_equal(device.numpy(), x)


@vc.kernel(local_size=16)
def after_a_loop(x, out, n):  # the result of a loop directly before the barrier lives across it
    i = vc.global_id(0)
    total = x[i]
    for k in range(n):
        total += x[i] * k
    vc.grid_barrier()
    out[i] = total


@vc.kernel(local_size=16)
def leaving(x, out, n):  # the last barrier is before the return, and is waited at again
    i = vc.global_id(0)
    for k in range(n):
        vc.grid_barrier()
        if x[i] == k:
            return
        out[i] += 1


def test_results_of_loops_and_returns_behind_barriers(gpu: vc.Runtime) -> None:
    x = np.arange(64, dtype=np.int32) % 7
    device, sums, counts = gpu.array(x), gpu.zeros(64, np.int32), gpu.zeros(64, np.int32)
    after_a_loop[4](device, sums, 4)
    leaving[4](device, counts, 5)
    np.testing.assert_array_equal(sums.numpy(), 7 * x)
    np.testing.assert_array_equal(counts.numpy(), np.minimum(x, 5))


def check(gpu: vc.Runtime, seed: int) -> None:
    """Compares a random program with what its generators give; those of odd seeds return early."""
    program, names = Program(seed, returns=bool(seed % 2)), dict[str, object]()
    exec(program.text, names)
    kernel = vc.kernel(source=program.text, local_size=LOCAL)(names["made"])  # type: ignore[call-overload]
    n = 41 if seed % 2 else 48
    for steps in (0, 1, 4):
        arrays = [np.arange(48, dtype=np.int32) * 7 % 100, np.arange(48, dtype=np.int32), np.full(48, -1, np.int32)]
        device = [gpu.array(array) for array in arrays]
        kernel[48 // LOCAL](*device, n, steps)
        program.expected(arrays, n, steps)
        for got, wanted in zip(device, arrays, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=program.text)


@pytest.mark.parametrize("seed", [3, 12, 15, 20])
def test_random_programs(gpu: vc.Runtime, seed: int) -> None:
    check(gpu, seed)


def test_a_random_program_of_this_run(gpu: vc.Runtime) -> None:
    check(gpu, random.SystemRandom().randrange(1 << 32))


def test_the_simulator_runs_all_workgroups_to_a_barrier() -> None:
    for seed in (3, 12):
        program, names = Program(seed, returns=bool(seed % 2)), dict[str, object]()
        exec(program.text, names)
        kernel = vc.kernel(source=program.text, local_size=LOCAL)(names["made"])  # type: ignore[call-overload]
        given = np.arange(48, dtype=np.int32) * 7 % 100, np.arange(48, dtype=np.int32), np.full(48, -1, np.int32)
        wanted = [array.copy() for array in given]
        kernel.simulate[48 // LOCAL](*given, 41, 2)
        program.expected(wanted, 41, 2)
        np.testing.assert_array_equal(given, wanted)
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    without_barrier.simulate[2](x, out, 1)
    with pytest.raises(KernelError, match="nothing orders the two"):
        without_barrier.simulate[2](x, out, 0)


@vc.kernel(local_size=16)
def without_barrier(x, out, waits):
    i = vc.global_id(0)
    x[i] = 1
    if waits > 0:
        vc.grid_barrier()
    out[i] = x[31 - i]


@vc.kernel(local_size=(4, 2, 2))
def kept(x, half, small, wide, flags, out, big: vc.int64, real: vc.float64):  # values of many types live across
    i = vc.global_id(0) + 8 * (vc.global_id(1) + 4 * vc.global_id(2))
    a, b, c, d = x[i] + 1, half[i], small[i], wide[i] * big
    e = x[i] * real
    f = flags[i]
    mine = vc.local(3, vc.float16)
    mine[1] = half[i]
    pair = (a, 2 * a)
    vc.grid_barrier()
    x[i] = 0
    vc.grid_barrier()
    total = a + b + c + x[(i + 1) % 64] + mine[1] + pair[1]
    if f:
        total += 1000
    out[i] = total + d % 1000 + e


def test_values_of_all_types_on_three_axes(gpu: vc.Runtime) -> None:
    x = np.arange(64, dtype=np.float32)
    half, small, wide, flags = x.astype(np.float16) / 2, (x % 100).astype(np.int8), (x * 10**9).astype(np.int64), x > 30
    out = gpu.zeros(64, np.float64)
    arrays = [gpu.array(array) for array in (x, half, small, wide, flags)]
    kept(*arrays, out, 10**6 + 3, 0.125, grid=(2, 2, 1))
    wanted = x + 1 + half + small + half + 2 * (x + 1.0) + 1000 * flags + wide * (10**6 + 3) % 1000 + x * 0.125
    np.testing.assert_array_equal(out.numpy(), wanted)


@vc.kernel(local_size=1024)
def reversed_twice(x, y, n):
    i = vc.global_id(0)
    if i >= n:
        return
    value = x[n - 1 - i]
    vc.grid_barrier()
    x[i] = value
    vc.grid_barrier()
    y[i] = x[n - 1 - i]


@vc.kernel(local_size=1)
def single(x, y, n):
    i = vc.global_id(0)
    value = x[n - 1 - i]
    vc.grid_barrier()
    x[i] = value
    vc.grid_barrier()
    y[i] = x[n - 1 - i]


def test_divided_workgroups_and_wrapped_grids(gpu: vc.Runtime) -> None:
    x = np.arange(3000, dtype=np.float32)
    y, device = gpu.zeros(3000), gpu.array(x)
    reversed_twice[3](device, y, 3000)
    np.testing.assert_array_equal(y.numpy(), x)
    n = gpu.device.physical.limits["maxComputeWorkGroupCount"][0]
    if n > 65535:
        pytest.skip("the device launches more workgroups along x")
    x = np.arange(n + 77, dtype=np.float32)
    y, device = gpu.zeros(n + 77), gpu.array(x)
    single[n + 77](device, y, n + 77)
    np.testing.assert_array_equal(y.numpy(), x)


@vc.kernel(local_size=16, check_bounds=True)
def failing(x, at, steps):
    i = vc.global_id(0)
    for k in range(steps):
        x[i] += 1
        vc.grid_barrier()
        if k == at:
            x[i + 100] = 1


def test_errors_in_a_phase(gpu: vc.Runtime) -> None:
    x = gpu.zeros(64)
    failing[4](x, 9, 3)
    assert x.tolist() == [3] * 64
    with pytest.raises(KernelError, match=r"index 100 is outside of x.*first of 64 failures"):
        failing[4](x, 1, 3).result()


@vc.kernel(local_size=16)
def of_many(a, b, c, d, e, f, steps):
    i = vc.global_id(0)
    for _ in range(steps):
        a[i] += b[(i + 1) % 64] + c[i]
        vc.grid_barrier()
        b[i] += a[(i + 5) % 64] + d[i] * e[i]
        vc.grid_barrier()
    f[i] = a[i] + b[i]


def test_with_more_arrays_than_bindings_and_in_graphs() -> None:
    host = [np.random.default_rng(n).integers(0, 9, 64).astype(np.int32) for n in range(6)]
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": 4}) as gpu:
        arrays = [gpu.array(array) for array in host]
        of_many[4](*arrays, 2)
        with gpu.record() as graph:
            of_many[4](*arrays, 2)
        graph.run()
        results = [array.numpy() for array in arrays]
    a, b, c, d, e, _ = host
    for _ in range(4):
        a = a + np.roll(b, -1) + c
        b = b + np.roll(a, -5) + d * e
    for got, wanted in zip(results, (a, b, c, d, e, a + b), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_numbers_of_each_run_do_not_tell_the_barriers(gpu: vc.Runtime) -> None:
    x, y = gpu.zeros(64), gpu.zeros(64)
    with pytest.raises(ValueError, match="record it with the number"), gpu.record(steps=3) as graph:
        relaxed[2](x, y, 64, graph["steps"])


@vc.kernel(local_size=16)
def by_elements(x: vc.float32[:]):
    if x[0] > 1:
        vc.grid_barrier()
    x[vc.global_id(0)] = 1


@vc.kernel(local_size=16)
def by_ids(x: vc.float32[:], n: vc.int32):
    for k in range(n):
        if vc.global_id(0) == k:
            break
        vc.grid_barrier()
    x[vc.global_id(0)] = 1


def waiting(x):
    vc.grid_barrier()
    return x


def test_what_is_refused(gpu: vc.Runtime) -> None:
    with pytest.raises(KernelError, match=r"(?s)not known at the launch.*vc\.grid_barrier"):
        by_elements(gpu.zeros(64))
    with pytest.raises(KernelError, match=r"(?s)not known at the launch.*vc\.grid_barrier"):
        by_ids[4](gpu.zeros(64), 3)
    with pytest.raises(KernelError, match=r"(?s)only kernels of vc\.kernel wait for the grid.*vc\.grid_barrier"):
        vc.vectorize(waiting)(gpu.zeros(64))
    with pytest.raises(KernelError, match="one module does not run it"):
        annotated.spirv()


@vc.kernel(local_size=16)
def annotated(x: vc.float32[:]):
    vc.grid_barrier()
    x[vc.global_id(0)] = 1
