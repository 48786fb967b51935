"""Subgroup operations in Python kernels: numpy is the oracle, for the subgroups that the device says it has made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import module
from test_kernel_errors import compiled

import vkcompute as vc
from vkcompute import ir
from vkcompute.errors import KernelError, MissingFeature
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import build
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.simulator.subgroup import results
from vkcompute.spirv.enums import GroupOperation

GROUP, N_GROUPS = 64, 3
Array = np.ndarray[Any, Any]


@vc.kernel
def places(place):
    i = vc.global_id(0)
    place[i, 0] = vc.group_id(0) * vc.subgroup.count() + vc.subgroup.id()
    place[i, 1] = vc.subgroup.local_id()
    place[i, 2] = vc.subgroup.size()


def launch(kernel: Any, *arrays: Any) -> None:
    """Launches as all kernels here are; skips what the device has not."""
    try:
        kernel[N_GROUPS, GROUP](*arrays)
    except MissingFeature as missing:
        pytest.skip(str(missing))


@functools.cache  # subgroups are the same in all launches
def subgroups(gpu: vc.Runtime) -> list[Array]:
    """The invocations of each subgroup, by lane."""
    place = gpu.zeros((N_GROUPS * GROUP, 3), np.int32)
    launch(places, place)
    which, lane, size = place.numpy().T
    assert set(size) == {gpu.device.physical.subgroup_size}
    assert np.all(lane < size)
    results = []
    for number in range(which.max() + 1):
        members = np.flatnonzero(which == number)
        members = members[np.argsort(lane[members])]
        assert lane[members].tolist() == list(range(len(members)))  # as these drivers fill them
        assert len(set(members // GROUP)) == 1
        results.append(members)
    return results


def data(dtype: str, seed: int) -> Array:
    """Numbers whose sums and products of a few are exact in floats."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, N_GROUPS * GROUP, dtype, endpoint=True)
    return rng.integers(-2, 3, N_GROUPS * GROUP).astype(dtype)


UFUNCS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
FLOATS = "float16 float32 float64".split()


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("name", UFUNCS)
def test_reductions(gpu: vc.Runtime, name: str, dtype: str) -> None:
    if name in ("and", "or", "xor") and dtype in FLOATS:
        return
    function, ufunc = getattr(vc.subgroup, f"{name}_" if iskeyword(name) else name), UFUNCS[name]

    def reduced(x, out, picked):
        i = vc.global_id(0)
        out[i] = function(x[i])
        if i % 3 != 1:
            picked[i] = function(x[i])

    array = data(dtype, 0)
    x, out, picked = gpu.array(array), gpu.zeros(array.size, dtype), gpu.zeros(array.size, dtype)
    launch(vc.kernel(reduced), x, out, picked)
    for members in subgroups(gpu):
        expected = ufunc.reduce(array[members], dtype=dtype)
        assert np.array_equal(out.numpy()[members], np.full(len(members), expected))
        some = members[members % 3 != 1]
        assert np.array_equal(picked.numpy()[some], np.full(len(some), ufunc.reduce(array[some], dtype=dtype)))


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("name", "add mul min max".split())
def test_scans(gpu: vc.Runtime, name: str, dtype: str) -> None:
    inclusive, exclusive = (getattr(vc.subgroup, f"{way}_{name}") for way in ("inclusive", "exclusive"))

    def scanned(x, out, below):
        i = vc.global_id(0)
        out[i] = inclusive(x[i])
        below[i] = exclusive(x[i])

    array, ufunc = data(dtype, 1), UFUNCS[name]
    out, below = gpu.zeros(array.size, dtype), gpu.zeros(array.size, dtype)
    launch(vc.kernel(scanned), gpu.array(array), out, below)
    info = np.iinfo(dtype) if dtype in INTEGERS else None
    low, high = (info.min, info.max) if info else (-np.inf, np.inf)
    first = {"add": 0, "mul": 1, "min": high, "max": low}[name]
    for members in subgroups(gpu):
        with np.errstate(all="ignore"):
            expected = ufunc.accumulate(array[members], dtype=dtype)
        assert np.array_equal(out.numpy()[members], expected)
        assert np.array_equal(below.numpy()[members], np.append(np.array(first, dtype), expected[:-1]))


@pytest.mark.pure
@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_a_row_is_all_that_the_simulator_needs(monkeypatch: pytest.MonkeyPatch, name: str, dtype: str) -> None:
    if name in ("and", "or", "xor") and dtype in FLOATS:
        return
    row = ir.SUBGROUP_OPERATIONS[name]._replace(group_operation=GroupOperation.ExclusiveScan)
    monkeypatch.setitem(ir.SUBGROUP_OPERATIONS, "new", row)
    numbers, ufunc = np.array([5, 3, 6, 3], dtype), UFUNCS[name]
    result = results("new", {lane: [number] for lane, number in enumerate(numbers)})
    assert [result[lane] for lane in (1, 2, 3)] == ufunc.accumulate(numbers)[:-1].tolist()
    assert ufunc(result[0], numbers).tolist() == numbers.tolist()


