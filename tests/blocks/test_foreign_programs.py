"""Idioms of block programs of other libraries, beside those of the tutorials."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError, MissingFeature
from vkcompute.compat.triton import JITFunction
from vkcompute.compat.triton.language.type_names import get_int_dtype
from vkcompute.compat.triton.tools.tensor_descriptor import TensorDescriptor

N = 16
X = np.random.default_rng(1).normal(size=N).astype(np.float32)


def result(machine: vkcompute.Runtime | None, program: JITFunction, *args: object, dtype: type = np.float32) -> object:
    """The array of N elements that a program writes, given it and other arguments."""
    try:
        return run(machine, program, (1,), (np.zeros(N, dtype), *args))[0]
    except MissingFeature:
        pytest.skip("the device has no such type")


# -- blocks of pointers -----------------------------------------------------------------------------------------------


@triton.jit
def pointers_of_other_shapes(out_ptr, x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    first = tl.load(tl.broadcast_to(x_ptr, (N,)))
    x, places = tl.load((x_ptr + i)[:, None]), tl.expand_dims(out_ptr + i, 0)
    square = tl.reshape(x_ptr + i, (4, N // 4))
    total = tl.sum(tl.load(tl.trans(square)) + 0 * tl.load(square.T) + 0 * tl.load(tl.permute(square, (1, 0))))
    tl.store(places, tl.trans(x) + first + total)


@triton.jit
def chosen_pointers(out_ptr, x_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    halves = tl.where(i < n, x_ptr + i, x_ptr + N - 1)
    tl.store(out_ptr + i, tl.load(halves) + tl.load(tl.where(n > 4, x_ptr + 1, x_ptr + 2)))


@triton.jit
def pointers_of_two_arrays(out_ptr, x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(tl.where(i < 4, x_ptr + i, out_ptr + i)))


@triton.jit
def indexed_pointer(out_ptr, x_ptr, N: tl.constexpr):
    tl.store(out_ptr, x_ptr[3])


def test_blocks_of_pointers_have_shapes(machine: vkcompute.Runtime | None) -> None:
    expected = X + X[0] + X.sum()
    np.testing.assert_allclose(result(machine, pointers_of_other_shapes, X, N), expected, rtol=1e-5, atol=1e-5)


def test_pointers_are_chosen(machine: vkcompute.Runtime | None) -> None:
    computed = result(machine, chosen_pointers, X, 5, N)
    np.testing.assert_array_equal(computed, np.where(np.arange(N) < 5, X, X[-1]) + X[1])


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (pointers_of_two_arrays, "to one array; got a pointer to x_ptr and a pointer to out_ptr"),
        (indexed_pointer, r"takes : and None in brackets; got .*; write tl.load\(pointer \+ offsets\)"),
    ],
)
def test_refused_blocks_of_pointers(program: JITFunction, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run(None, program, (1,), (np.zeros(N, np.float32), X, N))


# -- truth values -----------------------------------------------------------------------------------------------------


@triton.jit
def connected(out_ptr, x_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    inside = (i < n and i > 2) or not i < 14
    tl.store(out_ptr + i, tl.where(n > 4 and inside and x != 0, 1, -1), mask=i != 3)


def test_truth_of_each_element(machine: vkcompute.Runtime | None) -> None:
    i, x = np.arange(N), np.where(np.arange(N) % 4 == 0, 0, X).astype(np.float32)
    expected = np.where((i < 9) & (i > 2) & (x != 0) | (i >= 14) & (x != 0), 1, -1)
    np.testing.assert_array_equal(result(machine, connected, x, 9, N), np.where(i == 3, 0, expected))


# -- functions of reductions ------------------------------------------------------------------------------------------


@triton.jit
def with_unused_blocks(a, b):
    tl.zeros((1,), tl.float32)
    return tl.maximum(a, b) if tl.arange(0, 4).dtype == tl.int32 else a


@triton.jit
def with_a_branch(a, b):
    result = b
    if a > b:
        result = a
    return result


@triton.jit
def with_a_block(a, b):
    return tl.maximum(a, b) + tl.sum(tl.zeros((4,), tl.float32), 0)


@triton.jit
def scanned(out_ptr, x_ptr, combine: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    rows = tl.reshape(tl.load(x_ptr + i), (4, N // 4))
    columns = tl.reshape(tl.associative_scan(rows, 1, combine), (N,))
    tl.store(out_ptr + i, tl.reduce(tl.load(x_ptr + i), 0, combine) + columns)


@pytest.mark.parametrize("combine", [with_unused_blocks, with_a_branch])
def test_functions_of_reductions(machine: vkcompute.Runtime | None, combine: JITFunction) -> None:
    expected = X.max() + np.maximum.accumulate(X.reshape(4, -1), 1).ravel()
    np.testing.assert_array_equal(result(machine, scanned, X, combine, N), expected)


@pytest.mark.pure
def test_functions_of_reductions_have_no_blocks() -> None:
    with pytest.raises(KernelError, match="the function of a scan combines numbers, and has no blocks"):
        run(None, scanned, (1,), (np.zeros(N, np.float32), X, with_a_block, N))


# -- offsets ----------------------------------------------------------------------------------------------------------


@triton.jit
def doubled(out_ptr, x_ptr, N: tl.constexpr, TIMES: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(TIMES):
        x = x + tl.where(x > 5, x, 0)
    tl.store(out_ptr + x * 2 % N, i)


def test_offsets_that_share_many_parts(machine: vkcompute.Runtime | None) -> None:
    """Each doubling uses the one before twice: an analysis of all paths would not end."""
    x, times = np.arange(N, dtype=np.int32), 64
    expected = np.zeros(N, np.int32)
    expected[np.where(x > 5, 0, x) * 2 % N] = x
    computed = result(machine, doubled, x, N, times, dtype=np.int32)
    np.testing.assert_array_equal(computed[2:], expected[2:])


def test_offsets_nested_too_deeply(machine: vkcompute.Runtime | None) -> None:
    if machine is None:
        pytest.skip("the interpreter does not nest")
    with pytest.raises(KernelError, match="nested too deeply; chains of"):
        result(machine, doubled, np.zeros(N, np.int32), N, 400, dtype=np.int32)


# -- constants --------------------------------------------------------------------------------------------------------


@triton.constexpr_function
def integers_of(bits):
    return tl.int32 if bits == 32 else tl.int16


@triton.jit
def is_float(dtype):
    return dtype.value.is_floating()


@triton.jit
def with_constants(out_ptr, x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    dtype: tl.constexpr = integers_of(x.dtype.primitive_bitwidth)
    if x.dtype is tl.float32 and dtype is not tl.float32 and is_float(x.dtype):
        tl.store(out_ptr + i, x.to(dtype, bitcast=True) + N.value)
    tl.static_assert(f"{N.value}" == "16")


def test_constants_and_dtypes(machine: vkcompute.Runtime | None) -> None:
    computed = result(machine, with_constants, X, N, dtype=np.int32)
    np.testing.assert_array_equal(computed, X.view(np.int32) + N)


@triton.jit
def with_names_of_modules(out_ptr, N: tl.constexpr):
    dtype: tl.constexpr = tl.core.get_int_dtype(bitwidth=32, signed=True)
    i = tl.arange(0, N)
    tl.store(out_ptr + i, i.to(dtype) + tl.standard._log2(N) + tl.standard._is_power_of_two(N))


def test_names_of_the_modules_of_triton(machine: vkcompute.Runtime | None) -> None:
    computed = result(machine, with_names_of_modules, N, dtype=np.int32)
    np.testing.assert_array_equal(computed, np.arange(N) + 5)
    with pytest.raises(ValueError, match="integers have 1, 8, 16, 32 or 64 bits; got 24"):
        get_int_dtype(24, signed=True)


@triton.jit
def with_types_of_descriptors(out_ptr, x, kind: tl.constexpr):
    tl.static_assert(x.type == kind)
    tl.static_assert(x.block_type.shape == (4, 8) and x.dtype.is_fp32() and x.dtype.name == "fp32")
    tl.store(out_ptr, x.dtype.primitive_bitwidth)


def test_types_by_their_names(machine: vkcompute.Runtime | None) -> None:
    assert tl.float32.name == "fp32"
    assert repr(tl.float32) == "triton.language.float32"
    assert tl.dtype("float16") == tl.dtype("fp16") == tl.str_to_ty("fp16") == tl.float16
    assert (tl.str_to_ty("i1"), tl.str_to_ty("u8"), tl.str_to_ty("bf16")) == (tl.int1, tl.uint8, tl.bfloat16)
    assert tl.str_to_ty("*i32") == tl.pointer_type(tl.int32) != tl.str_to_ty("*ki32")
    assert tl.str_to_ty(("i32", "constexpr"), 7) == tl.tuple_type((tl.int32, tl.constexpr_type(7)))
    with pytest.raises(KeyError):
        tl.str_to_ty("fp33")
    kinds = tl.int1.kind(), tl.uint8.kind(), tl.float8e5.kind()
    assert [kind.value for kind in kinds] == [0, 1, 2]
    assert kinds[1] is tl.dtype.KIND.INTEGRAL


def test_the_type_of_a_descriptor(machine: vkcompute.Runtime | None) -> None:
    host = np.zeros((8, 8), np.float32)
    array = host if machine is None else machine.array(host)
    kind = tl.str_to_ty("tensordesc<fp32[4, 8]>")
    window = TensorDescriptor.from_tensor(array, [4, 8])
    assert result(machine, with_types_of_descriptors, window, kind, dtype=np.int32)[0] == 32
