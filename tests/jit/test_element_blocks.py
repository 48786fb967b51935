"""Elementwise operations and reductions on blocks of adjacent elements: lengths, types and views, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.compiled.block_access import ElementBlock
from vkcompute.compiled.blocks import block_of, wide
from vkcompute.compiled.specialization import DEFAULTS
from vkcompute.jit.elementwise.dispatch import dispatch

DTYPES = "bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"
BYTES = 256  # a multiple of every device's alignment
largest = vc.reduce("max(a, b)", 0)
select = vc.elementwise("x if c else y", "c, x, y")


@pytest.fixture(params=["of the device", "by the other words", "of a GPU"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, gpu: vc.Runtime) -> None:
    """Has a test run with all kinds of blocks."""
    if request.param == "of a GPU":
        monkeypatch.setattr("vkcompute.jit.elementwise.blocks.block_of", lambda runtime, itemsizes: wide(itemsizes))
    elif request.param == "by the other words":
        result = block_of(gpu, [4])
        if result == wide([4]):
            pytest.skip("the device has the blocks of a GPU")
        other = result._replace(word={"uint32": "uint64", "uint64": "uint32"}[result.word])
        monkeypatch.setattr("vkcompute.jit.elementwise.blocks.block_of", lambda runtime, itemsizes: other)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)),
    n=st.integers(1, 70),
    starts=st.tuples(*[st.integers(0, 2)] * 4),
    after=st.integers(0, 9),
    seed=st.integers(0, 99),
)
def test_every_part_of_a_buffer(
    gpu: vc.Runtime, blocks: None, kinds: tuple[str, str], n: int, starts: tuple[int, ...], after: int, seed: int
) -> None:
    """Elements before and after the views that are read and written keep their values."""
    rng = np.random.default_rng(seed)

    def part(kind: str, start: int) -> tuple[Any, slice]:
        first = start * BYTES // np.dtype(kind).itemsize
        return rng.integers(0, 2, first + n + after).astype(kind), slice(first, first + n)

    (c, at_c), (x, at_x), (y, at_y) = (
        part(kind, start) for kind, start in zip(("int32", *kinds), starts, strict=False)
    )
    whole, at = part(np.result_type(x, y).name, starts[3])
    arrays = [gpu.array(host) for host in (c, x, y, whole)]
    try:
        select(*[array[where] for array, where in zip(arrays, (at_c, at_x, at_y), strict=False)], out=arrays[3][at])
    except (vc.MissingFeature, TypeError):  # the device lacks a type, or kernels promote to another one than numpy
        return
    whole[at] = np.where(c[at_c] != 0, x[at_x], y[at_y])
    np.testing.assert_array_equal(arrays[3].numpy(), whole)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1001])
def test_numbers_and_arrays_of_one_element_are_repeated(gpu: vc.Runtime, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    f = vc.elementwise("a * x + y, x - a", "a, x, y")
    total, rest = f(2.0, gpu.array(x), gpu.array(np.float32([0.5])))
    np.testing.assert_array_equal(total.numpy(), 2 * x + np.float32(0.5))
    np.testing.assert_array_equal(rest.numpy(), x - 2)


def test_a_result_may_be_an_argument(gpu: vc.Runtime) -> None:
    x, y = gpu.array(np.arange(1003, dtype=np.int32)), gpu.array(np.arange(1003, dtype=np.int32)[::-1].copy())
    swapped = vc.elementwise("y, x", "x, y")
    swapped(x, y, out=(x, y))
    np.testing.assert_array_equal(x.numpy(), np.arange(1003)[::-1])
    np.testing.assert_array_equal(y.numpy(), np.arange(1003))


@vc.vectorize
def halvings(x):
    """Returns how often a number is halved until it is at most 1; it never ends for infinity."""
    n = 0
    while x > 1.0:
        x *= 0.5
        n += 1
    return n


def test_a_loop_never_runs_on_padding(gpu: vc.Runtime) -> None:
    """The bytes behind the elements may hold any number, also one for which a loop does not end."""
    x = gpu.full(16, np.inf, np.float32)
    x.close()  # its memory is used again
    values = np.float32([1, 2, 4, 8, 16])
    result = halvings(gpu.array(values))
    np.testing.assert_array_equal(result.numpy(), [0, 1, 2, 3, 4])


def test_a_graphs_input_is_another_view(gpu: vc.Runtime) -> None:
    """A graph is recorded for an array with padding, and runs on a view without."""
    double, x = vc.elementwise("2 * x"), gpu.array(np.arange(5, dtype=np.int32))
    out = gpu.zeros(5, np.int32)
    with gpu.record(x=x) as graph:
        double(graph["x"], out=out)
    whole = gpu.array(np.arange(100, 108, dtype=np.int32))
    graph.run(x=whole[:5])
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(100, 105))


@pytest.mark.usefixtures("blocks")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from([kind for kind in DTYPES if kind != "bool"]),
    shape=st.tuples(st.integers(1, 5), st.sampled_from([1, 7, 8, 16, 63, 64, 65, 72, 1000, 1024, 1030])),
    axis=st.sampled_from([0, 1, None]),
    start=st.integers(0, 2),
)
def test_reductions_leave_out_what_is_behind_the_end(
    gpu: vc.Runtime, kind: str, shape: tuple[int, int], axis: int | None, start: int
) -> None:
    first, n = start * BYTES // np.dtype(kind).itemsize, shape[0] * shape[1]
    x = np.random.default_rng(n).integers(0, 100, first + n + 5).astype(kind)
    x[first + n :] = 111
    try:
        result = largest(gpu.array(x)[first : first + n].reshape(shape), axis=axis)
    except vc.MissingFeature:
        return
    np.testing.assert_array_equal(result.numpy(), x[first : first + n].reshape(shape).max(axis))


@pytest.mark.usefixtures("blocks")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(
    kinds=st.tuples(*[st.sampled_from(["int8", "float32", "int64"])] * 2),
    shape=st.tuples(st.integers(1, 3), st.sampled_from([1, 9, 16, 63, 64, 80, 150]), st.sampled_from([1, 3, 4, 8, 20])),
    repeated=st.tuples(*[st.booleans()] * 3),
    axis=st.sampled_from([0, 1, 2, (0, 1), (1, 2), (0, 2), None]),
)
def test_arrays_repeated_along_some_axes(
    gpu: vc.Runtime, kinds: tuple[str, str], shape: tuple[int, ...], repeated: tuple[bool, ...], axis: Any
) -> None:
    """Each of a row, a column and other slices beside an array, in a function of elements and in a reduction of it."""
    rng = np.random.default_rng(shape[1])
    x = rng.integers(0, 9, shape).astype(kinds[0])
    y = rng.integers(0, 9, [1 if item else n for item, n in zip(repeated, shape, strict=True)]).astype(kinds[1])
    try:
        result = vc.elementwise("x - y", "x, y")(gpu.array(x), gpu.array(y))
        total = vc.reduce("a + b", 0, map="x * y")(gpu.array(x), gpu.array(y), axis=axis, dtype="float32")
    except vc.MissingFeature:
        return
    np.testing.assert_array_equal(result.numpy(), (x.astype("int64") - y.astype("int64")).astype(result.dtype))
    np.testing.assert_array_equal(total.numpy(), (x * y.astype("float32")).sum(axis, np.float32))


sum_and_double = vc.elementwise("x + y, 2 * x", "x, y")


@given(
    kinds=st.tuples(*[st.sampled_from(["bool", "uint8", "int16", "float32", "int64"])] * 3),
    shape=st.tuples(*[st.sampled_from([1, 2, 3, 5, 7, 13])] * 3),
    cuts=st.tuples(*[st.sampled_from(["whole", "inner", "reversed", "repeated"])] * 2),
    within=st.booleans(),
    seed=st.integers(0, 99),
)
def test_rows_that_no_block_divides(
    gpu: vc.Runtime, kinds: tuple[str, ...], shape: tuple[int, ...], cuts: tuple[str, str], within: bool, seed: int
) -> None:
    """Views and repeated arrays beside whole ones; a result may be a part of an array, the rest of which stays."""
    rng = np.random.default_rng(seed)

    def part(of: Any, cut: str) -> Any:
        inner = of[1:-1, 1:-1, 2:-1]
        return {"whole": of, "inner": inner, "reversed": inner[::-1, :, ::-1], "repeated": inner[:1, :, :1]}[cut]

    def made(kind: str, cut: str) -> Any:
        room = (0, 0, 0) if cut == "whole" else (2, 2, 3)
        return rng.integers(0, 2, np.add(shape, room)).astype(kind)

    hosts = [made(kind, cut) for kind, cut in zip(kinds, cuts, strict=False)]
    total, double = made(kinds[2], "inner"), made("float64", "whole")
    arrays = [gpu.array(host) for host in hosts]
    x, y = (part(host, cut) for host, cut in zip(hosts, cuts, strict=True))
    total = total if within else total[1:-1, 1:-1, 2:-1].copy()
    results = gpu.array(total), gpu.array(double.astype("float32"))
    outs = (results[0][1:-1, 1:-1, 2:-1] if within else results[0]), results[1]
    a, b = (part(array, cut) for array, cut in zip(arrays, cuts, strict=True))
    expected = np.broadcast_to(x + y, shape)
    try:
        sum_and_double(a, b, out=outs)
    except (vc.MissingFeature, TypeError):  # the device lacks a type, or the result's is a narrower kind
        return
    (total[1:-1, 1:-1, 2:-1] if within else total)[...] = expected.astype(kinds[2])
    np.testing.assert_array_equal(results[0].numpy(), total)
    np.testing.assert_array_equal(results[1].numpy(), 2 * x.astype("float32") + np.zeros(shape, "float32"))


def test_an_invocation_on_a_cpu_computes_several_elements_of_a_view(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gpu.device.physical.kind != "cpu":
        pytest.skip("the device is no CPU")
    sizes = []

    def observed(programs: Any, key: tuple[Any, ...], *rest: Any) -> None:
        sizes.append(programs.specialized(*key, DEFAULTS).block)
        dispatch(programs, key, *rest)

    monkeypatch.setattr("vkcompute.jit.elementwise.element_launcher.dispatch", observed)
    x = gpu.array(np.arange(99, dtype=np.float32).reshape(9, 11))
    x_and_1 = vc.elementwise("x + y", "x, y")
    x_and_1(x[:, 1:], 1.0)
    x_and_1(x, x[0])
    x_and_1(x[1:, 1:], 1.0, out=x[1:, 1:])
    assert sizes[0] > 1
    assert sizes[1] > 1
    assert sizes[2] == 1, "nothing is loaded or stored in blocks"


def test_blocks_fill_whole_words(gpu: vc.Runtime) -> None:
    block = block_of(gpu, [4])
    assert block.size * 8 % 32 == 0
    assert block.word in ("uint32", "uint64")


@pytest.mark.pure
def test_blocks_of_a_gpu_have_16_bytes_within_the_padding() -> None:
    assert [wide(sizes) for sizes in ([4], [8, 8], [2, 2], [1], [1, 4], [1, 8], [2, 8])] == [
        ElementBlock(n, pairs=True) for n in (4, 4, 8, 16, 16, 8, 8)
    ]


@pytest.mark.parametrize("n", [1, 15, 16, 17])
def test_no_block_exceeds_a_result_that_is_wider_than_the_arguments(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """Drivers that check bounds, as lavapipe, hide what others would overwrite: so the program itself is examined."""
    monkeypatch.setattr("vkcompute.jit.elementwise.blocks.block_of", lambda runtime, itemsizes: wide(itemsizes))
    sizes = []

    def observed(programs: Any, key: tuple[Any, ...], *rest: Any) -> None:
        sizes.append(programs.specialized(*key, DEFAULTS).block)
        dispatch(programs, key, *rest)

    monkeypatch.setattr("vkcompute.jit.elementwise.element_launcher.dispatch", observed)
    x = np.arange(n, dtype=np.uint8)
    result = vc.elementwise("int64(x) << 40")(gpu.array(x))
    np.testing.assert_array_equal(result.numpy(), x.astype(np.int64) << 40)
    assert -(-n // sizes[0]) * sizes[0] * 8 <= result.buffer.nbytes
    assert len(sizes) == 1
