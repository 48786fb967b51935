"""Arrays of one interface in the kernels and functions of the others, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.compat.cupyx as cupyx
import vkcompute.numpy as vnp
from vkcompute.compat import triton
from vkcompute.compat.numba import cuda, float32
from vkcompute.compat.triton import language as tl

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("gpu"),
]


@vc.kernel
def add_one(x):
    x[vc.global_id(0)] += 1


@cuda.jit
def add_two(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 2


@cuda.jit("void(float32[:])")
def add_three(x):
    x[cuda.grid(1)] += 3


@cupyx.jit.rawkernel()
def add_four(x):
    x[cupyx.jit.grid(1)] += 4


@triton.jit
def add_five(x, n: tl.constexpr):
    offsets = tl.arange(0, n)
    tl.store(x + offsets, tl.load(x + offsets) + 5)


scaled = cp.ElementwiseKernel("T x", "T y", "y = 10 * x", "scaled")
doubled = cuda.vectorize([float32(float32)])(lambda x: x * 2)

MAKERS = {"vc.Array": vnp.asarray, "cupy": cp.asarray, "numba": cuda.to_device}


def of_host(array: Any) -> Any:
    """Returns the elements of an array of any interface."""
    return cuda.as_cuda_array(array).copy_to_host()


@pytest.mark.parametrize("name", MAKERS)
def test_kernels_write_the_arrays_of_other_interfaces(name: str) -> None:
    x = MAKERS[name](np.arange(4, dtype=np.float32))
    add_one[1, 4](x)
    add_two[1, 4](x)
    add_three[1, 4](x)
    add_four[1, 4](x)
    add_five[(1,)](x, 4)
    cp.asarray(x)[:] += 100
    vnp.asarray(x)[0] = 7
    assert of_host(x).tolist() == [7, 116, 117, 118]
    assert cuda.to_device(x).copy_to_host()[1] == 116


@pytest.mark.parametrize("name", MAKERS)
def test_functions_read_the_arrays_of_other_interfaces(name: str) -> None:
    x = MAKERS[name](np.arange(4, dtype=np.float32))
    assert vnp.sum(x).item() == 6
    assert cp.sqrt(cp.asarray(x)).get()[1] == 1
    assert scaled(cp.asarray(x)).tolist() == [0, 10, 20, 30]
    assert of_host(doubled(x)).tolist() == [0, 2, 4, 6]
    assert vc.elementwise("a * x")(3.0, x).tolist() == [0, 3, 6, 9]


def test_work_in_several_interfaces_is_ordered_by_the_data() -> None:
    x = cp.zeros(1000, np.float32)
    y = cuda.as_cuda_array(x)
    for _ in range(20):
        add_two[8, 128](y)
        x *= 2
        add_one[8, 125](x)
    expected = 0
    for _ in range(20):
        expected = np.float32((expected + 2) * 2 + 1)
    assert (y.copy_to_host() == expected).all()


def test_chunks_of_dask_are_arrays_of_every_interface() -> None:
    dask_array = pytest.importorskip("dask.array")
    import vkcompute.dask  # noqa: F401  # registers the chunks

    def changed(block: Any) -> Any:
        if not block.size:  # Dask asks for the type of the result
            return block
        out = block + 0
        add_one[1, 4](out)
        add_two[1, 4](out)
        add_four[1, 4](cp.asarray(out))
        add_five[(1,)](out, 4)
        return vnp.asarray(scaled(cp.asarray(out)))

    chunks = dask_array.arange(8, chunks=4, dtype=np.float32).to_backend("vkcompute")
    result = chunks.map_blocks(changed, dtype=np.float32).compute(scheduler="synchronous")
    first = chunks.blocks[0].compute(scheduler="synchronous")
    assert type(result) is vc.Array
    assert result.tolist() == [10 * (x + 12) for x in range(8)]
    assert cuda.as_cuda_array(first).array is first
    assert cp.sum(cp.asarray(first)).item() == 6
    assert of_host(cuda.to_device(np.zeros(4, np.float32)).array + first).tolist() == [0, 1, 2, 3]
