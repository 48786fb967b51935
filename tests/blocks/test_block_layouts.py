"""Layouts: arithmetic on the bits of elements, without a driver."""

from __future__ import annotations

import numpy as np
import pytest
from barriers import check_barriers
from hypothesis import given
from hypothesis import strategies as st

from vkcompute import ir, tile
from vkcompute.ir.function import walk
from vkcompute.spirv.enums import Decoration
from vkcompute.spirv.module import Module
from vkcompute.spirv.validation import validate
from vkcompute.tile.layout import Layout, blocked, broadcast_bits, permuted_bits, without_axis
from vkcompute.tile.workgroup_memory import LoweringError, WorkgroupMemory

pytestmark = pytest.mark.pure


def elements(layout: Layout) -> np.ndarray:
    """The element that each invocation holds in each register."""
    result = np.zeros((1 << len(layout.threads), layout.n_registers), int)
    for thread in range(result.shape[0]):
        own = sum(1 << bit for at, bit in enumerate(layout.threads) if bit is not None and thread >> at & 1)
        result[thread] = [own | layout.element(register) for register in range(layout.n_registers)]
    return result


@given(st.integers(0, 10), st.integers(0, 8), st.integers(0, 3))
def test_a_blocked_layout_holds_each_element(n_bits: int, n_threads: int, adjacent: int) -> None:
    layout = blocked(n_bits, n_threads, adjacent)
    held = elements(layout)
    owners = held[[thread for thread in range(len(held)) if not thread & layout.duplicates]]
    assert sorted(owners.ravel()) == list(range(1 << n_bits))
    if n_bits >= n_threads + adjacent and adjacent:
        assert (np.diff(held[:, : 1 << adjacent], axis=1) == 1).all()


SHAPES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda logs: tuple(1 << n for n in logs))


@given(SHAPES, st.data())
def test_operands_of_changes_of_shape(shape: tuple[int, ...], data: st.DataObject) -> None:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    check(numbers.transpose(order).ravel(), permuted_bits(shape, order))
    wide = tuple(data.draw(st.sampled_from([2, 4])) if n == 1 else n for n in shape)
    check(np.broadcast_to(numbers, wide).ravel(), broadcast_bits(shape, wide))


def check(sources: np.ndarray, bits: list[int | None]) -> None:
    """Compares the operand's layout and registers with the element of the operand for each of the result."""
    n_bits = len(bits)
    layout = blocked(n_bits, 2)
    held = elements(layout.mapped(bits))
    wanted = sources[elements(layout)]
    np.testing.assert_array_equal(held[:, list(layout.sources(bits))], wanted)


