"""Masks that compare offsets with bounds: adjacent elements that no bound divides are accessed together."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, IntType, specialize
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.module import Module

N = 64
FAR = 2147483584  # 64 below the end of int32


@triton.jit
def masked(x_ptr, out_ptr, n, least, KIND: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if KIND == "less":
        mask = i < n
    elif KIND == "not less":
        mask = i >= n
    elif KIND == "greater":
        mask = n > i
    elif KIND == "not greater":
        mask = n <= i
    elif KIND == "up to":
        mask = i <= n
    elif KIND == "equal":
        mask = i == n
    elif KIND == "between":
        mask = (i < n) & (i >= least)
    elif KIND == "outside":
        mask = ~(i < n) | (i < least)
    elif KIND == "shifted":
        mask = i + 2 < n
    elif KIND == "far":
        mask = i + 2147483584 < n
    else:
        mask = i * 2 < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask, other=-1), mask=mask)
    tl.store(out_ptr + N + i, tl.load(x_ptr + i, mask=mask, other=-1))


EXPECTED = {
    "less": lambda i, n, least: i < n,
    "not less": lambda i, n, least: i >= n,
    "greater": lambda i, n, least: n > i,
    "not greater": lambda i, n, least: n <= i,
    "up to": lambda i, n, least: i <= n,
    "equal": lambda i, n, least: i == n,
    "between": lambda i, n, least: (i < n) & (i >= least),
    "outside": lambda i, n, least: ~(i < n) | (i < least),
    "shifted": lambda i, n, least: i + 2 < n,
    "far": lambda i, n, least: i + FAR < n,
    "twice": lambda i, n, least: i * 2 < n,
}
_BOUNDS = st.one_of(st.integers(-20, 90), st.integers(-2, 5).map(lambda n: n * 16), st.just(FAR + 32))


@pytest.mark.parametrize("kind", EXPECTED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=_BOUNDS, least=_BOUNDS)
def test_masks_of_bounds(machine: vkcompute.Runtime | None, kind: str, n: int, least: int) -> None:
    x, i = np.arange(100, 100 + N, dtype=np.int32), np.arange(N, dtype=np.int64)
    mask = EXPECTED[kind](i, n, least)
    _, result = run(machine, masked, (1,), (x, np.full((2, N), -7, np.int32), n, least), KIND=kind, N=N)
    np.testing.assert_array_equal(result, [np.where(mask, x, -7), np.where(mask, x, -1)])


@triton.jit
def columns(x_ptr, out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.program_id(0) * N + i
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=i < n, other=0.0), mask=i < n)


@pytest.mark.pure
@pytest.mark.parametrize(("divisor", "has_loop"), [(16, False), (1, True)])
def test_a_bound_between_groups_needs_no_code_for_parts_of_them(divisor: int, has_loop: bool) -> None:
    """The loop stores the elements of cut groups one by one."""
    target = tile.Target(32, 1024, 65536)
    kinds = {0: ArrayType("f", False, True), 1: ArrayType("f", False, True), 2: IntType("int32", divisor)}
    compiled = specialize(columns.definition, {3: 4096}, kinds, BlockOptions(4, target, CompileOptions()))
    assert any(instruction.opcode == spv.OpLoopMerge for instruction in Module.parse(compiled.spirv)) == has_loop
