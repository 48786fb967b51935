"""Tensors as arguments of kernels, functions and block programs, and memory that they share with arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.torch import array_of, from_array


def test_arrays_and_tensors_share_memory() -> None:
    array = vc.default_runtime().array(np.arange(4, dtype=np.float32))
    x = from_array(array)
    x.add_(1)
    assert array.numpy().tolist() == [1, 2, 3, 4]
    array[0] = 9
    assert x.tolist() == [9, 2, 3, 4]
    y = torch.ones(3, device="vk")
    seen = array_of(y)
    y.mul_(5)
    assert seen.numpy().tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="array_of takes"):
        array_of(torch.ones(2))


@triton.jit
def doubled_bytes(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, (tl.load(x_ptr + at).to(tl.float32) * 2).to(tl.float8e5))


def test_block_programs_take_floats_of_8_bits() -> None:
    x = torch.linspace(-3, 3, 16).to(torch.float8_e4m3fn)
    out = torch.zeros(16, dtype=torch.float8_e5m2, device="vk")
    doubled_bytes[(1,)](x.to("vk"), out, 16)
    assert torch.equal(out.cpu().float(), (x.float() * 2).to(torch.float8_e5m2).float())


def test_kernels_and_functions_of_other_interfaces_take_tensors() -> None:
    import vkcompute.compat.cupy as cp
    import vkcompute.compat.cupyx as cupyx
    import vkcompute.numpy as vnp
    from vkcompute.compat.numba import cuda

    @vc.kernel
    def add_one(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[vc.global_id(0)] += 1

    @cuda.jit
    def add_two(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[cuda.grid(1)] += 2

    @cupyx.jit.rawkernel()
    def add_three(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        x[cupyx.jit.grid(1)] += 3

    x = torch.arange(6.0, device="vk").reshape(2, 3)
    view = x[1]
    add_one[1, 3](view)
    add_two[1, 3](view)
    cp.asarray(view)[0] *= 10
    x += 1
    assert x.tolist() == [[1, 2, 3], [61, 8, 9]]
    assert vnp.sum(x).item() == 84
    assert cp.ElementwiseKernel("T x", "T y", "y = 10 * x", "scaled")(cp.asarray(view)).tolist() == [610, 80, 90]
    add_three[1, 3](cp.asarray(view))
    assert cuda.as_cuda_array(view).copy_to_host().tolist() == view.tolist() == [64, 11, 12]
    assert cuda.to_device(x).copy_to_host().tolist() == x.tolist()
    assert vnp.asarray(torch.ones(2)).tolist() == [1, 1]


class Window:
    """The elements of a tensor from an offset on, as FlagGems passes them to programs."""

    def __init__(self, base: torch.Tensor, offset: int) -> None:
        self.base, self.offset, self.dtype, self.device = base, offset, base.dtype, base.device

    def data_ptr(self) -> int:
        return self.base.data_ptr() + self.offset * self.dtype.itemsize

    def untyped_storage(self) -> Any:
        return self.base.untyped_storage()


@triton.jit
def doubled(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)


def test_block_programs_take_addresses_of_the_device() -> None:
    x, out = torch.arange(32, dtype=torch.float16, device="vk"), torch.zeros(32, dtype=torch.float16, device="vk")
    for offset in (3, 7):  # the second launch has a plan
        doubled[(1,)](Window(x[1:], offset), Window(out, offset), N=4)
    wanted = torch.zeros(32)
    wanted[3:7], wanted[7:11] = torch.arange(4, 8) * 2, torch.arange(8, 12) * 2
    assert torch.equal(out.cpu().float(), wanted)


@triton.jit
def reversed_copy(x_ptr: Any, out_ptr: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr - at))


def test_block_programs_go_back_from_addresses_of_the_device() -> None:
    x = torch.arange(32, dtype=torch.float16, device="vk")
    for last in (31, 5, 8):
        out = torch.zeros(32, dtype=torch.float16, device="vk")
        reversed_copy[(1,)](Window(x, last), Window(out, 16), N=4)
        assert out.tolist() == [0] * 16 + [last, last - 1, last - 2, last - 3] + [0] * 12


def test_wrappers_take_the_data_of_another_tensor() -> None:
    wrapped = triton.reinterpret(torch.arange(8, dtype=torch.int16).reshape(2, 4), tl.uint16)
    wrapped.data = wrapped.data[:, 1:]
    assert (tuple(wrapped.shape), wrapped.stride(), wrapped.base.tolist()) == ((2, 3), (4, 1), [[1, 2, 3], [5, 6, 7]])


CONFIGS = [triton.Config({"BLOCK": n}) for n in (16, 32)]


@triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["sum_ptr"], restore_value=["x_ptr"])
@triton.jit
def doubled_in_place(x_ptr: Any, sum_ptr: Any, n: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + at, at < n, other=0.0) * 2
    tl.store(x_ptr + at, values, at < n)
    tl.atomic_add(sum_ptr, tl.sum(values.to(tl.float32), 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_measured_launches_restore_tensors(dtype: torch.dtype) -> None:
    x, sums = torch.arange(70, device="vk").to(dtype), torch.ones(3, device="vk")
    sums[1] = 0
    doubled_in_place[lambda meta: (triton.cdiv(66, meta["BLOCK"]),)](x[4:], sums[1:2], 66)
    assert x.tolist() == [*range(4), *range(8, 140, 2)]
    assert sums.tolist() == [1, sum(range(8, 140, 2)), 1]
