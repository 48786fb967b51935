"""Tensors of more than 4 GiB: sizes and offsets keep their upper half, and limits of the device raise errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from vast import GIB, Bytes, Span, vast_devices

from vkcompute.compat import kp
from vkcompute.core.device_profile import emulated

pytestmark = pytest.mark.usefixtures("clean_handles")

Compile = Callable[..., bytes]
_N = (1 << 32) + (1 << 20) + 3
_PLACES = [0, 5, 40 << 20, (1 << 32) - 1, 1 << 32, (1 << 32) + 5, _N - 1]
_ON_PAPER, _STAGED = (pytest.param(name, marks=pytest.mark.pure) for name in ("on paper", "on paper, staged"))
_staged_too = pytest.mark.parametrize("vast_mgr", [_ON_PAPER, _STAGED, "real"], indirect=True)


@pytest.fixture(params=[_ON_PAPER, "real"])
def vast_mgr(request: pytest.FixtureRequest) -> Iterator[kp.Manager]:
    """A manager of a device with memory, real or simulated, for some tensors of 4 GiB.

    VKCOMPUTE_TEST_VAST enables "real", which takes 24 GiB, half of them on the device.
    """

    if request.param == "real":
        if not os.environ.get("VKCOMPUTE_TEST_VAST"):
            pytest.skip("VKCOMPUTE_TEST_VAST is not set")
        manager = kp.Manager()
        if manager.runtime.device.physical.max_allocation_bytes < _N:
            largest = manager.runtime.device.physical.max_allocation_bytes
            manager.destroy()
            pytest.skip(f"the device allocates at most {largest} bytes")
        yield manager
        manager.destroy()
        return
    if not sys.platform.startswith("linux"):
        pytest.skip("memory that repeats itself is made by calls of Linux")
    with vast_devices(), emulated(staging=request.param != "on paper"):
        manager = kp.Manager()
        yield manager
        manager.destroy()


@pytest.fixture
def many_bytes() -> Iterator[Bytes]:
    """An array of more than 4 GiB of zeros."""
    span = Span(_N)
    yield span.bytes[:_N]
    span.close()


def _mark(data: Bytes, first: int) -> list[int]:
    """Writes other numbers around the boundaries; returns them."""
    values = [first + i for i in range(len(_PLACES))]
    for place, value in zip(_PLACES, values, strict=True):
        data[place] = value
    return values


def _at_places(data: Bytes) -> list[int]:
    return [int(data[place]) for place in _PLACES]


@pytest.mark.rotates
@_staged_too
def test_a_tensor_of_more_than_4_gib_comes_and_goes_as_a_whole(
    vast_mgr: kp.Manager, many_bytes: Bytes, spirv: Compile
) -> None:
    values = _mark(many_bytes, 10)
    tensor = vast_mgr.tensor_t(many_bytes)
    assert tensor.size() == len(tensor) == tensor.data().size == _N
    assert _at_places(tensor.data()) == values
    up, down = (vast_mgr.sequence().record(item([tensor])) for item in (kp.OpSyncDevice, kp.OpSyncLocal))
    for first in (30, 50):  # eagerly, then as a graph
        values = _mark(tensor.data(), first)
        up.eval()
        _mark(tensor.data(), 70)
        down.eval()
        assert _at_places(tensor.data()) == values
    most = vast_mgr.runtime.device.max_binding_bytes
    with pytest.raises(kp.KomputeError, match=rf"has {_N + 1} bytes, .* binds at most {most}; bind parts of it"):
        vast_mgr.algorithm([tensor], spirv("v0[0] = 1;", 1), (1,))
    most = vast_mgr.runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
    with pytest.raises(kp.KomputeError, match=rf"{_N} elements, .* at most {most} along x; give .*workgroup="):
        vast_mgr.algorithm([tensor], spirv("", 0))


@pytest.mark.rotates
def test_copies_of_more_than_4_gib(vast_mgr: kp.Manager, many_bytes: Bytes) -> None:
    values = _mark(many_bytes, 10)
    stored = vast_mgr.tensor_t(many_bytes, kp.storage)
    _mark(many_bytes, 30)
    target = vast_mgr.tensor_t(many_bytes)
    sequence = vast_mgr.sequence().record(kp.OpCopy([stored, target])).record(kp.OpSyncLocal([target]))
    for _ in range(2):
        _mark(target.data(), 50)
        sequence.eval()
        assert _at_places(target.data()) == values


@_staged_too
def test_what_lies_behind_4_gib_of_others(vast_mgr: kp.Manager, spirv: Compile) -> None:
    """Kernels, copies and fills work on small tensors at offsets beyond 32 bits."""
    runtime = vast_mgr.runtime
    block = runtime.empty(7 * GIB, np.uint8)
    key = block.buffer.block.key
    block.close()
    before = runtime.empty(5 * GIB, np.uint8)
    runtime.device.collect()
    a, b = (runtime.empty(1000, np.uint32) for _ in range(2))
    assert a.buffer.block.key == b.buffer.block.key == key
    assert min(a.buffer.offset, b.buffer.offset) >= 5 * GIB
    add_one = runtime.kernel(spirv("v0[i] = uintBitsToFloat(floatBitsToUint(v0[i]) + 1);", 1), check_types=False)
    a.write(np.full(1000, 7, np.uint32))
    add_one(a, grid=(1000,))
    b.copy_from(a)
    add_one(b, grid=(1000,))
    assert np.array_equal([a, b], [[8] * 1000, [9] * 1000])
    with runtime.record() as graph:
        add_one(a, grid=(1000,))
        b.copy_from(a)
    graph.run(2)
    assert (b.numpy() == 10).all()
    b.fill(3)
    assert (b.numpy() == 3).all()
    before.close()


def test_what_the_device_has_no_memory_for_is_said() -> None:
    """The driver under test raises, and nothing leaks."""
    mgr = kp.Manager()
    held = mgr.runtime.device.memory.used_bytes
    n = 1 << 40
    data = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (n,), (1,), writeable=False)  # nobody reads it
    for memory_type in kp.MemoryTypes:
        with pytest.raises(MemoryError, match=rf"asked for {n} bytes, \d+ of \d+ are free; an array has at most"):
            mgr.tensor_t(data, memory_type)
    mgr.runtime.device.collect()
    assert mgr.runtime.device.memory.used_bytes == held
    mgr.destroy()
