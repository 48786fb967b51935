"""Errors of block programs, at compile time and with the place in the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run
from runtimes import lacks

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, ir, tile
from vkcompute.compat.triton import JITFunction

pytestmark = pytest.mark.pure


@triton.jit
def odd_length(x_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 0)


@triton.jit
def odd_block(x_ptr, N: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, 8)
    if KIND == "full":
        tl.full((4, N), 0, tl.int32)
    elif KIND == "zeros":
        tl.zeros([N], tl.int32)
    elif KIND == "broadcast":
        tl.broadcast_to(at[:, None], (8, N))
    elif KIND == "reshape":
        tl.reshape(tl.join(at, at), (N, 2))
    elif KIND == "histogram":
        tl.histogram(at, N)
    elif KIND == "topk":
        tl.topk(at, N)
    elif KIND == "pointer":
        tl.make_block_ptr(x_ptr, (64,), (1,), (0,), (N,), (0,))
    else:
        tl.make_tensor_descriptor(x_ptr, (64,), (1,), (N,))


@triton.jit
def unknown_length(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, n), 0)


@triton.jit
def shapes_differ(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), tl.arange(0, 8) + tl.arange(0, 4))


@triton.jit
def block_condition(x_ptr):
    if tl.arange(0, 8) < 4:
        tl.store(x_ptr, 0)


@triton.jit
def carried_type(x_ptr):
    total = 0.0
    for _ in range(3):
        total += tl.load(x_ptr + tl.arange(0, 8))
    tl.store(x_ptr, total)


@triton.jit
def indexed(x_ptr):
    tl.store(x_ptr, x_ptr[0])


@triton.jit
def of_either_array(x_ptr, y_ptr, n):
    p = x_ptr + 1 if n > 3 else y_ptr
    tl.store(p, 0)


@triton.jit
def floor_division(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) // 2.0)


@triton.jit
def unknown_function(x_ptr):
    tl.store(x_ptr, tl.topological_sort(x_ptr))


@triton.jit
def python_function(x_ptr):
    tl.store(x_ptr, np.sin(tl.load(x_ptr)))


@triton.jit
def int_exponential(x_ptr):
    tl.store(x_ptr, tl.exp(tl.arange(0, 1)))


@triton.jit
def wrong_mask(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), 0, mask=tl.arange(0, 16) < 4)


@triton.jit
def wrong_dot(x_ptr):
    a = tl.zeros((8, 16), tl.float32)
    tl.store(x_ptr + tl.arange(0, 8), tl.dot(a, a))


@triton.jit
def static_failure(x_ptr, N: tl.constexpr):
    tl.static_assert(N % 4 == 0, "N is a multiple of 4")


@triton.jit
def exchange(x_ptr):
    tl.atomic_cas(x_ptr, 0, 1)


@triton.jit
def union(x_ptr):
    tl.atomic_or(x_ptr, 1)


@pytest.mark.parametrize(
    ("program", "dtype", "message"),
    [
        (
            union,
            "float16",
            "atomic or takes integers; x_ptr has fp16; pass its bits, as triton.reinterpret(x, tl.int16)",
        ),
        (
            union,
            "float32",
            "atomic or takes integers; x_ptr has fp32; pass its bits, as triton.reinterpret(x, tl.int32)",
        ),
        (exchange, "bool", "atomic compare exchange takes numbers; x_ptr has int1; use an array of int32"),
    ],
)
def test_atomic_operations_that_elements_lack(program: JITFunction, dtype: str, message: str) -> None:
    with pytest.raises(KernelError) as caught:
        program.interpret[(1,)](np.zeros(8, dtype))
    assert message in str(caught.value)


@triton.jit
def wrong_option(x_ptr, WHICH: tl.constexpr):
    if WHICH == "sem":
        tl.atomic_add(x_ptr, 1.0, sem="wrong")
    if WHICH == "scope":
        tl.atomic_add(x_ptr, 1.0, scope="wrong")
    if WHICH == "cache":
        tl.load(x_ptr, cache_modifier="wrong")
    if WHICH == "eviction":
        tl.store(x_ptr, 1.0, eviction_policy="wrong")
    if WHICH == "precision":
        tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32), input_precision="wrong")


@triton.jit
def full_of_a_block(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), tl.full((8,), tl.arange(0, 8), tl.float32))


@pytest.mark.parametrize(
    ("program", "args", "message", "text"),
    [
        (odd_length, (100,), "powers of two; got 100", "tl.arange(0, N)"),
        (unknown_length, (8,), "known at compile time", "tl.arange(0, n)"),
        (shapes_differ, (), "shapes [8] and [4] do not broadcast", "tl.arange(0, 8) + tl.arange(0, 4)"),
        (block_condition, (), "has no truth value", "if tl.arange(0, 8) < 4:"),
        (carried_type, (), "give it one shape and type", "total += tl.load"),
        (indexed, (), "a block of pointers takes : and None in brackets; got 0; write tl.load", "x_ptr[0]"),
        (floor_division, (), "// takes integers", "tl.load(x_ptr) // 2.0"),
        (unknown_function, (), "has no attribute topological_sort", "tl.topological_sort"),
        (python_function, (), "np.sin cannot be called", "np.sin"),
        (int_exponential, (), "tl.exp takes floats", "tl.exp(tl.arange(0, 1))"),
        (wrong_mask, (), "mask of this store has the shape of the pointer, [8]; got [16]", "tl.store("),
        (wrong_dot, (), "(m, k) and (k, n)", "tl.dot(a, a)"),
        (
            of_either_array,
            (np.zeros(8, np.int32), 5),
            "of another type or of a table; load or store in each branch",
            "if n > 3 else",
        ),
        (
            wrong_option,
            ("sem",),
            "sem is one of None, 'acquire', 'release', 'acq_rel', 'relaxed'; got 'wrong'",
            "tl.atomic_add",
        ),
        (wrong_option, ("scope",), "scope is one of None, 'gpu', 'cta', 'sys'; got 'wrong'", "tl.atomic_add"),
        (wrong_option, ("cache",), "cache_modifier is one of '', '.ca'", "tl.load"),
        (wrong_option, ("eviction",), "eviction_policy is one of '', 'evict_first'", "tl.store"),
        (wrong_option, ("precision",), "input_precision is one of None, 'tf32'", "tl.dot"),
        (full_of_a_block, (), "the value of tl.full is a scalar; got a block of int32[8]", "tl.full"),
        (static_failure, (6,), "static assertion failed: N is a multiple of 4", "tl.static_assert"),
    ],
)
def test_compile_errors(program: JITFunction, args: tuple[Any, ...], message: str, text: str) -> None:
    with pytest.raises(KernelError) as caught:
        program.interpret[(1,)](np.zeros(64, np.float32), *args)
    check_error(caught.value, message, text)


@triton.jit
def beyond(x_ptr, n):
    offsets = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, offsets < n), offsets < n)


def test_the_interpreter_checks_bounds() -> None:
    x = np.zeros(12, np.float32)
    beyond.interpret[(2,)](x, 12)
    with pytest.raises(KernelError, match=r"program \(1, 0, 0\) accesses element 12 of x_ptr, which has 12"):
        beyond.interpret[(2,)](x, 13)


def test_wrong_launches() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        beyond[(1,)](x)
    with pytest.raises(TypeError, match=r"beyond\(\): missing 2 required arguments: 'x_ptr', 'n'"):
        beyond[(1,)]()
    with pytest.raises(TypeError, match="'m'; it takes x_ptr, n, and options, as num_warps; the grid is given as bey"):
        beyond[(1,)](x, m=3)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'num_wraps'; did you mean num_warps\?; it takes"):
        beyond[(1,)](x, 8, num_wraps=3)
    with pytest.raises(ValueError, match="1 to 3 numbers of programs"):
        beyond[(1, 1, 1, 1)](x, 8)
    with pytest.raises(ValueError, match="num_warps must be a power of 2; got 3") as of_warps:
        beyond[(1,)](x, 8, num_warps=3)
    assert isinstance(of_warps.value, AssertionError)
    with pytest.raises(ValueError, match="launch_cooperative_grid=True makes all programs run at the same time"):
        beyond[(2,)](x, 8, launch_cooperative_grid=True)
    with pytest.raises(ValueError, match="ir_override names a file"):
        triton.Config({}, ir_override="program.ttgir")
    with pytest.raises(RuntimeError, match="launched on a grid"):
        beyond(x, 8)
    with pytest.raises(KernelError, match="outside of one"):
        tl.arange(0, 8)


@pytest.mark.parametrize(
    "kind", ["full", "zeros", "broadcast", "reshape", "histogram", "topk", "pointer", "descriptor"]
)
def test_programs_have_blocks_of_powers_of_two(kind: str) -> None:
    """As in Triton, though a builder takes others."""
    with pytest.raises(KernelError, match=r"powers? of two"):
        odd_block.interpret[(1,)](np.zeros(64, np.float32), 6, kind)


def test_a_builder_takes_shapes_of_positive_lengths() -> None:
    function = ir.Function("shapes")
    b = tile.Builder(function)
    block, index = b.arange(0, 24), b.const(0, ir.INT32)
    builds: list[Callable[[], object]] = [
        lambda: b.arange(3, 3),
        lambda: b.full(index, (2, 0)),
        lambda: b.broadcast(index, (0,)),
        lambda: b.histogram(block, 0),
    ]
    for build in builds:
        with pytest.raises(ValueError, match="positive; got 0; build nothing for an empty block"):
            build()
    with pytest.raises(ValueError, match=r"reshape keeps the number of elements; got the shapes \(24,\) and \(2, 24\)"):
        b.reshape(block, (2, 24))
    for mask in (8, -1):
        with pytest.raises(
            ValueError,
            match=rf"mirror takes masks of 0 to 7 for int32\[24\], as 8 .* its 24 elements; got {mask}; gather",
        ):
            b.mirror(block, mask)
    assert b.mirror(block, 7).type is tile.block(ir.INT32, (24,))


@triton.jit
def of_longer_numbers(x_ptr, out_ptr, DTYPE: tl.constexpr):
    tl.store(out_ptr, tl.load(x_ptr).to(DTYPE) * 2)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_the_place_of_a_type_that_the_device_lacks(gpu: vkcompute.Runtime, dtype: str) -> None:
    x = gpu.zeros(1)
    if not lacks(gpu, dtype):
        pytest.skip(f"the device has {dtype}")
    with pytest.raises(vkcompute.MissingFeature) as caught:
        of_longer_numbers[(1,)](x, x, DTYPE=getattr(tl, dtype))
    head, place, line, _ = str(caught.value).split("\n")
    assert head.endswith("it is first used here:")
    assert place.endswith(f"this is {dtype}")
    assert "tl.load(x_ptr).to(DTYPE) * 2" in line


@triton.jit
def large_histogram(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    counts = tl.histogram(at, N)
    tl.store(x_ptr + at, counts)


def test_the_place_of_what_needs_more_workgroup_memory(gpu: vkcompute.Runtime) -> None:
    n = 1 << 16
    with pytest.raises(KernelError) as caught:
        large_histogram[(1,)](gpu.zeros(n), N=n)
    first, line, _ = str(caught.value).split("\n")
    assert "of workgroup memory are left; use smaller blocks" in first
    assert "counts = tl.histogram(at, N)" in line


@triton.jit
def of_unknown_numbers(x_ptr, n, M, flag, WHICH: tl.constexpr):
    if WHICH == "arange":
        tl.store(x_ptr + tl.arange(0, n), 0)
    elif WHICH == "product":
        tl.store(x_ptr + tl.arange(0, n * 2 + M // 4), 0)
    elif WHICH == "shape":
        tl.zeros((n, 4), tl.float32)
    elif WHICH == "called":
        unknown_length_of(x_ptr, M)
    elif WHICH == "range":
        for _ in tl.static_range(n):
            tl.store(x_ptr, 0)
    elif WHICH == "flag":
        tl.static_assert(flag, "flag")
    elif WHICH == "axis":
        tl.sum(tl.zeros((4, 4), tl.float32), n)
    elif WHICH == "new axis":
        tl.expand_dims(tl.arange(0, 4), n)
    elif WHICH == "order":
        tl.permute(tl.zeros((4, 4), tl.float32), (n, 0))
    elif WHICH == "scalar":
        tl.flip(n)
    elif WHICH == "shared":
        for _ in tl.static_range(64):
            n = n * n + n
        tl.store(x_ptr + tl.arange(0, n), 0)
    elif WHICH == "comprehension":
        tl.store(x_ptr, tl.sum(tl.zeros([k + 1 for k in range(n)], tl.int32)))
    elif WHICH == "program":
        tl.store(x_ptr + tl.arange(0, tl.program_id(0) + n), 0)
    elif WHICH == "loaded":
        tl.store(x_ptr + tl.arange(0, tl.load(x_ptr + n)), 0)
    else:
        tl.store(x_ptr + tl.arange(0, triton.next_power_of_2(n)), 0)


@triton.jit
def unknown_length_of(x_ptr, length):
    tl.store(x_ptr + tl.arange(0, length), 0)


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (
            "arange",
            "tl.arange takes ints known at compile time; got int32, which depends on n; annotate it as n: tl.con",
        ),
        ("product", "got int32, which depends on n and M; annotate them as n: tl.constexpr, M: tl.constexpr"),
        (
            "shape",
            "a shape is ints known at compile time; got int32, which depends on n; annotate it as n: tl.constexpr",
        ),
        ("called", "got int32, which depends on M; annotate it as M: tl.constexpr"),
        ("range", "tl.static_range takes ints known at compile time; got int32, which depends on n; annotate it as n"),
        ("flag", "takes a bool known at compile time; got bool, which depends on flag; annotate it as flag"),
        ("axis", "invalid axis int32, which depends on n; annotate it as n"),
        ("new axis", "invalid axis int32, which depends on n; annotate it as n"),
        ("order", "permute takes each axis of a block of fp32[4, 4] once; got int32, which depends on n; annotate it"),
        ("scalar", "this takes a block; got int32\n"),
        ("shared", "got int32, which depends on n; annotate it as n"),
        ("comprehension", "a comprehension takes a tuple; got a range; write a loop over tl.static_range"),
        ("function", "from constants; got int32, which depends on n; annotate it as n"),
        ("program", "tl.arange takes ints known at compile time; got int32\n"),
        ("loaded", "tl.arange takes ints known at compile time; got int32\n"),
    ],
)
def test_numbers_that_are_to_be_constants(which: str, message: str) -> None:
    """An annotation helps where a number depends on arguments only."""
    with pytest.raises(KernelError) as caught:
        of_unknown_numbers.interpret[(1,)](np.zeros(64, np.int32), 8, 16, True, which)
    assert message in str(caught.value)
    assert "^" in str(caught.value)


@triton.jit
def of_wrong_axes(x_ptr, which: tl.constexpr):
    x = tl.arange(0, 4)
    if which == "duplicate":
        x = tl.expand_dims(x, (0, -3))
    elif which == "beyond":
        x = tl.expand_dims(x, -3)
    else:
        tl.store(x_ptr, tl.program_id(20))


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("duplicate", "duplicate axes, normalized axes = [0, 0]; name each new axis"),
        ("beyond", "invalid axis -3; an axis of a block with 2 axes is a constant from -2 to 1"),
        ("grid", "program_id axis must be 0, 1, or 2 but got 20; the grid has up to three axes"),
    ],
)
def test_the_cause_of_an_error_is_its_message(machine: vkcompute.Runtime | None, which: str, message: str) -> None:
    with pytest.raises(KernelError) as caught:
        run(machine, of_wrong_axes, (1,), (np.zeros(4, np.int32), which))
    assert str(caught.value.__cause__).startswith(message)
    assert message in str(caught.value)
