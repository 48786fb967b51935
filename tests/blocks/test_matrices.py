"""Products by cooperative matrices: their layouts and modules everywhere, their results where a device has them.

lavapipe has them from Mesa 26 on. Elsewhere the same programs multiply by other means.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute import ir, tile
from vkcompute.compiled.target import target_of
from vkcompute.ir import FLOAT16, FLOAT32, INT32, Value
from vkcompute.ir.function import walk
from vkcompute.ir.types import INT8
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Capability
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate
from vkcompute.tile.device import block_target, matrices_of
from vkcompute.tile.layout import blocked, log2
from vkcompute.tile.matrices import Slice, matrix_layout
from vkcompute.tile.target import MatrixShape

HALVES = MatrixShape(16, 16, 16, "float16", "float32")
BYTES = MatrixShape(16, 8, 32, "int8", "int32")
SMALL, FLAT = MatrixShape(8, 8, 8, "float16", "float32"), MatrixShape(16, 16, 8, "float16", "float32")
LIKE_NVIDIA = tile.Target(32, 1024, 49152, stages=True, matrices=(HALVES, BYTES))


@pytest.mark.pure
@given(
    shape=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([16, 32, 64, 128]), st.sampled_from([16, 32, 64, 256])),
    matrices=st.sampled_from([HALVES, BYTES, SMALL, FLAT]),
    n_lanes=st.integers(2, 6),
    n_groups=st.integers(0, 4),
)
def test_each_element_is_in_one_matrix_and_held_there(
    shape: tuple[int, int, int], matrices: MatrixShape, n_lanes: int, n_groups: int
) -> None:
    layout = matrix_layout(shape, matrices, n_lanes, n_lanes + n_groups)
    elements, n_columns = layout.elements, log2(shape[2])

    def of_thread(threads: tuple[int | None, ...], thread: int) -> int:
        return sum(1 << bit for at, bit in enumerate(threads) if bit is not None and thread >> at & 1)

    seen: dict[int, set[int]] = {}
    per_matrix = elements.n_registers // layout.n_registers
    for thread in range(1 << n_lanes + n_groups):
        for register in range(elements.n_registers):
            element = of_thread(elements.threads, thread) + elements.element(register)
            first = of_thread(layout.threads, thread) + layout.element(register // per_matrix)
            row, column = (element >> n_columns) - (first >> n_columns), element % shape[2] - first % shape[2]
            assert 0 <= row < matrices.rows
            assert 0 <= column < matrices.columns
            seen.setdefault(element, set()).add(thread >> n_lanes)
    assert len(seen) == math.prod(shape)
    n_tiles = math.prod(shape) // (matrices.rows * matrices.columns)
    assert all(len(groups) == max((1 << n_groups) // n_tiles, 1) for groups in seen.values())


@pytest.mark.pure
@given(
    shape=st.tuples(st.sampled_from([1, 2]), st.sampled_from([16, 32, 64]), st.sampled_from([16, 64, 128])),
    axis=st.sampled_from([-1, -2]),
    n=st.sampled_from([1, 2, 4]),
    n_threads=st.integers(2, 9),
    wide=st.booleans(),
)
def test_each_element_is_in_one_slice_and_at_its_place_there(
    shape: tuple[int, int, int], axis: int, n: int, n_threads: int, wide: bool
) -> None:
    """The number of the slice is in registers, or in invocations, or in both."""
    n_bits = sum(map(log2, shape))
    layout = blocked(n_bits, n_threads, 2 if wide else n_bits, 2)
    block, result = np.arange(math.prod(shape)).reshape(shape), dict[tuple[int, int], set[int]]()
    for number, expected in enumerate(np.split(block, n, axis)):
        part = Slice.of(shape, axis, number, n)
        assert 1 << part.n_columns == expected.shape[-1]
        inner = layout.mapped(part.kept)
        registers = [at for at in range(layout.n_registers) if part.has(layout.element(at), layout.registers)]
        assert len(registers) == inner.n_registers
        for thread in range(1 << n_threads):
            mine = sum(1 << bit for at, bit in enumerate(layout.threads) if bit is not None and thread >> at & 1)
            if not part.has(mine, layout.threads):
                continue
            place = sum(1 << bit for at, bit in enumerate(inner.threads) if bit is not None and thread >> at & 1)
            for at, register in enumerate(registers):
                element = mine + layout.element(register)
                assert expected.flat[place + inner.element(at)] == element
                result.setdefault((number, element), set()).add(thread)
    assert len(result) == math.prod(shape)
    assert len({element for _, element in result}) == math.prod(shape)


def product(element: ir.Scalar, sums: ir.Scalar, shape: tuple[int, int, int], n_steps: int = 4) -> tile.Builder:
    """Builds a product of matrices in `n_steps` steps."""
    rows, columns, inner = shape
    function = ir.Function("product")
    a, b, out = function.buffer("a", element), function.buffer("b", element), function.buffer("out", sums)
    c = tile.Builder(function)
    loop = c.loop(c.const(0, INT32), c.full(c.const(0, sums), (rows, columns)))
    with loop.body:
        step, total = loop.params
        with c.if_(c.compute("ge", step, c.const(n_steps, INT32))).then:
            c.break_(loop, total)
        left, right = (
            c.load_block(memory, c.compute("add", c.reshape(c.arange(0, math.prod(item)), item), c.full(step, item)))
            for memory, item in ((a, (rows, inner)), (b, (inner, columns)))
        )
        c.yield_(c.compute("add", step, c.const(1, INT32)), c.dot(left, right, total))
    c.store_block(out, c.reshape(c.arange(0, rows * columns), (rows, columns)), loop.results[0])
    return c


@pytest.mark.parametrize(
    ("element", "sums", "shape", "n_products"),
    [
        (FLOAT16, FLOAT32, (64, 64, 32), 8),  # 16 matrices of sums for four subgroups, in two steps
        (INT8, INT32, (64, 64, 32), 8),
        (FLOAT16, FLOAT32, (16, 16, 16), 1),
        (FLOAT16, FLOAT32, (8, 64, 32), 0),  # fewer rows than a matrix
        (FLOAT16, FLOAT16, (64, 64, 32), 0),  # sums of another type
        (FLOAT32, FLOAT32, (64, 64, 32), 0),
        (FLOAT16, FLOAT32, (128, 256, 64), 64),  # 128 matrices of sums for eight subgroups, in two slices of two steps
        (FLOAT16, FLOAT32, (128, 128, 128), 128),  # 64 for four, in four slices of two
    ],
)
def test_products_of_the_devices_types_and_shapes_are_of_matrices(
    element: ir.Scalar, sums: ir.Scalar, shape: tuple[int, int, int], n_products: int
) -> None:
    lowered = tile.lower(product(element, sums, shape).function, LIKE_NVIDIA).function
    ir.verify(lowered)
    codes = [op.code for op in walk(lowered.body)]
    assert codes.count("multiply_matrices") == n_products
    module = Module.parse(ir.lower(lowered).spirv)
    validate(module)
    assert sum(instruction.opcode == spv.OpCooperativeMatrixMulAddKHR for instruction in module.functions) == n_products
    capabilities = {instruction.operands[0] for instruction in module.capabilities}
    wanted = {Capability.CooperativeMatrixKHR, Capability.VulkanMemoryModel}
    assert capabilities & wanted == (wanted if n_products else set())


def test_operands_stay_out_of_workgroup_memory_if_no_slice_fits() -> None:
    lowered = tile.lower(product(FLOAT16, FLOAT32, (512, 512, 16)).function, LIKE_NVIDIA).function
    assert "multiply_matrices" not in {op.code for op in walk(lowered.body)}


class Generator:
    """Products of int8 beside other operations: what the sums begin as, and what becomes of them, is drawn."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.function = ir.Function("products")
        self.x, self.y = self.function.buffer("x", INT8), self.function.buffer("y", INT32)
        self.out, self.n = self.function.buffer("out", INT32), self.function.push("n", INT32)
        self.c, self.n_stored = tile.Builder(self.function), 0

    def run(self) -> ir.Function:
        stack = self._draw(st.sampled_from([(), (), (2,)]))
        rows, columns, inner = (self._draw(st.sampled_from([8, 16, 20, 31, 32])) for _ in range(3))
        sums = self._summed((*stack, rows, columns), (*stack, rows, inner), (*stack, inner, columns))
        self._store(sums)
        if self._draw(st.booleans()):  # they are an operand, too
            narrow = self.c.cast(self._changed(sums), INT8)
            more = self._load(self.x, (*stack, columns, inner))
            self._store(self.c.dot(narrow, more, self._load(self.y, (*stack, rows, inner))))
        return self.function

    def _summed(self, shape: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...]) -> Value:
        c = self.c
        zero = c.full(c.const(self._draw(st.integers(-3, 3)), INT32), shape)
        first = self._draw(st.sampled_from([zero, self._load(self.y, shape)]))
        loop = c.loop(c.const(0, INT32), first)
        with loop.body:
            step, total = loop.params
            with c.if_(c.compute("ge", step, self.n)).then:
                c.break_(loop, total)
            operands = [self._load(self.x, item, step) for item in (left, right)]
            total = self._changed(total) if self._draw(st.booleans()) else total
            total = c.dot(*operands, total)
            if self._draw(st.booleans()):
                total = self._changed(total)
            c.yield_(c.compute("add", step, c.const(1, INT32)), total)
        return loop.results[0]

    def _changed(self, value: Value) -> Value:
        c, shape = self.c, tile.types.shape_of(value.type)
        kind = self._draw(st.sampled_from(["row", "scale", "select", "reduce"]))
        if kind == "row":
            row = self._load(self.y, shape[-1:])
            return c.compute("add", value, c.broadcast(c.reshape(row, (*[1] * (len(shape) - 1), shape[-1])), shape))
        if kind == "scale":
            return c.compute("mul", value, c.full(c.const(3, INT32), shape))
        if kind == "select":
            return c.compute("max", value, self._load(self.y, shape))
        return c.compute("sub", value, c.compute("and", value, c.full(c.const(7, INT32), shape)))

    def _load(self, memory: ir.Memory, shape: tuple[int, ...], first: Value | None = None) -> Value:
        offsets = self.c.reshape(self.c.arange(0, math.prod(shape)), shape)
        start = self.c.const(4 * self._draw(st.integers(0, 30)), INT32)
        start = start if first is None else self.c.compute("add", start, first)
        return self.c.load_block(memory, self.c.compute("add", offsets, self.c.full(start, shape)))

    def _store(self, value: Value) -> None:
        shape = tile.types.shape_of(value.type)
        offsets = self.c.reshape(self.c.arange(0, math.prod(shape)), shape)
        place = self.c.full(self.c.const(self.n_stored, INT32), shape)
        self.c.store_block(self.out, self.c.compute("add", offsets, place), value)
        self.n_stored += math.prod(shape)


