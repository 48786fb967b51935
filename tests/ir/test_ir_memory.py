"""Workgroup memory, barriers, atomics and vectors on devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.errors import IrError

GROUP = 32


def launched(gpu: vc.Runtime, function: ir.Function, *hosts: Any, n_groups: int = 4) -> list[Any]:
    ir.verify(function)
    ir.verify(ir.optimize(function))
    arrays = [gpu.array(host) for host in hosts]
    gpu.kernel(ir.lower(function).spirv, name=function.name)(*arrays, grid=n_groups)
    return [array.numpy() for array in arrays]


def test_a_workgroup_turns_its_part_around(gpu: vc.Runtime) -> None:
    function = ir.Function("reverse", local_size=(GROUP, 1, 1))
    data, tile = function.buffer("data", ir.FLOAT32), function.shared("tile", ir.FLOAT32, GROUP)
    b = ir.Builder(function)
    me, here = b.builtin("global_id"), b.builtin("local_index")
    b.store(tile, here, b.load(data, me))
    b.barrier()
    b.store(data, me, b.load(tile, b.compute("sub", b.const(GROUP - 1, ir.UINT32), here)))
    array = np.random.default_rng(0).random(4 * GROUP, np.float32)
    (result,) = launched(gpu, function, array)
    assert np.array_equal(result, array.reshape(4, GROUP)[:, ::-1].ravel())


@pytest.mark.parametrize("kind", [ir.INT32, ir.UINT32], ids=str)
@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_atomics_combine_what_all_invocations_bring(gpu: vc.Runtime, name: str, kind: ir.Scalar) -> None:
    function = ir.Function(f"atomic_{name}", local_size=(GROUP, 1, 1))
    data, out = function.buffer("data", kind), function.buffer("out", kind)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    b.atomic(name, out, b.compute("and", me, b.const(1, ir.UINT32)), b.load(data, me))
    array = np.random.default_rng(1).integers(-(2**31), 2**31, 4 * GROUP).astype(kind.numpy)
    start = np.array([5, 77], kind.numpy)
    result = launched(gpu, function, array, start)[1]
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and}.get(
        name, np.bitwise_or if name == "or" else np.bitwise_xor
    )
    expected = [ufunc.reduce(np.append(array[parity::2], start[parity])) for parity in (0, 1)]
    assert result.tolist() == np.array(expected).astype(kind.numpy).tolist()


def test_exchanges_hand_on_what_was_there(gpu: vc.Runtime) -> None:
    function = ir.Function("exchange", local_size=(GROUP, 1, 1))
    place, seen, lock = (function.buffer(name, ir.UINT32) for name in ("place", "seen", "lock"))
    b = ir.Builder(function)
    me, zero = b.builtin("global_id"), b.const(0, ir.UINT32)
    mine = b.compute("add", me, b.const(1, ir.UINT32))
    b.store(seen, me, b.atomic("exchange", place, zero, mine))
    b.compare_exchange(lock, zero, zero, mine)  # the first one wins
    n = 4 * GROUP
    place_after, seen_after, lock_after = launched(
        gpu, function, np.zeros(1, np.uint32), np.zeros(n, np.uint32), np.zeros(1, np.uint32)
    )
    assert sorted([*seen_after.tolist(), *place_after.tolist()]) == list(range(n + 1))
    assert 1 <= lock_after[0] <= n


def test_vectors_and_ids_in_three_dimensions(gpu: vc.Runtime) -> None:
    function = ir.Function("ids", local_size=(2, 2, 2))
    out = function.buffer("out", ir.UINT32)
    b = ir.Builder(function)
    ids = b.vector(*[b.builtin("global_id", axis) for axis in range(3)])
    squares = b.compute("mul", ids, ids)
    linear = b.builtin("global_id", 0)
    for axis, size in ((1, 4), (2, 16)):
        linear = b.compute("add", linear, b.compute("mul", b.builtin("global_id", axis), b.const(size, ir.UINT32)))
    total = b.compute("add", b.compute("add", b.extract(squares, 0), b.extract(squares, 1)), b.extract(squares, 2))
    b.store(out, linear, total)
    ir.verify(function)
    result = gpu.zeros((4, 4, 4), np.uint32)
    gpu.kernel(ir.lower(function).spirv, name="ids")(result, grid=(2, 2, 2))
    z, y, x = np.indices((4, 4, 4))
    assert np.array_equal(result.numpy(), x * x + y * y + z * z)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("bare", [(True, True), (True, False), (False, True)])
def test_a_branch_hands_over_what_is_there_or_what_it_computes(gpu: vc.Runtime, bare: Any, wide: bool) -> None:
    function = ir.Function("choice", local_size=(GROUP, 1, 1))
    out = function.buffer("out", ir.FLOAT32)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    x, parity = b.cast(me, ir.FLOAT32), b.compute("and", me, b.const(1, ir.UINT32))
    values = [b.vector(x, x) if wide else x, b.vector(x, b.compute("neg", x)) if wide else b.compute("neg", x)]
    branch = b.if_(b.compute("eq", parity, b.const(1, ir.UINT32)))
    for region, given, only in zip((branch.then, branch.otherwise), (values, values[::-1]), bare, strict=True):
        with region:  # two results, which the other way has the other way round
            b.yield_(*given if only else [b.compute("mul", arg, arg) for arg in given])
    one, other = (b.extract(each, 1) if wide else each for each in branch.results)
    b.store(out, me, b.compute("add", one, b.compute("mul", other, b.const(0.5, ir.FLOAT32))))
    (result,) = launched(gpu, function, np.zeros(4 * GROUP, np.float32))
    x_there = np.arange(4 * GROUP, dtype=np.float32)
    then, otherwise = (x_there, -x_there), (-x_there, x_there)
    then, otherwise = (ways if only else (x_there**2,) * 2 for ways, only in zip((then, otherwise), bare, strict=True))
    odd = x_there % 2 == 1
    assert np.array_equal(result, np.where(odd, then[0], otherwise[0]) + np.where(odd, then[1], otherwise[1]) / 2)


def test_an_early_return_and_an_endless_looking_loop(gpu: vc.Runtime) -> None:
    function = ir.Function("ends", local_size=(GROUP, 1, 1))
    out, limit = function.buffer("out", ir.INT32), function.push("limit", ir.INT32)
    b = ir.Builder(function)
    me = b.cast(b.builtin("global_id"), ir.INT32)
    outside = b.if_(b.compute("ge", me, limit))
    with outside.then:
        b.return_()
    loop = b.loop(me)
    with loop.body:  # ends by returns alone: nothing comes behind it
        b.store(out, me, loop.params[0])
        done = b.if_(b.compute("gt", loop.params[0], b.const(10, ir.INT32)))
        with done.then:
            b.return_()
        b.yield_(b.compute("add", loop.params[0], b.const(3, ir.INT32)))
    assert not b.reachable
    b.finish(function.body)
    ir.verify(ir.optimize(function))
    result = gpu.full(GROUP, -1, np.int32)
    gpu.kernel(ir.lower(function).spirv, name="ends")(result, 20)
    expected = [next(k for k in range(i, 99, 3) if k > 10) if i < 20 else -1 for i in range(GROUP)]
    assert result.numpy().tolist() == expected


def test_a_vector_is_loaded_reinterpreted_and_stored(gpu: vc.Runtime) -> None:
    function = ir.Function("halves", local_size=(GROUP, 1, 1))
    words = function.buffer("words", ir.UINT32, lanes=4)
    reals = function.buffer("reals", ir.FLOAT32, lanes=2)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    result = b.load(words, me)
    first, last = (b.bitcast(b.extract(result, lane), ir.FLOAT32) for lane in (0, 3))
    b.store(reals, me, b.vector(last, first))
    array = np.random.default_rng(0).random((4 * GROUP, 4), np.float32)
    _, swapped = launched(gpu, function, array.view(np.uint32), np.zeros((4 * GROUP, 2), np.float32))
    assert np.array_equal(swapped, array[:, [3, 0]])


def test_a_bitcast_keeps_all_bits(gpu: vc.Runtime) -> None:
    """A number of 64 bits is two of 32, the lower half first."""
    if "shaderInt64" not in gpu.device.features:
        pytest.skip("the device has no 64-bit integers")
    function = ir.Function("swap", local_size=(GROUP, 1, 1))
    data = function.buffer("data", ir.UINT64)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    halves = b.bitcast(b.load(data, me), ir.types.vector(ir.UINT32, 2))
    b.store(data, me, b.bitcast(b.vector(b.extract(halves, 1), b.extract(halves, 0)), ir.UINT64))
    array = np.random.default_rng(0).integers(0, 1 << 63, 4 * GROUP, np.uint64)
    (result,) = launched(gpu, function, array)
    assert np.array_equal(result, array << 32 | array >> 32)
    with pytest.raises(ir.IrError, match="keeps the number of bits"):
        b.bitcast(me, ir.types.vector(ir.UINT32, 2))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kind", "expand"), [(ir.INT16, ir.expand_small_atomics), (ir.FLOAT32, ir.emulate_float_atomics)], ids=str
)
def test_the_words_of_an_aliased_buffer_are_aliased(kind: ir.Scalar, expand: Any) -> None:
    function = ir.Function("counts")
    counts = function.buffer("counts", kind)
    function.aliased = frozenset([counts])
    b = ir.Builder(function)
    b.atomic("add", counts, b.builtin("global_id"), b.const(1, kind))
    expand(function)
    assert counts not in function.buffers
    assert function.aliased == frozenset(function.buffers)


def test_no_atomic_works_on_vectors() -> None:
    function = ir.Function("pairs")
    pairs = function.buffer("pairs", ir.UINT32, lanes=2)
    b = ir.Builder(function)
    zero = b.const(0, ir.UINT32)
    with pytest.raises(ir.IrError, match="uint32x2"):
        b.atomic("add", pairs, zero, zero)
    with pytest.raises(ir.IrError, match="uint32x2"):
        b.compare_exchange(pairs, zero, zero, zero)
    with pytest.raises(ir.IrError, match="uint32x2"):
        b.store(pairs, zero, zero)


def test_texels_are_loaded(gpu: vc.Runtime) -> None:
    function = ir.Function("texels", local_size=(4, 1, 1))
    data, out = function.buffer("data", ir.UINT32, lanes=4, texels=True), function.buffer("out", ir.UINT32, lanes=4)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    again = b.compute("xor", me, b.const(1, ir.UINT32))
    b.store(out, me, b.compute("sub", b.load(data, me), b.load(data, again)))
    array = np.arange(64, dtype=np.uint32) ** 2
    result = launched(gpu, function, array, np.zeros(64, np.uint32))[1].reshape(-1, 2, 4)
    rows = array.reshape(-1, 2, 4)
    np.testing.assert_array_equal(result, rows - rows[:, ::-1])


def test_texels_are_only_loaded_and_only_four_uint32() -> None:
    function = ir.Function("texels")
    data = function.buffer("data", ir.UINT32, lanes=4, texels=True)
    b = ir.Builder(function)
    me = b.builtin("global_id")
    with pytest.raises(IrError, match="writes no texel buffer"):
        b.store(data, me, b.load(data, me))
    with pytest.raises(IrError, match="storage buffers"):
        b.length(data)
    with pytest.raises(TypeError, match="vector of four; got 2 of uint32"):
        function.buffer("data", ir.UINT32, lanes=2, texels=True)
