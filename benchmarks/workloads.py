"""Workloads for the benchmark of Python kernels: the examples' kernels at sizes that take milliseconds.

Each has a GLSL version in `shaders/`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import HostArray

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

import histogram
import logreg_kernels
import mandelbrot
import matrix_product
import multiply_kernel
import n_body
import saxpy

_LIMIT = 200  # steps of a point of the Mandelbrot set


@dataclass(frozen=True)
class Workload:
    """A kernel and its arguments.

    Attributes:
        shader: name of the GLSL version in `shaders/`, without the suffix.
        kernel: the kernel in Python.
        arrays: initial content of the arrays.
        out: index of the result among the arrays.
        numbers: arguments after the arrays.
        expected: computes numpy's result.
        tolerance: relative to the largest element of the result.
        extents: lengths passed only to the shader.
        groups, local: the grid and the local size, if not the default.
        found: extracts the compared values from the result.
    """

    shader: str
    kernel: Any
    arrays: Sequence[HostArray]
    out: int
    numbers: Sequence[Any]
    expected: Callable[[], HostArray]
    title: str = ""
    tolerance: float = 0.0
    extents: Sequence[int] = ()
    groups: tuple[int, ...] | None = None
    local: tuple[int, ...] | None = None
    found: Callable[[HostArray], HostArray] = np.asarray


def workloads(*, full: bool) -> Iterator[Workload]:
    """All workloads, at full size or at a small one for a test."""
    yield _saxpy(1 << 20 if full else 1000)
    yield _multiply(1 << 20 if full else 1000)
    yield _gradients(1 << 18 if full else 1000)
    yield _histogram(1 << 20 if full else 1000)
    yield _mandelbrot(*((500, 600) if full else (20, 30)))
    yield _matmul(256 if full else 40)
    yield _kick(2048 if full else 100)


def _random(*shape: int) -> HostArray:
    return np.random.default_rng(0).random(shape, np.float32)


def _saxpy(n: int) -> Workload:
    x, y = _random(2, n)
    title = f"saxpy of {n:,}"
    return Workload("saxpy", saxpy.saxpy, [x, y, np.zeros_like(x)], 2, [2.0], lambda: 2 * x + y, title, 1e-6)


def _multiply(n: int) -> Workload:
    a, b = _random(2, n)
    title = f"multiply of {n:,}"
    return Workload("multiply", multiply_kernel.multiply, [a, b, np.zeros_like(a)], 2, [], lambda: a * b, title)


def _gradients(n: int) -> Workload:
    x_i, x_j, y = _random(3, n)
    y, weights = (y > 0.5).astype(np.float32), np.array([0.5, -0.25, 0.125], np.float32)

    def expected() -> HostArray:
        error = 1 / (1 + np.exp(-(weights[0] * x_i + weights[1] * x_j + weights[2]))) - y
        return np.stack([error * x_i, error * x_j, error])

    arrays = [x_i, x_j, y, weights, np.zeros((3, n), np.float32), np.zeros(n, np.float32)]
    groups, title = (-(-n // 64),), f"gradients of a logistic regression of {n:,} rows"
    kernel = logreg_kernels.gradients
    return Workload("gradients", kernel, arrays, 4, [], expected, title, 1e-5, groups=groups, local=(64,))


def _histogram(n: int) -> Workload:
    bins, group = histogram.BINS, histogram.GROUP
    x = np.random.default_rng(0).binomial(bins - 1, 0.5, n).astype(np.int32)

    def expected() -> HostArray:
        return np.bincount(x, minlength=bins).astype(np.uint32)

    arrays, groups = [x, np.zeros(bins, np.uint32)], (-(-n // group),)
    title = f"histogram of {n:,}, in shared memory"
    return Workload("histogram", histogram.histogram, arrays, 1, [], expected, title, groups=groups, local=(group,))


def _mandelbrot(rows: int, columns: int) -> Workload:
    expected = mandelbrot.on_host(rows, columns, _LIMIT)

    def equal(result: HostArray) -> HostArray:  # points at the border of the set depend on rounding
        return np.array(np.mean(abs(result - expected) < 0.5) > 0.95)

    shape, title = (rows, columns), f"Mandelbrot set, {rows} x {columns}, {_LIMIT} steps"
    groups = -(-columns // 16), -(-rows // 8)
    arrays, kernel = [np.zeros(shape, np.float32)], mandelbrot.mandelbrot
    true = partial(np.array, True)
    return Workload("mandelbrot", kernel, arrays, 0, [_LIMIT], true, title, 0.0, shape, groups, (16, 8), equal)


def _matmul(n: int) -> Workload:
    a, b = _random(2, n, n)
    size, title = matrix_product.T, f"matrix product, {n} x {n} x {n}, by tiles"
    groups, arrays = (-(-n // size), -(-n // size)), [a, b, np.zeros_like(a)]
    expected, kernel = partial(np.matmul, a, b), matrix_product.matmul
    return Workload("matmul", kernel, arrays, 2, [], expected, title, 1e-5, (n, n, n), groups, (size, size))


def _kick(n: int) -> Workload:
    position, mass = _random(3, n), _random(n) / n
    velocity, seconds = np.zeros((3, n), np.float32), 0.01

    def expected() -> HostArray:
        return n_body.on_host(position, mass, velocity, seconds, 1)[1].astype(np.float32)

    groups, local, title = (-(-n // n_body.TILE),), (n_body.TILE,), f"attraction among {n:,} bodies, by tiles"
    arrays = [position, mass, velocity]
    return Workload("kick", n_body.kick, arrays, 2, [seconds], expected, title, 1e-4, (), groups, local)
