"""Programs of the library in the block language, and the hints by which they state what holds in each launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.triton as triton
from vkcompute import tile
from vkcompute.blocks import language as tl
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, build, lowered, specialize
from vkcompute.blocks.launching.program import block_program
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import KernelError

OPTIONS = BlockOptions(4, tile.Target(), CompileOptions())
FLOATS, INT = ArrayType("f", False, True), IntType("int32", 1)


@block_program
def scaled_rows(x_ptr, out_ptr, n_rows, length, FACTOR: tl.constexpr, N: tl.constexpr):
    tl.device_assert(length < 0, "checks are for programs of users")
    for row in tl.range(0, 1):
        columns = (tl.program_id(0) + row) * length + tl.arange(0, N)
        mask = tl.arange(0, N) < length
        tl.store(out_ptr + columns, tl.load(x_ptr + columns, mask) * FACTOR, mask)


@pytest.mark.parametrize("variable", ["TRITON_DEBUG", "TRITON_INTERPRET", "VKCOMPUTE_CHECK_BOUNDS"])
def test_launches_for_any_ints(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A length of 1 is an int like others, and no switch for the programs of users has an effect."""
    monkeypatch.setenv(variable, "1")
    for n_rows, length in ((3, 5), (1, 16), (5, 1)):
        host = np.arange(n_rows * length, dtype=np.float32).reshape(n_rows, length)
        x, out = gpu.array(host), gpu.zeros((n_rows, length))
        for factor in (2.0, -0.0, 0.0):
            scaled_rows[(n_rows, 1, 1)](x, out, n_rows, length, N=16, FACTOR=factor)
            assert out.numpy().tobytes() == (host * np.float32(factor)).tobytes()
    assert scaled_rows[(0, 1, 1)](x, out, 0, 1, 2.0, 16).result() is None
    with pytest.raises(ValueError, match="the grid of scaled_rows is 1 to 3 numbers of programs"):
        scaled_rows[(5.0, 1, 1)](x, out, n_rows, length, N=16, FACTOR=2.0)  # type: ignore[arg-type]


@triton.jit
def rows_of_four(x_ptr, out_ptr, n, HINT: tl.constexpr, N: tl.constexpr):
    if HINT:
        tl.multiple_of(n, 4)
    columns = tl.arange(0, N)
    at = tl.program_id(0) * n + columns
    tl.store(out_ptr + at, tl.load(x_ptr + at, columns < n), columns < n)


@pytest.mark.pure
def test_rows_of_a_stated_multiple_are_accessed_by_fours() -> None:
    for hint in (False, True):
        built = build(rows_of_four.definition, {3: hint, 4: 64}, {0: FLOATS, 1: FLOATS, 2: INT}, OPTIONS)
        assert len(lowered(rows_of_four.definition, built, OPTIONS).aliases) == 2 * hint


def test_a_stated_multiple_has_the_same_results(gpu: vc.Runtime) -> None:
    for n in (4, 12, 36, 64):
        host = np.arange(3 * n, dtype=np.float32)
        x, out = gpu.array(host), gpu.zeros(3 * n)
        rows_of_four[(3,)](x, out, n, HINT=True, N=64)
        assert out.numpy().tolist() == host.tolist()


@pytest.mark.pure
def test_an_interpreted_launch_checks_a_stated_multiple() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(KernelError, match=r"states that 6 is a multiple of 4; drop tl.multiple_of"):
        rows_of_four.interpret[(1,)](x, x.copy(), 6, HINT=True, N=8)


@triton.jit
def bad_multiple(x_ptr, n):
    tl.store(x_ptr, tl.multiple_of(n, n))


@pytest.mark.pure
def test_a_multiple_is_of_a_constant() -> None:
    with pytest.raises(KernelError, match=r"tl\.multiple_of takes ints from 1 on, known at compile time"):
        build(bad_multiple.definition, {}, {0: FLOATS, 1: INT}, OPTIONS)


@triton.jit
def counted(out_ptr, n, HINT: tl.constexpr):
    if HINT:
        tl.assume(n <= 300)
        tl.assume(n > -5)
    total = 0
    for i in range(n):
        total += i
    tl.store(out_ptr, total)


@pytest.mark.pure
@pytest.mark.parametrize("hint", [False, True])
def test_a_stated_bound_bounds_the_loops(hint: bool) -> None:
    """A driver that cuts long loops needs no test of their length at each launch."""
    types: dict[int, Any] = {0: ArrayType("i", False, False), 1: INT}
    most = specialize(counted.definition, {2: hint}, types, OPTIONS).iterations[0]
    assert (most is not None and 300 <= most < 310) is hint


@triton.jit
def combined(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.reduce(x, 0, added))
    tl.store(out_ptr + 1, tl.sum(x, 0))
    tl.store(out_ptr + 2, tl.reduce(x, 0, last))
    largest, total = tl.reduce((x, x), 0, largest_and_total)
    tl.store(out_ptr + 3, largest)
    tl.store(out_ptr + 4, total)


@triton.jit
def added(a, b):
    return b + a


@triton.jit
def last(a, b):
    return b


@triton.jit
def largest_and_total(a, total, other, other_total):
    return max(a, other), total + other_total


def test_commutative_functions_combine_as_the_reductions_of_the_language(gpu: vc.Runtime) -> None:
    """They are recognized, and combine in the order of tl.sum; others keep the order of the elements."""
    host = np.random.default_rng(0).normal(size=1024).astype(np.float32)
    out = gpu.zeros(5)
    combined[(1,)](gpu.array(host), out, N=1024)
    result = out.numpy()
    assert result[0] == result[1] == result[4]
    assert result[2] == host[-1]
    assert result[3] == host.max()
    assert abs(result[0] - host.sum(dtype=np.float64)) < 1e-4
