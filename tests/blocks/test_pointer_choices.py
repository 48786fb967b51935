"""Pointers to one of several arguments, truth of pointers, and other rules of values in branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from block_programs import check_error, run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError

A, B, C = (np.arange(n, n + 8, dtype=np.float32) for n in (0, 100, 200))


@triton.jit
def concatenated(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    which, at = tl.program_id(0), tl.arange(0, N)
    if which == 0:
        source, pair = a_ptr + at, (a_ptr, 0)
    elif which == 1:
        source, pair = b_ptr + at, (b_ptr, 1)
    else:
        source, pair = c_ptr + at, (c_ptr, 2)
    tl.store(out_ptr + which * N + at, tl.load(source) + tl.load(pair[0] + pair[1]))


@triton.jit
def stored(a_ptr, b_ptr, n, N: tl.constexpr):
    target = a_ptr + 1 if n > 3 else b_ptr
    tl.store(target + tl.arange(0, N), n)
    tl.atomic_add(tl.where(n > 3, b_ptr, a_ptr) + tl.arange(0, N), 1.0)


@triton.jit
def swapped(a_ptr, b_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        tl.store(out_ptr + i * N + at, tl.load(a_ptr + at))
        a_ptr, b_ptr = b_ptr, a_ptr + 1


@triton.jit
def of_two_types(a_ptr, b_ptr, n):
    source = a_ptr if n > 3 else b_ptr
    tl.store(a_ptr, tl.load(source))


def test_a_branch_chooses_an_argument(machine: vkcompute.Runtime | None) -> None:
    out = run(machine, concatenated, (3,), (A, B, C, np.zeros(24, np.float32)), N=8)[3]
    assert np.array_equal(out, np.concatenate([A + A[0], B + B[1], C + C[2]]))


@pytest.mark.parametrize("n", [2, 9])
def test_chosen_arguments_are_written(machine: vkcompute.Runtime | None, n: int) -> None:
    a, b = run(machine, stored, (1,), (A, B, n), N=4)
    wanted = [A.copy(), B.copy()]
    wanted[n <= 3][n > 3 :][:4] = n
    wanted[n > 3][:4] += 1
    assert np.array_equal(a, wanted[0])
    assert np.array_equal(b, wanted[1])


def test_loops_exchange_arguments(machine: vkcompute.Runtime | None) -> None:
    out = run(machine, swapped, (1,), (A, B, np.zeros(16, np.float32), 4), N=4)[2]
    assert np.array_equal(out, np.concatenate([A[:4], B[:4], A[1:5], B[1:5]]))


def test_views_are_chosen(gpu: vkcompute.Runtime) -> None:
    given, out = gpu.array(np.concatenate([A, B, C])), gpu.zeros(24)
    concatenated[(3,)](given[16:], given[8:16], given[:8], out, N=8)
    assert np.array_equal(out.numpy(), np.concatenate([C + C[0], B + B[1], A + A[2]]))


def test_chosen_arguments_have_bounds(gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_CHECK_BOUNDS", "1")
    given = gpu.array(np.concatenate([A, B]))
    with pytest.raises(KernelError, match=r"accesses element 4 of a_ptr or b_ptr, whose elements are 0 to 3"):
        stored[(1,)](given[8:12], given[4:12], 4, N=4).result()


@pytest.mark.pure
def test_arguments_of_two_types_are_not_chosen() -> None:
    with pytest.raises(KernelError) as caught:
        of_two_types.interpret[(1,)](A.copy(), A.astype(np.int32), 3)
    check_error(caught.value, "of another type or of a table; load or store in each branch", "a_ptr if n > 3")


# -- truth, and, or ---------------------------------------------------------------------------------------------------


@triton.jit
def with_bias(out_ptr, bias_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(out_ptr + at)
    if bias_ptr:
        x += tl.load(bias_ptr + at)
    if not bias_ptr and N > 1:
        x += 1000
    tl.store(out_ptr + at, x)


@pytest.mark.pure
def test_pointers_are_true() -> None:
    for bias, wanted in ((B, A + B), (None, A + 1000)):
        x = A.copy()
        with_bias.interpret[(1,)](x, bias, N=8)
        assert np.array_equal(x, wanted)


@triton.jit
def masks(both_ptr, either_ptr, n, m, R: tl.constexpr, C: tl.constexpr):
    row, column = tl.arange(0, R), tl.arange(0, C)
    at = row[:, None] * C + column[None, :]
    tl.store(both_ptr + at, row[:, None] < n and column[None, :] < m)
    either = row[:, None] < n or column[None, :] < m
    tl.store(either_ptr + at, n > 0 and either)


@pytest.mark.parametrize("shape", [(4, 8), (1, 8), (8, 1), (1, 1)])
def test_and_of_blocks_broadcasts(machine: vkcompute.Runtime | None, shape: Sequence[int]) -> None:
    both, either = run(machine, masks, (1,), (np.zeros(shape, np.bool_), np.zeros(shape, np.bool_), 3, 5, *shape))
    row, column = np.arange(shape[0])[:, None] < 3, np.arange(shape[1]) < 5
    assert np.array_equal(both, row & column)
    assert np.array_equal(either, row | column)


# -- names and numbers ------------------------------------------------------------------------------------------------


@triton.jit
def declared(out_ptr, tiles, SHAPE: tl.constexpr):
    M: tl.constexpr
    N: tl.constexpr
    M, N = SHAPE
    SIZE: tl.constexpr = M * tiles  # of an argument: no constant, as in Triton
    total = tl.sum(tl.full((M, N), 1, tl.int32).reshape(M * N))
    tl.store(out_ptr[None, None, :], total[None, None, :] + SIZE)


def test_declared_names_and_colons(machine: vkcompute.Runtime | None) -> None:
    assert run(machine, declared, (1,), (np.zeros(1, np.int32), 3, (2, 4)))[0][0] == 8 + 6


@triton.jit
def seeds(seed_ptr, out_ptr, uniform_ptr, N: tl.constexpr):
    at, seed = tl.arange(0, N), tl.load(seed_ptr + tl.arange(0, N))
    tl.store(out_ptr + at, tl.randint(seed, at))
    high, low, _, _ = tl.randint4x(seed, at)
    wide = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    tl.store(uniform_ptr + at, tl.uint_to_uniform_float(wide))


@triton.jit
def one_seed(seed, out_ptr, offset):
    tl.store(out_ptr, tl.randint(seed, offset))


@pytest.mark.pure
def test_blocks_of_seeds() -> None:
    given: Any = np.array([5, 5, -77, 123], np.int32)
    out, uniform = np.zeros(4, np.uint32), np.zeros(4, np.float32)
    seeds.interpret[(1,)](given, out, uniform, N=4)
    for at, seed in enumerate(given):
        single = np.zeros(1, np.uint32)
        one_seed.interpret[(1,)](int(seed), single, at)
        assert single[0] == out[at]
    signed = out.astype(np.int32).astype(np.float64)  # the high words
    expected = np.where(signed < 0, -signed - 1, signed) / 2**31
    assert np.allclose(uniform, expected, atol=1e-6)
