"""Constants that a program assigns to variables: numbers of the device, with Triton's types and arithmetic.

The expected numbers are those of Triton's interpreter, or, where that keeps Python's numbers, of the code that Triton
generates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError

TENTH = float(np.float32(0.1))
THIRD = float(np.float32(1) / np.float32(3))
LARGEST = 2**31 - 1


@triton.jit
def increased(a):
    return a + 1


@triton.jit
def of_variables(doubles_ptr, longs_ptr, halves_ptr, bytes_ptr, N: tl.constexpr):
    tenth, largest, seven, one, hundred, unsigned = 0.1, 2147483647, -7, 1, 100, 3000000000
    tl.store(doubles_ptr, tenth)
    tl.store(doubles_ptr + 1, one / 3)
    tl.store(doubles_ptr + 2, tl.load(doubles_ptr + 8) * tenth)
    tl.store(doubles_ptr + 3, tl.load(halves_ptr) * tenth)
    tl.store(doubles_ptr + 4, tl.where(tl.load(bytes_ptr) > 0, tl.load(halves_ptr), tenth))
    tl.store(doubles_ptr + 5, -7.5 % 2)
    tl.store(longs_ptr, largest + 1)
    tl.store(longs_ptr + 1, seven // 2)
    tl.store(longs_ptr + 2, seven % 3)
    tl.store(longs_ptr + 3, tl.load(bytes_ptr) * hundred)
    tl.store(longs_ptr + 4, unsigned + unsigned)
    tl.store(longs_ptr + 5, increased(largest))
    tl.store(longs_ptr + 6, increased(2147483647))
    N = N + 2147483643
    N += 1
    tl.store(longs_ptr + 7, N)
    doubled: tl.constexpr = 2147483647
    tl.store(longs_ptr + 8, doubled + 1)
    for hundreds in tl.range(100, 101):
        tl.store(longs_ptr + 9, tl.load(bytes_ptr) * hundreds)


@triton.jit
def of_constants(doubles_ptr, longs_ptr, halves_ptr, bytes_ptr, N: tl.constexpr):
    x = tl.load(doubles_ptr + 8)
    tl.store(doubles_ptr, 0.1)
    tl.store(doubles_ptr + 1, tl.load(doubles_ptr, mask=x < 0, other=0.1))
    tl.store(doubles_ptr + 2, x * 0.1)
    tl.store(doubles_ptr + 3, tl.cast(0.1, tl.float64))
    tl.store(doubles_ptr + 4, tl.full((), 0.1, tl.float64))
    tl.store(doubles_ptr + 6, max(x, 4.1))
    tl.store(longs_ptr, tl.load(halves_ptr) == 3.3)
    tl.store(longs_ptr + 1, tl.load(bytes_ptr) < 200)
    tl.store(longs_ptr + 2, x == 3)
    zero = x - 3
    tl.store(doubles_ptr + 7, 1.0 / -zero)
    tl.store(doubles_ptr + 9, tl.load(bytes_ptr) * 1e300)
    tl.store(doubles_ptr + 10, tl.where(x > 0, 1e-40, 0))
    tl.store(longs_ptr + 3, tl.full((), 200, tl.int8))


@triton.jit
def of_an_atomic(doubles_ptr):
    tl.atomic_add(doubles_ptr, 0.1)


def _run(machine: Any, program: Any) -> list[list[Any]]:
    halves, numbers = np.array([3.3, 1.7], np.float16), np.array([-7, 2], np.int8)
    longs = np.zeros(10, np.int64)
    doubles = np.array([0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0], np.float64)
    return [x.tolist() for x in run(machine, program, (1,), (doubles, longs, halves, numbers), N=4)[:2]]


def test_constants_in_variables_are_numbers_of_the_device(machine: vkcompute.Runtime | None) -> None:
    doubles, longs = _run(machine, of_variables)
    half = float(np.float32(np.float16(3.3)) * np.float32(0.1))
    assert doubles[:6] == [TENTH, THIRD, 3 * TENTH, half, TENTH, 0.5]
    assert longs == [-(2**31), -3, -1, -700, 6000000000 - 2**32, -(2**31), 2**31, -(2**31), 2**31, -700]


def test_constants_become_float32_where_triton_makes_tensors_of_them(machine: vkcompute.Runtime | None) -> None:
    doubles, longs = _run(machine, of_constants)
    assert doubles[:5] == [TENTH, TENTH, 3 * 0.1, TENTH, 0.1]
    assert doubles[6] == float(np.float32(4.1))
    assert doubles[7] == np.inf  # 0 - 0.0 is 0.0
    assert doubles[9:] == [-7e300, 1e-40]  # beyond the range of float32
    assert longs[:4] == [0, 1, 1, -56]


@pytest.mark.pure
def test_constants_of_atomic_operations_become_float32() -> None:
    doubles = np.zeros(1)
    of_an_atomic.interpret[(1,)](doubles)
    assert doubles[0] == TENTH


@triton.jit
def as_a_length(x_ptr):
    n = 4
    tl.store(x_ptr + tl.arange(0, n), 1.0)


@triton.jit
def as_a_text(x_ptr):
    precision = "ieee"
    tl.store(x_ptr, tl.sum(tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32), precision)))


@triton.jit
def as_a_function(x_ptr):
    function = increased
    tl.store(x_ptr, function(1.0))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("program", "message", "text"),
    [
        (as_a_length, "tl.arange takes ints known at compile time", "tl.arange"),
        (as_a_text, "a variable has numbers and blocks; got 'ieee'; write precision: tl.constexpr = …", "ieee"),
        (as_a_function, "a variable has numbers and blocks; got", "function = "),
    ],
)
def test_variables_are_no_constants(program: Any, message: str, text: str) -> None:
    with pytest.raises(KernelError) as caught:
        program.interpret[(1,)](np.zeros(8, np.float32))
    check_error(caught.value, message, text)


@triton.jit
def attended(out_ptr, x_ptr, n, USE_G: tl.constexpr, WIDE: tl.constexpr):
    """Sums rows, and their squares if USE_G; WIDE stays a constant, which only a branch that is not taken changes."""
    total = tl.zeros([WIDE], tl.float32)
    squares = tl.zeros([WIDE], tl.float32) if USE_G else None
    for i in range(n):
        if WIDE > 8:
            WIDE = 8
        row = tl.load(x_ptr + i * WIDE + tl.arange(0, WIDE))
        total += row
        if USE_G:
            squares += row * row
    if squares is not None:
        total += squares
    tl.store(out_ptr + tl.arange(0, WIDE), total)


@pytest.mark.parametrize("use_g", [False, True])
def test_a_branch_that_is_not_taken_changes_no_constant(machine: vkcompute.Runtime | None, use_g: bool) -> None:
    x = np.arange(12, dtype=np.float32)
    result, _ = run(machine, attended, (1,), (np.zeros(4, np.float32), x, 3, use_g, 4))
    rows = x.reshape(3, 4)
    np.testing.assert_array_equal(result, rows.sum(0) + use_g * (rows**2).sum(0))
