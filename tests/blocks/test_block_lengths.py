"""Blocks whose lengths are no powers of two: each operation along each axis, against numpy.

A function is interpreted as it is, interpreted with its blocks padded, and run on the device for several targets.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from runtimes import most_buffers

import vkcompute
from vkcompute import ir, tile
from vkcompute.compiled.target import target_of
from vkcompute.ir import FLOAT32, INT32, INT64, Value
from vkcompute.ir.function import Op, walk
from vkcompute.tile import Builder, shape_of
from vkcompute.tile.device import block_target
from vkcompute.tile.padding import pad

Array = np.ndarray[Any, Any]
FREE = 77
"""The elements of results before they are written."""


class Program:
    """A function of blocks, whose buffers are the given arrays and then `out`.

    Attributes:
        b: the builder.
        memories: of the given arrays.
    """

    def __init__(self, *arrays: Array, out: Any = INT32, n_out: int = 0) -> None:
        self.function = ir.Function("lengths")
        self.arrays = arrays
        self.memories = [self.function.buffer(f"x{n}", ir.SCALARS[x.dtype.name]) for n, x in enumerate(arrays)]
        self.out = self.function.buffer("out", out)
        self.b, self.n_stored, self.n_out = Builder(self.function), 0, n_out

    def full(self, number: Any, shape: tuple[int, ...], kind: ir.Scalar = INT32) -> Value:
        return self.b.full(self.b.const(number, kind), shape)

    def offsets(self, shape: tuple[int, ...]) -> Value:
        return self.b.reshape(self.b.arange(0, math.prod(shape)), shape)

    def load(self, at: int = 0, shape: tuple[int, ...] | None = None) -> Value:
        """The elements of an array, in its shape."""
        return self.b.load_block(self.memories[at], self.offsets(shape or self.arrays[at].shape))

    def store(self, value: Value) -> None:
        """Appends a block to the result, in row-major order."""
        shape, kind = shape_of(value.type), self.out.element
        value = self.b.cast(value, kind)
        first = self.b.const(self.n_stored, INT32)
        if not shape:
            self.b.store_block(self.out, first, value)
        else:
            self.b.store_block(self.out, self.b.compute("add", self.offsets(shape), self.b.full(first, shape)), value)
        self.n_stored += math.prod(shape)

    def check(self, gpu: vkcompute.Runtime, expected: Any, **tolerance: float) -> None:
        """Compares the results with what numpy computes; to the bit unless there is a tolerance."""
        wanted = np.asarray(expected, self.out.element.numpy).ravel()
        for name, result in self.results(gpu, wanted.size).items():
            if tolerance:
                np.testing.assert_allclose(result, wanted, err_msg=name, **tolerance)
                continue
            np.testing.assert_array_equal(result, wanted, err_msg=name)
            if wanted.dtype.kind == "f":
                signs = ~np.isnan(wanted)
                np.testing.assert_array_equal(np.signbit(result)[signs], np.signbit(wanted)[signs], err_msg=name)

    def results(self, gpu: vkcompute.Runtime, n: int) -> dict[str, Array]:
        collected = {}
        for name in ("interpreted", "padded"):
            out = np.full(n, FREE, self.out.element.numpy)
            flat = [x.flatten() for x in self.arrays]
            tile.interpret(self.function, dict(zip(self.function.buffers, [*flat, out], strict=True)), {}, (1,))
            collected[name] = out
            pad(self.function)
        target, buffers = block_target(gpu), self.function.buffers
        wide = buffers if len(buffers) * 2 <= most_buffers(gpu) else []  # those are bound twice
        targets = {"device": target, "stages": target._replace(stages=True, own_elements=1), "least": tile.Target()}
        for name, each in targets.items():
            collected[name] = run(gpu, tile.lower(self.function, each, wide=wide), self.arrays, out.dtype, n)
        return collected


def run(gpu: vkcompute.Runtime, lowered: tile.Lowered, arrays: Sequence[Array], dtype: Any, n: int) -> Array:
    """Returns the result of a kernel; elements behind it stay as they are."""
    ir.verify(lowered.function)
    given = [gpu.array(np.pad(x.ravel(), (0, -x.size % 4))) for x in arrays]
    given.append(gpu.array(np.full((n + 7) // 4 * 4, FREE, dtype)))
    missing = tuple(name for name in target_of(gpu).missing_types if name.endswith("64"))
    module = ir.lower(ir.optimize(lowered.function), ir.Target(missing_types=missing))
    kernel = gpu.kernel(module.spirv, name="lengths", check_types=False)
    kernel(*given, *[given[at] for at in lowered.aliases], grid=(1,))
    result = given[-1].numpy()
    np.testing.assert_array_equal(result[n:], FREE)
    return result[:n]


def integers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).integers(-9, 10, shape).astype(np.int32)


def combine(b: Builder, code: str) -> Any:
    return lambda one, other: [b.compute(code, one[0], other[0])]


SHAPES = (5, 12), (3, 2, 7), (1, 5), (20,), (17, 3)
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
UFUNCS = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_reductions_of_ints(gpu: vkcompute.Runtime, shape: tuple[int, ...], axis: int) -> None:
    x = integers(*shape)
    made, expected = Program(x), []
    for code, ufunc in UFUNCS.items():
        made.store(*made.b.reduce([made.load()], axis, combine(made.b, code)))
        expected.append(ufunc.reduce(x, axis).ravel())
    made.check(gpu, np.concatenate(expected))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["uint32", "int8", "uint16", "int64", "float16", "float64"])
def test_reductions_of_other_types(gpu: vkcompute.Runtime, axis: int, kind: str) -> None:
    x = np.random.default_rng(1).integers(1, 5, (6, 7)).astype(kind)
    made, expected = Program(x, out=ir.SCALARS[kind]), []
    for code in ("add", "min", "max", "mul"):
        made.store(*made.b.reduce([made.load()], axis, combine(made.b, code)))
        expected.append(UFUNCS[code].reduce(x, axis, dtype=kind))
    try:
        made.check(gpu, np.concatenate(expected), **({"rtol": 2e-2} if kind == "float16" else {}))
    except vkcompute.MissingFeature as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_bools(gpu: vkcompute.Runtime, axis: int) -> None:
    x = integers(5, 6)
    made, expected = Program(x), []
    for code in ("and", "or", "xor"):
        positive = made.b.compute("gt", made.load(), made.full(-8 if code == "and" else 7, x.shape))
        made.store(*made.b.reduce([positive], axis, combine(made.b, code)))
        expected.append(UFUNCS[code].reduce(x > (-8 if code == "and" else 7), axis))
    made.check(gpu, np.concatenate(expected))


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_special_floats(gpu: vkcompute.Runtime, axis: int) -> None:
    """Sums of negative zeros are negative, and the least of infinities is infinite: no neutral element shows."""
    rows = [[-0.0] * 5, [np.inf] * 5, [-np.inf] * 5, [1, -0.0, -np.inf, 2, 3], [np.nan] * 5, [4, np.inf, -1, -7, 0.5]]
    x = np.asarray(rows, np.float32)
    x = x if axis == 1 else x.T.copy()
    made, expected = Program(x, out=FLOAT32), []
    for code in ("add", "min", "max", "mul"):
        made.store(*made.b.reduce([made.load()], axis, combine(made.b, code)))
        with np.errstate(invalid="ignore"):
            expected.append(functools.reduce(UFUNCS[code], np.moveaxis(x, axis, 0)))  # numpy's begins at 0
    made.check(gpu, np.concatenate(expected))


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("greatest", [False, True])
def test_reductions_of_values_and_indices(
    gpu: vkcompute.Runtime, shape: tuple[int, ...], axis: int, greatest: bool
) -> None:
    """The first of equal values."""
    x = integers(*shape).astype(np.float32)
    made = Program(x, out=FLOAT32)
    b = made.b
    places = b.broadcast(
        b.reshape(b.arange(0, shape[axis]), tuple(n if at == axis else 1 for at, n in enumerate(shape))), shape
    )

    def chosen(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        better = b.compute("gt" if greatest else "lt", other[0], one[0])
        first = b.compute("and", b.compute("eq", other[0], one[0]), b.compute("lt", other[1], one[1]))
        takes = b.compute("or", better, first)
        return [b.select(takes, *pair) for pair in zip(other, one, strict=True)]

    for each in b.reduce([made.load(), places], axis, chosen):
        made.store(each)
    values, indices = (x.max(axis), x.argmax(axis)) if greatest else (x.min(axis), x.argmin(axis))
    made.check(gpu, [*values.ravel(), *indices.ravel()])


def composed(b: Builder) -> Any:
    """Composes functions x -> a * x + b, the first before the second: not commutative."""

    def found(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        return [b.compute("mul", one[0], other[0]), b.compute("add", b.compute("mul", one[1], other[0]), other[1])]

    return found


def compositions(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the compositions of each element with all before it, along the first axis."""
    results = [(a[0], b[0])]
    with np.errstate(all="ignore"):
        for one, other in zip(a[1:], b[1:], strict=True):
            results.append((results[-1][0] * one, results[-1][1] * one + other))
    return np.stack([item for item, _ in results]), np.stack([item for _, item in results])


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("reverse", [False, True])
def test_reductions_and_scans_by_a_function_that_is_not_commutative(
    gpu: vkcompute.Runtime, shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    x, y = integers(*shape), integers(*shape)[::-1].copy()
    made = Program(x, y)
    values, rows = [made.load(0), made.load(1)], [np.moveaxis(item, axis, 0) for item in (x, y)]
    for each in made.b.scan(values, axis, composed(made.b), reverse=reverse):
        made.store(each)
    for each in made.b.reduce(values, axis, composed(made.b), ordered=True):
        made.store(each)
    scanned = compositions(*[row[::-1] if reverse else row for row in rows])
    expected = [np.moveaxis(item[::-1] if reverse else item, 0, axis).ravel() for item in scanned]
    made.check(gpu, np.concatenate([*expected, *[composition[-1].ravel() for composition in compositions(*rows)]]))


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(gpu: vkcompute.Runtime, shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    x = integers(*shape)
    made, expected = Program(x), []
    for code in ("add", "max"):
        made.store(*made.b.scan([made.load()], axis, combine(made.b, code), reverse=reverse))
        result = UFUNCS[code].accumulate(np.flip(x, axis) if reverse else x, axis)
        expected.append((np.flip(result, axis) if reverse else result).ravel())
    made.check(gpu, np.concatenate(expected))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 3, 1), (16, 6, 16), (5, 8, 3), (20, 1, 12), (17, 4, 9)])
