"""Atomic operations on floats, by the device's own instructions and by those that stand in for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host import SimulatedRuntime

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import MissingFeature
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import build, specialize
from vkcompute.jit.frontend.compiler import Compiler

GROUP, N_GROUPS = 64, 4
Launch = Callable[..., None]


@pytest.fixture(params=["as the device has it", "emulated"])
def launch(gpu: vc.Runtime, request: pytest.FixtureRequest) -> Launch:
    """Launches a function on arrays; skips where the device lacks what the types need."""

    def launched(function: Any, *arrays: vc.Array) -> None:
        if request.param == "emulated" and isinstance(gpu, SimulatedRuntime):
            pytest.skip("nothing is compiled")
        try:
            if request.param != "emulated":
                vc.kernel(function)[N_GROUPS, GROUP](*arrays)
                return
            signature = tuple((array.dtype.char, array.ndim) for array in arrays)
            compiled = specialize(
                definition_of(function), signature, CompileOptions((GROUP, 1, 1), emulate_atomics=True)
            )
            assert compiled.features == ()
            extents = [arrays[at].size if axis < 0 else arrays[at].shape[axis] for at, axis in compiled.pushes]
            gpu.kernel(compiled.spirv, check_types=False)(*arrays, *extents, grid=N_GROUPS)
        except MissingFeature as missing:
            pytest.skip(str(missing))

    return launched


OPERATIONS: dict[str, Any] = {
    "add": (vc.atomic.add, np.add), "min": (vc.atomic.min, np.minimum), "max": (vc.atomic.max, np.maximum),
}  # fmt: skip


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_combine(gpu: vc.Runtime, launch: Launch, name: str, dtype: str, shared: bool) -> None:
    atomic, ufunc = OPERATIONS[name]

    def combine(x, out):
        tile = vc.shared((2, 3), x.dtype)
        i, here = vc.global_id(0), vc.local_id(0)
        if here < 6:
            tile[here // 3, here % 3] = 0
        vc.barrier()
        if shared:
            atomic(tile, (i % 2, -1), x[i])
        else:
            atomic(out, (i % 2, -1), x[i])
        vc.barrier()
        if shared and here == 0:
            for k in range(2):
                atomic(out, (k, -1), tile[k, 2])

    rng = np.random.default_rng(0)
    array = (rng.integers(-999, 1000, GROUP * N_GROUPS) / 4).astype(dtype)  # sums are exact
    start = np.zeros((2, 3), dtype)
    out = gpu.array(start)
    launch(combine, gpu.array(array), out)
    expected = start.copy()
    for parity in (0, 1):
        expected[parity, 2] = ufunc.reduce(np.append(array[parity::2], start[parity, 2]))
    assert np.array_equal(out.numpy(), expected)


NUMBERS = [-np.inf, -2.0, -0.0, 0.0, 3.0, np.inf, np.nan, np.copysign(np.nan, -1)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_are_nan_where_the_element_or_the_value_is(
    gpu: vc.Runtime, launch: Launch, name: str, dtype: str
) -> None:
    atomic, ufunc = OPERATIONS[name]

    def combine(x, out, before):
        i = vc.global_id(0)
        if i < x.size:
            before[i] = atomic(out, i, x[i])

    element, value = (item.ravel().astype(dtype) for item in np.meshgrid(NUMBERS, NUMBERS))
    out, before = gpu.array(element), gpu.array(np.zeros_like(element))
    launch(combine, gpu.array(value), out, before)
    assert np.array_equal(out.numpy(), ufunc(element, value), equal_nan=True)
    assert np.array_equal(before.numpy(), element, equal_nan=True)


def test_each_gets_what_was_there(gpu: vc.Runtime, launch: Launch) -> None:
    def tickets(counter, last, mine, seen):
        i = vc.global_id(0)
        mine[i] = vc.atomic.add(counter, 0, 1)
        seen[i] = vc.atomic.exchange(last, (), i + 0.5)

    n = GROUP * N_GROUPS
    counter, last, mine, seen = gpu.zeros(1), gpu.full((), -1.0), gpu.zeros(n), gpu.zeros(n)
    launch(tickets, counter, last, mine, seen)
    assert counter.item() == n
    assert sorted(mine.numpy().tolist()) == list(range(n))
    assert sorted([*seen.numpy().tolist(), last.item()]) == [-1, *(np.arange(n) + 0.5)]


def test_values_go_on_through_control_flow(gpu: vc.Runtime, launch: Launch) -> None:
    """Loads, stores and atomics on one array, their results carried by loops and out of branches."""

    def mixed(sums, steps, out):
        i, here = vc.global_id(0), vc.local_id(0)
        tile = vc.shared(GROUP, vc.float32)
        tile[here] = here
        vc.barrier()
        before = tile[here] * 0
        for k in range(steps[i]):
            if k % 2 == 0:
                before += vc.atomic.add(tile, here, 2)
            else:
                before = vc.atomic.max(tile, here, before + 1)
        tile[here] += before
        vc.barrier()
        out[i] = tile[here] + sums.size
        vc.atomic.add(sums, i % 3, out[i])

    n = GROUP * N_GROUPS
    steps = np.random.default_rng(1).integers(0, 6, n).astype(np.int32)
    sums, out = gpu.zeros(3), gpu.zeros(n)
    launch(mixed, sums, gpu.array(steps), out)
    expected = np.zeros(n, np.float32)
    for i in range(n):
        element, before = float(i % GROUP), 0.0
        for k in range(steps[i]):
            if k % 2 == 0:
                before, element = before + element, element + 2
            else:
                before, element = element, max(element, before + 1)
        expected[i] = element + before + 3
    assert np.array_equal(out.numpy(), expected)
    assert np.allclose(sums.numpy(), [expected[k::3].sum() for k in range(3)], rtol=1e-5)


def every(x, y, out):
    tile = vc.shared(4, vc.float32)
    vc.atomic.add(tile, 0, 1)
    vc.atomic.exchange(x, 0, 1)
    vc.atomic.min(y, 0, 1)
    vc.atomic.add(out, 0, 1)


@pytest.mark.pure
def test_what_a_device_is_asked_for() -> None:
    signature = ("f", 1), ("d", 1), ("i", 1)
    compiled = specialize(definition_of(every), signature)  # type: ignore[arg-type]
    assert list(compiled.features) == ["shaderBufferFloat32Atomics", "shaderSharedFloat32AtomicAdd"]
    built = build(Compiler, definition_of(every), signature).function  # type: ignore[arg-type]
    ir.verify(ir.optimize(ir.emulate_float_atomics(built)))
    assert not ir.float_atomics(built)
    assert [str(memory.element) for memory in built.buffers] == ["uint32", "uint64", "int32"]
