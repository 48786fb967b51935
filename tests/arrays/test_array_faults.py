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
    found = getattr(vnp, name)(gpu.array(x), gpu.array(y)) + 0
    np.testing.assert_array_equal(found.numpy(), getattr(np, name)(x, y))


@pytest.mark.parametrize(
    ("name", "dtype"), [("fmod", "int32"), ("fmod", "uint32"), ("fmax", "int32"), ("fmin", "uint32"), ("fmin", "bool")]
)
def test_float_functions_of_integers(gpu: vc.Runtime, name: str, dtype: str) -> None:
    x, y = np.array([0, 1, 0, 7], dtype), np.array([0, 0, 1, 3], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    found = getattr(vnp, name)(gpu.array(x), gpu.array(y))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("exponent", [-1, np.int32(-2)])
def test_negative_powers_of_integers(gpu: vc.Runtime, exponent: Any) -> None:
    x = gpu.array(np.array([1, 2], np.int32))
    with pytest.raises(ValueError, match="negative exponents"):
        x**exponent
    np.testing.assert_array_equal((x.astype(np.float32) ** int(exponent)).numpy(), np.array([1, 2]) ** float(exponent))
