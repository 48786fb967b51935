"""Arrays larger than a binding, in kernels that index them by any number; on a device whose bindings are small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import lacks, most_buffers, needs_bindings, open_runtime

import vkcompute as vc

MOST, N = 4096, 5000  # bytes of a binding, elements of an array


@pytest.fixture(scope="module")
def small() -> Iterator[vc.Runtime]:
    with open_runtime(limits={"maxStorageBufferRange": MOST}) as runtime:
        needs_bindings(runtime, 20)
        yield runtime


@vc.kernel
def mirrored(x, out, a):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + x[out.size - 1 - i]


@vc.kernel
def transposed(x, out):
    j, i = vc.global_id(0), vc.global_id(1)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[j, i] + 1


@vc.kernel
def counted(x, counts):
    i = vc.global_id(0)
    if i < x.size:
        vc.atomic.add(counts, x[i], 1)


@vc.kernel
def claimed(x, owners):
    i = vc.global_id(0)
    if i < x.size:
        vc.atomic.compare_exchange(owners, x[i], 0, i + 1)


@vc.kernel(check_bounds=True)
def shifted(x, out, k):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i + k]


@vc.kernel
def ends(x, out):
    out[0] = x[5]
    out[1] = x[x.size - 1]


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64", "bool"])
def test_any_index_of_a_large_array(small: vc.Runtime, dtype: str) -> None:
    if lacks(small, dtype):
        pytest.skip(f"the device has no arrays of {dtype}")
    x = np.random.default_rng(0).integers(0, 2, N).astype(dtype)
    out = small.zeros(x.shape, dtype)
    for a in (1, 0):
        mirrored(small.array(x), out, a)
        np.testing.assert_array_equal(out.numpy(), (a * x + x[::-1]).astype(dtype))


@settings(max_examples=6)
@given(st.integers(30, 60), st.integers(30, 60), st.sampled_from([1, 2, -1, -2]), st.sampled_from([1, 3, -1]))
def test_views_of_large_arrays(small: vc.Runtime, n: int, m: int, step: int, other: int) -> None:
    x = np.random.default_rng(n).random((2 * n, 3 * m)).astype(np.float32)
    result = np.zeros((3 * m, 2 * n), np.float32)
    out = small.array(result)
    part = (slice(None, None, step), slice(1, None, other))
    transposed(small.array(x)[part], out[part[::-1]])
    result[part[::-1]] = x[part].T + 1
    np.testing.assert_array_equal(out.numpy(), result)


def test_atomic_operations_on_large_arrays(small: vc.Runtime) -> None:
    rng = np.random.default_rng(1)
    x, counts, sums = rng.integers(0, N, 2 * N).astype(np.int32), small.zeros(N, np.int32), small.zeros(N)
    grid = (-(-len(x) // 64),)
    counted[grid](small.array(x), counts)
    counted[grid](small.array(x), sums)  # of floats, which some devices add as integers
    for array in (counts, sums):
        np.testing.assert_array_equal(array.numpy(), np.bincount(x, minlength=N))
    order, owners = rng.permutation(N).astype(np.int32), small.zeros(N, np.int32)
    claimed[grid](small.array(order), owners)
    np.testing.assert_array_equal(owners.numpy()[order], np.arange(N) + 1)


def test_large_arrays_in_graphs(small: vc.Runtime) -> None:
    x, other, out = np.arange(N).astype(np.float32), np.arange(N)[::-1].astype(np.float32) ** 2, small.zeros(N)
    with small.record(x=small.array(x), a=2.0) as graph:
        between = graph.empty(N)
        mirrored(graph["x"], between, graph["a"])
        mirrored(between, out, 1)
    for given_x, a in ((x, 2.0), (other, 3.0)):
        graph.run(x=small.array(given_x), a=a)
        once = a * given_x + given_x[::-1]
        np.testing.assert_array_equal(out.numpy(), (once + once[::-1]).astype(np.float32))


def test_checked_indices_of_large_arrays(small: vc.Runtime) -> None:
    x, out = np.arange(N).astype(np.float32), small.zeros(N)
    shifted(small.array(x), out, 0).result()
    np.testing.assert_array_equal(out.numpy(), x)
    with pytest.raises(vc.KernelError, match=rf"index {N} is outside of x"):
        shifted(small.array(x), out, 1).result()


def test_arrays_beyond_indices_of_32_bits(gpu: vc.Runtime) -> None:
    with pytest.raises(ValueError, match="at most 2147483647 elements"), gpu.record() as graph:
        ends[1, 1](graph.empty(1 << 31, np.int32), gpu.zeros(2, np.int32))
    with pytest.raises(ValueError, match=r"2\*\*32 elements; got one of 17179869192 bytes"), gpu.record() as graph:
        ends[1, 1](graph.empty((1 << 32) + 2, np.int32)[:: (1 << 32) + 1], gpu.zeros(2, np.int32))


def test_large_arrays_of_another_runtime(gpu: vc.Runtime, small: vc.Runtime) -> None:
    with pytest.raises(ValueError, match="the array belongs to another runtime"):
        mirrored(small.zeros(N), gpu.zeros(N), 1)


def test_more_bindings_than_the_device_has(small: vc.Runtime) -> None:
    most = most_buffers(small)
    largest = small.device.physical.max_allocation_bytes
    if most * MOST > largest:
        with pytest.raises(vc.OutOfDeviceMemory, match=f"an array has at most {largest} bytes there; divide it"):
            small.zeros(largest // 4 + 1)
        return
    x = small.zeros(most * MOST // 4)
    with pytest.raises(ValueError, match=rf"2 arrays, .* {2 * most} bindings of 4096 bytes .* binds {most}; pass"):
        mirrored(x, x, 1)


def test_an_array_of_more_than_the_driver_binds(gpu: vc.Runtime) -> None:
    """More than 128 MiB, which is one binding on lavapipe."""
    x = np.zeros((130 << 20) + 1, np.uint8)
    x[[5, -1]] = 7, 9
    out = gpu.zeros(2, np.int32)
    ends[1, 1](gpu.array(x), out)
    assert out.numpy().tolist() == [7, 9]


@vc.kernel(local_size=128)
def dot(x, y, out):
    tile, here, total = vc.shared(128, vc.float64), vc.local_id(0), vc.float64(0)
    i = vc.global_id(0)
    while i < x.size:
        total += x[i] * y[i]
        i += vc.num_groups(0) * 128
    tile[here] = total
    vc.barrier()
    step = 64
    while step > 0:
        if here < step:
            tile[here] += tile[here + step]
        vc.barrier()
        step //= 2
    if here == 0:
        out[vc.group_id(0)] = tile[0]


def test_a_dot_product_in_double_of_20_million_elements(gpu: vc.Runtime) -> None:
    """Each array takes 160 MB; the products are exact, so that the order of the sum does not count."""
    limits = gpu.device.physical.limits
    if limits["maxPerStageDescriptorStorageBuffers"] < 6 and limits["maxStorageBufferRange"] < 160_000_000:
        pytest.skip("the arrays take five bindings, and a buffer for loops another")
    x = np.random.default_rng(3).integers(-(2**13), 2**13, 20_000_000)
    given, out = gpu.array(x.astype(np.float64)), gpu.zeros(256, np.float64)
    dot[256](given, given[::-1], out)
    assert int(out.numpy().sum()) == int(x @ x[::-1])