@given(SHAPES, st.data())
def test_reduced_axes_leave_the_bits_of_the_others(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    bits = without_axis(shape, axis)
    rest = np.arange(np.prod(shape) // shape[axis]).reshape(*shape[:axis], 1, *shape[axis + 1 :])
    wanted = np.broadcast_to(rest, shape).ravel()
    for number, result in enumerate(wanted):
        assert result == sum(1 << bit for at, bit in enumerate(bits) if bit is not None and number >> at & 1)


def test_mirrors_of_low_bits_stay_in_registers() -> None:
    """Sorting networks have most of them there."""
    function = ir.Function("mirrors")
    x = function.buffer("x", ir.INT32)
    b = tile.Builder(function)
    at = b.arange(0, 256)
    value = b.load_block(x, at)
    for bit in range(3):
        value = b.compute("min", value, b.mirror(value, 1 << bit))
    b.store_block(x, at, value)
    lowered = tile.lower(function, tile.Target(), n_warps=1)
    assert lowered.function.local_size == (32, 1, 1)
    assert not {"subgroup", "barrier"} & {op.code for op in walk(lowered.function.body)}


@pytest.mark.parametrize(("n", "n_threads"), [(1 << 14, 128), (1 << 15, 128), (1 << 17, 512)])
def test_an_invocation_holds_a_part_of_a_large_block(n: int, n_threads: int) -> None:
    function = ir.Function("sums")
    x, b = function.buffer("x", ir.FLOAT32), tile.Builder(function)
    (total,) = b.reduce([b.load_block(x, b.arange(0, n))], 0, lambda one, other: [b.compute("add", one[0], other[0])])
    b.store_block(x, b.const(0, ir.INT32), total)
    assert tile.lower(function, tile.Target(max_invocations=1024), n_warps=4).function.local_size == (n_threads, 1, 1)


def test_exchanges_take_turns_in_workgroup_memory() -> None:
    function = ir.Function("gathers")
    x, y = function.buffer("x", ir.INT32), function.buffer("y", ir.FLOAT32)
    b = tile.Builder(function)
    for n in (256, 512, 128):
        at = b.arange(0, n)
        for memory in (x, y):
            b.store_block(memory, at, b.gather(b.load_block(memory, at), at, 0))
    lowered = tile.lower(function, tile.Target(), n_warps=4).function
    ir.verify(lowered)
    assert [(each.element, each.length) for each in lowered.shared_memory] == [(ir.UINT32, 512)]


def several_exchanges() -> ir.Function:
    """A product of float32, and gathers of int32 and float64, together and apart."""
    function = ir.Function("exchanges")
    x, out = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32)
    wide = function.buffer("wide", ir.FLOAT64)
    b = tile.Builder(function)
    rows, columns = (b.reshape(b.arange(0, 512), shape) for shape in ((64, 8), (8, 64)))
    sums = b.dot(b.load_block(x, rows), b.load_block(x, columns), b.full(b.const(0, ir.FLOAT32), (64, 64)))
    b.store_block(out, b.reshape(b.arange(0, 4096), (64, 64)), sums)
    at = b.arange(0, 256)
    back = b.compute("sub", b.full(b.const(255, ir.INT32), (256,)), at)
    for memory in (wide, x):
        b.store_block(memory, at, b.gather(b.load_block(memory, at), back, 0))
    return function


@pytest.mark.parametrize(("overlays", "nbytes"), [(True, 4096), (False, 4096 + 2048 + 1024)])
def test_arrays_of_several_types_take_turns_where_they_can(*, overlays: bool, nbytes: int) -> None:
    target = tile.Target(shared_nbytes=16384, stages=True, overlays=overlays)
    lowered = tile.lower(several_exchanges(), target).function
    check_barriers(lowered)
    assert sorted(str(memory.type) for memory in lowered.shared_memory) == ["float64", "uint32", "uint32x4"]
    kernel = ir.lower(lowered)
    validate(Module.parse(kernel.spirv))
    assert kernel.interface.workgroup_memory.effective({}) == nbytes
    assert ("SPV_KHR_workgroup_memory_explicit_layout" in kernel.interface.extensions) == overlays


def test_an_exchange_that_does_not_fit() -> None:
    for overlays, left in ((True, 4096 - 3072), (False, 4096 - 3072 - 512)):
        memory = WorkgroupMemory(ir.Function("exchange"), 4096, overlays=overlays, packs=False)
        memory.array(ir.FLOAT64, 64)
        memory.free()
        assert memory.array(ir.UINT32, 512).first == 0
        assert memory.array(ir.UINT32, 256).first == 512
        with pytest.raises(LoweringError, match=f"exchanges 2048 bytes .* {left} of 4096 bytes .* smaller blocks"):
            memory.array(ir.UINT32, 512)


@pytest.mark.parametrize(
    ("kinds", "n", "overlays", "together"),
    [
        ([ir.FLOAT32], 64, True, (64, 4)),  # all of the memory
        ([ir.FLOAT32], 64, False, (32, 4)),  # half of it: other arrays fit beside
        ([ir.FLOAT16, ir.INT32], 64, False, (16, 4)),
        ([ir.FLOAT32], 6, False, (6, 1)),
        ([ir.FLOAT32], 33, False, (33, 1)),  # of 17 rows that share vectors, the second part would have 16
        ([ir.INT64], 64, False, (32, 1)),
    ],
)
def test_rows_that_pass_together(kinds: list[ir.Scalar], n: int, *, overlays: bool, together: tuple[int, int]) -> None:
    memory = WorkgroupMemory(ir.Function("exchange"), 4096, overlays=overlays, packs=True)
    assert memory.rows_together(kinds, n, 16, packs=True) == together
    memory.rows(kinds, together[0], 16, together[1])
    plain = WorkgroupMemory(ir.Function("exchange"), 4096, overlays=overlays, packs=False)
    assert plain.rows_together(kinds, n, 16, packs=True)[1] == 1
    assert memory.rows_together(kinds, n, 16, packs=False)[1] == 1


@pytest.mark.parametrize(("counts", "types"), [(False, ["uint32x4"]), (True, ["uint32"])])
def test_rows_share_vectors_where_no_exchange_needs_all_memory(*, counts: bool, types: list[str]) -> None:
    function = ir.Function("mirrors")
    x = function.buffer("x", ir.INT32)
    b = tile.Builder(function)
    at = b.arange(0, 1024)
    value = b.load_block(x, at)
    b.store_block(x, at, b.mirror(value, 1023))
    if counts:
        b.store_block(x, b.arange(0, 4096), b.histogram(value, 4096, None))
    lowered = tile.lower(function, tile.Target(8, own_elements=64, shared_nbytes=16384), n_warps=1).function
    check_barriers(lowered)
    assert [str(memory.type) for memory in lowered.shared_memory] == types


def test_parts_of_different_types_have_no_bytes_in_common() -> None:
    memory = WorkgroupMemory(ir.Function("exchange"), 4096, overlays=True, packs=False)
    parts = [memory.array(*item) for item in ((ir.FLOAT16, 3), (ir.FLOAT64, 5), (ir.UINT32, 1, 4), (ir.UINT32, 2))]
    assert [part.first * part.memory.type.bits // 8 for part in parts] == [0, 16, 64, 80]


def test_workgroup_memory_beside_what_shares_its_bytes() -> None:
    """An array that begins elsewhere follows all others."""
    function = ir.Function("arrays")
    out = function.buffer("out", ir.UINT32)
    arrays = [function.shared(str(n), kind, n) for n, kind in ((5, ir.UINT32), (3, ir.UINT64), (2, ir.UINT32))]
    function.aliased = frozenset(arrays[:2])
    b = ir.Builder(function)
    for array in arrays:
        b.store(array, b.const(0, ir.UINT32), b.const(1, array.type))
    b.barrier()
    b.store(out, b.const(0, ir.UINT32), b.load(arrays[2], b.const(0, ir.UINT32)))
    kernel = ir.lower(function)
    module = Module.parse(kernel.spirv)
    validate(module)
    offsets = [
        instruction.operands[3]
        for instruction in module.annotations
        if instruction.operands[2:3] == (Decoration.Offset,)
    ]
    assert sorted(offsets) == [0, 0, 0, 32]  # that of the buffer is the first


def test_failures_take_as_many_branches_for_any_number_of_elements() -> None:
    """With some per element, lavapipe takes minutes to compile an access of 512 elements."""
    counts = set()
    for n in (64, 1024):
        function = ir.Function("checks")
        stop, b = function.push("stop", ir.INT32), tile.Builder(function)
        at = b.arange(0, n)
        b.report("element {3}", [at], b.compute("ge", at, b.full(stop, (n,))), fails=True)
        lowered = tile.lower(function, tile.Target(own_elements=128), n_warps=4).function
        counts.add([op.code for op in walk(lowered.body)].count("if"))
    assert len(counts) == 1


@pytest.mark.parametrize(("kind", "n_invocations"), [("once", 32), ("again", 8), ("loop", 8), ("sum", 8)])
def test_few_elements_per_invocation_where_no_barrier_is_saved(kind: str, n_invocations: int) -> None:
    """Of 128 elements, a CPU's driver compiles random numbers for 2.3 s; of 32 for 0.3 s."""
    function = ir.Function("elements")
    x, y = function.buffer("x", ir.INT32), function.buffer("y", ir.INT32)
    b = tile.Builder(function)
    at = b.arange(0, 1024)

    def doubled() -> None:
        value = b.load_block(x, at)
        b.store_block(y, at, b.compute("add", value, value))

    if kind == "loop":
        loop = b.loop()
        with loop.body:
            doubled()
            branch = b.if_(b.compute("gt", b.load_block(y, b.const(0, ir.INT32)), b.const(9, ir.INT32)))
            with branch.then:
                b.break_(loop)
            b.yield_()
    else:
        doubled()
    if kind == "again":
        b.store_block(y, at, b.load_block(y, at))
    if kind == "sum":
        (total,) = b.reduce([b.load_block(x, at)], 0, lambda one, other: [b.compute("add", one[0], other[0])])
        b.store_block(y, b.const(0, ir.INT32), total)
    lowered = tile.lower(function, tile.Target(own_elements=128), n_warps=4).function
    assert lowered.local_size == (n_invocations, 1, 1)


@pytest.mark.parametrize(("n", "n_invocations"), [(2048, 16), (4096, 128), (8192, 256)])
def test_long_sorts_have_few_elements_per_invocation(n: int, n_invocations: int) -> None:
    """Of 128 elements, a CPU's driver compiles a sort of 4,096 for 7 s; of 32 for 3 s."""
    function = ir.Function("sort")
    x = function.buffer("x", ir.INT32)
    b = tile.Builder(function)
    at = b.arange(0, n)
    value = b.load_block(x, at)
    bits = n.bit_length() - 1
    for bit in [bit for stage in range(bits) for bit in reversed(range(stage + 1))]:
        value = b.compute("min", value, b.mirror(value, 1 << bit))
    b.store_block(x, at, value)
    lowered = tile.lower(function, tile.Target(8, own_elements=128, max_invocations=1024), n_warps=4).function
    assert lowered.local_size == (n_invocations, 1, 1)


@pytest.mark.parametrize("first", [True, False])
def test_exchanges_of_a_branch_wait_for_those_before_it(*, first: bool) -> None:
    """One branch has a barrier and no exchange, the other an exchange."""
    function = ir.Function("branches")
    x, y, n = function.buffer("x", ir.INT32), function.buffer("y", ir.INT32), function.push("n", ir.INT32)
    b = tile.Builder(function)
    at = b.arange(0, 256)
    back = b.compute("sub", b.full(b.const(255, ir.INT32), (256,)), at)

    def exchange() -> None:
        b.store_block(y, at, b.gather(b.load_block(x, at), back, 0))

    exchange()
    branch = b.if_(b.compute("lt", n, b.const(3, ir.INT32)))
    with branch.then if first else branch.otherwise:
        b.store_block(y, at, b.load_block(y, back))
        b.load_block(y, back)  # after a barrier
    with branch.otherwise if first else branch.then:
        exchange()
    exchange()
    lowered = tile.lower(function, tile.Target(), n_warps=4).function
    ir.verify(lowered)
    check_barriers(lowered)


@pytest.mark.parametrize(
    ("n", "code"),
    [(8, "subgroup_barrier"), (64, "barrier")],
)
def test_a_workgroup_of_one_subgroup_waits_for_that(n: int, code: str) -> None:
    """The program stores what other invocations have loaded."""
    function = ir.Function("reversal")
    x, b = function.buffer("x", ir.INT32), tile.Builder(function)
    at = b.arange(0, n)
    b.store_block(x, b.compute("sub", b.full(b.const(n - 1, ir.INT32), (n,)), at), b.load_block(x, at))
    lowered = tile.lower(function, tile.Target(subgroup_size=8), n_warps=4).function
    ir.verify(lowered)
    ops = [op.code for op in walk(lowered.body)]
    assert {"barrier", "subgroup_barrier"}.intersection(ops) == {code}
    assert ops.index("load") < ops.index(code) < ops.index("store")


@pytest.mark.parametrize(("shared_nbytes", "stages"), [(2 * (8 + 8) * 64 * 4, True), (1024, False)])
def test_operands_of_products_pass_through_half_of_workgroup_memory(shared_nbytes: int, stages: bool) -> None:
    function = ir.Function("product")
    x, out = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32)
    b = tile.Builder(function)
    rows, columns = (b.reshape(b.arange(0, 512), shape) for shape in ((64, 8), (8, 64)))
    sums = b.dot(b.load_block(x, rows), b.load_block(x, columns), b.full(b.const(0, ir.FLOAT32), (64, 64)))
    b.store_block(out, b.reshape(b.arange(0, 4096), (64, 64)), sums)
    lowered = tile.lower(function, tile.Target(shared_nbytes=shared_nbytes, stages=True)).function
    ir.verify(lowered)
    assert [(memory.nbytes, memory.lanes) for memory in lowered.shared_memory] == ([(4096, 4)] if stages else [])


def test_conditions_of_rows_and_of_groups_of_columns_need_no_loop_for_parts_of_groups() -> None:
    function = ir.Function("copy")
    x, out = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32)
    n_rows, n_columns = (function.push(name, ir.INT32) for name in ("n_rows", "n_columns"))
    b = tile.Builder(function)
    fours = b.compute("lt", b.arange(0, 8), b.full(n_columns, (8,)))
    columns = b.broadcast(b.reshape(b.broadcast(b.reshape(fours, (8, 1)), (8, 4)), (1, 32)), (8, 32))
    rows = b.compute("lt", b.arange(0, 8), b.full(n_rows, (8,)))
    inside = b.compute("and", b.broadcast(b.reshape(rows, (8, 1)), (8, 32)), columns)
    at = b.reshape(b.arange(0, 256), (8, 32))
    b.store_block(out, at, b.load_block(x, at, inside), inside)
    lowered = tile.lower(function, tile.Target(), n_warps=1, wide=[x, out])
    assert lowered.aliases == (0, 1)
    assert "loop" not in {op.code for op in walk(lowered.function.body)}