N_INPUT = 2 * 32 * 32 + 128


@pytest.mark.parametrize(("element", "sums"), [(INT8, INT32), (FLOAT16, FLOAT32)])
@pytest.mark.parametrize("shape", [(32, 32, 256), (16, 128, 128), (128, 16, 64)])
def test_sliced_operands(gpu: vc.Runtime, element: ir.Scalar, sums: ir.Scalar, shape: tuple[int, int, int]) -> None:
    if not matrices_of(gpu):
        pytest.skip("without cooperative matrices, the product takes minutes to compile")
    rows, columns, inner = shape
    random = np.random.default_rng(rows)
    left, right = (
        random.integers(-8, 8, item).astype(element.numpy) for item in (rows * inner + 4, inner * columns + 4)
    )
    wanted = sum(
        left[n:][: rows * inner].reshape(rows, inner).astype(np.int32)
        @ right[n:][: inner * columns].reshape(inner, columns).astype(np.int32)
        for n in range(4)
    )
    target = block_target(gpu)._replace(stages=True, matrices=matrices_of(gpu), own_elements=1, shared_nbytes=16384)
    lowered = tile.lower(product(element, sums, shape).function, target)
    arrays = [gpu.array(left), gpu.array(right), gpu.zeros((rows, columns), sums.numpy)]
    try:
        module = ir.lower(ir.optimize(lowered.function), target_of(gpu))
        kernel = gpu.kernel(module.spirv, name="products", check_types=False)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    kernel(*arrays, *[arrays[at] for at in lowered.aliases], grid=(1,))
    np.testing.assert_array_equal(arrays[2].numpy(), wanted)


