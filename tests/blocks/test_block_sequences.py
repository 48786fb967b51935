"""Loops of block programs over tuples and lists, on the device and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.blocks.launching.program import block_program


@block_program
def loops(out_ptr, n, TABLE: tl.constexpr, WHICH: tl.constexpr):
    at = 0
    if WHICH == "tuple":
        for value in (2, n, 3.5):
            tl.store(out_ptr + at, value)
            at += 1
    elif WHICH == "list":
        for value in [n + 1, 2]:
            tl.store(out_ptr + at, value)
            at += 1
    elif WHICH == "constant":
        for value in TABLE:
            if value < 0:
                continue
            tl.store(out_ptr + at, value)
            at += 1
    elif WHICH == "enumerate":
        for place, value in enumerate(TABLE, 2):
            tl.store(out_ptr + place, value)
    elif WHICH == "zip":
        for place, (one, other) in zip((3, 1, 0), ((1, 2), (3, n), (5, 6)), strict=False):
            if place == 0:
                break
            tl.store(out_ptr + place, one * 10 + other)
    elif WHICH == "reversed":
        for place, value in enumerate(reversed(TABLE)):
            tl.store(out_ptr + place, value)
    elif WHICH == "empty":
        for value in ():
            tl.store(out_ptr, value)
        else:
            tl.store(out_ptr, 9)
    else:
        for number, value in zip(range(n), TABLE, strict=False):
            tl.store(out_ptr + number, value + number)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("tuple", [2, 4, 3.5, 0, 0, 0]),
        ("list", [5, 2, 0, 0, 0, 0]),
        ("constant", [7, 8, 0, 0, 0, 0]),
        ("enumerate", [0, 0, 7, -1, 8, 0]),
        ("zip", [0, 34, 0, 12, 0, 0]),
        ("reversed", [8, -1, 7, 0, 0, 0]),
        ("empty", [9, 0, 0, 0, 0, 0]),
        ("range", [7, 0, 10, 0, 0, 0]),
    ],
)
def test_loops(machine: vkcompute.Runtime | None, which: str, expected: list[float]) -> None:
    (result,) = run(machine, loops, (1,), (np.zeros(6, np.float32), 4, (7, -1, 8), which))
    assert result.tolist() == expected


@block_program
def of_blocks(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    total = tl.zeros((N,), tl.float32)
    for sign, block in zip((1, -1, 1), (x, at, 0.5), strict=False):
        total += block * sign
    tl.store(out_ptr + at, total)


def test_a_loop_over_blocks(machine: vkcompute.Runtime | None) -> None:
    x = np.linspace(-3, 5, 16, dtype=np.float32)
    _, result = run(machine, of_blocks, (1,), (x, x * 0, 16))
    np.testing.assert_array_equal(result, x - np.arange(16, dtype=np.float32) + np.float32(0.5))


@block_program
def selected(out_ptr, n, VALUES: tl.constexpr):
    tl.store(out_ptr, VALUES[n])


@pytest.mark.parametrize("at", range(7))
def test_a_variable_selects_from_a_tuple(machine: vkcompute.Runtime | None, at: int) -> None:
    """Of any length, not only of a power of two; with 1, which is a constant, too."""
    values = 3, 1, 4, 1, 5, 9, 2
    (result,) = run(machine, selected, (1,), (np.zeros(1, np.int32), at, values))
    assert result[0] == values[at]


@block_program
def both(n):
    return n, n + 1


@block_program
def over_both(out_ptr, n):
    at = 0
    for value in both(n):
        for k, other in enumerate(both(value)):
            tl.store(out_ptr + at, value * other + k)
            at += 1


def test_a_loop_over_what_a_call_returns(machine: vkcompute.Runtime | None) -> None:
    (result,) = run(machine, over_both, (1,), (np.zeros(4, np.int32), 5))
    assert result.tolist() == [25, 31, 36, 43]


@block_program
def over(out_ptr, n, WHICH: tl.constexpr):
    if WHICH == "int":
        for _ in n:
            tl.store(out_ptr, 1)
    elif WHICH == "block":
        for _ in tl.arange(0, 4):
            tl.store(out_ptr, 1)
    elif WHICH == "float":
        for _ in 2.5:
            tl.store(out_ptr, 1)
    elif WHICH == "pointer":
        for pointer in (out_ptr, out_ptr):
            tl.store(pointer, 1)
    elif WHICH == "dtype":
        for dtype in (tl.float32, tl.int32):
            tl.store(out_ptr, n.to(dtype))
    elif WHICH == "outside":
        for value in OUTSIDE:
            tl.store(out_ptr, value)
    elif WHICH == "zip":
        for value, _ in zip(n, (1, 2), strict=False):
            tl.store(out_ptr, value)
    else:
        tl.store(out_ptr, (1, 2)[tl.arange(0, 2)])


OUTSIDE = [1, 2]


_RULE = "a for loop iterates over range(…), tl.range(…), tl.static_range(…), enumerate(…), zip(…), a tuple or a list"


@pytest.mark.parametrize(
    ("which", "message", "at"),
    [
        ("int", f"{_RULE}; got int32; write range(n)", "for _ in n"),
        ("zip", f"{_RULE}; got int32; write range(n)", "zip(n"),
        ("outside", f"{_RULE}; got a list from outside, which may change; make it a tuple", "in OUTSIDE"),
        ("float", f"{_RULE}; got 2.5", "in 2.5"),
        ("block", f"{_RULE}; got a block of int32[4]; a block is computed as a whole: leave", "tl.arange(0, 4)"),
        ("pointer", "got a pointer to out_ptr in it; index it by constants, as in a loop over tl.static_ra", "for"),
        ("dtype", "a variable selects numbers and blocks from a tuple; got the type fp32 in it; index it", "for dtype"),
        ("index", "a tuple is indexed by a scalar; got a block of int32[2]; write tl.gather", "(1, 2)[tl.arange"),
    ],
)  # fmt: skip
def test_what_has_no_items(machine: vkcompute.Runtime | None, which: str, message: str, at: str) -> None:
    args: tuple[Any, ...] = np.zeros(4, np.int32), 4, which
    with pytest.raises(KernelError) as caught:
        run(machine, over, (1,), args)
    check_error(caught.value, message, at)
