"""Device memory: shared blocks, a limit that holds, errors that say what is free; and the runtime works after them."""

from __future__ import annotations

import gc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.core.memory_pool import MIB
from vkcompute.core.physical import PhysicalDevice

LIMIT = 32 * MIB


def test_small_buffers_share_blocks() -> None:
    with vc.Runtime() as gpu:
        memory = gpu.device.memory
        arrays = [gpu.empty(1000) for _ in range(500)]
        assert len(memory.blocks) == 1
        offsets = sorted(array.buffer.offset for array in arrays)
        assert all(b - a >= 4000 for a, b in pairwise(offsets)), "they do not overlap"
        for name in ("minStorageBufferOffsetAlignment", "minTexelBufferOffsetAlignment"):
            assert all(offset % gpu.device.physical.limits[name] == 0 for offset in offsets)
        big = gpu.empty(memory.block_bytes // 4)
        assert len(memory.blocks) == 2
        assert memory.allocated_bytes == sum(block.nbytes for block in memory.blocks)
        del arrays, big


@pytest.mark.parametrize("kind", ["Storage", "Uniform", "Texel"])
def test_buffers_are_aligned_for_every_kind_of_binding(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new array, and a temporary of a graph, goes into any binding, also on devices that ask for 256 bytes."""
    read = PhysicalDevice.read

    def demanding(*args: object) -> PhysicalDevice:
        device = read(*args)  # type: ignore[arg-type]
        device.limits[f"min{kind}BufferOffsetAlignment"] = 256  # type: ignore[index]
        return device

    monkeypatch.setattr(PhysicalDevice, "read", demanding)
    with vc.Runtime() as gpu:
        arrays = [gpu.empty(10) for _ in range(9)]
        assert {array.buffer.offset % 256 for array in arrays} == {0}


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_what_does_not_fit_says_how_much_does(staging: bool) -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=staging) as gpu:
        with pytest.raises(vc.OutOfDeviceMemory) as caught:
            gpu.empty(LIMIT // 4 + 1)
        error = caught.value
        assert isinstance(error, MemoryError)
        assert isinstance(error, vc.VulkanError)
        assert error.asked >= LIMIT + 4
        assert 0 <= error.free <= LIMIT
        assert error.total == LIMIT
        assert error.result == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
        for number in (error.asked, error.free, error.total):
            assert str(number) in str(error)
        assert gpu.full(1000, 1.0).numpy().sum() == 1000, "the runtime works"


@pytest.mark.parametrize("shape", [1 << 62, (1 << 40, 1 << 40), (1 << 31, 2, 2)])
def test_sizes_beyond_any_device(gpu: vc.Runtime, shape: object) -> None:
    with pytest.raises(vc.OutOfDeviceMemory):
        gpu.empty(shape)
    assert gpu.empty(4).fill(1).numpy().tolist() == [1] * 4


def test_the_limit_holds_and_everything_up_to_it_can_be_used() -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=False) as gpu:
        memory = gpu.device.memory
        if not memory.unified and memory.kinds["download"].heap == memory.heap:
            pytest.skip("staging takes part of the limit")
        kept: list[vc.Array] = []
        while gpu.memory().spilled == 0 and len(kept) < 100:
            assert gpu.device.memory.allocated_bytes <= LIMIT
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", vc.SpillWarning)
                kept.append(gpu.zeros(MIB // 4))
        assert 30 < len(kept) <= 33, "32 fit"
        del kept[30:]
        for i, array in enumerate(kept):
            array.fill(i)
        assert [array[-1].item() for array in kept] == list(range(len(kept)))
        del array
        kept.pop()
        kept.append(gpu.full(MIB // 4, 99.0))
        assert kept[-1][0].item() == 99
        kept.clear()
        assert gpu.full(LIMIT // 4, 5.0)[-1].item() == 5, "one that takes all"


def test_the_driver_refuses_and_it_is_out_of_memory_too() -> None:
    """No limit of ours: the heap's own size, or the driver's word."""
    with vc.Runtime() as gpu:
        heap = max(heap.nbytes for heap in gpu.device.physical.memory_heaps)
        most = gpu.device.physical.max_allocation_bytes
        with pytest.raises(vc.OutOfDeviceMemory):
            gpu.empty(min(heap, most) + 4096, np.uint8)
        with pytest.raises(vc.OutOfDeviceMemory, match=rf"of {heap} are free; an array has at most {most} bytes there"):
            gpu.empty(most + 4096, np.uint8)
        assert gpu.full(3, 1.0).numpy().tolist() == [1, 1, 1]


def test_circles_of_garbage_are_collected_before_giving_up() -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=False) as gpu:
        memory = gpu.device.memory
        if not memory.unified and memory.kinds["download"].heap == memory.heap:
            pytest.skip("staging takes part of the limit")
        gc.collect()
        gc.disable()
        try:
            for i in range(20):
                circle: dict[str, object] = {"array": gpu.full(LIMIT // 2 // 4, float(i))}
                circle["self"] = circle
                assert circle["array"][0].item() == i
                del circle
        finally:
            gc.enable()


def test_staging_works_within_a_small_limit() -> None:
    """Fewer slots than it likes, one after the other."""
    with open_runtime(memory_limit_bytes=LIMIT, staging=True) as gpu:
        data = np.random.default_rng(0).integers(0, 255, 12 * MIB, np.uint8)
        array = gpu.array(data)
        assert np.array_equal(array.numpy(), data)
        array.write(data[::-1])
        assert np.array_equal(array.numpy(), data[::-1])


@pytest.mark.queues
def test_staging_memory_on_another_heap_is_no_device_memory() -> None:
    data = np.random.default_rng(0).integers(0, 255, 3 * MIB, np.uint8)
    with vc.Runtime(memory_limit_bytes=4 * MIB) as gpu:
        array = gpu.array(data)
        assert np.array_equal(array.numpy(), data)
        assert gpu.memory().used == gpu.memory().peak == data.nbytes


def test_blocks_are_used_again_and_empty_ones_are_given_back() -> None:
    with vc.Runtime() as gpu:
        memory = gpu.device.memory
        for _ in range(5):
            arrays = [gpu.empty(memory.block_bytes // 8, np.uint8) for _ in range(16)]
            del arrays
            gpu.device.collect(wait=True)
        assert memory.used_bytes == 0
        assert memory.allocated_bytes <= max(memory.keep_bytes, 3 * memory.block_bytes)


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 3 * MIB), min_size=1, max_size=30), data=st.data())
def test_random_sizes_hold_their_own_data(gpu: vc.Runtime, sizes: list[int], data: st.DataObject) -> None:
    held: dict[int, vc.Array] = {}
    for number, nbytes in enumerate(sizes):
        held[number] = gpu.full(nbytes, number, np.uint8)
        if data.draw(st.booleans()):
            del held[data.draw(st.sampled_from(sorted(held)))]
    for number, array in held.items():
        result = array.numpy()
        assert result.shape == (sizes[number],)
        assert (result == number).all()


def test_a_buffer_of_bytes_is_host_visible_where_it_is_asked_to_be(gpu: vc.Runtime) -> None:
    for use in ("upload", "download"):
        buffer = gpu.device.buffer(1000, use)
        assert buffer.address
        assert buffer.nbytes >= 1000
        buffer.close()
        buffer.close()
