"""The kernels of the examples as Python runs them, on a few elements: right, and with nothing that is undefined."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.pure

EXAMPLES = Path(__file__).parent.parent / "examples"
RNG = np.random.default_rng(0)


def names(example: str) -> dict[str, Any]:
    """The names defined by an example, imported without running its main program."""
    return runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name=example)


def floats(*shape: int) -> Any:
    return RNG.random(shape, np.float32)


def test_saxpy() -> None:
    x, y, out = floats(3, 100)
    names("saxpy")["saxpy"].simulate(x, y, out, 2.0)
    np.testing.assert_allclose(out, 2 * x + y, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_multiply(dtype: str) -> None:
    a, b, out = RNG.integers(0, 256, (3, 70)).astype(dtype)
    names("multiply_kernel")["multiply"].simulate(a, b, out)
    np.testing.assert_array_equal(out, a * b)


def test_regression() -> None:
    example = names("logreg_kernels")
    x_i, x_j, y = np.array([[0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]], np.float32)
    weights, products, losses = np.array([0.001, 0.001, 0], np.float32), np.empty((3, 5), np.float32), np.empty_like(y)
    expected, X = weights.astype(float), np.stack([x_i, x_j, np.ones(5)], axis=1)
    for _ in range(3):
        example["gradients"].simulate[1, 8](x_i, x_j, y, weights, products, losses)
        example["descend"].simulate(products, weights, 0.1)
        p = 1 / (1 + np.exp(-X @ expected))
        np.testing.assert_allclose(losses, -y * np.log(p) - (1 - y) * np.log(1 - p), rtol=1e-5)
        expected -= 0.1 * X.T @ (p - y) / 5
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)


def test_mandelbrot() -> None:
    example, out = names("mandelbrot"), np.empty((9, 17), np.float32)
    example["mandelbrot"].simulate(out, 20)
    np.testing.assert_allclose(out, example["on_host"](9, 17, 20), rtol=1e-3)
    assert out.min() == 0 < out.max()


def test_histogram() -> None:
    example = names("histogram")
    data, counts = RNG.integers(0, example["BINS"], 200).astype(np.int32), np.zeros(example["BINS"], np.uint32)
    example["histogram"].simulate[4, 64](data, counts)
    np.testing.assert_array_equal(counts, np.bincount(data, minlength=example["BINS"]))


@pytest.mark.rotates
def test_matrix_product() -> None:
    example = names("matrix_product")
    a, b, out = floats(17, 18), floats(18, 5), np.empty((17, 5), np.float32)
    example["matmul"].simulate[(1, 2), (example["T"], example["T"])](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


@pytest.mark.rotates
def test_n_body() -> None:
    example = names("n_body")
    example["kick"].__wrapped__.__globals__["TILE"] = 8  # several tiles, of few bodies
    position, mass, velocity = floats(3, 21) - 0.5, floats(21), np.zeros((3, 21), np.float32)
    expected = example["on_host"](position, mass, velocity, 0.01, 2)
    for _ in range(2):
        example["kick"].simulate[3, 8](position, mass, velocity, 0.01)
        example["drift"].simulate(position, velocity, 0.01)
    np.testing.assert_allclose(position, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(velocity, expected[1], rtol=1e-4, atol=1e-4)
