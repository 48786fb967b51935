"""Kernels of Numba that Python simulates, for `NUMBA_ENABLE_CUDASIM=1`: results are those of the device."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vkcompute.compat.numba import config, cuda, float32, float64, guvectorize, int32, vectorize
from vkcompute.compat.numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
X = np.random.default_rng(4).integers(0, 50, 64).astype(np.float64)
TABLE = np.array([3.0, 1.0, 4.0, 1.0])


@cuda.jit(device=True)
def weighed(x: Any) -> Any:
    return x * cuda.blockDim.x + cuda.const.array_like(TABLE)[cuda.laneid % 4]


@cuda.jit
def positions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = weighed(x[i]) + 1000 * cuda.blockIdx.x + cuda.gridsize(1) / cuda.gridDim.x


@cuda.jit
def reversed_blocks(x, out):
    tile, mine = cuda.shared.array(32, float64), cuda.local.array(2, int32)
    sized = cuda.shared.array(0, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = sized[t] = x[i]
    mine[0], mine[1] = t, 31 - t
    cuda.syncthreads()
    out[i] = tile[mine[1]] + 100 * sized[mine[0]] + 10000 * cuda.syncthreads_count(x[i] > 25)


@cuda.jit
def warps(x, out):
    i = cuda.grid(1)
    value = x[i]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)
        cuda.atomic.max(out, 1, value)
    ballot = cuda.ballot_sync(0xFFFFFFFF, x[i % 30] > 20)
    votes = cuda.popc(ballot) + 100 * cuda.any_sync(0xFFFFFFFF, i == 5)
    if i > 1:
        out[i] = votes + 1000 * cuda.ffs(int32(i)) + 10000 * cuda.clz(int32(i))


@cuda.jit
def rotations(x, out):
    grid, i = cuda.cg.this_grid(), cuda.grid(1)
    out[i] = x[i]
    for _ in range(3):
        grid.sync()
        value = out[(i + 1) % x.size]
        grid.sync()
        out[i] = value


@pytest.mark.parametrize("kernel", [positions, reversed_blocks, warps, rotations])
def test_results_are_those_of_the_device(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of_host = np.zeros(64, np.float32)
    on_device, simulated = cuda.to_device(of_host), cuda.to_device(of_host)
    x = X.astype(np.float32)
    kernel[2, 32, 0, 128](cuda.to_device(x), on_device)
    monkeypatch.setattr(config, "ENABLE_CUDASIM", 1)
    kernel[2, 32, 0, 128](cuda.to_device(x), simulated)
    kernel[2, 32, 0, 128](x, of_host)
    assert simulated.copy_to_host().tolist() == on_device.copy_to_host().tolist() == of_host.tolist()


def test_records_random_numbers_and_functions_of_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    @cuda.jit
    def fill(records, states, out):
        i = cuda.grid(1)
        records[i].a = i
        records[i]["b"] = 2 * i
        out[i] = xoroshiro128p_normal_float64(states, i)

    def run() -> list[Any]:
        records, out = np.zeros(3, [("a", "f4"), ("b", "i4")]), np.zeros(3)
        fill[1, 3](records, create_xoroshiro128p_states(3, seed=7), out)
        add = vectorize([float64(float64, float64)], target="cuda")(lambda x, y: x + y)
        sums = guvectorize([(float64[:], float64[:])], "(n)->()", target="cuda")(total)
        return [records.tolist(), add(X, X).tolist(), sums(X.reshape(4, 16)).tolist(), cuda.reduce(larger)(X), out]

    *on_device, normal = run()
    monkeypatch.setattr(config, "ENABLE_CUDASIM", 1)
    *simulated, again = run()
    assert simulated == on_device
    np.testing.assert_allclose(again, normal, rtol=1e-12)


def total(x: Any, out: Any) -> None:
    out[0] = 0.0
    for value in x:
        out[0] += value


def larger(x: Any, y: Any) -> Any:
    return max(x, y)


def test_prints_and_errors_are_pythons(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    program = """
import linecache
text = '''
from vkcompute.compat.numba import cuda
import numpy as np

@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    print(f"thread {i} of {dict(n=x.size)}")
    x[i + 1] = i

kernel[1, 2](np.zeros(2))
'''
linecache.cache["program"] = len(text), None, text.splitlines(keepends=True), "program"
exec(compile(text, "program", "exec"))
"""
    done = run_python(program, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"})
    assert done.stdout == "thread 0 of {'n': 2}\nthread 1 of {'n': 2}\n"
    assert done.stderr.rstrip().endswith(
        "IndexError: tid=[1, 0, 0] ctaid=[0, 0, 0]: index 2 is out of bounds for axis 0 with size 2"
    )


def test_names_of_kernels_have_no_value_on_the_host() -> None:
    with pytest.raises(TypeError, match="no value on the host"):
        int(cuda.laneid)
    with pytest.raises(AttributeError, match="no attribute 'x' on the host"):
        _ = cuda.threadIdx.x
    with pytest.raises(NotImplementedError, match=r"cuda\.grid can only be called in a kernel"):
        cuda.grid(1)
