"""Programs whose exchanges stay within subgroups, and programs that look alike and whose exchanges do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from barriers import check_barriers
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import tile
from vkcompute.blocks.launching.build import ArrayType, BlockOptions, build, lowered
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.ir.function import walk
from vkcompute.tile import lowering
from vkcompute.tile.layout import Layout
from vkcompute.tile.subgroup_exchanges import BeyondSubgroupError, SubgroupExchanges

N = 64


@triton.jit
def rows_of_scores(x_ptr, y_ptr, z_ptr, n, N: tl.constexpr):
    """Two products in a loop, of which the second has rows of the first as operand."""
    m, k = tl.arange(0, 2 * N), tl.arange(0, N)
    total = tl.zeros((2 * N, N), tl.float32)
    q = tl.load(x_ptr + m[:, None] * N + k[None, :])
    for i in range(n):
        y = tl.load(y_ptr + i * N * N + k[:, None] * N + k[None, :])
        scores = tl.minimum(tl.maximum(tl.dot(q, tl.trans(y)), -3.0), 3.0)
        total = tl.dot(scores, y, total)
    tl.store(z_ptr + m[:, None] * N + k[None, :], total)


@triton.jit
def columns_of_scores(x_ptr, y_ptr, z_ptr, n, N: tl.constexpr):
    """The second product has columns of the first as operand, which other subgroups computed."""
    m, k = tl.arange(0, 2 * N), tl.arange(0, N)
    total = tl.zeros((N, N), tl.float32)
    q = tl.load(x_ptr + m[:, None] * N + k[None, :])
    for i in range(n):
        y = tl.load(y_ptr + i * N * N + k[:, None] * N + k[None, :])
        scores = tl.minimum(tl.maximum(tl.dot(q, tl.trans(y)), -3.0), 3.0)
        total = tl.dot(tl.trans(scores), q, total)
    tl.store(z_ptr + k[:, None] * N + k[None, :], total)


@triton.jit
def rows_of_two_lengths(x_ptr, y_ptr, z_ptr, n, N: tl.constexpr):
    """Rows of two blocks are operands, of which the longer ones would overwrite those of other subgroups."""
    m, k, few = tl.arange(0, 2 * N), tl.arange(0, N), tl.arange(0, N // 4)
    total = tl.zeros((2 * N, N), tl.float32)
    q = tl.load(x_ptr + m[:, None] * N + k[None, :])
    for i in range(n):
        y = tl.load(y_ptr + i * N * N + k[:, None] * N + k[None, :])
        upper = tl.load(y_ptr + i * N * N + few[:, None] * N + k[None, :])
        scores = tl.minimum(tl.maximum(tl.dot(q, tl.trans(y)), -3.0), 3.0)
        short = tl.minimum(tl.maximum(tl.dot(q, tl.trans(upper)), -2.0), 2.0)
        total = tl.dot(short, upper, tl.dot(scores, y, total))
    tl.store(z_ptr + m[:, None] * N + k[None, :], total)


def wanted(program: Any, q: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    if program is columns_of_scores:
        return sum(np.clip(q @ y.T, -3, 3).T @ q for y in blocks)
    total = sum(np.clip(q @ y.T, -3, 3) @ y for y in blocks)
    if program is rows_of_two_lengths:
        total = total + sum(np.clip(q @ y[: N // 4].T, -2, 2) @ y[: N // 4] for y in blocks)
    return total


PROGRAMS = {rows_of_scores: False, columns_of_scores: True, rows_of_two_lengths: True}
"""True for those that need barriers."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_numbers_pass_between_products(gpu: vkcompute.Runtime, program: Any) -> None:
    rng = np.random.default_rng(0)
    q, blocks = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2 * N, N), (3, N, N)))
    result = wanted(program, q, blocks)
    got = run(gpu, program, (1,), (q, blocks, np.zeros(result.shape, np.float32), 3), N=N)[2]
    np.testing.assert_array_equal(got, result)


def barriers(program: Any) -> tuple[int, tuple[int, int, int]]:
    """The number of barriers of the workgroup that a program has on a CPU, and the invocations of a workgroup."""
    target = tile.Target(8, 256, 32768, own_elements=8, sums=128)
    array = ArrayType("f", False, True)
    options = BlockOptions(4, target, CompileOptions())
    built = build(program.definition, {4: N}, {0: array, 1: array, 2: array, 3: "int32"}, options)
    function = lowered(program.definition, built, options).function
    check_barriers(function)
    return sum(op.code == "barrier" for op in walk(function.body)), function.local_size


@pytest.mark.pure
@pytest.mark.parametrize(("program", "waits"), PROGRAMS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_programs_wait_only_for_numbers_of_other_subgroups(program: Any, *, waits: bool) -> None:
    assert bool(barriers(program)[0]) is waits


@pytest.mark.pure
def test_a_program_with_many_sums_holds_half_of_them_where_it_has_no_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "vkcompute.tile.subgroup_exchanges._MANY_SUMS"
    monkeypatch.setattr(limit, 1 << 20)
    assert barriers(rows_of_scores) == (0, (64, 1, 1))
    monkeypatch.setattr(limit, 128)
    assert barriers(rows_of_scores) == (0, (128, 1, 1))
    assert barriers(columns_of_scores)[1] == (64, 1, 1)
    monkeypatch.setattr(lowering, "without_barriers", lambda function, target: None)
    n_barriers, local_size = barriers(rows_of_scores)
    assert n_barriers
    assert local_size == (64, 1, 1)


@pytest.mark.pure
def test_subgroups_must_divide_the_memory_in_one_way() -> None:
    def layout(*threads: int | None) -> Layout:
        return Layout((), threads)

    within = SubgroupExchanges(2)
    first: Any = "a span"
    within.check_writes([(first, layout(0, 1, 4))])
    within.check_writes([(first, layout(1, None, 4))])  # lanes of a subgroup see each other's numbers
    for blocks in ([(first, layout(0, 1, 5))], [("another", layout(0, 1, 4))], [(first, layout(0, 1, None))]):
        with pytest.raises(BeyondSubgroupError):
            within.check_writes(blocks)
    within.check_read(layout(0, 1, 4), layout(None, 2, 4))
    with pytest.raises(BeyondSubgroupError):
        within.check_read(layout(0, 1, 4), layout(0, 1, None))
