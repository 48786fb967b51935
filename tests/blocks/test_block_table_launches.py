"""Launches with tables of pointers: their order, the memory of the arrays, graphs, plans and errors."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from block_programs import gathered, grouped_matmul
from runtimes import lacks, needs_bindings, open_runtime

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.blocks.launching.table_memory import memories_of
from vkcompute.core.lifetime import live_counts
from vkcompute.runtime.memory import window

# -- order ------------------------------------------------------------------------------------------------------------


@triton.jit
def add_one(x_ptrs, n, N: tl.constexpr):
    pointer = tl.load(x_ptrs + tl.program_id(0)).to(tl.pointer_type(tl.float32)) + tl.arange(0, N)
    tl.store(pointer, tl.load(pointer, mask=tl.arange(0, N) < n) + 1, mask=tl.arange(0, N) < n)


@pytest.mark.parametrize("options", [{}, {"timelines": 3}, {"timelines": (2, 1), "staging": True}])
def test_launches_are_ordered_with_all_uses_of_the_arrays(options: dict[str, Any]) -> None:
    with open_runtime(**options) as gpu:
        _launch_on_arrays_in_use(gpu)


def _launch_on_arrays_in_use(gpu: vkcompute.Runtime) -> None:
    arrays, expected = [gpu.zeros(100) for _ in range(6)], np.zeros((6, 100))
    tables = [(picked, triton.PointerTable([arrays[at] for at in picked])) for picked in ([0, 1, 2], [2, 5], [4, 0])]
    random = np.random.default_rng(0)
    for step in range(60):
        picked, table = tables[step % 3]
        add_one[(len(picked),)](table, 100, N=128)
        expected[picked] += 1
        at, other = random.integers(0, 6, 2)
        match step % 4:
            case 0:
                arrays[at].write(np.full(100, step, np.float32))
                expected[at] = step
            case 1 if at != other:
                arrays[at].copy_from(arrays[other])
                expected[at] = expected[other]
            case 2:
                arrays[at][...] = arrays[at] * 2
                expected[at] *= 2
            case _:
                np.testing.assert_array_equal(arrays[at].numpy(), expected[at])
    np.testing.assert_array_equal([array.numpy() for array in arrays], expected)


@triton.jit
def fill(x_ptrs, lengths_ptr, value, N: tl.constexpr):
    g, at = tl.program_id(0), tl.arange(0, N)
    tl.store(tl.load(x_ptrs + g).to(tl.pointer_type(tl.uint8)) + at, value, mask=at < tl.load(lengths_ptr + g))


@pytest.mark.parametrize("options", [{}, {"timelines": 3}, {"timelines": (2, 1), "staging": True}])
def test_launches_on_neighbours_of_a_word(options: dict[str, Any]) -> None:
    """A device without 8-bit storage stores whole words, which the host and copies may write, too."""
    with open_runtime(**options) as gpu:
        host = np.arange(64, dtype=np.uint8)
        base, lengths = gpu.array(host), gpu.array(np.int32([3, 5, 1, 16]))
        picked = [slice(1, 4), slice(4, 9), slice(13, 14), slice(31, 47)]
        table = triton.PointerTable([base[item] for item in picked])
        others = [slice(0, 1), slice(9, 13), slice(14, 15), slice(30, 31), slice(47, 48)]
        for step in range(30):
            fill[(4,)](table, lengths, step, N=16)
            at = others[step % 5]
            base[at].fill(100 + step)
            host[at] = 100 + step
            for each in picked:
                host[each] = step
        np.testing.assert_array_equal(base.numpy(), host)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_copies_of_tables_have_arrays_of_their_own(gpu: vkcompute.Runtime, copied: Any) -> None:
    table = triton.PointerTable([gpu.zeros(10), gpu.zeros(20)])
    add_one[(2,)](table, 10, N=16)
    other = copied(table)
    add_one[(2,)](other, 10, N=16)
    assert [array.numpy()[0] for array in (*table.arrays, *other.arrays)] == [1, 1, 2, 2]


@pytest.mark.every_driver
def test_a_launch_owns_the_words_of_all_arrays_that_it_writes(gpu: vkcompute.Runtime) -> None:
    base, lengths = gpu.zeros(64, np.uint8), gpu.array(np.int32([3, 5, 1]))
    table = triton.PointerTable([base[1:4], base[5:10], base[17:18]])
    kernel = fill.kernel(table, lengths, 1, N=16, grid=(3,))
    ((rows, (window,), *_),) = memories_of([table], 1)
    writes, _ = kernel.ranges_among([rows, lengths, window])
    words = [(0, 4), (4, 12), (16, 20)] if lacks(gpu, "uint8", in_shaders=True) else [(0, 4), (5, 10), (17, 18)]
    assert [(start, stop) for _, start, stop in writes] == words


@triton.jit
def through_both(x_ptrs, x_ptr, out_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, N)
    other = N - 1 - at if REVERSE else at
    pointer = tl.load(x_ptrs + 1).to(tl.pointer_type(tl.float32))
    for _ in range(3):
        tl.store(pointer + at, tl.load(x_ptr + other) * 2 + 1)
    tl.store(out_ptr + at, tl.load(x_ptr + other))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [8, 64, 1024])
def test_an_array_of_a_table_that_is_an_argument_too(
    machine: vkcompute.Runtime | None, n: int, *, reverse: bool
) -> None:
    needs_bindings(machine, 5)
    gpu, host = machine, np.arange(n, dtype=np.float32)
    x, y, out = (host.copy() if gpu is None else gpu.array(host) for _ in range(3))
    program = through_both.interpret if gpu is None else through_both
    program[(1,)](triton.PointerTable([y, x]), x, out, N=n, REVERSE=reverse)
    for _ in range(3):
        host = (host[::-1] if reverse else host) * 2 + 1
    assert np.array_equal(x if gpu is None else x.numpy(), host)
    assert np.array_equal(out if gpu is None else out.numpy(), host[::-1] if reverse else host)


@triton.jit
def between_tables(x_ptrs, y_ptrs, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptrs).to(tl.pointer_type(tl.float32)), tl.load(y_ptrs).to(tl.pointer_type(tl.float32))
    for _ in range(3):
        tl.store(y + at, tl.load(x + (N - 1 - at)) * 2 + 1)


@pytest.mark.parametrize("split", [False, True])
def test_tables_with_arrays_that_overlap(
    gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch, *, split: bool
) -> None:
    needs_bindings(gpu, 4)
    if split:
        monkeypatch.setattr(window, "_MOST_ELEMENTS", 256)
    host = np.arange(384, dtype=np.float32)
    x = gpu.array(host)
    tables = triton.PointerTable([x[:256], x[128:]]), triton.PointerTable([x[128:], x[:256]])
    between_tables[(1,)](*tables, N=256)
    for _ in range(3):
        host[128:] = host[:256][::-1] * 2 + 1
    np.testing.assert_array_equal(x.numpy(), host)


def test_lazy_arrays_of_a_table(gpu: vkcompute.Runtime) -> None:
    x = gpu.array(np.arange(64, dtype=np.float32))
    table = triton.PointerTable([x, x + 1])
    before = x * 10  # reads x as it is now
    add_one[(2,)](table, 64, N=64)
    np.testing.assert_array_equal(before.numpy(), np.arange(64) * 10)
    np.testing.assert_array_equal([array.numpy() for array in table.arrays], np.arange(64) + np.array([[1], [2]]))


def test_failed_launches_fail_reads_of_all_arrays(gpu: vkcompute.Runtime) -> None:
    needs_bindings(gpu, 8)
    table, out = triton.PointerTable([gpu.zeros(16), gpu.zeros(8)]), triton.PointerTable([gpu.zeros(16), gpu.zeros(8)])
    failing[(1,)](table, out)
    for array in out.arrays:
        with pytest.raises(vkcompute.KernelError, match="accesses element 8 of array 1 of in_ptrs"):
            array.numpy()
    assert table.arrays[0].tolist() == [0] * 16


@triton.jit(debug=True)
def failing(in_ptrs, out_ptrs):
    at = tl.arange(0, 16)
    for g in range(2):
        x = tl.load(tl.load(in_ptrs + g).to(tl.pointer_type(tl.float32)) + at)
        tl.store(tl.load(out_ptrs + g).to(tl.pointer_type(tl.float32)) + at, x, mask=at < 8)


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clean_handles")
def test_a_table_keeps_the_memory_of_its_arrays() -> None:
    with open_runtime() as gpu:
        needs_bindings(gpu, 4)
        out, first = gpu.zeros(64), gpu.array(np.full(64, 5, np.float32))
        table = triton.PointerTable([first, gpu.array(np.full(64, 7, np.float32)), out])
        add_one[(3,)](table, 64, N=64)
        first.close()
        del first
        gc.collect()
        filler = [gpu.zeros(64) for _ in range(20)]
        add_one[(3,)](table, 64, N=64)
        gathered[(1,)](table, gpu.array(np.int32([0, 1])), gpu.zeros(2, np.int32), out, 2, DTYPE=tl.float32, N=8)
        assert out.tolist() == [7] * 8 + [9] * 8 + [2] * 48
        before = live_counts()["Buffer"]
        del table
        gc.collect()
        assert before - live_counts()["Buffer"] == 3  # the first two arrays, and the rows of the table
        assert not any(array.numpy().any() for array in filler)


@pytest.mark.usefixtures("clean_handles")
def test_a_table_outlives_its_runtime() -> None:
    with open_runtime() as gpu:
        table = triton.PointerTable([gpu.zeros(8)])
        add_one[(1,)](table, 8, N=8)
    with pytest.raises(vkcompute.ClosedError):
        add_one[(1,)](table, 8, N=8)


def test_a_closed_array(gpu: vkcompute.Runtime) -> None:
    x = gpu.zeros(8)
    table = triton.PointerTable([gpu.zeros(8), x])
    x.close()
    with pytest.raises(vkcompute.ClosedError):
        add_one[(2,)](table, 8, N=8)


@triton.jit
def add_to_all(x_ptrs, y_ptr, z_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pointer = tl.load(x_ptrs + tl.program_id(0)).to(tl.pointer_type(tl.float32)) + at
    tl.store(pointer, tl.load(pointer) + tl.load(y_ptr + at) + tl.load(z_ptr + at))


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_graphs(gpu: vkcompute.Runtime) -> None:
    arrays, result = [gpu.zeros(128) for _ in range(3)], gpu.empty(128)
    table = triton.PointerTable(arrays)
    with gpu.record(z=gpu.zeros(128)) as graph:
        z = graph["z"]
        scaled = z * 2
        add_to_all[(3, 1)](table, z, scaled, BLOCK=128)
        add_one[(3,)](table, 128, N=128)
        result[...] = arrays[0] + arrays[1]
    del table
    gc.collect()
    for value in (1, 2, 5):
        graph.run(z=gpu.array(np.full(128, value, np.float32)))
    wanted = 3 * (1 + 2 + 5) + 3
    assert [set(array.tolist()) for array in (*arrays, result)] == [{wanted}] * 3 + [{2 * wanted}]


def test_arrays_of_a_graph_are_in_no_table(gpu: vkcompute.Runtime) -> None:
    with gpu.record(x=gpu.zeros(8)) as graph:
        x = graph["x"]
        with pytest.raises(ValueError, match=r"has arrays in memory; got .*make the arrays and the table before"):
            add_one[(1,)](triton.PointerTable([x]), 8, N=8)


# -- launches ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::vkcompute.HostCopyWarning")
def test_host_arrays_beside_a_table(gpu: vkcompute.Runtime) -> None:
    table = triton.PointerTable([gpu.array(np.full(64, at, np.float32)) for at in range(3)])
    out = np.zeros((3, 16), np.float32)
    gathered[(1,)](table, np.arange(3, dtype=np.int32), np.zeros(3, np.int32), out, 3, DTYPE=tl.float32, N=16)
    assert out.tolist() == [[at] * 16 for at in range(3)]


@triton.jit
def many_numbers(x_ptrs, out_ptr, n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18,
                 n19, n20, n21, n22, n23, n24, n25, n26, n27, n28, n29, n30, n31, n32, n33, n34, n35):  # fmt: skip
    pointer = tl.load(x_ptrs + n0).to(tl.pointer_type(tl.float32))
    total = n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9 + n10 + n11 + n12 + n13 + n14 + n15 + n16 + n17 + n18 + n19
    total += n20 + n21 + n22 + n23 + n24 + n25 + n26 + n27 + n28 + n29 + n30 + n31 + n32 + n33 + n34 + n35
    at = tl.arange(0, 8)
    tl.store(out_ptr + at, tl.load(pointer + at) + total)
    tl.store(pointer + at, at)


def test_more_numbers_than_push_constants(gpu: vkcompute.Runtime) -> None:
    numbers = [1, *range(2, 37)]
    for _ in range(2):
        x, out = [gpu.zeros(8), gpu.array(np.full(8, 9, np.float32))], gpu.empty(8)
        many_numbers[(1,)](triton.PointerTable(x), out, *numbers)
        assert (out.tolist(), x[1].tolist()) == ([9 + sum(numbers[1:])] * 8, [*range(8)])


def test_repeated_launches_have_plans_of_their_own(gpu: vkcompute.Runtime) -> None:
    groups = [[gpu.zeros(64) for _ in range(3)] for _ in range(2)]
    tables = [triton.PointerTable(group) for group in groups]
    for _ in range(4):
        add_one[(3,)](tables[0], 64, N=64)
        add_one[(3,)](tables[1], 7, N=64)
    assert {*groups[0][2].tolist()} == {4}
    assert groups[1][2].tolist() == [4] * 7 + [0] * 57


def test_tuned_programs(gpu: vkcompute.Runtime) -> None:
    configs = [triton.Config({}, num_warps=n) for n in (1, 2)]
    tuned = triton.autotune(configs=configs, key=["n"], reset_to_zero=["x_ptrs"])(add_one)
    table = triton.PointerTable([gpu.zeros(64), gpu.zeros(64)])
    tuned[(2,)](table, 64, N=64)
    assert [{*array.tolist()} for array in table.arrays] == [{1}] * 2
    compiled = add_one.warmup(table, 64, N=64, grid=(1,))
    compiled[(2,)](table, 64)
    assert [{*array.tolist()} for array in table.arrays] == [{2}] * 2


def test_tables_in_a_graph_with_loops_of_unknown_length(gpu: vkcompute.Runtime) -> None:
    needs_bindings(gpu, 4)
    random = np.random.default_rng(0)
    a, b = ([gpu.array(random.normal(size=(20, 20)).astype(np.float32)) for _ in range(3)] for _ in range(2))
    c = [gpu.zeros((20, 20)) for _ in range(3)]
    tables = [triton.PointerTable(item) for item in (a, b, c)]
    sizes = gpu.array(np.full((3, 3), 20, np.int32))
    with gpu.record() as graph:
        grouped_matmul[(2,)](*tables, sizes, sizes, 3, DTYPE=tl.float32, NUM_SM=2, BM=16, BN=16, BK=8)
    graph.run()
    for one, other, result in zip(a, b, c, strict=True):
        np.testing.assert_allclose(result.numpy(), one.numpy() @ other.numpy(), atol=1e-4)


@pytest.mark.parametrize("most", [3, 4, 5, 7])  # lavapipe has one more, by which it tells that it cut a loop
def test_tables_share_bindings_with_other_arrays(most: int) -> None:
    random = np.random.default_rng(most)
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": most}) as gpu:
        needs_bindings(gpu, most)
        a, b = ([gpu.array(random.normal(size=(16, 16)).astype(np.float32)) for _ in range(2)] for _ in range(2))
        c = [gpu.zeros((16, 16)) for _ in range(2)]
        tables = [triton.PointerTable(item) for item in (a, b, c)]
        sizes, leading = (gpu.array(np.full((2, 3), 16, np.int32)) for _ in range(2))
        for _ in range(2):
            grouped_matmul[(2,)](*tables, sizes, leading, 2, DTYPE=tl.float32, NUM_SM=2, BM=16, BN=16, BK=8)
            for one, other, result in zip(a, b, c, strict=True):
                np.testing.assert_allclose(result.numpy(), one.numpy() @ other.numpy(), atol=1e-4)
            a[0][:] = 2.0
        with gpu.record() as graph:
            grouped_matmul[(2,)](*tables, sizes, leading, 2, DTYPE=tl.float32, NUM_SM=2, BM=16, BN=16, BK=8)
        b[1][:] = 3.0
        graph.run()
        np.testing.assert_allclose(c[1].numpy(), a[1].numpy() @ b[1].numpy(), atol=1e-4)


@triton.jit
def scaled_by_others(table, x_ptr, y_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    first = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(first + at, tl.load(x_ptr + at) * tl.load(y_ptr + at))


def test_an_array_that_is_copied_and_one_of_a_table_share_no_memory() -> None:
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": 3}) as gpu:
        x, y = gpu.array(np.arange(64, dtype=np.float32)), gpu.array(np.full(64, 3, np.float32))
        with pytest.raises(ValueError, match=r"with its tables and reports; .* share memory, and it writes"):
            scaled_by_others[(1,)](triton.PointerTable([x]), x, y, 64, N=64)
        result = gpu.zeros(64)
        scaled_by_others[(1,)](triton.PointerTable([result]), x, y, 64, N=64)
        assert result.tolist() == [3 * k for k in range(64)]


@triton.jit
def sums_of_two(x_ptrs, y_ptrs, out_ptrs, N: tl.constexpr):
    g, at = tl.program_id(0), tl.arange(0, N)
    x, y = tl.load(x_ptrs + g).to(tl.pointer_type(tl.float32)), tl.load(y_ptrs + g).to(tl.pointer_type(tl.int32))
    out = tl.load(out_ptrs + g).to(tl.pointer_type(tl.float32))
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


def test_tables_of_one_dtype_share_a_binding() -> None:
    """Those of two arrays are over them all, so that launches are ordered with the uses of both."""
    with open_runtime(timelines=3, limits={"maxPerStageDescriptorStorageBuffers": 3}) as gpu:
        host = np.random.default_rng(0).integers(0, 9, (6, 64))
        x, out = ([gpu.array(host[at].astype(np.float32)) for at in which] for which in ([0, 1], [2, 3]))
        y = [gpu.array(host[at].astype(np.int32)) for at in (4, 5)]
        tables = [triton.PointerTable(arrays) for arrays in (x, y, out)]
        for step in range(9):
            sums_of_two[(2,)](*tables, N=64)
            x[step % 2].copy_from(out[(step + step // 2) % 2])
            for k in range(2):
                host[2 + k] = host[k] + host[4 + k]
            host[step % 2] = host[2 + (step + step // 2) % 2]
        np.testing.assert_array_equal([array.numpy() for array in (*x, *out)], host[:4])
        between_tables[(1,)](tables[0], triton.PointerTable(x), N=64)  # the same arrays
        for _ in range(3):
            host[0] = host[0, ::-1] * 2 + 1
        assert x[0].tolist() == host[0].tolist()


def test_tables_share_a_binding_with_one_and_another() -> None:
    """A plan is of the windows that a launch binds: those of other tables are not kept."""
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": 3}) as gpu:
        x, *others = [triton.PointerTable([gpu.full(64, float(at))]) for at in range(3)]
        keys = set()
        for step in range(8):
            other = others[step // 2 % 2]
            between_tables[(1,)](x, other, N=64)
            keys.add(x.key)
            assert other.arrays[0].tolist() == [1] * 64
            x.arrays[0][...] = 0
            other.arrays[0][...] = step
        assert len(keys) == 4


def test_more_tables_than_the_device_binds() -> None:
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": 2}) as gpu:
        tables = [triton.PointerTable([gpu.zeros(256, dtype)]) for dtype in (np.float32, np.int32, np.float32)]
        with pytest.raises(vkcompute.KernelError, match="more than the 2 bindings of the device; tables of one dtype"):
            sums_of_two[(1,)](*tables, N=64)
        between_tables[(1,)](tables[0], tables[2], N=256)  # without bindings for wide accesses
        assert tables[2].arrays[0].tolist() == [1] * 256


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.pure
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "at least one array; got none"),
        ([np.zeros(3, np.float32), np.zeros(3, np.float16)], "one dtype; got float32, float16; make a table for each"),
        ([np.zeros(3, np.float32), 0x7F00], "a table of pointers has arrays; got int; pass"),
        ([np.zeros(3, np.uint16), triton.reinterpret(np.zeros(3, np.uint16), tl.bfloat16)], "got uint16, bf16"),
    ],
)
def test_tables_that_are_refused(arrays: list[Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        triton.PointerTable(arrays)


def test_arrays_that_a_device_refuses(gpu: vkcompute.Runtime) -> None:
    x = gpu.zeros(16)
    for wrong, message in (
        (np.zeros(16, np.float32), r"to device arrays; got ndarray; copy it there, by runtime.array\(data\)"),
        (x[::-1], r"at its lowest address.*strides of one are \(-4,\); pass a .copy\(\)"),
        (x[:1].broadcast_to(16), r"shares no elements; the strides of one are \(0,\)"),
        (x.view(np.uint8)[2:-2].view(np.float32), "at multiples of their size"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            add_one[(2,)](triton.PointerTable([x, wrong]), 16, N=16)
    with open_runtime() as other, pytest.raises(ValueError, match="are on one runtime; got arrays on"):
        add_one[(2,)](triton.PointerTable([x, other.zeros(16)]), 16, N=16)


def test_arrays_of_a_group_and_lists(gpu: vkcompute.Runtime) -> None:
    with vkcompute.DeviceGroup([gpu]) as group:
        sharded = group.array(np.zeros(16, np.float32))
        with pytest.raises(TypeError, match="got GroupArray; pass its shards"):
            add_one[(2,)](triton.PointerTable([sharded]), 16, N=16)
        add_one[(1,)](triton.PointerTable(sharded.shards), 16, N=16)
        assert sharded.numpy().tolist() == [1] * 16
    with pytest.raises(TypeError, match=r"got a list for x_ptrs; .* triton.PointerTable\(arrays\)"):
        add_one[(2,)]([gpu.zeros(3), gpu.zeros(4)], 3, N=4)


@triton.jit
def other_elements(x_ptrs):
    tl.load(x_ptrs).to(tl.pointer_type(tl.int32))


@triton.jit
def not_a_pointer(x_ptrs):
    tl.load(x_ptrs).to(tl.int32)


@triton.jit
def arithmetic_with_addresses(x_ptrs):
    tl.load(x_ptrs) + 4


@triton.jit
def compared_addresses(x_ptrs):
    if tl.load(x_ptrs) != 0:
        pass


@triton.jit
def truth_of_addresses(x_ptrs):
    if tl.load(x_ptrs):
        pass


@triton.jit
def stored_addresses(x_ptrs):
    pointer = tl.load(x_ptrs).to(tl.pointer_type(tl.float32))
    tl.store(pointer, tl.load(x_ptrs))


@triton.jit
def stored_to_table(x_ptrs):
    tl.store(x_ptrs + 1, 0)


@triton.jit
def atomic_on_table(x_ptrs):
    tl.atomic_add(x_ptrs, 1)


@triton.jit
def descriptor_of_table(x_ptrs):
    tl.make_tensor_descriptor(x_ptrs, [8], [1], [8])


@triton.jit
def blocks_of_addresses(x_ptrs):
    tl.load(x_ptrs + tl.arange(0, 2))


@triton.jit
def others_of_addresses(x_ptrs):
    tl.load(x_ptrs, mask=True, other=5)


@triton.jit
def chosen_arrays(x_ptrs, n):
    x = tl.load(x_ptrs).to(tl.pointer_type(tl.float32))
    y = tl.load(x_ptrs + 1).to(tl.pointer_type(tl.float32))
    tl.store(tl.where(n > 0, x, y), 1.0)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message", "at"),
    [
        (other_elements, r"elements of fp32; got a pointer to int32; write tl.pointer_type\(tl.float32\)", "tl.load("),
        (not_a_pointer, r"x_ptrs becomes a pointer, by .to\(tl.pointer_type\(tl.float32\)\); got int32", "tl.load("),
        (arithmetic_with_addresses, "got an address of x_ptrs; convert it, as address.to", "tl.load(x_ptrs) + 4"),
        (compared_addresses, "this takes numbers; got an address of x_ptrs", "tl.load(x_ptrs) != 0"),
        (truth_of_addresses, "this takes numbers; got an address of x_ptrs", "tl.load(x_ptrs)"),
        (stored_addresses, "this takes numbers; got an address of x_ptrs", "tl.store("),
        (stored_to_table, "x_ptrs is a table of pointers, whose addresses a program only loads", "tl.store("),
        (atomic_on_table, "x_ptrs is a table of pointers, whose addresses a program only loads", "tl.atomic_add("),
        (descriptor_of_table, "base is a pointer to one element, as x_ptr; got a pointer to x_ptrs", "tl.make_tensor"),
        (blocks_of_addresses, r"one address is loaded at a time; got a block of int32\[2\] as index", "tl.load("),
        (others_of_addresses, "the other of an address is 0; got", "tl.load("),
        (chosen_arrays, "one array; got pointers to two arrays of x_ptrs; choose the index", "tl.where("),
    ],
)  # fmt: skip
def test_errors_of_programs(program: triton.JITFunction, message: str, at: str) -> None:
    table = triton.PointerTable([np.zeros(8, np.float32)] * 2)
    with pytest.raises(vkcompute.KernelError, match=message) as error:
        program.interpret[(1,)](table, *[5] * (len(program.arg_names) - 1))
    assert at in str(error.value)
    assert "^" in str(error.value)


@triton.jit
def of_two_tables(x_ptrs, y_ptrs, n):
    pointer = tl.load(x_ptrs).to(tl.pointer_type(tl.float32))
    if n > 2:
        pointer = tl.load(y_ptrs).to(tl.pointer_type(tl.float32))
    tl.store(pointer, 1.0)


@pytest.mark.pure
def test_a_pointer_is_to_one_table() -> None:
    tables = [triton.PointerTable([np.zeros(8, np.float32)]) for _ in range(2)]
    with pytest.raises(vkcompute.KernelError, match="a pointer to an array of y_ptrs on one path"):
        of_two_tables.interpret[(1,)](*tables, 3)
