"""Generators in sum, any and all, and comparisons of tuples, against the same functions run by Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import check

import vkcompute as vc

PAIRS = ((-1, 2), (1, 3), (4, -5))
N = 16
K = np.arange(N, dtype=np.int32)


def applied(f, n):
    return sum(f(k) for k in range(n))


@vc.kernel
def sums(x, out):
    i = vc.global_id(0)
    out[i, 0] = sum(v for v in x)
    out[i, 1] = sum(a * b for a, b in PAIRS)
    out[i, 2] = sum(x[k] for k in range(i) if x[k] > 100 if k % 3)
    out[i, 3] = sum(j * v for j, v in enumerate(x, i) for _ in range(j % 2))
    out[i, 4] = sum(sum(k for k in range(j)) for j in range(i))
    out[i, 5] = sum(True for k in range(i))
    out[i, 6] = applied(lambda k: k * i, 4)


@vc.kernel
def conditions(x, out):
    i = total = vc.global_id(0)
    n = 0
    while n < 50 and any(x[i] > 40 * k + n for k in range(3)):
        n += 1
    out[i, 0] = n
    if i < x.size and all(x[k] < 150 for k in range(i)):
        out[i, 1] = 1
    elif any(a < i < b for a, b in PAIRS):
        out[i, 1] = 2
    for j in range(3):
        out[i, 2] += all((j + a) % 2 for a, _ in PAIRS) or any(b == j for _, b in PAIRS)
        total += sum(1 for k in range(j))
    out[i, 3] = total


@vc.kernel
def tuples(x, out):
    i = vc.global_id(0)
    a, b = (x[i, 0], x[i, 1]), (x[i, 2], x[i, 3])
    out[i, 0] = (a == b) + 2 * (a != b)
    out[i, 1] = (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b)
    out[i, 2] = (a < (x[i, 2],)) + 2 * (a >= (x[i, 2],))
    out[i, 3] = ((a, 1) <= (b, x[i, 0])) + 2 * (a in ((0, 1), (2, 2)))
    out[i, 4] = ((1, x[i, 0]) > (1, 2)) + 2 * ((1, 2) == (1, 2, 3)) + 4 * ((1, 2.5) > (1, 2))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_sums(gpu: vc.Runtime, dtype: Any) -> None:
    check(gpu, sums, (K * 13 + 40).astype(dtype), np.zeros((N, 7), np.int32))


def test_conditions(gpu: vc.Runtime) -> None:
    check(gpu, conditions, K * 13 % 211, np.zeros((N, 4), np.int32))


def test_tuples_compare_by_their_first_items_that_differ(gpu: vc.Runtime) -> None:
    rows = np.array([*itertools.product(range(3), repeat=4)], np.int32)
    for start in range(0, len(rows) - N, N):
        check(gpu, tuples, rows[start : start + N], np.zeros((N, 5), np.int32))