@pytest.mark.parametrize("own_elements", [1, 128])
def test_chains_of_operations_are_computed_element_by_element_on_cpus(own_elements: int) -> None:
    """No more results are alive at a time than an element has; a CPU has 16 registers, and 128 elements."""
    function = ir.Function("chain")
    x, out = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32)
    b = tile.Builder(function)
    at = b.arange(0, 1024)
    value = b.load_block(x, at)
    loop = b.loop(b.full(b.const(0, ir.FLOAT32), (1024,)))
    with loop.body:
        (total,) = loop.params
        branch = b.if_(b.compute("gt", b.load_block(x, b.const(0, ir.INT32)), b.const(9, ir.FLOAT32)))
        with branch.then:
            b.break_(loop, total)
        square = b.compute("mul", b.compute("sub", value, total), value)
        b.yield_(b.compute("add", total, square))
    b.store_block(out, at, loop.results[0])
    lowered = tile.lower(function, tile.Target(8, own_elements=own_elements), n_warps=1).function
    ir.verify(lowered)
    (body,) = [op.regions[0] for op in walk(lowered.body) if op.code == "loop"]
    codes = [op.code for op in body.ops if op.code in ("sub", "mul", "add") and op.type == ir.FLOAT32]
    n = len(codes) // 3
    assert codes == (["sub", "mul", "add"] * n if own_elements > 1 else ["sub"] * n + ["mul"] * n + ["add"] * n)


