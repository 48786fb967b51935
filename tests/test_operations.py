"""Functions of elements: one row is in NumPy's interface, kernels, block programs, epilogues and the reference."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
import vkcompute.numpy as vnp
from vkcompute import ir, nn
from vkcompute.arrays.expressions.dtype_rules import RULES
from vkcompute.operations import FUNCTIONS, Emitter
from vkcompute.operations.recording import recorded

X = np.float32([0, -0.0, 0.5, 1, 2.5, -3, 1e-30, 40, math.inf, math.nan, 0, 0, 7, -90, 0.25, 1])
Y = np.float32([0, 3, 0.5, 1, 2.5, 0, 1e30, 1e-3, 2, 2, math.nan, math.inf, 7, 3, -1, 0])


def xlogy(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


def log_sigmoid(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return -np.logaddexp(0, -x)


def close(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(result, np.asarray(expected), rtol=2e-6, atol=2e-7)


def wide() -> tuple[Any, Any]:
    return X.astype(np.float64), Y.astype(np.float64)


@pytest.fixture
def arrays(gpu: vc.Runtime) -> tuple[Any, Any]:
    return gpu.array(X), gpu.array(Y)


def expected_of(x: Any, y: Any) -> list[Any]:
    return [xlogy(x, y), log_sigmoid(x), np.where(np.isinf(x), np.nan, np.sinc(np.where(np.isinf(x), 0, x)))]


def test_in_numpys_interface(arrays: tuple[Any, Any]) -> None:
    x, y = arrays
    for result, expected in zip((vnp.xlogy(x, y), nn.log_sigmoid(x), vnp.sinc(x)), expected_of(*wide()), strict=True):
        close(result.numpy(), expected)
    assert vnp.xlogy(x.astype(np.int32)[:3], 2).dtype == np.float32
    assert isinstance(vnp.xlogy.outer(x, y[:3]).numpy(), np.ndarray)


def test_in_numpys_interface_of_complex_numbers(gpu: vc.Runtime) -> None:
    x = np.complex64([0, 1, 0.5 + 2j, -3 - 0.25j, 2j, -0.0])
    y = np.complex64([2, 1j, -1, 3 + 4j, 0, 0])
    device = gpu.array(x), gpu.array(y)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(vnp.sinc(device[0]).numpy(), np.sinc(x.astype(np.complex128)), rtol=1e-5, atol=1e-6)
        exact = x[:4].astype(np.complex128) * np.log(y[:4].astype(np.complex128))
    np.testing.assert_allclose(vnp.xlogy(*device).numpy()[:4], exact, rtol=1e-5, atol=1e-6)
    assert vnp.xlogy(*device).numpy()[5] == 0


@pytest.mark.pure
def test_of_numbers_of_the_host() -> None:
    assert vc.gelu(1.0) == pytest.approx(0.8413447460685429)
    assert vc.log_sigmoid(np.float32(2)) == pytest.approx(-math.log1p(math.exp(-2)))


@vc.kernel
def in_kernel(x: vc.float32[:], y: vc.float32[:], out: vc.float32[:, :]) -> None:
    i = vc.global_id()
    if i < len(x):
        out[0, i] = vc.xlogy(x[i], y[i])
        out[1, i] = vc.log_sigmoid(x[i])
        out[2, i] = np.sinc(x[i])


def test_in_kernels(gpu: vc.Runtime, arrays: tuple[Any, Any]) -> None:
    out = gpu.zeros((3, len(X)))
    in_kernel[1, 64](*arrays, out)
    close(out.numpy(), expected_of(*wide()))
    simulated = np.zeros((3, len(X)), np.float32)
    in_kernel.simulate[1, 64](X, Y, simulated)
    close(simulated, expected_of(*wide()))


def test_in_expressions(arrays: tuple[Any, Any]) -> None:
    close(vc.elementwise("xlogy(x, y) + 1")(*arrays).numpy(), xlogy(*wide()) + 1)
    close(vc.elementwise("log_sigmoid(x)")(arrays[0]).numpy(), log_sigmoid(wide()[0]))


@triton.jit
def in_block(x_ptr: Any, y_ptr: Any, out_ptr: Any, n: tl.constexpr) -> None:
    at = tl.arange(0, n)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, vc.xlogy(x, tl.load(y_ptr + at)))
    tl.store(out_ptr + n + at, vc.log_sigmoid(x))


def test_in_block_programs(gpu: vc.Runtime, arrays: tuple[Any, Any]) -> None:
    out = gpu.zeros((2, len(X)))
    in_block[(1,)](*arrays, out, len(X))
    close(out.numpy(), expected_of(*wide())[:2])


@pytest.mark.rotates
def test_as_an_epilogue_of_a_product(gpu: vc.Runtime) -> None:
    random = np.random.default_rng(3)
    x, weight = (random.normal(size=item).astype(np.float32) for item in ((9, 12), (20, 12)))
    sums = x.astype(np.float64) @ weight.T
    given = gpu.array(x), gpu.array(weight)
    for activation, expected in (
        ("log_sigmoid", log_sigmoid(sums)),
        ("sinc", np.sinc(sums)),
        (lambda z: vc.xlogy(z * z, 2.0) - np.sin(z), xlogy(sums * sums, 2.0) - np.sin(sums)),
        (lambda z: np.where(z < 0, -z, 0.5), np.where(sums < 0, -sums, 0.5)),
        (lambda z: z, sums),
    ):
        result = nn.linear(*given, activation=activation)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)
        one_row = nn.linear(gpu.array(x[:1]), given[1], activation=activation)  # no block program takes it
        np.testing.assert_allclose(one_row.numpy(), expected[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.pure
def test_a_python_function_is_an_epilogue_by_its_steps() -> None:
    assert recorded(lambda x: 2 * x + x) == (("multiply", ("0x1.0000000000000p+1", -1)), ("add", (0, -1)))
    for wrong, message in (
        (lambda x: 1.0, "returns what it computes"),
        (lambda x: x if x > 0 else -x, "has no truth value"),
        (lambda x: math.sin(x), "it applies functions"),
        (lambda x: np.sort(x), "no function of elements 'sort'"),
    ):
        with pytest.raises(vc.errors.IrError, match=message):
            recorded(wrong)


@pytest.mark.pure
def test_in_the_reference() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
    try:
        documented = importlib.import_module("reference").documented
    finally:
        sys.path.pop(0)
    assert {"xlogy", "log_sigmoid"} <= documented("vkcompute")
    assert "xlogy" in documented("vkcompute.numpy")
    assert "log_sigmoid" in documented("vkcompute.nn")
    assert "x1 * log(x2)" in str(vnp.xlogy.__doc__)


@pytest.mark.pure
def test_own_functions_compute_numbers() -> None:
    assert vc.xlogy(0, 0.0) == 0
    assert vc.log_sigmoid(-1000.0) == -1000
    assert {"xlogy", "log_sigmoid", "gelu"} <= set(dir(vc))
    with pytest.raises(TypeError, match="xlogy takes 2 numbers; got 1"):
        vc.xlogy(1.0)
    with pytest.raises(TypeError, match=r"write vkcompute\.numpy\.xlogy"):
        vc.xlogy(np.ones(3), 2.0)


@pytest.mark.pure
def test_rows_are_complete() -> None:
    for name, row in FUNCTIONS.items():
        assert row.name == name
        assert not row.public or row.types in RULES, name
        assert set(row.computes) <= {*"biufc"}, name
        assert row.meaning.rstrip(".") == row.meaning != "", name
        codes = [item for item in row.computes.values() if isinstance(item, str)]
        assert all(ir.OPERATIONS[code].arity == row.arity for code in codes), name


@pytest.mark.pure
def test_a_row_refuses_other_kinds() -> None:
    function = ir.Function("odd")
    f = Emitter(ir.Builder(function))
    with pytest.raises(vc.errors.IrError, match="sinc takes numbers of kind f, c; got int32"):
        f.emit(FUNCTIONS["sinc"], f.constant(1, ir.INT32))
    with pytest.raises(vc.errors.IrError, match="loop per element"):
        f.emit(FUNCTIONS["gcd"], f.constant(4, ir.INT32), f.constant(6, ir.INT32))
