"""Random functions of blocks: the kernel that they are lowered to computes what the interpreter does, to the bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import vkcompute
from vkcompute import ir, tile
from vkcompute.ir import INT32, Value
from vkcompute.tile import shape_of
from vkcompute.tile.device import block_target
from vkcompute.tile.simplification import remove_invariants

BINARY = "add", "sub", "mul", "xor", "and", "or", "min", "max"
N_INPUT = 512


class Generator:
    """Builds a random function that reads int32 from one buffer and writes to another."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.function = ir.Function("random")
        self.given, self.out = (self.function.buffer(name, INT32) for name in ("given", "out"))
        self.n = self.function.push("n", INT32)
        self.b = tile.Builder(self.function)
        self.n_stored = 0

    def pick(self, choices: Any) -> Any:
        return self.data.draw(st.sampled_from(list(choices)))

    def run(self) -> ir.Function:
        """Builds the whole function."""
        values = [self.loaded(self.shape()) for _ in range(2)]
        for _ in range(self.data.draw(st.integers(2, 6))):
            values.append(self.step(values))
        values.append(self.loop(self.pick(values)))
        for value in values[-3:]:
            self.store(value)
        return remove_invariants(self.function)

    def shape(self) -> tuple[int, ...]:
        logs = self.data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda each: sum(each) <= 9))
        return tuple(1 << each for each in logs)

    def offsets(self, shape: tuple[int, ...]) -> Value:
        """Row-major offsets, or those of the transposed block."""
        flat = self.b.arange(0, math.prod(shape))
        if len(shape) == 1 or self.pick([True, False]):
            return self.b.reshape(flat, shape)
        order = tuple(reversed(range(len(shape))))
        return self.b.permute(self.b.reshape(flat, shape[::-1]), order)

    def loaded(self, shape: tuple[int, ...]) -> Value:
        offsets = self.offsets(shape)
        if self.pick([True, False]):
            return self.b.load_block(self.given, offsets)
        mask = self.b.compute("lt", offsets, self.b.full(self.n, shape))
        return self.b.load_block(self.given, offsets, mask, self.b.full(self.b.const(-3, INT32), shape))

    def step(self, values: list[Value]) -> Value:
        """Computes one more value."""
        value = self.pick(values)
        shape = shape_of(value.type)
        step = self.pick(["binary", "binary", "select", "permute", "reshape", "reduce", "scan", "dot"])
        if step == "permute":
            return self.b.permute(value, tuple(self.data.draw(st.permutations(range(len(shape))))))
        if step == "reshape":
            return self.b.reshape(value, (math.prod(shape),))
        if step == "reduce":
            return self.reduced(value)
        if step == "scan":
            code = self.pick(["add", "max"])
            axis, reverse = self.pick(range(len(shape))), self.pick([True, False])
            return self.b.scan([value], axis, self.combine(code), reverse=reverse)[0]
        if step == "dot" and len(shape) == 2:
            start = self.b.full(self.b.const(1, INT32), (shape[0], shape[0]))
            return self.b.dot(value, self.b.permute(value, (1, 0)), start)
        other = self.pick([each for each in values if shape_of(each.type) == shape])
        found = self.b.compute(self.pick(BINARY), value, other)
        return found if step != "select" else self.b.select(self.b.compute("lt", value, other), found, other)

    def reduced(self, value: Value) -> Value:
        """Reduces along an axis, and repeats the result along it."""
        shape = shape_of(value.type)
        axis = self.pick(range(len(shape)))
        code, ordered = self.pick([("add", False), ("min", True), ("xor", False)])
        (found,) = self.b.reduce([value], axis, self.combine(code), ordered=ordered)
        kept = (*shape[:axis], 1, *shape[axis + 1 :])
        found = self.b.full(found, (1,)) if not shape_of(found.type) else found
        return self.b.broadcast(self.b.reshape(found, kept), shape)

    def combine(self, code: str) -> Any:
        return lambda one, other: [self.b.compute(code, one[0], other[0])]

    def loop(self, value: Value) -> Value:
        """Adds rotated elements of the input to a value, n times."""
        b, shape = self.b, shape_of(value.type)
        loop = b.loop(value, b.const(0, INT32))
        with loop.body:
            carried, count = loop.params
            with b.if_(b.compute("ge", count, self.n)).then:
                b.break_(loop, carried, count)
            moved = b.compute("add", self.offsets(shape), b.full(count, shape))
            more = b.load_block(self.given, moved, b.compute("lt", moved, b.full(b.const(N_INPUT, INT32), shape)))
            b.yield_(b.compute("add", carried, more), b.compute("add", count, b.const(1, INT32)))
        return loop.results[0]

    def store(self, value: Value) -> None:
        shape = shape_of(value.type)
        offsets = self.b.compute("add", self.offsets(shape), self.b.full(self.b.const(self.n_stored, INT32), shape))
        self.b.store_block(self.out, offsets, value)
        self.n_stored += math.prod(shape)


@given(st.data(), st.integers(0, 4), st.sampled_from([1, 2, 4]), st.booleans(), st.booleans(), st.booleans())
def test_kernels_compute_what_the_interpreter_does(
    gpu: vkcompute.Runtime, data: st.DataObject, n: int, n_warps: int, shuffles: bool, stages: bool, recomputes: bool
) -> None:
    made = Generator(data)
    function = made.run()
    given_numbers = np.random.default_rng(n).integers(-9, 9, N_INPUT).astype(np.int32)
    wanted = np.zeros(made.n_stored, np.int32)
    with np.errstate(all="ignore"):
        tile.interpret(function, {made.given: given_numbers, made.out: wanted}, {made.n: n}, (1,))
    target = (block_target(gpu) if shuffles else tile.Target())._replace(stages=stages)
    lowered = tile.lower(function, target, n_warps=n_warps, wide=[made.given, made.out])
    ir.verify(lowered.function)
    arrays = [gpu.array(given_numbers), gpu.zeros(-(-made.n_stored // 4) * 4, np.int32)]
    module = ir.lower(ir.optimize(lowered.function), ir.Target(recomputes_across_barriers=recomputes))
    kernel = gpu.kernel(module.spirv, name="random", check_types=False)
    kernel(*arrays, *[arrays[at] for at in lowered.aliases], n, grid=(1,))
    np.testing.assert_array_equal(arrays[1].numpy()[: made.n_stored], wanted)
