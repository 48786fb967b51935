"""Names beside Numba's kernels that programs use: devices, limits, `libdevice`, `extending`, words of errors."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

import vkcompute.compat.numba as numba
from vkcompute.compat.numba import cuda
from vkcompute.compat.numba.cuda import random
from vkcompute.compat.numba.errors import TypingError

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]
_REPORT = "from vkcompute.compat.numba import cuda; print(cuda.is_available(), len(cuda.gpus), cuda.cuda_error())"


def _with(**variables: str) -> dict[str, str]:
    """Returns the environment with these variables, without a choice of the device."""
    return {name: value for name, value in os.environ.items() if name != "VKCOMPUTE_DEVICE"} | variables


def test_functions_of_libdevice() -> None:
    ld = cuda.libdevice

    @cuda.jit
    def kernel(x, out, whole):
        out[0] = ld.rsqrtf(x[0])
        out[1] = ld.fast_expf(x[0])
        out[2] = ld.fmaf_rn(x[0], x[1], 1)
        out[3] = ld.ddiv_rn(x[0], x[1])
        out[4] = ld.hypot(x[0], x[1])
        out[5] = ld.erfcf(x[1])
        out[6] = ld.isnan(x[2])
        whole[0] = ld.clzll(1)
        whole[1] = ld.brev(1)
        whole[2] = ld.float_as_int(x[0])
        whole[3] = ld.umax(-1, 1)
        whole[4] = ld.llrint(-x[0])
        whole[5] = ld.ffs(8)

    x, y = 2.5, 0.75
    out, whole = np.zeros(7), np.zeros(6, np.int64)
    kernel[1, 1](np.array([x, y, math.nan]), out, whole)
    expected = [x**-0.5, math.exp(x), x * y + 1, x / y, math.hypot(x, y), math.erfc(y), 1]
    np.testing.assert_allclose(out, expected, rtol=5e-7)
    np.testing.assert_allclose(out[[3, 4]], [x / y, math.hypot(x, y)], rtol=1e-15)
    assert whole.tolist() == [63, -(2**31), np.float32(x).view(np.int32), 2**32 - 1, -2, 4]


def test_jumps_of_generators_are_those_of_their_states() -> None:
    @cuda.jit
    def jump(states):
        random.xoroshiro128p_jump(states, 0)

    states = random.create_xoroshiro128p_states(2, seed=3)
    jump[1, 1](states)
    first, second = states.copy_to_host().tolist()
    assert first == second


def test_attributes_of_devices() -> None:
    device = cuda.get_current_device()
    limits = device.runtime.device.physical.limits
    sizes = device.MAX_BLOCK_DIM_X, device.MAX_BLOCK_DIM_Y, device.MAX_BLOCK_DIM_Z
    assert sizes == tuple(limits["maxComputeWorkGroupSize"])
    assert limits["maxComputeWorkGroupCount"][1] == device.MAX_GRID_DIM_Y
    assert limits["maxComputeSharedMemorySize"] == device.MAX_SHARED_MEMORY_PER_BLOCK
    assert device.compute_capability == (device.COMPUTE_CAPABILITY_MAJOR, device.COMPUTE_CAPABILITY_MINOR)
    with pytest.raises(AttributeError, match="no attribute 'MAX_GRID_DIM_W'"):
        _ = device.MAX_GRID_DIM_W


@pytest.mark.parametrize("value", ["", "-1", "99"])
def test_no_visible_device(run_python: Callable[..., subprocess.CompletedProcess[str]], value: str) -> None:
    said = run_python(_REPORT, env=_with(CUDA_VISIBLE_DEVICES=value)).stdout
    assert said.startswith(f"False {int(value == '99')} no device fits"), said
    assert f"CUDA_VISIBLE_DEVICES is '{value}'" in said


def test_the_first_visible_device_is_the_default(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert run_python(_REPORT, env=_with(CUDA_VISIBLE_DEVICES="0,1")).stdout == "True 1 None\n"
    assert run_python(_REPORT, env=_with(CUDA_VISIBLE_DEVICES="99", VKCOMPUTE_DEVICE="0")).stdout == "True 1 None\n"


def test_extending() -> None:
    @numba.extending.register_jitable
    def successor(x):
        return x + 1

    @cuda.jit
    def kernel(x):
        for i in numba.prange(x.size):
            x[i] = successor(x[i])

    x = np.zeros(3)
    kernel[1, 1](x)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match=r"extending\.overload extends Numba's compiler"):
        numba.extending.overload(len)


def test_remedies_name_numbas_functions() -> None:
    @cuda.jit
    def sized(x, n):
        x[0] = cuda.local.array(n, numba.float32)[0]

    @cuda.jit
    def random_number(x):
        x[0] = np.random.rand()

    with pytest.raises(TypingError, match="known at compile time"):
        sized[1, 1](np.zeros(1), 3)
    with pytest.raises(TypingError, match="write xoroshiro128p_uniform_float32"):
        random_number[1, 1](np.zeros(1))
