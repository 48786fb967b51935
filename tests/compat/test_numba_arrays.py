"""Numba's arrays of the device, streams and devices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.compat.numba import cuda
from vkcompute.compat.numba.cuda.random import create_xoroshiro128p_states
from vkcompute.compat.numba.errors import TypingError

pytestmark = pytest.mark.usefixtures("gpu")


def test_copies_there_and_back_keep_the_order() -> None:
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    device = cuda.to_device(x)
    assert (device.shape, device.strides, device.dtype) == (x.shape, x.strides, x.dtype)
    back = device.copy_to_host()
    assert np.array_equal(back, x)
    assert back.flags["F_CONTIGUOUS"]
    out = np.zeros_like(x)
    assert device.copy_to_host(out) is out
    assert np.array_equal(out, x)
    device.copy_to_device(x + 1)
    assert np.array_equal(device.copy_to_host(), x + 1)
    with pytest.raises(ValueError, match="incompatible shape"):
        device.copy_to_device(x[:2])


def test_parts_are_views() -> None:
    device = cuda.to_device(np.arange(12, dtype=np.int32).reshape(3, 4))
    device[1, 2:] = 50
    device[2] = np.arange(4)
    device[0, 0:1] = device[1:2, 3]
    assert device[1, 3] == 50
    assert device.T[3, 1] == 50
    assert device.reshape(12)[0] == 50
    assert np.array_equal(device[:, ::-1].copy_to_host()[2], [3, 2, 1, 0])
    parts = [part.copy_to_host().tolist() for part in device.ravel().split(5)]
    assert parts == [[50, 1, 2, 3, 4], [5, 50, 50, 0, 1], [2, 3]]
    with pytest.raises(ValueError, match="Can't copy sequence with size 3"):
        device[0] = np.arange(3)
    with pytest.raises(IndexError):
        device[3]


def test_the_interface_is_spoken_among_ours() -> None:
    class Foreign:
        def __init__(self, array: cuda.DeviceNDArray) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    device = cuda.to_device(np.arange(10, dtype=np.float32))
    view = cuda.as_cuda_array(Foreign(device[2:8:2]))
    view[:] = 7
    assert device.copy_to_host().tolist() == [0, 1, 7, 3, 7, 5, 7, 7, 8, 9]
    array: vc.Array = device.array
    assert cuda.as_cuda_array(array).copy_to_host()[2] == 7
    for beyond in ({"shape": (100_000,)}, {"shape": (3,), "strides": (-4,)}, {"typestr": "<f8", "shape": (50_000,)}):
        with pytest.raises(ValueError, match=r"bytes .* of its memory"):
            cuda.from_cuda_array_interface({**device.__cuda_array_interface__, **beyond})
    desc = {**device.__cuda_array_interface__, "data": (4096, False)}
    with pytest.raises(ValueError, match="another library"):
        cuda.from_cuda_array_interface(desc)


def test_streams_and_events_order_and_measure() -> None:
    stream = cuda.stream()
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    with stream.auto_synchronize():
        device = cuda.to_device(np.ones(4, np.float32), stream=stream)
    end.record(stream)
    assert begin.elapsed_time(end) >= 0
    assert device.copy_to_host(stream=stream).sum() == 4
    with cuda.pinned(np.zeros(3)), cuda.defer_cleanup():
        cuda.synchronize()


def test_devices() -> None:
    assert cuda.is_available()
    assert len(cuda.list_devices()) == len(cuda.gpus) == 1
    memory = cuda.current_context().get_memory_info()
    assert 0 < memory.free <= memory.total
    with pytest.raises(IndexError):
        cuda.select_device(5)


def test_states_of_generators_are_numbas() -> None:
    states = create_xoroshiro128p_states(3, seed=1, subsequence_start=5).copy_to_host()
    assert states["s0"].tolist() == [1129611961570501949, 4184062873850519686, 7695657671875318337]
    assert states["s1"].tolist() == [5235472948863713403, 4666951538218872649, 16847755635083727659]


def test_arrays_of_the_host_are_made_like_those_of_the_device() -> None:
    base = np.zeros((4, 6))
    for host in (base, base.T, base[::2], base[:, ::3].T):
        for like in (cuda.pinned_array_like, cuda.mapped_array_like):
            for given in (host, cuda.to_device(host)):
                assert like(given).strides == np.empty_like(host).strides


def test_a_stream_of_a_foreign_array_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Foreign:
        def __init__(self, array: cuda.DeviceNDArray) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    waited: list[int] = []
    monkeypatch.setattr(cuda.Stream, "synchronize", lambda stream: waited.append(int(stream)))
    stream = cuda.stream()
    array, other = cuda.device_array(3, stream=stream), cuda.device_array(3)
    made = cuda.as_cuda_array(Foreign(array))
    assert made.stream.external
    cuda.as_cuda_array(Foreign(other))
    cuda.as_cuda_array(Foreign(array), sync=False)
    assert waited == [int(stream)]

    @cuda.vectorize(["float32(float32)"])
    def double(x):
        return x * 2

    target = cuda.device_array(3, np.float32)
    result = double(np.float32([1, 2, 3]), out=Foreign(target))
    assert result.copy_to_host().tolist() == target.copy_to_host().tolist() == [2, 4, 6]


@pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning")
@pytest.mark.usefixtures("float64_device")
def test_repeated_launches_take_what_the_first_one_takes() -> None:
    @cuda.jit
    def kernel(out, number):
        out[0] = number
        out[1] = number / 2
        out[2] = out.size

    @cuda.jit("void(float64[:], int32)")
    def typed(out, number):
        out[0] = number

    out, other = cuda.to_device(np.zeros(4)), cuda.to_device(np.zeros(6))
    for number in (7, -7, 2**63, 5, -1, 7.5, -0.5, np.float32(0.1), np.uint8(255), True, 7):
        kernel[1, 1](out, number)
        assert out.copy_to_host()[:3].tolist() == [float(number), float(number) / 2, 4]
        kernel[1, 1](other, number)
        assert other.copy_to_host()[2] == 6
    for number in (3, 2.7, -2.7, 2**32 + 5, np.int64(4), 3):
        typed[1, 1](out, number)
        assert out.copy_to_host()[0] == np.int64(number).astype(np.int32)
    kernel[1, 1](out[::-1], 9)
    assert out.copy_to_host()[::-1][:3].tolist() == [9, 4.5, 4]
    with pytest.raises(TypeError, match="takes 2 arguments; got 1"):
        kernel[1, 1](out)


@pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning")
def test_repeated_launches_cost_a_bare_launch() -> None:
    """The calls of Python functions are counted: times are noisy."""

    @cuda.jit
    def scaled(x, out, factor):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = factor * x[i]

    @vc.kernel
    def bare(x, out, factor: vc.float32):
        i = vc.global_id(0)
        if i < x.size:
            out[i] = factor * x[i]

    x, out = cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.zeros(64, np.float32))
    ours = calls_of(lambda: scaled[1, 64](x, out, np.float32(2)))
    least = calls_of(lambda: bare[1, 64](x.array, out.array, 2.0))
    assert out.copy_to_host().tolist() == [2] * 64
    assert ours <= 1.5 * least, (ours, least)
    hosts = np.ones(64, np.float32), np.zeros(64, np.float32)

    def with_copies() -> None:
        copies = [cuda.to_device(host) for host in hosts]
        bare[1, 64](copies[0].array, copies[1].array, 2.0)
        for copy, host in zip(copies, hosts, strict=True):
            copy.copy_to_host(host)

    ours = calls_of(lambda: scaled[1, 64](*hosts, np.float32(2)))
    assert hosts[1].tolist() == [2] * 64
    assert ours <= calls_of(with_copies) + 0.5 * least


@pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning")
def test_repeated_launches_copy_any_array_of_the_host() -> None:
    @cuda.jit
    def doubled(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = 2 * x[i, j]

    fixed = np.arange(6, dtype=np.int32).reshape(2, 3)
    fixed.flags.writeable = False
    grid = np.arange(48, dtype=np.int32).reshape(6, 8)
    device = cuda.to_device(np.zeros((2, 3), np.int32))
    for x in (fixed, fixed, np.asfortranarray(fixed), fixed[::-1], grid[::3, ::3], grid.astype(np.float32)[1:, 2:]):
        for _ in range(2):
            for out in (
                np.zeros(x.shape, x.dtype),
                np.zeros(x.shape, np.int32, "F"),
                np.zeros((9, 9), x.dtype)[1:, 2:],
            ):
                doubled[1, 1](x, out)
                assert np.array_equal(out[: x.shape[0], : x.shape[1]], 2 * x)
        if x.shape == device.shape:
            doubled[1, 1](x, device)
            assert np.array_equal(device.copy_to_host(), 2 * x)
    twice = np.arange(4, dtype=np.int32).reshape(2, 2)
    for n in range(1, 4):
        doubled[1, 1](twice, twice[:])  # the last copy back is that of the result
        assert twice.tolist() == (np.arange(4).reshape(2, 2) * 2**n).tolist()


def calls_of(launch: Callable[[], object]) -> int:
    """Returns the number of calls of Python functions in a launch that repeats earlier ones."""
    calls = []
    for _ in range(3):
        launch()
    sys.setprofile(lambda frame, event, arg: calls.append(frame) if event == "call" else None)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return len(calls)


_COMPILED = """
import sys
sys.path.insert(0, {folder!r})
from vkcompute.jit.compilation import build
import vkcompute.jit.launcher as launcher

