"""Exchanges of blocks beyond the workgroup memory, which pass through it in pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from barriers import check_barriers

import vkcompute
from vkcompute import ir, tile
from vkcompute.ir import INT32, Value
from vkcompute.tile.builder import Builder
from vkcompute.tile.device import block_target
from vkcompute.tile.layout import Layout
from vkcompute.tile.pieces import piece_of

N = 16  # a block has 1 KiB, and the memory a quarter of it


def transposed(b: Builder, x: Value) -> Value:
    """A scan gives the elements a layout of their own, and the permutation wants another one."""
    (sums,) = b.scan([x], 1, lambda one, other: [b.compute("add", one[0], other[0])])
    return b.permute(sums, (1, 0))


def columns(b: Builder, x: Value) -> Value:
    (sums,) = b.reduce([x], 0, lambda one, other: [b.compute("max", one[0], other[0])])
    return b.broadcast(b.reshape(sums, (1, N)), (N, N))


def gathered(b: Builder, x: Value) -> Value:
    return b.gather(x, b.compute("and", x, b.full(b.const(N - 1, INT32), (N, N))), 0)


def mirrored(b: Builder, x: Value) -> Value:
    return b.mirror(x, N * N - 1)


def carried(b: Builder, x: Value) -> Value:
    """A loop carries a block that is computed in one layout and multiplied in another."""
    loop = b.loop(x, b.const(0, INT32))
    with loop.body:
        block, count = loop.params
        with b.if_(b.compute("ge", count, b.const(2, INT32))).then:
            b.break_(loop, block, count)
        b.yield_(b.dot(x, block, block), b.compute("add", count, b.const(1, INT32)))
    return loop.results[0]


def numbers() -> np.ndarray:
    return np.random.default_rng(7).integers(-99, 99, (N, N)).astype(np.int32)


def of_loop(x: np.ndarray) -> np.ndarray:
    block = x
    for _ in range(2):
        block = x @ block + block
    return block


WANTED: dict[Callable[[Builder, Value], Value], Callable[[np.ndarray], np.ndarray]] = {
    transposed: lambda x: np.cumsum(x, 1).T,
    columns: lambda x: np.broadcast_to(x.max(0), x.shape),
    gathered: lambda x: np.take_along_axis(x, x & N - 1, 0),
    mirrored: lambda x: x[::-1, ::-1],
    carried: of_loop,
}


@pytest.mark.rotates
@pytest.mark.parametrize("shuffles", [True, False])
@pytest.mark.parametrize("program", WANTED)
def test_blocks_beyond_the_workgroup_memory(
    gpu: vkcompute.Runtime, program: Callable[[Builder, Value], Value], *, shuffles: bool
) -> None:
    function = ir.Function("pieces")
    given, out = function.buffer("given", INT32), function.buffer("out", INT32)
    b = Builder(function)
    at = b.reshape(b.arange(0, N * N), (N, N))
    b.store_block(out, at, program(b, b.load_block(given, at)))
    target = (block_target(gpu) if shuffles else tile.Target())._replace(shared_nbytes=256, max_invocations=32)
    lowered = tile.lower(function, target).function
    check_barriers(lowered)
    x, result = numbers(), gpu.zeros(N * N, np.int32)
    kernel = gpu.kernel(ir.lower(ir.optimize(lowered)).spirv, name="pieces", check_types=False)
    kernel(gpu.array(x.ravel()), result, grid=(1,))
    np.testing.assert_array_equal(result.numpy().reshape(N, N), WANTED[program](x))


@pytest.mark.pure
@pytest.mark.parametrize("bits", [(), (4,), (0, 5), (1, 2, 4), (0, 1, 2, 3, 4, 5)])
def test_pieces_hold_each_element_once(bits: tuple[int, ...]) -> None:
    layout = Layout((1, 4, 0), (3, None, 2, 5))
    held = []
    for n in range(1 << len(bits)):
        values = sum(1 << bit for at, bit in enumerate(bits) if n >> at & 1)
        piece = piece_of(layout, bits, values)
        for thread in range(16):
            if thread & (piece.mask | layout.duplicates) != piece.threads:
                continue
            first = sum(1 << bit for at, bit in enumerate(layout.threads) if bit is not None and thread >> at & 1)
            held += [first | layout.element(register) for register in piece.registers]
            own = [first | layout.element(register) for register in piece.registers]
            numbered = [
                sum(bool(e >> bit & 1) << k for k, bit in enumerate(b for b in range(6) if b not in bits)) for e in own
            ]
            begin = sum(1 << bit for at, bit in enumerate(piece.layout.threads) if bit is not None and thread >> at & 1)
            assert numbered == [begin | piece.layout.element(k) for k in range(piece.layout.n_registers)]
    assert sorted(held) == list(range(64))