@pytest.mark.parametrize(("n", "wide", "n_loads"), [(16, True, 1), (32, True, 1), (16, False, 16)])
def test_lanes_that_need_the_same_elements_load_four_each(n: int, n_loads: int, *, wide: bool) -> None:
    """Where a CPU's driver loads texels, each load is a call."""
    function = ir.Function("rows")
    x, out, first = function.buffer("x", ir.FLOAT32), function.buffer("out", ir.FLOAT32), function.push("n", ir.INT32)
    b = tile.Builder(function)
    given = b.load_block(
        x, b.compute("add", b.full(b.compute("shl", first, b.const(2, ir.INT32)), (n,)), b.arange(0, n))
    )
    (total,) = b.reduce(
        [b.broadcast(b.reshape(given, (n, 1)), (n, 32))], 0, lambda one, other: [b.compute("sub", one[0], other[0])]
    )
    b.store_block(out, b.arange(0, 32), total)
    target = tile.Target(8, own_elements=128, texels=True)
    lowered = tile.lower(function, target, n_warps=1, wide=[x] if wide else ()).function
    ir.verify(lowered)
    codes = [op.code for op in walk(lowered.body)]
    assert sum(code in ("load", "load_vector") for code in codes) == n_loads
    assert codes.count("subgroup") == (n if n_loads == 1 else 0)