@pytest.mark.rotates
@settings(max_examples=max(1, settings().max_examples // 4))  # SwiftShader compiles each for seconds
@given(st.data(), st.integers(0, 3), st.sampled_from([1, 2, 4, 8]))
def test_products_of_bytes_are_exact(gpu: vc.Runtime, data: st.DataObject, n: int, n_warps: int) -> None:
    made = Generator(data)
    function = made.run()
    random = np.random.default_rng(n)
    bytes_, words = random.integers(-128, 128, N_INPUT).astype(np.int8), random.integers(-99, 99, N_INPUT, np.int32)
    wanted: Any = np.zeros(made.n_stored, np.int32)
    with np.errstate(all="ignore"):
        tile.interpret(function, {made.x: bytes_, made.y: words, made.out: wanted}, {made.n: n}, (1,))
    target = block_target(gpu)._replace(stages=True, matrices=matrices_of(gpu), own_elements=1)
    lowered = tile.lower(function, target, n_warps=n_warps)
    ir.verify(lowered.function)
    arrays = [gpu.array(bytes_), gpu.array(words), gpu.zeros(made.n_stored, np.int32)]
    try:
        module = ir.lower(ir.optimize(lowered.function), target_of(gpu))
        kernel = gpu.kernel(module.spirv, name="products", check_types=False)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    kernel(*arrays, *[arrays[at] for at in lowered.aliases], n, grid=(1,))
    np.testing.assert_array_equal(arrays[2].numpy(), wanted)


@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 70, 130), (2, 2, 2), (1, 40, 40), (16, 16, 1000), (300, 5, 64)])
def test_arrays_of_float16_are_multiplied_in_float32(like_a_gpu: vc.Runtime, shape: tuple[int, int, int]) -> None:
    rows, columns, inner = shape
    random = np.random.default_rng(rows)
    hosts = [random.standard_normal(item).astype(np.float16) for item in ((rows, inner), (inner, columns))]
    bias = random.standard_normal(columns).astype(np.float16)
    try:
        a, b = map(like_a_gpu.array, hosts)
        result, more = a @ b, vc.nn.linear(a, b.T, like_a_gpu.array(bias), "relu")
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    exact = hosts[0].astype(np.float64) @ hosts[1].astype(np.float64)
    rounding = np.finfo(np.float16).eps / 2 * np.abs(exact)
    sums = np.finfo(np.float32).eps * inner * (np.abs(hosts[0]).astype(np.float64) @ np.abs(hosts[1]))
    assert (np.abs(result.numpy() - exact) <= rounding + sums).all()
    rest = np.finfo(np.float16).eps / 2 * np.abs(exact + bias) + sums + 1e-6
    assert (np.abs(more.numpy() - np.maximum(exact + bias, 0)) <= rest).all()
    assert result.dtype == more.dtype == np.float16