@vc.kernel
def votes(x, out):
    i = vc.global_id(0)
    if x[i] != 3:
        out[i, 0] = vc.subgroup.all(x[i] < 2)
        out[i, 1] = vc.subgroup.any(x[i] == 0)
        out[i, 2] = vc.subgroup.elect()
        out[i, 3] = vc.subgroup.and_(x[i] < 2) + 2 * vc.subgroup.or_(x[i] == 0) + 4 * vc.subgroup.xor(x[i] == 1)
        ballot = vc.subgroup.ballot(x[i] > 0)
        for k in range(2):
            out[i, 4 + k] = ballot[0] if k == 0 else ballot[1] + ballot[2] + ballot[3]
        out[i, 6] = vc.subgroup.broadcast_first(i)
        out[i, 7] = vc.subgroup.all(True) and not vc.subgroup.any(False)


def test_votes_of_those_that_come(gpu: vc.Runtime) -> None:
    array = np.random.default_rng(2).integers(0, 4, N_GROUPS * GROUP).astype(np.int32)
    out = gpu.full((array.size, 8), 9, np.int32)
    launch(votes, gpu.array(array), out)
    result = out.numpy()
    assert np.all(result[array == 3] == 9)
    for members in subgroups(gpu):
        come = members[array[members] != 3]
        mine = array[come]
        both = np.all(mine < 2) + 2 * np.any(mine == 0) + 4 * (np.sum(mine == 1) % 2)
        bits = sum(1 << k for k, member in enumerate(members) if member in come and array[member] > 0)
        ballot = np.array([bits & 0xFFFFFFFF, bits >> 32], np.uint32).view(np.int32)
        for place, member in enumerate(come):
            expected = [np.all(mine < 2), np.any(mine == 0), place == 0, both, *ballot, come[0], 1]
            assert result[member].tolist() == expected


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_shuffles(gpu: vc.Runtime, dtype: str) -> None:
    n = gpu.device.physical.subgroup_size

    def moved(x, by, out):
        i, own = vc.global_id(0), vc.subgroup.local_id()
        value, size = x[i], vc.subgroup.size()
        out[0, i] = vc.subgroup.shuffle(value, (own * 3 + 1) % size)
        out[1, i] = vc.subgroup.shuffle_xor(value, n - 1)
        out[2, i] = vc.subgroup.shuffle_xor(value, by)
        out[3, i] = vc.subgroup.shuffle_up(value, by)
        out[4, i] = vc.subgroup.shuffle_down(value, 1)
        out[5, i] = vc.subgroup.broadcast(value, n - 1)
        out[6, i] = vc.subgroup.broadcast(value, by)
        out[7, i] = vc.subgroup.shuffle_up(value, 100)
        out[8, i] = vc.subgroup.shuffle_down(value, 100)

    array = data("int8", 3).astype(dtype) if dtype == "bool" else data(dtype, 3)
    out = gpu.zeros((9, array.size), dtype)
    launch(vc.kernel(moved), gpu.array(array), 2, out)
    assert GROUP % n == 0  # so that every lane is there
    for members in subgroups(gpu):
        mine, k = array[members], np.arange(n)
        lanes = [(k * 3 + 1) % n, k ^ (n - 1), k ^ 2, np.where(k < 2, k, k - 2), np.minimum(k + 1, n - 1)]
        lanes += [np.full(n, n - 1), np.full(n, 2), k, k]
        for row, taken in zip(out.numpy(), lanes, strict=True):
            assert np.array_equal(row[members], mine[taken])


@vc.kernel
def tree(x, out):
    i = vc.global_id(0)
    total = x[i]
    mask = vc.subgroup.size() // 2
    while mask > 0:
        total += vc.subgroup.shuffle_xor(total, mask)
        mask //= 2
    out[i] = total


@vc.kernel
def whole(x, out):
    """A sum over a workgroup: of each subgroup's sums."""
    sums = vc.shared(vc.local_size(0), x.dtype)
    i = vc.global_id(0)
    total = vc.subgroup.add(x[i])
    if vc.subgroup.elect():
        sums[vc.subgroup.id()] = total
    vc.barrier()
    if vc.local_id(0) == 0:
        for k in range(1, vc.subgroup.count()):
            total += sums[k]
        out[vc.group_id(0)] = total


def test_sums_of_subgroups_and_workgroups(gpu: vc.Runtime) -> None:
    array = data("int32", 4)
    x, out, totals = gpu.array(array), gpu.zeros(array.size, np.int32), gpu.zeros(N_GROUPS, np.int32)
    launch(tree, x, out)
    for members in subgroups(gpu):
        assert set(out.numpy()[members]) == {array[members].sum(dtype=np.int32)}
    launch(whole, x, totals)
    assert np.array_equal(totals.numpy(), array.reshape(N_GROUPS, GROUP).sum(1, dtype=np.int32))