@pytest.mark.parametrize("stack", [(), (3,)])
def test_products(gpu: vkcompute.Runtime, shape: tuple[int, int, int], stack: tuple[int, ...]) -> None:
    m, k, n = shape
    left, right, start = integers(*stack, m, k), integers(*stack, k, n), integers(*stack, m, n)
    made = Program(left, right, start)
    made.store(made.b.dot(made.load(0), made.load(1), made.load(2)))
    made.check(gpu, left @ right + start)


@pytest.mark.parametrize("side", [0, 1])
def test_products_of_operands_that_are_infinite_where_they_are_padded(gpu: vkcompute.Runtime, side: int) -> None:
    left, right = integers(3, 5).astype(np.float32), integers(5, 6).astype(np.float32)
    left[left == 0], right[right == 0] = 1, 1
    made = Program(left, right, out=FLOAT32)
    values = [made.load(0), made.load(1)]
    one = made.full(1, shape_of(values[side].type), FLOAT32)
    values[side] = made.b.compute("div", one, values[side])
    made.store(made.b.dot(*values, made.full(0, (3, 6), FLOAT32)))
    made.check(gpu, (1 / left) @ right if side == 0 else left @ (1 / right), rtol=1e-5, atol=1e-5)


def test_products_of_masked_operands(gpu: vkcompute.Runtime) -> None:
    """Padded elements add nothing, also where masked ones add another number."""
    left, right = integers(3, 5), integers(5, 6)
    made, operands = Program(left, right), []
    for memory, x, other in zip(made.memories, (left, right), (5, 7), strict=True):
        at = made.offsets(x.shape)
        mask = made.b.compute("lt", at, made.full(11, x.shape))
        operands.append(made.b.load_block(memory, at, mask, made.full(other, x.shape)))
        x.ravel()[11:] = other
    made.store(made.b.dot(*operands, made.full(0, (3, 6))))
    made.check(gpu, left @ right)


