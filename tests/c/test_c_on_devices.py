"""Expressions of C in CuPy's kernels, against a compiler of C++ on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gcc import COMPILER, TYPES, Definitions, Generator, Programs, rows, values_by_gcc

import vkcompute as vc
import vkcompute.compat.cupy as cp
from vkcompute.dtypes import computes_float64

INPUTS = ", ".join(f"{dtype} {name}" for name, (dtype, _) in TYPES.items())


@pytest.fixture
def device(gpu: vc.Runtime) -> Iterator[None]:
    """Makes the device under test the one that programs for CuPy find; skips on one that refuses float64."""
    if not computes_float64(gpu.device.features):
        pytest.skip("the device refuses float64")
    vc.set_default_runtime(gpu)
    yield
    vc.set_default_runtime(None)


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
@pytest.mark.usefixtures("device")
def test_random_expressions(tmp_path: Path) -> None:
    generator = Generator(5)
    texts = [generator.expression(1 + k % 3) for k in range(36)]
    table = rows(32, 1)
    expected = values_by_gcc(texts, table, tmp_path)
    outputs = ", ".join(f"{values.dtype.name} out{k}" for k, values in enumerate(expected))
    body = "; ".join(f"out{k} = {text}" for k, text in enumerate(texts))
    results = cp.ElementwiseKernel(INPUTS, outputs, body)(*[cp.asarray(table[name].copy()) for name in TYPES])
    for text, result, values in zip(texts, results, expected, strict=True):
        np.testing.assert_array_equal(result.get(), values, err_msg=text)


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("seed", range(2))
def test_random_statements(tmp_path: Path, seed: int) -> None:
    body, names, table = Programs(seed).program(), ["v0", "v1", "v2", "v3"], rows(32, seed)
    expected = values_by_gcc(names, table, tmp_path, [body] * 4)
    outputs = ", ".join(f"{values.dtype.name} out{k}" for k, values in enumerate(expected))
    text = body + " ".join(f"out{k} = {name};" for k, name in enumerate(names))
    results = cp.ElementwiseKernel(INPUTS, outputs, text)(*[cp.asarray(table[name].copy()) for name in TYPES])
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.get(), values, err_msg=body)


@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("seed", range(2))
def test_random_definitions(tmp_path: Path, seed: int) -> None:
    """Functions and macros before a text: the calls of a kernel, and early returns, loops and arrays in them."""
    written, names, table = Definitions(seed), ["v0", "v1", "v2", "v3"], rows(32, seed)
    preamble, body = written.definitions(), written.program() + written.uses()
    expected = values_by_gcc(names, table, tmp_path, [body] * 4, preamble)
    outputs = ", ".join(f"{values.dtype.name} out{k}" for k, values in enumerate(expected))
    text = body + " ".join(f"out{k} = {name};" for k, name in enumerate(names))
    kernel = cp.ElementwiseKernel(INPUTS, outputs, text, preamble=preamble)
    results = kernel(*[cp.asarray(table[name].copy()) for name in TYPES])
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.get(), values, err_msg=preamble + body)


@pytest.mark.usefixtures("device")
def test_functions_return_from_endless_loops() -> None:
    preamble = "__device__ int g(int x) { while (1) { do { if (x > 5) return x; x += 3; } while (x < 3); x++; } }"
    result = cp.ElementwiseKernel("int32 x", "int32 z", "z = g(x)", preamble=preamble)(cp.arange(9, dtype=np.int32))
    np.testing.assert_array_equal(result.get(), [8, 9, 6, 7, 8, 9, 6, 7, 8])
