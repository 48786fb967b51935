"""Values that live across a barrier, for a compiler that computes them again at each use behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from runtimes import skipped_where_missing

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.target import target_of
from vkcompute.dtypes import BY_NUMPY
from vkcompute.ir.function import walk
from vkcompute.ir.recomputation import prevent_recomputation
from vkcompute.ir.types import SCALARS, SmallFloat

N = 64


class Held:
    """A function of computed values, and which of them pass through a shuffle."""

    def __init__(self) -> None:
        self.function = ir.Function("held", local_size=(N, 1, 1))
        self.out, self.n = self.function.buffer("out", ir.INT32), self.function.push("n", ir.INT32)
        self.b = ir.Builder(self.function)

    def plus(self, value: ir.Value, number: int) -> ir.Value:
        return self.b.compute("add", value, self.b.const(number, ir.INT32))

    def store(self, value: ir.Value) -> None:
        self.b.store(self.out, self.n, value)

    def numbers(self) -> list[int]:
        """The numbers that `plus` has added to what is shuffled, in order."""
        prevent_recomputation(self.function)
        ir.verify(self.function)
        shuffles = [op for op in walk(self.function.body) if op.code == "subgroup"]
        return [int(op.args[0].args[1].value) for op in shuffles]  # type: ignore[attr-defined]


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.pure
@pytest.mark.parametrize("code", ["barrier", "subgroup_barrier"])
def test_what_is_used_behind_a_barrier_is_shuffled(held: Held, code: str) -> None:
    before, across = held.plus(held.n, 1), held.plus(held.n, 2)
    held.store(before)
    getattr(held.b, code)()
    held.store(held.plus(across, 3))
    held.store(held.n)  # a parameter is loaded
    assert held.numbers() == [2]


@pytest.mark.pure
def test_what_is_loaded_or_without_a_barrier_is_not_shuffled(held: Held) -> None:
    loaded = held.b.load(held.out, held.n)
    held.store(held.plus(held.plus(loaded, 1), 2))
    assert held.numbers() == []
    held.b.barrier()
    held.store(loaded)
    assert held.numbers() == []


@pytest.mark.pure
def test_the_barrier_of_the_iteration_before_counts(held: Held) -> None:
    b, first, second = held.b, held.plus(held.n, 1), held.plus(held.n, 2)
    loop = b.loop(first)
    with loop.body:
        (carried,) = loop.params
        with b.if_(b.compute("lt", carried, held.n)).then:
            b.break_(loop, carried)
        held.store(second)  # in the second iteration, behind the barrier
        next_ = held.plus(carried, 4)
        b.barrier()
        b.yield_(next_)
    held.store(loop.results[0])
    assert held.numbers() == [2, 4]


@pytest.mark.parametrize("name", [name for name, kind in SCALARS.items() if not isinstance(kind, SmallFloat)])
def test_values_of_all_types_stay_the_same(gpu: vc.Runtime, name: str) -> None:
    kind = SCALARS[name]
    if not gpu.device.features.issuperset(BY_NUMPY[kind.numpy].features):
        pytest.skip(f"the device has no {name} in kernels")
    function = ir.Function("across", local_size=(N, 1, 1))
    x, out, places = function.buffer("x", kind), function.buffer("out", kind), function.buffer("places", ir.UINT32)
    tile, b = function.shared("tile", ir.UINT32, N), ir.Builder(function)
    me, one = b.builtin("local_index"), b.const(1, ir.UINT32)
    value = b.load(x, me)
    changed = b.compute("not", value) if kind is ir.BOOL else b.compute("add", value, value)
    pair = b.vector(changed, value)
    b.store(tile, b.compute("xor", me, one), me)
    b.barrier()
    b.store(places, me, b.load(tile, me))
    b.store(out, me, changed)
    for lane in range(2):
        at = b.compute("add", me, b.const(N * (1 + lane), ir.UINT32))
        b.store(out, at, b.extract(pair, lane))
    host = np.random.default_rng(3).integers(0, 100, N).astype(kind.numpy)
    arrays = [gpu.array(host), gpu.zeros(3 * N, host.dtype), gpu.zeros(N, np.uint32)]
    module = ir.lower(function, replace(target_of(gpu), recomputes_across_barriers=True))
    with skipped_where_missing():
        gpu.kernel(module.spirv, name="across", check_types=False)(*arrays, grid=1)
    both = ~host if kind is ir.BOOL else host + host
    np.testing.assert_array_equal(arrays[1].numpy(), [*both, *both, *host])
    np.testing.assert_array_equal(arrays[2].numpy(), np.arange(N) ^ 1)
