"""Bounds of differences between the interpreter and devices: as wide as roundings, and no wider than a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from error_bounds import Undecided, bounded

import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

N = 64


@triton.jit
def functions(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.exp(x) / (tl.sqrt(tl.abs(x)) + 1.0) + tl.sin(x) * tl.log(tl.abs(x) + 2.0))


@triton.jit
def sums(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.cumsum(x, 0))
    tl.store(out_ptr + N, tl.sum(x))


@triton.jit
def products(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.reshape(tl.load(x_ptr + at), (8, N // 8))
    tl.store(out_ptr + tl.reshape(at, (8, 8)), tl.dot(x, tl.trans(x)))


@triton.jit
def decisions(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    inexact = tl.exp(x)
    tl.store(out_ptr + at, tl.where(inexact > tl.exp(1.0), 1.0, 0.0))
    tl.store(out_ptr + N + at, tl.maximum(inexact, tl.exp(1.0)))
    tl.store(out_ptr + 2 * N + at, tl.sort(inexact))
    tl.store(out_ptr + 3 * N + at, inexact.to(tl.bfloat16).to(tl.float32))
    tl.store(out_ptr + 4 * N + at, inexact.to(tl.int32).to(tl.float32))


@triton.jit
def branch(x_ptr, out_ptr, N: tl.constexpr):
    if tl.exp(tl.load(x_ptr)) > tl.exp(tl.load(x_ptr + 1)):
        tl.store(out_ptr, 1.0)


def interpreted(program: Any, x: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the results of a program of float32, and their bounds."""
    out = np.zeros(n, np.float32)
    with bounded() as bounds:
        program.interpret[(1,)](x.astype(np.float32), out, N)
    return out, bounds["out_ptr"]


def numbers() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 2, N).astype(np.float32)


def test_functions() -> None:
    x = numbers()
    result, bounds = interpreted(functions, x, N)
    wide = x.astype(np.float64)
    exact = np.exp(wide) / (np.sqrt(np.abs(wide)) + 1) + np.sin(wide) * np.log(np.abs(wide) + 2)
    assert (np.abs(result - exact) <= bounds).all()
    assert (bounds <= 32 * np.finfo(np.float32).eps * (np.abs(np.exp(wide)) + 2)).all()


def test_sums_in_any_order() -> None:
    x = numbers()
    result, bounds = interpreted(sums, x, N + 1)
    assert bounds[0] == 0
    for seed in range(20):
        total = np.float32(0)
        for each in np.random.default_rng(seed).permutation(x):
            total += each
        assert abs(total - result[N]) <= bounds[N]
    assert (np.abs(result[N] - (result[N] - x)) > bounds[N]).sum() > N - 2, "a term that is left out"
    assert not interpreted(sums, np.round(x), N + 1)[1].any(), "integers have the same sum in any order"


def test_products() -> None:
    x = numbers()
    result, bounds = interpreted(products, x, N)
    wide = x.astype(np.float64).reshape(8, 8)
    difference = np.abs(result.reshape(8, 8) - wide @ wide.T)
    assert (difference <= bounds.reshape(8, 8)).all()
    assert bounds.max() < 1e-4
    assert not interpreted(products, np.round(x), N)[1].any()


def test_decisions() -> None:
    """Where numbers are too close to be told apart, a selection may be either; elsewhere it is certain."""
    x = np.where(np.arange(N) == 5, 1, np.linspace(-2, 1.9, N))
    result, bounds = interpreted(decisions, x, 5 * N)
    chosen, largest, ordered, brain, whole = bounds.reshape(5, N)
    assert chosen.tolist() == [1.0 * (at == 5) for at in range(N)]
    assert largest.max() < 1e-5
    assert ordered.max() < 1e-5
    assert (brain <= np.maximum(result[3 * N : 4 * N] * 2.0**-7, 1e-6)).all()
    assert not whole.any()


def test_a_branch_that_is_undecided() -> None:
    interpreted(branch, np.arange(N), 1)
    with pytest.raises(Undecided):
        interpreted(branch, np.ones(N), 1)
