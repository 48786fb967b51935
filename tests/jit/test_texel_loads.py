"""Loads of arrays that a kernel only reads, as texels or once on some drivers; arrays that it also writes, views."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import build, optimized
from vkcompute.jit.frontend.compiler import Compiler

TABLE = np.arange(7, dtype=np.int32) ** 3


@vc.kernel
def before_and_after(x, out):
    i = vc.global_id(0)
    before = x[i]
    out[i] = before + 1
    out[i] += before * x[i]


@vc.kernel
def looked_up(x, out):
    i = vc.global_id(0)
    out[i] = TABLE[x[i] % 7]


@pytest.fixture(params=["int32", "uint32", "float32"])
def data(request: pytest.FixtureRequest) -> np.ndarray:
    return (np.arange(32) * 3 - 20).astype(request.param)


def once(x: np.ndarray) -> np.ndarray:
    return x + x.dtype.type(1) + x * x


def in_place(x: np.ndarray) -> np.ndarray:
    one = x.dtype.type(1)
    return x + one + x * (x + one)


def test_an_array_is_read_and_written_in_one_launch(gpu: vc.Runtime, data: np.ndarray) -> None:
    x, out = gpu.array(data), gpu.zeros(32, data.dtype)
    before_and_after[1, 32](x, out)
    assert (out.numpy() == once(data)).all()
    before_and_after[1, 32](x, x)
    assert (x.numpy() == in_place(data)).all()
    before_and_after[1, 32](out, x)  # the other way of passing arrays is found again
    assert (x.numpy() == once(once(data))).all()


def test_views_of_one_array_overlap(gpu: vc.Runtime, data: np.ndarray) -> None:
    x = gpu.array(data)
    before_and_after[1, 16](x[::2], x[::2])
    assert (x.numpy()[::2] == in_place(data[::2])).all()
    assert (x.numpy()[1::2] == data[1::2]).all()
    even, odd = x[::2].numpy(), x[1::2]
    before_and_after[1, 16](x[::2], odd)
    assert (odd.numpy() == once(even)).all()


def test_inputs_of_a_graph_become_one_array(gpu: vc.Runtime, data: np.ndarray) -> None:
    x, out = gpu.array(data), gpu.zeros(32, data.dtype)
    with gpu.record(x=x) as graph:
        before_and_after[1, 32](graph["x"], out)
    graph.run()
    assert (out.numpy() == once(data)).all()
    graph.run(x=out)
    assert (out.numpy() == in_place(once(data))).all()


def test_tables_beside_arrays(gpu: vc.Runtime) -> None:
    x, out = np.arange(20, dtype=np.int32), gpu.zeros(20, np.int32)
    looked_up[1, 20](gpu.array(x), out)
    assert (out.numpy() == TABLE[x % 7]).all()


def texels(function: object, *signature: tuple[str, int], most: int) -> tuple[int, ...]:
    options = CompileOptions(target=ir.Target(max_texel_buffers=most))
    built = optimized(build(Compiler, definition_of(function), signature, options).function, options)
    return tuple([at for at, memory in enumerate(built.buffers) if memory.texels])


@pytest.mark.pure
def test_arrays_that_are_only_loaded_and_have_32_bits_are_texels() -> None:
    def kernel(x, y, long, counts, out):
        i = vc.global_id(0)
        out[i] = x[i] + y[i] + np.int32(long[i]) + vc.atomic.add(counts, 0, 1)
        out[i] += out[i + 1]

    def far(x, out):
        i = vc.global_id(0)
        out[i] = x[np.int64(i) << 20]

    signature = [("i", 1), ("f", 1), ("q", 1), ("i", 1), ("f", 1)]
    assert texels(kernel, *signature, most=8) == (0, 1)
    assert texels(kernel, *signature, most=1) == (0,)
    assert texels(kernel, *signature, most=0) == ()
    assert texels(far, ("i", 1), ("i", 1), most=8) == ()  # a texel's index has 32 bits


@pytest.mark.pure
def test_kernels_with_atomic_operations_on_shared_memory_load_no_texels() -> None:
    def histogram(x, counts):
        own, i, here = vc.shared(64, vc.int32), vc.global_id(0), vc.local_id(0)
        own[here] = 0
        vc.barrier()
        vc.atomic.add(own, x[i], 1)
        vc.barrier()
        vc.atomic.add(counts, here, own[here])

    def reversed_in_groups(x, out):
        own, i, here = vc.shared(64, vc.int32), vc.global_id(0), vc.local_id(0)
        own[here] = x[i]
        vc.barrier()
        out[i] = own[63 - here]

    assert texels(histogram, ("i", 1), ("i", 1), most=8) == ()
    assert texels(reversed_in_groups, ("i", 1), ("i", 1), most=8) == (0,)