@vc.kernel
def in_control_flow(x, out, n):
    """The same operation on the same value before, in and after branches and loops: three different results."""
    i = vc.global_id(0)
    value = x[i]
    before, inside, rounds = vc.subgroup.add(value), value * 0, value * 0
    if value > n:
        inside = vc.subgroup.add(value)
    for _ in range(value):
        rounds += vc.subgroup.add(1)
    if value == 0:
        return
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = before, inside, rounds, vc.subgroup.add(value)


@given(st.lists(st.integers(0, 5), min_size=GROUP * N_GROUPS, max_size=GROUP * N_GROUPS), st.integers(0, 5))
def test_operations_stay_where_they_are(gpu: vc.Runtime, numbers: list[int], n: int) -> None:
    array = np.array(numbers, np.int32)
    out = gpu.zeros((array.size, 4), np.int32)
    launch(in_control_flow, gpu.array(array), out, n)
    for members in subgroups(gpu):
        mine = array[members]
        columns = np.zeros((len(mine), 4), int)
        columns[:, 0] = columns[:, 3] = mine.sum()
        columns[mine > n, 1] = mine[mine > n].sum()
        columns[:, 2] = [sum(np.sum(mine > k) for k in range(value)) for value in mine]
        columns[mine == 0] = 0
        assert np.array_equal(out.numpy()[members], columns)


MODULE = """
import vkcompute as vc
def kernel(x, c, n):
    i = vc.global_id(0)
    {statement}
"""
_TYPES = ("f", 1), ("i", 1), int


@pytest.mark.pure
def test_the_passes_move_none() -> None:
    text = "a = vc.subgroup.add(n)\n    for k in range(i):\n        a += vc.subgroup.add(n)\n    c[i] = a"
    kernel: Callable[..., Any] = module(MODULE.format(statement=text)).kernel
    built = build(Compiler, definition_of(kernel), _TYPES).function  # type: ignore[arg-type]
    lines = ir.text(ir.optimize(built)).splitlines()
    at = [n for n, line in enumerate(lines) if "subgroup.add" in line]
    loop = next(n for n, line in enumerate(lines) if "loop" in line)
    assert len(at) == 2
    assert at[0] < loop < at[1]


UNIFORM = ["subgroup.size()", "subgroup.count()"]
DIFFERENT = ["subgroup.id()", "subgroup.local_id()"]
UNPROVED = ["subgroup.add(n)", "subgroup.any(i > 4)", "subgroup.elect()"]


@pytest.mark.pure
@pytest.mark.parametrize("call", UNIFORM + DIFFERENT + UNPROVED)
def test_what_differs_in_a_workgroup(call: str) -> None:
    kernel = module(MODULE.format(statement=f"if vc.{call} > 4: vc.barrier()")).kernel
    if call in DIFFERENT:
        with pytest.raises(KernelError, match="only some invocations"):
            compiled(kernel, *_TYPES)
    else:
        assert bool(compiled(kernel, *_TYPES).sites) == (call in UNPROVED)  # compared at run time


REFUSED = [
    ("vc.subgroup.add(n > 3)", "subgroup.add takes numbers; got bool; use & | ^ or not, or count with int(x)"),
    ("vc.subgroup.and_(x[i])", "subgroup.and_ takes integers; got float32; convert with int(x)"),
    ("vc.subgroup.add(x)", "this takes numbers; got the array x"),
    ("vc.subgroup.shuffle(n, 1.0)", "an index is an integer; got a Python float; write // for /"),
    ("vc.subgroup.shuffle(n, x[i])", "an index is an integer; got float32; write // for /"),
    ("vc.subgroup.shuffle(n, -1)", "lanes of a subgroup are 0 to 127; got a Python int -1"),
    ("vc.subgroup.add()", "subgroup.add takes 1 argument; got 0"),
    ("vc.subgroup.size(0)", "subgroup.size takes 0 arguments; got 1"),
]


@pytest.mark.pure
@pytest.mark.parametrize(("statement", "message"), REFUSED, ids=[item[0] for item in REFUSED])
def test_what_is_refused(statement: str, message: str) -> None:
    with pytest.raises(KernelError) as raised:
        compiled(module(MODULE.format(statement=statement)).kernel, *_TYPES)
    first, line, caret, *_ = str(raised.value).split("\n")
    assert message in first
    assert line[caret.index("^") :].startswith("vc.subgroup")


@pytest.mark.pure
def test_the_names_mean_nothing_outside() -> None:
    names = dir(vc.subgroup)
    assert len(names) == 29
    for name in names:
        function = getattr(vc.subgroup, name)
        with pytest.raises(
            KernelError, match=rf"vc\.subgroup\.{name}\(.* inside of a function that vc.kernel compiles"
        ):
            function(*range(function.__code__.co_argcount))