@pytest.mark.parametrize("code", ["div", "rem", "mod"])
def test_padded_integers_are_divided_by_one(gpu: vkcompute.Runtime, code: str) -> None:
    """Padded divisors are loaded as 0, by which division is undefined."""
    x, y = integers(3, 5), np.abs(integers(3, 5)) + 1
    made = Program(x, y)
    result = made.b.compute(code, made.load(0), made.load(1))
    assert isinstance(result, Op)
    made.store(result)
    divide: Callable[[Array, Array], Array] = {"div": lambda a, b: np.trunc(a / b), "rem": np.fmod, "mod": np.mod}[code]
    made.check(gpu, divide(x, y))
    divisors = np.zeros(32, np.int32)
    Builder(made.function).store_block(made.out, made.b.reshape(made.b.arange(0, 32), (4, 8)), result.args[1])
    memories = dict(zip(made.function.buffers, [x.ravel(), y.ravel(), divisors], strict=True))
    tile.interpret(made.function, memories, {}, (1,))
    np.testing.assert_array_equal(divisors.reshape(4, 8), np.pad(y, ((0, 1), (0, 3)), constant_values=1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_functions_of_reductions_divide_no_padded_integers(gpu: vkcompute.Runtime, axis: int, reverse: bool) -> None:
    """The operations of the function are in a branch that padded elements do not take."""
    x = np.abs(integers(4, 5)) + 1
    made = Program(x)
    b = made.b

    def greater(one: Sequence[Value], other: Sequence[Value]) -> list[Value]:
        quotient = b.compute("div", one[0], other[0])
        return [b.select(b.compute("eq", quotient, b.const(0, INT32)), other[0], one[0])]

    made.store(*b.reduce([made.load()], axis, greater))
    made.store(*b.scan([made.load()], axis, greater, reverse=reverse))
    pad(made.function)
    for op in walk(made.function.body):
        if op.code in ("reduce", "scan"):
            assert [each.code for each in op.regions[0].ops if each.code in ("if", "div")] == ["if"]
    turned = np.flip(x, axis) if reverse else x
    result = np.maximum.accumulate(turned, axis)
    made.check(gpu, [*x.max(axis), *(np.flip(result, axis) if reverse else result).ravel()])


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_no_element_beside_the_block_is_loaded_or_stored(gpu: vkcompute.Runtime, masked: bool) -> None:
    """Rows of 5 in an array with rows of 8, whose other elements are NaN."""
    x = np.full((6, 8), np.nan, np.float32)
    x[:, :5] = integers(6, 5)
    made = Program(x, out=FLOAT32)
    b, shape = made.b, (6, 5)
    rows, columns = b.reshape(b.arange(0, 6), (6, 1)), b.reshape(b.arange(0, 5), (1, 5))
    rows, columns = b.broadcast(b.compute("mul", rows, made.full(8, (6, 1))), shape), b.broadcast(columns, shape)
    at = b.compute("add", rows, columns)
    mask = b.compute("lt", columns, made.full(3, shape)) if masked else None
    value = b.load_block(made.memories[0], at, mask, made.full(2, shape, FLOAT32))
    total = b.reduce([value], 1, combine(b, "add"))[0]
    b.store_block(made.out, at, b.compute("add", value, b.broadcast(b.reshape(total, (6, 1)), shape)), mask)
    expected = np.full((6, 8), FREE, np.float32)
    n = 3 if masked else 5
    expected[:, :n] = x[:, :n] + x[:, :n].sum(1, keepdims=True) + (4 if masked else 0)
    made.check(gpu, expected)


@pytest.mark.parametrize("masked", [False, True])
def test_atomic_operations_count_elements_once(gpu: vkcompute.Runtime, masked: bool) -> None:
    x = np.abs(integers(5, 3)) % 4
    made = Program(x)
    b, value = made.b, made.load()
    mask = b.compute("ne", value, made.full(2, x.shape)) if masked else None
    for code, ones in (("add", made.full(3, x.shape)), ("min", value)):
        offsets = b.compute("add", value, made.full(0 if code == "add" else 4, x.shape))
        b.atomic_block(code, made.out, offsets, [ones], mask)
    before = b.atomic_block(
        "exchange", made.out, b.compute("add", made.offsets(x.shape), made.full(8, x.shape)), [value]
    )
    b.store_block(made.out, b.compute("add", made.offsets(x.shape), made.full(23, x.shape)), before)
    counts = np.bincount(x.ravel(), minlength=4) * (np.arange(4) != 2 if masked else 1)
    least = np.where(counts, np.arange(4), FREE)
    made.check(gpu, [*(FREE + 3 * counts), *least, *x.ravel(), *[FREE] * 15])


def test_exchanges_if_equal(gpu: vkcompute.Runtime) -> None:
    x = integers(7)
    made = Program(x)
    at, value = made.offsets((7,)), made.load()
    result = made.b.atomic_block("compare_exchange", made.out, at, [made.full(FREE, (7,)), value])
    made.b.store_block(made.out, made.b.compute("add", at, made.full(7, (7,))), result)
    made.check(gpu, [*x, *[FREE] * 7])


@pytest.mark.parametrize(("n", "n_bins"), [(7, 5), (8, 3), (20, 4), (1, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_histograms(gpu: vkcompute.Runtime, n: int, n_bins: int, masked: bool) -> None:
    x = np.abs(integers(n)) % 6
    made = Program(x)
    mask = made.b.compute("lt", made.load(), made.full(2, (n,))) if masked else None
    made.store(made.b.histogram(made.load(), n_bins, mask))
    made.check(gpu, np.bincount(x[x < 2] if masked else x, minlength=6)[:n_bins])


@pytest.mark.parametrize(("n", "loops"), [(6, True), (12, False), (1000, False), (21, True)])
@pytest.mark.parametrize("masked", [False, True])
def test_wide_accesses(gpu: vkcompute.Runtime, n: int, loops: bool, masked: bool) -> None:
    """Whole groups of four are stored together, and of the last group only its elements."""
    x = integers(n)
    made = Program(x)
    at = made.b.arange(0, n)
    fours = made.b.compute("and", at, made.full(-4, (n,)))
    mask = made.b.compute("lt", fours, made.full(n // 2, (n,))) if masked else None
    made.b.store_block(made.out, at, made.b.load_block(made.memories[0], at, mask), mask)
    expected = np.where(np.arange(n) // 4 * 4 < n // 2, x, FREE) if masked else x
    made.check(gpu, expected)
    again = Program(x)
    at = again.b.arange(0, n)
    again.b.store_block(again.out, at, again.b.load_block(again.memories[0], at))
    lowered = tile.lower(again.function, tile.Target(), wide=again.function.buffers)
    assert lowered.aliases == (0, 1)
    assert ("loop" in {op.code for op in walk(lowered.function.body)}) == loops


def test_rows_of_a_multiple_of_four_are_accessed_by_fours() -> None:
    made = Program(integers(6, 20))
    made.store(made.load())
    lowered = tile.lower(made.function, tile.Target(), wide=made.function.buffers)
    assert lowered.aliases == (0, 1)
    assert "loop" not in {op.code for op in walk(lowered.function.body)}


@pytest.mark.parametrize("far", [0, 1 << 32])
def test_offsets_of_64_bits(gpu: vkcompute.Runtime, far: int) -> None:
    """Beyond all arrays, nothing is accessed."""
    x = integers(3, 5)
    made = Program(x)
    b = made.b
    at = b.compute("add", b.cast(made.offsets(x.shape), INT64), made.full(0, x.shape, INT64))
    mask = b.compute("lt", at, made.full(13, x.shape, INT64))
    value = b.load_block(made.memories[0], at, mask, made.full(9, x.shape))
    b.store_block(made.out, b.reshape(at, (5, 3)), b.reshape(value, (5, 3)))
    made.check(gpu, [*x.ravel()[:13], 9, 9])
    if far:
        beyond = Program(x)
        at = beyond.b.compute("add", beyond.b.cast(beyond.offsets(x.shape), INT64), beyond.full(far, x.shape, INT64))
        beyond.b.store_block(beyond.out, at, beyond.load())
        result = run(gpu, tile.lower(beyond.function, block_target(gpu)), [x], np.int32, 15)
        np.testing.assert_array_equal(result, FREE)


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((5,), (1, 5, 1)),
        ((12,), (3, 4)),
        ((12,), (4, 3)),
        ((4, 3), (12,)),
        ((6, 20), (5, 24)),
        ((3, 4, 5), (4, 15)),
        ((8, 3, 16), (24, 16)),
        ((8, 3, 4), (8, 12)),
        ((7, 6), (6, 7)),
        ((2, 3, 7), (7, 1, 6)),
        ((1, 1), (1,)),
    ],
)
@pytest.mark.parametrize("kind", ["int32", "float32", "bool"])
def test_changes_of_shape(gpu: vkcompute.Runtime, before: tuple[int, ...], after: tuple[int, ...], kind: str) -> None:
    """Loaded numbers and indices change their shape, and numbers change back."""
    x = integers(*before)
    made = Program(x)
    value = made.load()
    if kind == "bool":
        value, x = made.b.compute("gt", value, made.full(0, before)), x > 0
    elif kind == "float32":
        value = made.b.cast(value, FLOAT32)
    moved = made.b.reshape(value, after)
    made.store(moved)
    made.store(made.b.reduce([made.b.cast(moved, INT32)], 0, combine(made.b, "add"))[0])
    made.store(made.b.reshape(moved, before))
    squares = made.b.compute("mul", made.offsets(before), made.offsets(before))
    made.store(made.b.reshape(squares, after))
    numbers = x.astype(np.int32).reshape(after)
    made.check(gpu, [*numbers.ravel(), *numbers.sum(0).ravel(), *numbers.ravel(), *np.arange(x.size) ** 2])


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1), (1, 0, 2)])
def test_transposed_and_repeated_blocks(gpu: vkcompute.Runtime, order: tuple[int, int, int]) -> None:
    """Loaded numbers and indices also change their shape afterwards."""
    x = integers(3, 1, 5)
    made = Program(x)
    for value in (made.load(), made.offsets((3, 1, 5))):
        block = made.b.permute(made.b.broadcast(value, (3, 6, 5)), order)
        made.store(block)
        made.store(made.b.reshape(block, (9, 10)))
    expected = [
        np.broadcast_to(item, (3, 6, 5)).transpose(order).ravel() for item in (x, np.arange(15).reshape(3, 1, 5))
    ]
    made.check(gpu, np.concatenate([expected[0], expected[0], expected[1], expected[1]]))


@pytest.mark.pure
def test_no_index_is_divided_anew_for_padded_elements() -> None:
    """The first two rows have the divisors 2 and 1; a third one, which the changed shape is padded by, would have 0."""
    made = Program(integers(2, 3))
    two, rows = made.full(2, (2, 3)), made.b.reshape(made.b.arange(0, 2), (2, 1))
    divisors = made.b.compute("sub", two, made.b.broadcast(rows, (2, 3)))
    made.store(made.b.reshape(made.b.compute("div", made.full(8, (2, 3)), divisors), (3, 2)))
    pad(made.function)
    assert [op.code for op in walk(made.function.body)].count("gather") == 1


def test_a_change_of_shape_of_a_repeated_index(gpu: vkcompute.Runtime) -> None:
    made = Program(integers(1))
    made.store(made.b.reshape(made.b.broadcast(made.b.arange(4, 5), (15,)), (5, 3)))
    made.check(gpu, [4] * 15)


@pytest.mark.parametrize(("shape", "axis"), AXES)
@pytest.mark.parametrize("n", [1, 5, 8])
def test_gathers(gpu: vkcompute.Runtime, shape: tuple[int, ...], axis: int, n: int) -> None:
    x = integers(*shape)
    wanted = tuple(n if at == axis else length for at, length in enumerate(shape))
    index = np.random.default_rng(n).integers(0, shape[axis], wanted).astype(np.int32)
    made = Program(x, index)
    made.store(made.b.gather(made.load(0), made.load(1), axis))
    made.check(gpu, np.take_along_axis(x, index, axis))


@pytest.mark.parametrize("shape", [(3, 4), (4, 6), (6, 8), (20,), (2, 3, 2)])
def test_mirrors(gpu: vkcompute.Runtime, shape: tuple[int, ...]) -> None:
    x = integers(*shape)
    made, expected = Program(x), []
    for mask in range(1, x.size & -x.size):
        made.store(made.b.mirror(made.load(), mask))
        expected.append(x.ravel()[np.arange(x.size) ^ mask])
    made.check(gpu, np.concatenate(expected))


# -- control flow and the host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [False, True])
def test_branches_and_loops_pass_blocks(gpu: vkcompute.Runtime, taken: bool) -> None:
    x, shape = integers(3, 5), (3, 5)
    made = Program(x, np.asarray([taken], np.int32))
    b = made.b
    flag = b.compute("ne", b.load_block(made.memories[1], b.const(0, INT32)), b.const(0, INT32))
    branch = b.if_(flag)
    with branch.then:
        b.yield_(b.reshape(made.load(), (5, 3)))
    with branch.otherwise:
        b.yield_(made.full(4, (5, 3)))
    loop = b.loop(branch.results[0], b.const(0, INT32))
    with loop.body:
        value, count = loop.params
        with b.if_(b.compute("eq", count, b.const(3, INT32))).then:
            b.break_(loop, b.reshape(value, shape), count)
        moved = b.reshape(b.permute(b.reshape(value, shape), (1, 0)), (5, 3))
        b.yield_(moved, b.compute("add", count, b.const(1, INT32)))
    made.store(loop.results[0])
    expected = x if taken else np.full(shape, 4)
    for _ in range(3):
        expected = expected.T.reshape(shape)
    made.check(gpu, expected)


@pytest.mark.pure
@pytest.mark.parametrize("masked", [False, True])
def test_each_element_is_reported_once(capsys: pytest.CaptureFixture[str], masked: bool) -> None:
    x = integers(3, 5)
    made = Program(x)
    mask = made.b.compute("gt", made.load(), made.full(0, x.shape)) if masked else None
    made.b.report("{3} {4}: {5}\n", [made.load()], mask)
    wanted = [f"{i} {j}: {x[i, j]}" for i, j in np.ndindex(3, 5) if not masked or x[i, j] > 0]
    for _ in range(2):
        memories = dict(zip(made.function.buffers, [x.ravel(), np.zeros(1, np.int32)], strict=True))
        tile.interpret(made.function, memories, {}, (1,))
        assert capsys.readouterr().out.splitlines() == wanted
        pad(made.function)


@pytest.mark.pure
def test_padded_operands_of_products_are_multiplied_by_cooperative_matrices() -> None:
    matrices = tile.target.MatrixShape(16, 16, 16, "float16", "float32")
    made = Program(np.zeros((12, 40), np.float16), np.zeros((40, 20), np.float16), out=FLOAT32)
    made.store(made.b.dot(made.load(0), made.load(1), made.full(0, (12, 20), FLOAT32)))
    target = tile.Target(32, 1024, 49152, stages=True, matrices=(matrices,))
    lowered = tile.lower(made.function, target).function
    ir.verify(lowered)
    assert [op.code for op in walk(lowered.body)].count("multiply_matrices") == 4


@pytest.mark.pure
def test_blocks_of_powers_of_two_are_left_as_they_are() -> None:
    made = Program(integers(4, 8))
    made.store(made.b.reduce([made.load()], 1, combine(made.b, "max"))[0])
    before = [(op.code, op.args) for op in walk(made.function.body)]
    pad(made.function)
    assert [(op.code, op.args) for op in walk(made.function.body)] == before


# -- errors of the builder --------------------------------------------------------------------------------------------


def first(x: Sequence[Value], _: Sequence[Value]) -> Sequence[Value]:
    return x


def filled(b: Builder, *shape: int) -> Value:
    return b.full(b.const(0, INT32), shape)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.store_block(x, filled(b, 6), filled(b, 5)), "store_block takes operands of one shape"),
        (lambda b, x: b.load_block(x, filled(b, 6), b.cast(filled(b, 5), ir.BOOL)), "load_block takes operands of one"),
        (lambda b, x: b.atomic_block("add", x, filled(b, 6), [filled(b, 5)]), "atomic_block takes operands of one"),
        (lambda b, x: b.reduce([filled(b, 6), filled(b, 5)], 0, first), "reduce takes operands of one shape"),
        (lambda b, x: b.reduce([filled(b, 6)], 3, first), r"reduce takes axes from 0 to 0 of int32\[6\]; got 3"),
        (lambda b, x: b.scan([filled(b, 6)], -1, first), "scan takes axes from 0 to 0"),
        (lambda b, x: b.permute(filled(b, 2, 3), (0, 0)), "permute takes each axis of .* once"),
        (lambda b, x: b.gather(filled(b, 3, 5), filled(b, 2, 3), 1), "gather takes indices of the block's shape but"),
    ],
)
def test_operands_of_unlike_shapes(build: Callable[..., object], message: str) -> None:
    function = ir.Function("unlike")
    with pytest.raises(ir.IrError, match=message):
        build(Builder(function), function.buffer("x", INT32))
