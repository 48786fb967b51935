"""Integers of 64 bits as pairs of words: on devices without them, and for a target that lacks them on others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import interpreter
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions
from runtimes import most_buffers

import vkcompute as vc
from vkcompute import ir
from vkcompute.ir.function import walk
from vkcompute.ir.wide_types import split_wide_types

LACKING = ir.Target(missing_types=("int64", "uint64", "float64"))
HostArray = np.ndarray[Any, Any]
Build = Callable[..., ir.Value]
CORNERS = [
    *(0, 1, 2, 3, 7, 10, 31, 32, 33, 100, 255, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32),
    *(2**32 + 1, 2**33, 10**12, 10**15 + 7, 2**52, 2**53 + 1, 2**62, 2**63 - 1, -1, -2, -3, -10, -(2**31)),
    *(-(2**31) - 1, -(2**32), -(2**32) - 1, -(10**12), -(2**62), -(2**63)),
]
KINDS = ("int64", "uint64")
_RANDOM = np.random.default_rng(0)
_BITS = _RANDOM.integers(-(2**63), 2**63 - 1, 600) >> _RANDOM.integers(0, 64, 600)
PAIRS = np.array([*itertools.product(CORNERS, CORNERS), *_BITS.reshape(-1, 2).tolist()])


def batches(items: Iterable[Any], n: int) -> list[list[Any]]:
    """The items in lists of `n`: each is one kernel."""
    given = list(items)
    return [given[start : start + n] for start in range(0, len(given), n)]


def truncated(x: HostArray, y: HostArray) -> HostArray:
    rest: HostArray = (x - np.fmod(x, y)) // y
    return rest


def computed(gpu: vc.Runtime, arguments: Sequence[HostArray], builds: Sequence[tuple[Build, str]]) -> list[HostArray]:
    """The results, of a dtype each, of functions of a builder and the elements of arrays.

    As many functions are one kernel as the device binds results beside the arrays.
    """
    parts = batches(builds, most_buffers(gpu) - len(arguments))
    return [result for part in parts for result in _launched(gpu, arguments, part)]


def _launched(gpu: vc.Runtime, arguments: Sequence[HostArray], builds: Sequence[tuple[Build, str]]) -> list[HostArray]:
    function = ir.Function("wide", (64, 1, 1))
    inputs = [function.buffer(f"x{at}", ir.SCALARS[host.dtype.name]) for at, host in enumerate(arguments)]
    outputs = [function.buffer(f"out{at}", ir.SCALARS[dtype]) for at, (_, dtype) in enumerate(builds)]
    n, b = function.push("n", ir.UINT32), ir.Builder(function)
    index = b.builtin("global_id")
    with b.if_(b.compute("lt", index, n)).then:
        values = [b.load(memory, index) for memory in inputs]
        for memory, (build, _) in zip(outputs, builds, strict=True):
            b.store(memory, index, build(b, *values))
    ir.verify(function)
    module = ir.lower(ir.optimize(function), LACKING)
    assert not {"Int64", "Float64"}.intersection(module.interface.capabilities)
    length = len(arguments[0])
    sources = [gpu.array(words(host)) for host in arguments]
    results = [gpu.array(words(np.zeros(length, dtype))) for _, dtype in builds]
    gpu.kernel(module.spirv, name="wide")(*sources, *results, length, grid=-(-length // 64))
    return [result.numpy().view(dtype).reshape(-1) for result, (_, dtype) in zip(results, builds, strict=True)]


def words(host: HostArray) -> HostArray:
    """The words of numbers of 64 bits, as rows of two."""
    return host.view(np.uint32).reshape(-1, 2) if host.dtype.itemsize == 8 else host


def compare(result: HostArray, expected: HostArray, *operands: HostArray, what: str) -> None:
    wrong = np.flatnonzero((result != expected) & ~((result != result) & (expected != expected)))
    assert not wrong.size, (what, [x[wrong[:3]] for x in operands], result[wrong[:3]], expected[wrong[:3]])


@pytest.mark.parametrize("kind", KINDS)
def test_operations_on_two_numbers_give_numpys_bits(gpu: vc.Runtime, kind: str) -> None:
    x, y = (np.ascontiguousarray(column).view(kind) for column in PAIRS.T)
    overflows = (x == np.iinfo(kind).min) & (y.view(np.int64) == -1) & (kind == "int64")
    y = np.where((y == 0) | overflows, np.array(3, kind), y)
    shift = y % np.array(64, kind)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
                 "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
                 "div": truncated, "rem": np.fmod, "mod": np.mod}  # fmt: skip
    shifts = {"shl": np.left_shift, "shr": np.right_shift}
    for group in batches((functions | shifts).items(), 4):
        builds = [
            (lambda b, p, q, r, code=code: b.compute(code, p, r if code in shifts else q), kind) for code, _ in group
        ]
        with np.errstate(all="ignore"):
            for (code, function), result in zip(group, computed(gpu, [x, y, shift], builds), strict=True):
                compare(result, function(x, shift if code in shifts else y), x, y, what=code)


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons_and_selections(gpu: vc.Runtime, kind: str) -> None:
    x, y = (np.ascontiguousarray(column).view(kind) for column in PAIRS.T)
    tests = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for group in batches(tests.items(), 3):
        builds = [(lambda b, p, q, code=code: b.cast(b.compute(code, p, q), ir.UINT32), "uint32") for code, _ in group]
        for (code, function), result in zip(group, computed(gpu, [x, y], builds), strict=True):
            compare(result, function(x, y).astype(np.uint32), x, y, what=code)
    (result,) = computed(gpu, [x, y], [(lambda b, p, q: b.select(b.compute("lt", p, q), q, p), kind)])
    compare(result, np.maximum(x, y), x, y, what="select")


@pytest.mark.parametrize("kind", KINDS)
def test_operations_on_one_number(gpu: vc.Runtime, kind: str) -> None:
    x = np.array(CORNERS + _BITS.tolist()).view(kind)
    functions = {"not": np.invert} | ({"neg": np.negative, "abs": np.abs, "sign": np.sign} if kind == "int64" else {})
    builds = [(lambda b, p, code=code: b.compute(code, p), kind) for code in functions]
    for (code, function), result in zip(functions.items(), computed(gpu, [x], builds), strict=True):
        compare(result, function(x), x, what=code)
    for amounts in batches((0, 1, 31, 32, 33, 63), 2):
        codes = [(code, amount) for code in ("shl", "shr") for amount in amounts]
        shifts = [
            (lambda b, p, code=code, by=by: b.compute(code, p, b.const(by, ir.SCALARS[kind])), kind)
            for code, by in codes
        ]
        for (code, amount), result in zip(codes, computed(gpu, [x], shifts), strict=True):
            shift = {"shl": np.left_shift, "shr": np.right_shift}[code]
            compare(result, shift(x, np.array(amount, kind)), x, what=f"{code} {amount}")


@pytest.mark.parametrize("kind", KINDS)
def test_quotients_by_constants(gpu: vc.Runtime, kind: str) -> None:
    x = np.array(CORNERS + _BITS.tolist()).view(kind)
    x = x[x != np.iinfo(kind).min] if kind == "int64" else x
    divisors = [corner for corner in CORNERS if corner and (kind == "int64" or corner > 0)]
    divisors += [] if kind == "int64" else [2**64 - 1, 2**63 + 1, 2**64 - 59]
    scalar = ir.SCALARS[kind]
    for group in batches(divisors, 4):
        for code, function in {"div": truncated, "mod": np.mod}.items():
            builds = [(lambda b, p, by=by, code=code: b.compute(code, p, b.const(by, scalar)), kind) for by in group]
            for by, result in zip(group, computed(gpu, [x], builds), strict=True):
                compare(result, function(x, np.array(by, kind)), x, what=f"{code} {by}")


def test_a_quotient_by_a_constant_has_no_loop_and_no_division() -> None:
    function = ir.Function("seventh", (1, 1, 1))
    data, b = function.buffer("data", ir.INT64), ir.Builder(function)
    index = b.builtin("global_id")
    b.store(data, index, b.compute("div", b.load(data, index), b.const(7, ir.INT64)))
    codes = [op.code for op in walk(split_wide_types(function, LACKING).body)]
    assert not {"loop", "div", "rem", "mod"}.intersection(codes)
    assert len(codes) < 80


@pytest.mark.parametrize("kind", KINDS)
def test_conversions(gpu: vc.Runtime, kind: str) -> None:
    """To the nearest number of each type, ties to even; from floats by truncation."""
    near = [
        int(np.float32(2.0**power)) + step
        for power in (24, 31, 40, 62)
        for step in (-1, 1, 2**power >> 24, 2**power >> 25)
    ]
    x = np.array([*CORNERS, *near, *range(2040, 2060), 65519, 65520, 65536, *_BITS.tolist()]).view(kind)
    targets = ["float32", "int32", "uint32", "int64", "uint64"]
    targets += ["float64"] if "shaderFloat64" in gpu.device.features else []
    builds = [(lambda b, p, to=to: b.cast(p, ir.SCALARS[to]), to) for to in targets]
    with np.errstate(all="ignore"):
        for group in batches(zip(builds, targets, strict=True), 3):
            for (_, to), result in zip(group, computed(gpu, [x], [build for build, _ in group]), strict=True):
                compare(result, x.astype(to), x, what=to)
        floats = np.ldexp(_RANDOM.uniform(0.5, 1, 300), _RANDOM.integers(-2, 63, 300)) * _RANDOM.choice([-1, 1], 300)
        floats = np.concatenate(
            [[0, 0.5, 0.99, 1, 2.0**24, 2.0**31, 2.0**32, 2.0**62], abs(floats) if kind[0] == "u" else floats]
        )
        for source in ("float32", *targets[5:]):
            given = floats.astype(source)
            (result,) = computed(gpu, [given], [(lambda b, p: b.cast(p, ir.SCALARS[kind]), kind)])
            compare(result, given.astype(kind), given, what=source)
        for source in ("int32", "uint32"):
            given = np.array([0, 1, -1, 2**31 - 1, -(2**31)]).astype(source)
            (result,) = computed(gpu, [given], [(lambda b, p: b.cast(p, ir.SCALARS[kind]), kind)])
            compare(result, given.astype(kind), given, what=source)


@pytest.mark.pure
@given(function=functions(wide=True), bias=st.integers(-3, 3), optimized=st.booleans())
def test_random_programs_compute_the_same_with_words(function: ir.Function, bias: int, optimized: bool) -> None:
    ir.verify(function)
    expected = interpreted(function, bias)
    if optimized:
        ir.optimize(function)
    split = split_wide_types(function, LACKING)
    ir.verify(split)
    kinds = [value.type for op in walk(split.body) for value in (*op.args, *op.params, *op.results)]
    assert not {ir.INT64, ir.UINT64}.intersection(kinds)
    assert np.array_equal(interpreted(split, bias), expected)


@given(function=functions(wide=True), bias=st.integers(-3, 3))
def test_random_programs_on_devices(gpu: vc.Runtime, function: ir.Function, bias: int) -> None:
    expected = interpreted(function, bias)
    out = gpu.array(np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32))
    kernel = gpu.kernel(ir.lower(ir.optimize(function), LACKING).spirv, name="random")
    source = gpu.array(np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7)
    kernel(source, out, bias, grid=N_INVOCATIONS // function.local_size[0])
    assert np.array_equal(out.numpy(), expected), ir.text(function)


def interpreted(function: ir.Function, bias: int) -> HostArray:
    out = np.arange(N_INVOCATIONS * SLOTS, dtype=np.int32)
    source = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
    interpreter.run(function, {"src": source, "out": out}, N_INVOCATIONS, {"bias": bias})
    return out


@pytest.mark.parametrize("name", ["add", "min", "max", "mul", "inclusive_add", "exclusive_max", "inclusive_mul"])
def test_subgroups_combine_wide_numbers(gpu: vc.Runtime, name: str) -> None:
    supported = gpu.device.physical.subgroup_operations
    if not {"arithmetic", "shuffle", "ballot"} <= set(supported):
        pytest.skip(f"the device has {', '.join(supported)} only")
    size = gpu.device.physical.subgroup_size
    scan, _, code = name.rpartition("_")
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "mul": np.multiply}[code]
    x = np.resize(_BITS, 64)
    (result,) = computed(gpu, [x], [(lambda b, p: b.subgroup(name, p), "int64")])
    rows = x.reshape(-1, size)
    with np.errstate(all="ignore"):
        scanned = combine.accumulate(rows, axis=1)
    if not scan:
        expected = np.repeat(scanned[:, -1:], size, axis=1)
    elif scan == "inclusive":
        expected = scanned
    else:
        first = np.full((len(rows), 1), np.iinfo(np.int64).min)
        expected = np.concatenate([first, scanned[:, :-1]], axis=1)
    compare(result, expected.reshape(-1), x, what=name)


def test_vectors_and_workgroup_memory(gpu: vc.Runtime) -> None:
    """Turns four numbers around in workgroup memory; they are loaded and stored as a vector."""
    function = ir.Function("turned", (1, 1, 1))
    data = function.buffer("data", ir.INT64, lanes=4)
    tile, b = function.shared("tile", ir.INT64, 4), ir.Builder(function)
    group = b.builtin("group_id")
    loaded = b.load(data, group)
    for at in range(4):
        b.store(tile, b.const(at, ir.UINT32), b.extract(loaded, at))
    b.barrier()
    b.store(data, group, b.vector(*[b.load(tile, b.const(3 - at, ir.UINT32)) for at in range(4)]))
    ir.verify(function)
    module = ir.lower(ir.optimize(function), LACKING).spirv
    x = np.array(CORNERS[:36])
    array = gpu.array(x.view(np.uint32).reshape(-1, 4))
    gpu.kernel(module, name="turned")(array, grid=9)
    assert np.array_equal(array.numpy().view(np.int64).reshape(-1), x.reshape(9, 4)[:, ::-1].reshape(-1))