def counted(*args):
    print("compiles", args[0].function.__name__)
    return build.specialize(*args)

launcher.specialize = counted
import numpy as np
from compiled_once import kernel

out = np.zeros(4, np.float32)
kernel[1, 4](out)
print(out.tolist())
"""


def test_kernels_are_read_from_the_disk(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Types, positions and functions of `cuda` that a kernel names have the same meaning in another process."""
    program = """
from vkcompute.compat.numba import cuda, float32
from vkcompute.compat.numba.cuda import threadIdx

@cuda.jit(device=True)
def doubled(x):
    return x * float32({factor})

@cuda.jit
def kernel(out):
    out[threadIdx.x] = doubled(float32(cuda.laneid)) + cuda.libdevice.fabsf(-1)
"""
    env = {**os.environ, "VKCOMPUTE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "cache").mkdir()
    said = []
    for factor in (2, 2, 3):
        (tmp_path / "compiled_once.py").write_text(program.format(factor=factor))
        done = run_python(_COMPILED.format(folder=str(tmp_path)), env=env)
        said.append(done.stdout)
    first, changed = "[1.0, 3.0, 5.0, 7.0]\n", "[1.0, 4.0, 7.0, 10.0]\n"
    assert said == [f"compiles kernel\n{first}", first, f"compiles kernel\n{changed}"]


def test_read_only_arrays_are_read_and_not_written() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 1

    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    repeated = np.broadcast_to(np.float64(2), (3,))
    out = np.zeros(3)
    for _ in range(2):
        kernel[1, 4](frozen, out)
        assert out.tolist() == [1, 2, 3]
        kernel[1, 4](repeated, out)
        assert out.tolist() == [3, 3, 3]
        kernel[1, 4](out, cuda.In(repeated.copy()))
        for array in (frozen, repeated, cuda.Out(frozen)):
            with pytest.raises(TypingError, match="Cannot modify readonly array: kernel writes one; pass a copy of it"):
                kernel[1, 4](out, array)
    assert frozen.tolist() == [0, 1, 2]
