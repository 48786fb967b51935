"""Programs that Triton refuses, and that the compiler of blocks could build: they give no number here either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import check_error

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.compat.triton import JITFunction

pytestmark = pytest.mark.pure

SIZE = 4
ALLOWED = tl.constexpr(3)
ANNOTATED: tl.constexpr = 5  # type: ignore[valid-type]
NAN = float("nan")


@triton.jit
def reads_name(x_ptr):
    tl.store(x_ptr, SIZE)


@triton.jit
def reads_constants(x_ptr):
    tl.store(x_ptr, ALLOWED + ANNOTATED)


@triton.jit
def starred(x_ptr):
    first, *_rest = (1, 2, 3)
    tl.store(x_ptr, first)


@triton.jit
def returns_in_while(x_ptr):
    i = 0
    while i < 10:
        if i == 5:
            return
        i += 1


@triton.jit
def of_halves(x_ptr, FUNCTION: tl.constexpr):
    tl.store(x_ptr, FUNCTION(tl.load(x_ptr).to(tl.float16)))


@triton.jit
def long_histogram(x_ptr):
    tl.store(x_ptr + tl.arange(0, 4), tl.histogram(tl.arange(0, 4).to(tl.int64), 4))


@triton.jit
def least(x_ptr, N: tl.constexpr = NAN):
    m: tl.constexpr = min(1.0, N)
    tl.store(x_ptr, m)


@triton.jit
def divided(x_ptr, n: tl.int32, m: tl.uint32):
    tl.store(x_ptr, n / m)


@triton.jit
def stores_constant(x_ptr: tl.const):
    tl.store(x_ptr, 1.0)


@triton.jit
def second(a, b):
    return b


@triton.jit
def stores_called(out_ptr, x_ptr: tl.const, n):
    target = out_ptr if n > 1 else second(out_ptr, x_ptr)
    tl.store(target, 1.0)


@triton.jit
def stores_selected(out_ptr, x_ptr: tl.const, n):
    target = out_ptr if n > 1 else x_ptr
    tl.store(target, 1.0)


@triton.jit
def loads_chosen(out_ptr, x_ptr: tl.const, n):
    source = out_ptr
    if n > 1:
        source = x_ptr
    tl.store(out_ptr, tl.load(source))


@triton.jit
def either(one, other, n):
    if n > 1:
        return one
    return other


@triton.jit
def loads_returned(out_ptr, x_ptr: tl.const, n):
    source = either(out_ptr, x_ptr, n)
    tl.store(out_ptr, tl.load(source))


@triton.jit
def adds_bytes(x_ptr):
    tl.atomic_add(x_ptr.to(tl.pointer_type(tl.int8)), 1)


@triton.jit
def exchanges_bytes(x_ptr):
    tl.atomic_cas(x_ptr, tl.cast(0, tl.int8), tl.cast(1, tl.int8))


@triton.jit
def narrow_descriptor(x_ptr):
    tl.make_tensor_descriptor(x_ptr, [4, 4], [4, 1], [4, 2]).load([0, 0])


@triton.jit
def sliced(x_ptr):
    x_ptr[1:]


@triton.jit
def huge(x_ptr, n):
    tl.store(x_ptr, n + 0xFFFFFFFFFFFFFF)


@triton.jit
def divides_truths(x_ptr, n):
    tl.store(x_ptr, (n > 0) % 2)


@triton.jit
def divides_by_truths(x_ptr, n):
    tl.store(x_ptr, n // (n > 0))


@triton.jit
def loads_without_mask(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr, other=1.0))


@triton.jit(noinline=True)
def doubled(number, by):
    return number * by


@triton.jit
def calls_with_block(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, doubled(2.0, by=tl.load(x_ptr + at)))


@triton.jit
def calls_with_pointers(x_ptr):
    tl.store(x_ptr, doubled(x_ptr + tl.arange(0, 4), 1))


X = np.zeros(4, np.float32)
BYTES = np.zeros(4, np.int8)


@pytest.mark.parametrize(
    ("program", "args", "message", "text"),
    [
        (reads_name, (X,), "write SIZE = tl.constexpr(4), or pass it as an argument", "SIZE"),
        (starred, (X,), "an assignment has no target with *", "first, *_rest"),
        (returns_in_while, (X,), "a loop has no return", "return"),
        (of_halves, (X, tl.exp), "tl.exp takes float32 and float64; got", "FUNCTION("),
        (of_halves, (X, tl.rsqrt), "convert it, as x.to(tl.float32)", "FUNCTION("),
        (long_histogram, (X,), "tl.histogram takes int32", "histogram"),
        (least, (X,), "min of constants takes no NaN; got 1.0, nan", "min("),
        (divided, (X, 3, 4), "Cannot use / with int32 and uint32 because they have different signedness", "n / m"),
        (stores_constant, (X,), "x_ptr is a tl.const", "tl.store"),
        (adds_bytes, (BYTES,), "tl.atomic_add does not support int8, but integers of 32 bits", "atomic_add"),
        (exchanges_bytes, (BYTES,), "tl.atomic_cas does not support int8, but integers of 16 bits", "atomic_cas"),
        (narrow_descriptor, (X,), "block shape must have at least 16 bytes in the last", "make_tensor_descriptor"),
        (sliced, (X,), "unsupported tensor index", "x_ptr[1:]"),
        (calls_with_block, (X, 4), "marked noinline, but was called with non-scalar argument by, a block", "doubled("),
        (calls_with_pointers, (X,), "non-scalar argument number, a pointer to x_ptr; drop noinline", "doubled("),
        (of_halves, (X, tl.sigmoid), "tl.sigmoid takes float32 and float64; got", "FUNCTION("),
        (divides_truths, (X, 3), "Cannot use % with int1 and int32 because they have different signedness", "% 2"),
        (divides_by_truths, (X, 3), "Cannot use // with int32 and int1 because they have", "n // (n > 0)"),
        (loads_without_mask, (X,), "other cannot be provided without mask; got 1.0", "other=1.0"),
        (huge, (X, 3), "72057594037927935 is out of range of int32", "0xFFFF"),
        (stores_constant, (X,), "Cannot store to a constant pointer", "tl.store"),
        (
            stores_called,
            (X, X, 3),
            "Ternary expression with dynamic condition has inconsistent types: after line",
            "out_ptr if",
        ),
        (
            stores_selected,
            (X, X, 3),
            "has inconsistent types: a pointer to a tl.const on some paths only: x_ptr is one, out_ptr is not",
            "out_ptr if",
        ),
        (
            loads_chosen,
            (X, X, 3),
            "Mismatched type for source: after line",
            "tl.load(source)",
        ),
        (
            loads_returned,
            (X, X, 3),
            "Return type mismatch: after line",
            "tl.load(source)",
        ),
    ],
)
def test_what_triton_refuses(program: JITFunction, args: Any, message: str, text: str) -> None:
    with pytest.raises(KernelError) as caught:
        program.interpret[(1,)](*args)
    check_error(caught.value, message, text)


def test_scalars_of_functions_that_are_not_inlined() -> None:
    x = np.full(4, 3, np.float32)
    calls_with_block.interpret[(1,)](x, 1)
    assert x.tolist() == [6, 3, 3, 3]


def test_constants_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(4, np.float32)
    reads_constants.interpret[(1,)](x)
    assert x[0] == 8
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    reads_name.interpret[(1,)](x)
    assert x[0] == 4
