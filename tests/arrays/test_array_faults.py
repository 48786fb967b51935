"""Arrays in programs of unusual kinds: each of these once had a wrong result, an error or a leak."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.numpy as vnp

pytestmark = pytest.mark.device_only


@pytest.mark.parametrize("name", ["power", "gcd", "lcm"])
def test_operations_with_loops(gpu: vc.Runtime, name: str) -> None:
    """Their kernels find out about cut loops on some devices, and a lock is held while these are compiled."""
    x, y = np.array([1, 2, 3, 12], np.int32), np.array([5, 0, 4, 8], np.int32)
    result = getattr(vnp, name)(gpu.array(x), gpu.array(y)) + 0
    np.testing.assert_array_equal(result.numpy(), getattr(np, name)(x, y))


@pytest.mark.parametrize(
    ("name", "dtype"), [("fmod", "int32"), ("fmod", "uint32"), ("fmax", "int32"), ("fmin", "uint32"), ("fmin", "bool")]
)
def test_float_functions_of_integers(gpu: vc.Runtime, name: str, dtype: str) -> None:
    x, y = np.array([0, 1, 0, 7], dtype), np.array([0, 0, 1, 3], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    result = getattr(vnp, name)(gpu.array(x), gpu.array(y))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("exponent", [-1, np.int32(-2)])
def test_negative_powers_of_integers(gpu: vc.Runtime, exponent: Any) -> None:
    x = gpu.array(np.array([1, 2], np.int32))
    with pytest.raises(ValueError, match="negative exponents"):
        x**exponent
    np.testing.assert_array_equal((x.astype(np.float32) ** int(exponent)).numpy(), np.array([1, 2]) ** float(exponent))


def test_powers_of_integers_with_negative_exponents_in_an_array(gpu: vc.Runtime) -> None:
    """They were 0, also of 1 and -1. NumPy raises an error."""
    x, y = np.array([2, 1, -1, -1, -3, 5, 7], np.int32), np.array([-1, -2, -3, -2, -1, 2, 0], np.int32)
    assert (gpu.array(x) ** gpu.array(y)).numpy().tolist() == [0, 1, -1, 1, 0, 25, 1]


def test_many_nested_reductions(gpu: vc.Runtime) -> None:
    """They exceeded Python's stack when they were computed, also where an operand is overwritten."""
    x = gpu.array(np.ones(4, np.float32))
    total = x.sum()
    for _ in range(400):
        total = (x * 0 + total * 0.25).sum()
    x[...] = 0
    assert float(total) == 4


def test_closing_a_lazy_operand(gpu: vc.Runtime) -> None:
    x = gpu.array(np.ones(4, np.float32))
    y = x + 1
    z = y * 2 - y.sum()
    y.close()
    assert y.closed
    assert z.tolist() == [-4] * 4


def test_closing_after_the_runtime() -> None:
    with vc.Runtime() as gpu:
        x = gpu.array(np.ones(4, np.float32))
        y = x + 1
        z = y + 1
    for each in (y, x, z):
        each.close()


def test_many_readers_of_a_lazy_array(gpu: vc.Runtime) -> None:
    x = gpu.array(np.ones(4, np.float32)) + 1
    for k in range(100):
        x * k
    assert x.expression is None or len(x.expression.readers) < 50
    assert x.tolist() == [2] * 4


def test_costly_operands_are_computed_once(gpu: vc.Runtime) -> None:
    """Each reader, dropped before the next is made, computed the root again."""
    x = vnp.sqrt(gpu.array(np.full(4, 4, np.float32)))
    assert [float((x * k).sum()) for k in range(3)] == [0, 8, 16]
    assert not x.is_pending


def test_logical_functions_take_ints_of_any_size(gpu: vc.Runtime) -> None:
    x = gpu.array(np.array([True, False]))
    assert vnp.logical_and(x, 10**30).tolist() == [True, False]
    assert vnp.logical_or(x, 0).tolist() == [True, False]


@pytest.mark.every_driver
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_divisions_of_the_least_integer(gpu: vc.Runtime, name: str) -> None:
    """SPIR-V leaves the quotient by -1 undefined; SwiftShader's is 1."""
    x, y = np.array([-(2**31), -(2**31), 7, -7], np.int32), np.array([-1, 1, -1, -1], np.int32)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    np.testing.assert_array_equal(getattr(vnp, name)(gpu.array(x), gpu.array(y)).numpy(), expected)


def test_a_fault_that_nobody_reads_is_told_when_the_runtime_is_closed(gpu: vc.Runtime) -> None:
    runtime = vc.Runtime(gpu.device.name)
    x = runtime.zeros(2)
    _ = x[runtime.array(np.int32([5]))]
    with pytest.warns(RuntimeWarning, match="IndexError: index 5 is out of bounds for axis 0 with size 2"):
        runtime.close()
    assert runtime.device.closed
