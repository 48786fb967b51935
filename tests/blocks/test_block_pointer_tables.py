"""Tables of pointers: programs that load the addresses of arrays, compared with numpy."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.core.lifetime import live_counts
from vkcompute.runtime.memory import window

Host = np.ndarray[Any, Any]


def launched(
    gpu: vkcompute.Runtime | None,
    program: Any,
    grid: tuple[int, ...],
    args: Sequence[Any],
    **named: Any,
) -> list[Any]:
    """Returns what a launch leaves: an array, and of a list of arrays, which is a table of pointers, a list."""

    def prepared(arg: Any) -> Any:
        if isinstance(arg, list):
            return triton.PointerTable([prepared(each) for each in arg])
        return arg if gpu is None or not isinstance(arg, np.ndarray) else gpu.array(arg)

    copies = [
        [each.copy() for each in arg] if isinstance(arg, list) else arg.copy() if isinstance(arg, np.ndarray) else arg
        for arg in args
    ]
    ready = [prepared(arg) for arg in copies]
    (program.interpret if gpu is None else program)[grid](*ready, **named)

    def found(arg: Any) -> Any:
        if isinstance(arg, triton.PointerTable):
            return [found(each) for each in arg.arrays]
        return arg.numpy() if isinstance(arg, vkcompute.Array) else arg

    return [found(arg) for arg in ready]


# -- the tutorial -----------------------------------------------------------------------------------------------------


@triton.jit
def grouped_matmul(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_sizes, g_lds, group_size,
                   NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_sizes + g * 3)
        gn = tl.load(group_sizes + g * 3 + 1)
        gk = tl.load(group_sizes + g * 3 + 2)
        num_m_tiles, num_n_tiles = tl.cdiv(gm, BM), tl.cdiv(gn, BN)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda, ldb, ldc = tl.load(g_lds + g * 3), tl.load(g_lds + g * 3 + 1), tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float32))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float32))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float32))
            tile_in_problem = tile_idx - last_problem_end
            tile_m, tile_n = tile_in_problem // num_n_tiles, tile_in_problem % num_n_tiles
            offs_am = tile_m * BM + tl.arange(0, BM)
            offs_bn = tile_n * BN + tl.arange(0, BN)
            offs_k = tl.arange(0, BK)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            accumulator = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(tl.cdiv(gk, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs, mask=(offs_am[:, None] < gm) & (kk * BK + offs_k[None, :] < gk), other=0.0)
                b = tl.load(b_ptrs, mask=(kk * BK + offs_k[:, None] < gk) & (offs_bn[None, :] < gn), other=0.0)
                accumulator += tl.dot(a, b)
                a_ptrs += BK
                b_ptrs += BK * ldb
            c_ptrs = c_ptr + ldc * offs_am[:, None] + offs_bn[None, :]
            tl.store(c_ptrs, accumulator, mask=(offs_am[:, None] < gm) & (offs_bn[None, :] < gn))
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@triton.jit
def grouped_matmul_by_descriptors(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_sizes, g_lds, group_size,
                                  NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                                  BK: tl.constexpr):  # fmt: skip
    dtype = tl.float32
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm, gn = tl.load(group_sizes + g * 3), tl.load(group_sizes + g * 3 + 1)
        gk = tl.load(group_sizes + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BN)
        num_tiles = tl.cdiv(gm, BM) * num_n_tiles
        if tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda, ldb, ldc = tl.load(g_lds + g * 3), tl.load(g_lds + g * 3 + 1), tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(dtype))
            b_ptr = tl.cast(tl.load(group_b_ptrs + g), tl.pointer_type(dtype))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(dtype))
            a_desc = tl.make_tensor_descriptor(a_ptr, shape=[gm, gk], strides=[lda, 1], block_shape=[BM, BK])
            b_desc = tl.make_tensor_descriptor(b_ptr, shape=[gk, gn], strides=[ldb, 1], block_shape=[BK, BN])
            c_desc = tl.make_tensor_descriptor(c_ptr, shape=[gm, gn], strides=[ldc, 1], block_shape=[BM, BN])
            while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
                m = (tile_idx - last_problem_end) // num_n_tiles * BM
                n = (tile_idx - last_problem_end) % num_n_tiles * BN
                accumulator = tl.zeros((BM, BN), dtype=tl.float32)
                for kk in range(tl.cdiv(gk, BK)):
                    accumulator += tl.dot(a_desc.load([m, kk * BK]), b_desc.load([kk * BK, n]))
                c_desc.store([m, n], accumulator.to(dtype))
                tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@pytest.mark.parametrize("program", [grouped_matmul, grouped_matmul_by_descriptors], ids=["pointers", "descriptors"])
def test_grouped_products(machine: vkcompute.Runtime | None, program: triton.JITFunction) -> None:
    sizes = np.array([[20, 17, 8], [5, 33, 16], [16, 16, 30], [1, 1, 1], [32, 32, 32]], np.int32)
    random = np.random.default_rng(0)
    a, b = ([random.normal(size=row[at]).astype(np.float32) for row in sizes] for at in ([0, 2], [2, 1]))
    c = [np.full(row[:2], np.nan, np.float32) for row in sizes]
    lds = np.ascontiguousarray(sizes[:, [2, 1, 1]])
    found = launched(machine, program, (2,), (a, b, c, sizes, lds, len(sizes)), NUM_SM=2, BM=16, BN=16, BK=8)[2]
    for got, one, other in zip(found, a, b, strict=True):
        np.testing.assert_allclose(got, one @ other, atol=32 * 8 * np.finfo(np.float32).eps)


# -- bounds -----------------------------------------------------------------------------------------------------------


@triton.jit
def moved(in_ptrs, out_ptrs, first_in, first_out, N: tl.constexpr, WIDE: tl.constexpr):
    g = tl.program_id(0)
    kind: tl.constexpr = tl.int64 if WIDE else tl.int32
    at = tl.arange(0, N).to(kind)
    x = tl.load(tl.load(in_ptrs + g).to(tl.pointer_type(tl.float32)) + first_in + at)
    tl.store(tl.load(out_ptrs + g).to(tl.pointer_type(tl.float32)) + (first_out + at), x + 1)


def shifted(x: Host, first: int, n: int) -> Host:
    """Returns elements of an array from an index on, and 0 for those outside of it."""
    found, at = np.zeros(n, x.dtype), np.arange(first, first + n)
    inside = (at >= 0) & (at < x.size)
    found[inside] = x[at[inside]]
    return found


BEYOND = [(-5, 0), (0, -5), (40, 3), (3, 40), (-70, 70), (2**31 - 80, 0), (-(2**31), -(2**31))]


@pytest.mark.parametrize(("first_in", "first_out"), BEYOND)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("sizes", [(64, 32, 48), (50, 1, 64), (37, 100, 5)])
def test_elements_outside_of_an_array_are_no_others(
    gpu: vkcompute.Runtime, sizes: tuple[int, ...], first_in: int, first_out: int, *, wide: bool
) -> None:
    if wide and "shaderInt64" not in gpu.device.features:
        pytest.skip("no int64")
    arrays = [np.arange(1, n + 1, dtype=np.float32) + 1000 * at for at, n in enumerate(sizes)]
    outs = [np.full(n, -at - 1, np.float32) for at, n in enumerate(sizes)]
    found = launched(gpu, moved, (len(sizes),), (arrays, outs, first_in, first_out), N=64, WIDE=wide)
    for x, out, got, unchanged in zip(arrays, outs, found[1], found[0], strict=True):
        wanted, at = out.copy(), np.arange(first_out, first_out + 64)
        inside = (at >= 0) & (at < out.size)
        wanted[at[inside]] = (shifted(x, first_in, 64) + 1)[inside]
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(unchanged, x)


@triton.jit
def far(in_ptrs, out_ptr, step: tl.int64):
    pointer = tl.load(in_ptrs).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, 8), tl.load(pointer + (tl.arange(0, 8) - 4) * step))


def test_offsets_of_64_bits_reach_no_other_array(gpu: vkcompute.Runtime) -> None:
    if "shaderInt64" not in gpu.device.features:
        pytest.skip("no int64")
    table = triton.PointerTable([gpu.array(np.full(64, at + 1, np.float32)) for at in range(4)])
    for step in (1 << 32, 1 << 31, 1 << 62, 64, -64, (1 << 32) + 64, -(1 << 63)):
        out = gpu.empty(8)
        far[(1,)](table, out, step)
        assert out.tolist() == [float(at * step % (1 << 64) == 0) for at in range(-4, 4)], step


@pytest.mark.pure
@pytest.mark.parametrize(
    ("first_in", "first_out", "message"),
    [
        (1, 0, r"program \(0, 0, 0\) accesses element 64 of array 0 of in_ptrs, which has 64; mask it"),
        (0, -1, r"program \(0, 0, 0\) accesses element -1 of array 0 of out_ptrs, which has 64; mask it"),
        (0, 0, r"program \(1, 0, 0\) accesses element 32 of array 1 of in_ptrs, which has 32; mask it"),
    ],
)
def test_elements_outside_of_an_array_are_errors(first_in: int, first_out: int, message: str) -> None:
    table, out = ([np.zeros(n, np.float32) for n in (64, 32)] for _ in range(2))
    with pytest.raises(vkcompute.KernelError, match=message) as error:
        launched(None, moved, (2,), (table, out, first_in, first_out), N=64, WIDE=False)
    assert "tl.store(" in str(error.value) or "tl.load(" in str(error.value)


@triton.jit(debug=True)
def moved_with_checks(in_ptrs, out_ptr, first, g, N: tl.constexpr):
    pointer = tl.load(in_ptrs + g).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, N), tl.load(pointer + first + tl.arange(0, N)))


@pytest.mark.parametrize(
    ("first", "g", "message"),
    [
        (1, 2, r"program \(0, 0, 0\) accesses element 16 of array 2 of in_ptrs, which has 16; mask it"),
        (-7, 1, r"program \(0, 0, 0\) accesses element -7 of array 1 of in_ptrs, which has 16"),
        (0, 3, r"program \(0, 0, 0\) loads address 3 of in_ptrs, which has 3"),
        (0, -1, r"program \(0, 0, 0\) loads address -1 of in_ptrs, which has 3"),
    ],
)
def test_checks_of_bounds_on_the_device(gpu: vkcompute.Runtime, first: int, g: int, message: str) -> None:
    table, out = triton.PointerTable([gpu.zeros(16) for _ in range(3)]), gpu.empty(16)
    moved_with_checks[(1,)](table, out, 0, 2, N=16).result()
    with pytest.raises(vkcompute.KernelError, match=message):
        moved_with_checks[(1,)](table, out, first, g, N=16).result()


@triton.jit
def addresses_under_a_mask(in_ptrs, out_ptr, g, n):
    pointer = tl.load(in_ptrs + g, mask=g < n, other=0).to(tl.pointer_type(tl.float32))
    inside = g < n
    tl.store(
        out_ptr + tl.arange(0, 8), tl.load(pointer + tl.arange(0, 8), mask=inside & (tl.arange(0, 8) < 6), other=7)
    )


def test_addresses_under_a_mask(machine: vkcompute.Runtime | None) -> None:
    table = [np.full(8, at, np.float32) for at in range(3)]
    for g, wanted in ((2, [2] * 6 + [7] * 2), (3, [7] * 8), (1000, [7] * 8)):
        *_, found, _, _ = launched(machine, addresses_under_a_mask, (1,), (table, np.zeros(8, np.float32), g, 3))
        assert found.tolist() == wanted


def test_addresses_beyond_a_table_are_of_no_array(gpu: vkcompute.Runtime) -> None:
    table = [np.full(64, at + 1, np.float32) for at in range(3)]
    out = [np.full(64, -1, np.float32) for _ in range(5)]
    found = launched(gpu, moved, (5,), (table, out, 0, 0), N=64, WIDE=False)[1]
    assert [each.tolist() for each in found] == [[value] * 64 for value in (2, 3, 4, 1, 1)]


@pytest.mark.pure
def test_addresses_beyond_a_table_are_errors() -> None:
    table = [np.zeros(64, np.float32)]
    with pytest.raises(vkcompute.KernelError, match=r"program \(1, 0, 0\) loads address 1 of in_ptrs, which has 1"):
        launched(None, moved, (2,), (table, table, 0, 0), N=64, WIDE=False)


# -- arrays -----------------------------------------------------------------------------------------------------------


@triton.jit
def gathered(in_ptrs, arrays_ptr, offsets_ptr, out_ptr, n, DTYPE: tl.constexpr, N: tl.constexpr):
    for at in range(n):
        pointer = tl.load(in_ptrs + tl.load(arrays_ptr + at)).to(tl.pointer_type(DTYPE))
        x = tl.load(pointer + tl.load(offsets_ptr + at) + tl.arange(0, N))
        tl.store(out_ptr + at * N + tl.arange(0, N), x)


DTYPES = ["float32", "int32", "uint32", "float16", "int16", "uint16", "int8", "uint8", "bool", "int64", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aligned", [False, True])
def test_arrays_of_any_dtype(machine: vkcompute.Runtime | None, dtype: str, *, aligned: bool) -> None:
    random = np.random.default_rng(0)
    sizes = (64, 16, 128) if aligned else (61, 17, 100)
    arrays = [random.integers(0, 100, n).astype(dtype) for n in sizes]
    at, offsets = np.array([0, 2, 1, 2, 0], np.int32), np.array([0, 3, 0, 80, 33], np.int32)
    args = arrays, at, offsets, np.zeros((5, 16), dtype), 5
    try:
        found = launched(machine, gathered, (1,), args, DTYPE=getattr(tl, dtype if dtype != "bool" else "int1"), N=16)
    except vkcompute.MissingFeature:
        pytest.skip(f"no {dtype}")
    np.testing.assert_array_equal(
        found[3], [arrays[k][first : first + 16] for k, first in zip(at, offsets, strict=True)]
    )


@st.composite
def places(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Draws the sizes of arrays, and indices of arrays with offsets that may be outside of them."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    found = st.tuples(st.integers(0, len(sizes) - 1), st.integers(-50, 60) | st.integers(-(2**31), 2**31 - 5))
    return sizes, draw(st.lists(found, min_size=1, max_size=12))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=places(), split=st.booleans())
def test_places_of_any_arrays(
    gpu: vkcompute.Runtime, *, drawn: tuple[list[int], list[tuple[int, int]]], split: bool
) -> None:
    sizes, places = drawn
    arrays = [np.arange(n, dtype=np.float32) + 100 * at + 1 for at, n in enumerate(sizes)]
    at, offsets = (np.array(each, np.int32) for each in zip(*places, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        if split:
            patch.setattr(window, "_MOST_ELEMENTS", 64)
        args = arrays, at, offsets, np.full((len(places), 4), -1, np.float32), len(places)
        found = launched(gpu, gathered, (1,), args, DTYPE=tl.float32, N=4)[3]
    np.testing.assert_array_equal(found, [shifted(arrays[k], first, 4) for k, first in places])


@pytest.mark.parametrize("interpreted", [False, True])
def test_views_and_an_array_twice(gpu: vkcompute.Runtime, *, interpreted: bool) -> None:
    host = np.arange(256, dtype=np.float32)
    x = gpu.array(host)
    matrix = x.reshape(16, 16)
    y = gpu.zeros(64)
    table = triton.PointerTable([x, y] if interpreted else [x, x[64:], matrix[2:, 3], matrix[:, 1:5], x, x[5:8], y])
    for at, first in enumerate((0, 0) if interpreted else (0, 64, 35, 1, 0, 5, None)):
        out = gpu.empty((1, 4))
        program = gathered.interpret if interpreted else gathered
        program[(1,)](table, gpu.array(np.int32([at])), gpu.zeros(1, np.int32), out, 1, DTYPE=tl.float32, N=4)
        n = 3 if first == 5 else 4
        wanted = (
            np.zeros(4) if first is None or (interpreted and at) else np.where(np.arange(4) < n, host[first:][:4], 0)
        )
        np.testing.assert_array_equal(out.numpy()[0], wanted)


@triton.jit
def halved(x_ptrs, N: tl.constexpr):
    pointer = tl.load(x_ptrs).to(tl.pointer_type(tl.bfloat16))
    tl.store(pointer + tl.arange(0, N), tl.load(pointer + tl.arange(0, N)) * 0.5)


def test_bfloat16(machine: vkcompute.Runtime | None) -> None:
    words = (np.arange(8, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    for wrapped in (False, True):
        x: Any = words.copy() if machine is None else machine.array(words)
        table = triton.PointerTable([triton.reinterpret(x, tl.bfloat16) if wrapped else x])
        try:
            (halved.interpret if machine is None else halved)[(1,)](table, N=8)
        except vkcompute.MissingFeature:
            pytest.skip("no 16-bit arrays")
        found = (x if machine is None else x.numpy()).astype(np.uint32) << 16
        np.testing.assert_array_equal(found.view(np.float32), np.arange(8) / 2)


def test_more_arrays_than_the_device_binds(gpu: vkcompute.Runtime) -> None:
    arrays = [np.full(64, at, np.float32) for at in range(100)]
    found = launched(gpu, moved, (100,), (arrays, arrays, 0, 0), N=64, WIDE=False)[1]
    assert [each.tolist() for each in found] == [[at + 1] * 64 for at in range(100)]


# -- pointers ---------------------------------------------------------------------------------------------------------


@triton.jit
def of_all_kinds(x_ptrs, counts_ptrs, out_ptr, n, flag):
    at = tl.arange(0, 8)
    first = tl.load(x_ptrs)
    tl.static_assert(first.dtype == tl.int64)
    tl.static_print(first.shape, x_ptrs.dtype)
    x = first.to(tl.pointer_type(tl.float32))
    if flag:  # one path, another path: the entries are joined
        y = tl.load(x_ptrs + 1).to(tl.pointer_type(tl.float32)) + 1
    else:
        y = tl.load(x_ptrs + 2).to(tl.pointer_type(tl.float32))
    total = tl.zeros((8,), tl.float32)
    for _ in range(n):
        total += tl.load(x + at)
        x += 8
    total += tl.load(tl.where(at < 4, y + at, y + (7 - at)))
    window = tl.make_block_ptr(y, (8,), (1,), (0,), (4,), (0,))
    window = tl.advance(window, (2,))
    total += tl.sum(tl.load(window, boundary_check=(0,)), 0)
    counts = tl.load(counts_ptrs + flag).to(tl.pointer_type(tl.int32))
    tl.atomic_add(counts + at % 2, 1)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("split", [False, True])
def test_pointers_of_all_kinds(
    machine: vkcompute.Runtime | None, monkeypatch: pytest.MonkeyPatch, flag: int, *, split: bool
) -> None:
    if split:
        monkeypatch.setattr(window, "_MOST_ELEMENTS", 64)
    x, counts = [np.arange(at, at + 24, dtype=np.float32) for at in range(3)], [np.zeros(2, np.int32)] * 2
    args = x, counts, np.zeros(8, np.float32), 3, flag
    _, counted, found, *_ = launched(machine, of_all_kinds, (2,), args)
    y = x[1][1:] if flag else x[2]
    wanted = x[0].reshape(3, 8).sum(0) + y[[0, 1, 2, 3, 3, 2, 1, 0]] + y[2:6].sum()
    np.testing.assert_array_equal(found, wanted)
    assert [each.tolist() for each in counted] == [[8 * (at == flag)] * 2 for at in range(2)]


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
    np.testing.assert_array_equal([each.numpy() for each in table.arrays], np.arange(64) + np.array([[1], [2]]))


def test_failed_launches_fail_reads_of_all_arrays(gpu: vkcompute.Runtime) -> None:
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
        assert not any(each.numpy().any() for each in filler)


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
    assert [set(each.tolist()) for each in (*arrays, result)] == [{wanted}] * 3 + [{2 * wanted}]


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
    assert [{*each.tolist()} for each in table.arrays] == [{1}] * 2
    compiled = add_one.warmup(table, 64, N=64, grid=(1,))
    compiled[(2,)](table, 64)
    assert [{*each.tolist()} for each in table.arrays] == [{2}] * 2


def test_tables_in_a_graph_with_loops_of_unknown_length(gpu: vkcompute.Runtime) -> None:
    random = np.random.default_rng(0)
    a, b = ([gpu.array(random.normal(size=(20, 20)).astype(np.float32)) for _ in range(3)] for _ in range(2))
    c = [gpu.zeros((20, 20)) for _ in range(3)]
    tables = [triton.PointerTable(each) for each in (a, b, c)]
    sizes = gpu.array(np.full((3, 3), 20, np.int32))
    with gpu.record() as graph:
        grouped_matmul[(2,)](*tables, sizes, sizes, 3, NUM_SM=2, BM=16, BN=16, BK=8)
    graph.run()
    for one, other, found in zip(a, b, c, strict=True):
        np.testing.assert_allclose(found.numpy(), one.numpy() @ other.numpy(), atol=1e-4)


def test_more_tables_than_the_device_binds() -> None:
    with open_runtime(limits={"maxPerStageDescriptorStorageBuffers": 6}) as gpu:
        tables = [triton.PointerTable([gpu.zeros((16, 16)) for _ in range(2)]) for _ in range(3)]
        sizes = gpu.array(np.full((2, 3), 16, np.int32))
        with pytest.raises(vkcompute.KernelError, match="more than the 6 bindings of the device; a table takes one"):
            grouped_matmul[(2,)](*tables, sizes, sizes, 2, NUM_SM=2, BM=16, BN=16, BK=8)
        between_tables[(1,)](*tables[:2], N=256)  # without bindings for wide accesses
        assert tables[1].arrays[0].numpy().ravel().tolist() == [1] * 256


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
        (np.zeros(16, np.float32), r"got ndarray; copy it there, by runtime.array\(data\)"),
        (x[::-1], r"at its lowest address.*strides of one are \(-4,\); pass a .copy\(\)"),
        (x[:1].broadcast_to(16), r"its elements are apart; the strides of one are \(0,\)"),
        (x.view(np.uint8)[2:-2].view(np.float32), "at multiples of their size"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            add_one[(2,)](triton.PointerTable([x, wrong]), 16, N=16)
    with open_runtime() as other, pytest.raises(ValueError, match="are on one runtime; got arrays on"):
        add_one[(2,)](triton.PointerTable([x, other.zeros(16)]), 16, N=16)


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
        (stored_to_table, "x_ptrs is a table of pointers: a program loads its addresses only", "tl.store("),
        (atomic_on_table, "x_ptrs is a table of pointers: a program loads its addresses only", "tl.atomic_add("),
        (descriptor_of_table, "base is a pointer to one element, as x_ptr; got a pointer to x_ptrs", "tl.make_tensor"),
        (blocks_of_addresses, r"one address is loaded at a time; got a block of int32\[2\] as index", "tl.load("),
        (others_of_addresses, "the other of an address is 0; got", "tl.load("),
        (chosen_arrays, "pointers to two arrays of x_ptrs are not chosen from; choose the index", "tl.where("),
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
