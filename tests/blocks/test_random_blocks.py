"""Random functions of blocks: the kernel that they are lowered to computes what the interpreter does, to the bit.

The padded function is interpreted, too, with bounds checked.
"""

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
from vkcompute.tile.indexing import padded
from vkcompute.tile.padding import pad
from vkcompute.tile.simplification import remove_invariants

BINARY = "add", "sub", "mul", "xor", "and", "or", "min", "max"
N_INPUT = 2560
LENGTHS = 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20
MOST = 512
STEPS = (
    "binary", "binary", "divide", "select", "permute", "reshape", "mirror", "gather", "histogram", "reduce", "scan",
    "pair", "dot",
)  # fmt: skip


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
        lengths = st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=3)
        return tuple(self.data.draw(lengths.filter(lambda each: math.prod(padded(each)) <= MOST)))

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
        step = self.pick(STEPS)
        if step == "permute":
            return self.b.permute(value, tuple(self.data.draw(st.permutations(range(len(shape))))))
        if step == "reshape":
            return self.b.reshape(value, self.divided(math.prod(shape)))
        if step == "mirror":
            n = math.prod(shape)
            return self.b.mirror(value, self.pick(range(n & -n)))
        if step == "gather":
            axis = self.pick(range(len(shape)))
            index = self.b.compute("mod", self.like(values, shape), self.full(shape[axis], shape))
            return self.b.gather(value, index, axis)
        if step == "histogram":
            mask = self.pick([None, self.b.compute("lt", value, self.full(2, shape))])
            return self.b.histogram(value, self.pick(LENGTHS), mask)
        if step == "divide":
            odd = self.b.compute(
                "or", self.b.compute("and", self.like(values, shape), self.full(6, shape)), self.full(1, shape)
            )
            return self.b.compute(self.pick(["div", "rem", "mod"]), value, odd)
        if step == "reduce":
            return self.reduced(value)
        if step == "scan":
            code = self.pick(["add", "max"])
            axis, reverse = self.pick(range(len(shape))), self.pick([True, False])
            return self.b.scan([value], axis, self.combine(code), reverse=reverse)[0]
        if step == "pair":
            return self.paired(value, self.like(values, shape))
        if step == "dot" and len(shape) >= 2:
            m, n = shape[-2], self.pick([1, 3, 4])
            other = self.loaded((*shape[:-2], shape[-1], n))
            return self.b.dot(value, other, self.full(1, (*shape[:-2], m, n)))
        other = self.like(values, shape)
        result = self.b.compute(self.pick(BINARY), value, other)
        return result if step != "select" else self.b.select(self.b.compute("lt", value, other), result, other)

    def like(self, values: list[Value], shape: tuple[int, ...]) -> Value:
        return self.pick([value for value in values if shape_of(value.type) == shape])

    def full(self, number: int, shape: tuple[int, ...]) -> Value:
        return self.b.full(self.b.const(number, INT32), shape)

    def divided(self, n: int) -> tuple[int, ...]:
        """A shape with this many elements."""
        first = self.pick([k for k in range(1, n + 1) if n % k == 0])
        second = self.pick([k for k in range(1, n // first + 1) if n // first % k == 0])
        shape = first, second, n // first // second
        return shape if math.prod(padded(shape)) <= 2 * MOST else (n,)

    def paired(self, one: Value, other: Value) -> Value:
        """Scans or reduces pairs by a function that is not commutative: x -> a * x + b, one after the other."""

        def composed(x: Any, y: Any) -> list[Value]:
            moved = self.b.compute("add", self.b.compute("mul", x[1], y[0]), y[1])
            return [self.b.compute("mul", x[0], y[0]), moved]

        shape = shape_of(one.type)
        axis = self.pick(range(len(shape)))
        if self.pick([True, False]):
            return self.b.scan([one, other], axis, composed, reverse=self.pick([True, False]))[1]
        return self.along(self.b.reduce([one, other], axis, composed, ordered=True)[1], axis, shape)

    def reduced(self, value: Value) -> Value:
        """Reduces along an axis, and repeats the result along it."""
        shape = shape_of(value.type)
        axis = self.pick(range(len(shape)))
        code, ordered = self.pick([("add", False), ("min", True), ("xor", False)])
        (result,) = self.b.reduce([value], axis, self.combine(code), ordered=ordered)
        return self.along(result, axis, shape)

    def along(self, result: Value, axis: int, shape: tuple[int, ...]) -> Value:
        """A result of a reduction, repeated along the axis."""
        kept = (*shape[:axis], 1, *shape[axis + 1 :])
        result = self.b.full(result, (1,)) if not shape_of(result.type) else result
        return self.b.broadcast(self.b.reshape(result, kept), shape)

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
    pad(function)
    again = np.zeros_like(wanted)
    tile.interpret(function, {made.given: given_numbers, made.out: again}, {made.n: n}, (1,))
    np.testing.assert_array_equal(again, wanted)
    words = ["uint32", "uint64"] if "shaderInt64" in gpu.device.features else ["uint32"]
    word = data.draw(st.sampled_from(words))
    target = (block_target(gpu) if shuffles else tile.Target())._replace(stages=stages, word=word)
    lowered = tile.lower(function, target, n_warps=n_warps, wide=[made.given, made.out])
    ir.verify(lowered.function)
    arrays = [gpu.array(given_numbers), gpu.zeros(-(-made.n_stored // 4) * 4, np.int32)]
    # What prevents the recomputation is a shuffle.
    recomputes = recomputes and "shuffle" in gpu.device.physical.subgroup_operations
    module = ir.lower(ir.optimize(lowered.function), ir.Target(recomputes_across_barriers=recomputes))
    kernel = gpu.kernel(module.spirv, name="random", check_types=False)
    kernel(*arrays, *[arrays[at] for at in lowered.aliases], n, grid=(1,))
    np.testing.assert_array_equal(arrays[1].numpy()[: made.n_stored], wanted)
