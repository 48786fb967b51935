"""Exchanges within subgroups by shuffles: beside the elements' numbers, and in programs of one subgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, build, lowered
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.ir import INT32
from vkcompute.ir.function import Function, walk
from vkcompute.tile.layout import Layout
from vkcompute.tile.shuffles import Shuffles, is_within_subgroups

N_LANES = 3  # log2
CPU = tile.Target(1 << N_LANES, 1024, 32768, own_elements=128, sums=128, shuffles=True)


class Lanes:
    """A builder whose values are arrays of the lanes of a subgroup."""

    def const(self, value: int, kind: Any) -> Any:
        return np.full(1 << N_LANES, value, np.int64)

    def cast(self, value: Any, kind: Any) -> Any:
        return value

    def compute(self, code: str, *args: Any) -> Any:
        functions = {"and": np.bitwise_and, "or": np.bitwise_or, "ne": np.not_equal, "shr": np.right_shift}
        return (functions | {"shl": np.left_shift})[code](*args)

    def select(self, condition: Any, one: Any, other: Any) -> Any:
        return np.where(condition, one, other)

    def subgroup(self, code: str, value: Any, lane: Any) -> Any:
        assert code in ("shuffle", "shuffle_xor")
        return value[lane if code == "shuffle" else np.arange(1 << N_LANES) ^ lane]


def elements(layout: Layout, fixed: int = 0) -> list[Any]:
    """Returns for each register the numbers of the elements that the lanes hold."""
    lanes = np.arange(1 << N_LANES)
    own = sum(((lanes >> at & 1) << bit for at, bit in enumerate(layout.threads) if bit is not None), start=lanes * 0)
    return [own | layout.element(n) | fixed for n in range(layout.n_registers)]


def random_layout(rng: np.random.Generator, bits: Sequence[int]) -> Layout:
    """Returns a layout whose lanes hold some of the bits, and some of whose lanes hold the same elements."""
    order = [int(bit) for bit in rng.permutation(bits)]
    n = int(rng.integers(0, min(N_LANES, len(order)) + 1))
    threads = [*order[:n], *[None] * (N_LANES - n)]
    return Layout(tuple(order[n:]), tuple(threads[at] for at in rng.permutation(N_LANES)))


@pytest.mark.pure
@pytest.mark.parametrize("seed", range(200))
def test_each_register_has_the_element_of_the_wanted_layout(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_bits = int(rng.integers(0, 8))
    layout, wanted = (random_layout(rng, range(n_bits)) for _ in range(2))
    lanes: Any = Lanes()
    moved = Shuffles(lanes, np.arange(1 << N_LANES), N_LANES, layout, wanted).moved(elements(layout), INT32)  # type: ignore[arg-type]
    np.testing.assert_array_equal(moved, elements(wanted))


@pytest.mark.pure
@pytest.mark.parametrize("seed", range(200))
def test_parts_have_the_elements_with_fixed_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_bits = int(rng.integers(1, 8))
    fixed = {bit: int(rng.integers(0, 2)) for bit in range(n_bits) if rng.integers(0, 3) == 0}
    layout = random_layout(rng, range(n_bits))
    wanted = random_layout(rng, [bit for bit in range(n_bits) if bit not in fixed])
    lanes: Any = Lanes()
    values: Any = {bit: lanes.const(value, None) for bit, value in fixed.items()}
    moved = Shuffles(lanes, np.arange(1 << N_LANES), N_LANES, layout, wanted, values).moved(elements(layout), INT32)  # type: ignore[arg-type]
    np.testing.assert_array_equal(moved, elements(wanted, sum(value << bit for bit, value in fixed.items())))


@pytest.mark.pure
def test_layouts_whose_subgroups_hold_other_elements_are_not_within_them() -> None:
    layout = Layout((0,), (1, 2, 3, 4))
    assert is_within_subgroups(layout, Layout((2,), (1, 0, 3, 4)), N_LANES)
    assert not is_within_subgroups(layout, Layout((4,), (1, 2, 3, 0)), N_LANES)


@triton.jit
def chain(x_ptr, y_ptr, n, N: tl.constexpr, LENGTH: tl.constexpr):
    """A loop that carries a block, and a chain of products, of which each result is an operand of the next."""
    m = tl.arange(0, N)
    at = m[:, None] * N + m[None, :]
    one = tl.load(x_ptr + at).to(tl.float32)
    for i in range(n):
        row = tl.load(x_ptr + i * N + m).to(tl.float32)
        one = tl.where((m == i)[:, None], tl.sum(row[:, None] * one, 0), one)
        one = tl.minimum(tl.maximum(one, -3.0), 3.0)
    other = tl.load(x_ptr + N * N + at).to(tl.float32)
    for i in tl.static_range(LENGTH):
        product = tl.dot(one, tl.trans(other))
        one, other = other, tl.minimum(tl.maximum(product, -2.0), 3.0)
    base = tl.program_id(0).to(tl.int64) * N * N
    tl.store(y_ptr + base + at.to(tl.int64), other.to(y_ptr.dtype.element_ty), mask=m[:, None] < N - 1)


def chained(x: Any, n: int, length: int) -> Any:
    """Returns what `chain` stores, of numbers whose sums are exact."""
    one, other = (block.astype(np.float32) for block in x)
    for i in range(n):
        one[i] = (x[0][i].astype(np.float32)[:, None] * one).sum(0)
        one = np.clip(one, -3, 3)
    for _ in range(length):
        one, other = other, np.clip(one @ other.T, -2, 3)
    other[-1] = 0
    return other


@pytest.mark.parametrize(("kind", "size", "length"), [("f4", 16, 3), ("f4", 16, 16), ("f2", 16, 12), ("f4", 32, 8)])
def test_a_chain_of_products_has_the_bits_of_numpy(gpu: vkcompute.Runtime, kind: str, size: int, length: int) -> None:
    x = np.random.default_rng(length).integers(-2, 4, (2, size, size)).astype(kind)
    result = run(gpu, chain, (1,), (x, np.zeros((size, size), kind)), n=5, N=size, LENGTH=length)[1]
    np.testing.assert_array_equal(result, chained(x, 5, length))


def kernel(target: tile.Target, *, wide: bool = True) -> Function:
    """Returns the kernel of a chain of 16 products."""
    options = BlockOptions(1, target, CompileOptions())
    types: dict[int, Any] = {0: ArrayType("f", False, wide), 1: ArrayType("f", False, wide), 2: IntType("int32", 1)}
    return lowered(chain.definition, build(chain.definition, {3: 16, 4: 16}, types, options), options).function


@pytest.mark.pure
@pytest.mark.parametrize("shuffles", [True, False])
def test_one_subgroup_that_shuffles_has_no_workgroup_memory(*, shuffles: bool) -> None:
    function = kernel(CPU._replace(shuffles=shuffles))
    assert function.local_size == (8, 1, 1)
    assert bool(function.shared_memory) != shuffles


@pytest.mark.pure
def test_a_loop_carries_a_block_in_one_layout() -> None:
    loops = [op for op in walk(kernel(CPU).body) if op.code == "loop"]
    assert max(len(loop.params) for loop in loops) == 33


@pytest.mark.pure
def test_adjacent_elements_with_offsets_of_64_bits_are_stored_together() -> None:
    stores = [op for op in walk(kernel(CPU).body) if op.code == "store" and op.memory is not None]
    assert len(stores) == 8
    assert {store.memory.lanes for store in stores if store.memory is not None} == {4}
