"""Functions of libdevice that are programs of the language: against scipy, Python and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute import KernelError
from vkcompute.compat.triton.language.extra import libdevice

N = 1024


@triton.jit
def of_one(x_ptr, out_ptr, F: tl.constexpr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), F(tl.load(x_ptr + tl.arange(0, N))))


@triton.jit
def of_two(x_ptr, y_ptr, out_ptr, F: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, F(tl.load(x_ptr + at), tl.load(y_ptr + at)))


@triton.jit
def of_three(x_ptr, y_ptr, z_ptr, out_ptr, F: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, F(tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "of_scipy", "low", "high"),
    [
        ("erfinv", "erfinv", -0.9999, 0.9999), ("erfcinv", "erfcinv", 1e-6, 1.9999), ("normcdf", "ndtr", -3, 5),
        ("j0", "j0", -30, 30), ("j1", "j1", -30, 30), ("y0", "y0", 0.01, 30), ("y1", "y1", 0.2, 30),
        ("cyl_bessel_i0", "i0", -20, 20), ("cyl_bessel_i1", "i1", -20, 20), ("erfcx", "erfcx", -3, 9),
        ("normcdfinv", "ndtri", 1e-5, 0.9999),
    ],
)  # fmt: skip
def test_functions_of_statistics(name: str, of_scipy: str, low: float, high: float) -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(low, high, N).astype(np.float32)
    *_, result = run(None, of_one, (1,), (x, x * 0), F=getattr(libdevice, name), N=N)
    np.testing.assert_allclose(result, getattr(special, of_scipy)(x.astype(np.float64)), rtol=2e-6, atol=5e-7)


@pytest.mark.pure
def test_exponents() -> None:
    x = np.float32([0, 1e-45, 1, -3, np.inf, np.nan, 1e38, 2.0**-126])
    *_, result = run(None, of_one, (1,), (x, np.zeros(8, np.int32)), F=libdevice.ilogb, N=8)
    assert result.tolist() == [-(2**31), -149, 0, 1, 2**31 - 1, -(2**31), 126, -126]
    *_, result = run(None, of_one, (1,), (x, x * 0), F=libdevice.logb, N=8)
    np.testing.assert_array_equal(result, np.float32([-np.inf, -149, 0, 1, np.inf, np.nan, 126, -126]))


def test_exact_functions(machine: vkcompute.Runtime | None) -> None:
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=64).astype(np.float32), rng.integers(-120, 120, 64, dtype=np.int32)
    *_, result = run(machine, of_two, (1,), (x, n, x * 0), F=libdevice.ldexp, N=64)
    np.testing.assert_array_equal(result, np.ldexp(x, n))
    x, y = x * np.float32(50), rng.normal(size=64).astype(np.float32)
    x[:3], y[:3] = (5, 7, -5), 2
    *_, result = run(machine, of_two, (1,), (x, y, x * 0), F=libdevice.remainder, N=64)
    np.testing.assert_array_equal(result, np.float32(list(map(math.remainder, x.tolist(), y.tolist()))))


def _permuted(a: int, b: int, c: int) -> int:
    both = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return sum((both >> 8 * (c >> 4 * at & 7) & 0xFF) << 8 * at for at in range(4))


def _signed24(a: int) -> int:
    return (a & 0xFFFFFF) - (1 << 24 if a & 0x800000 else 0)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mulhi", lambda a, b: a * b >> 32),
        ("mul24", lambda a, b: _signed24(a) * _signed24(b)),
        ("sad", lambda a, b, c: abs(a - b) + c),
        ("byte_perm", _permuted),
    ],
)
def test_functions_of_integers(machine: vkcompute.Runtime | None, name: str, function: Callable[..., int]) -> None:
    rng = np.random.default_rng(1)
    args = [rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(function.__code__.co_argcount)]
    args = [arg >> 4 for arg in args] if name == "sad" else args
    program: Any = of_two if len(args) == 2 else of_three
    *_, result = run(machine, program, (1,), (*args, np.zeros(64, np.int32)), F=getattr(libdevice, name), N=64)
    wanted = [function(*item) & 0xFFFFFFFF for item in zip(*[arg.tolist() for arg in args], strict=True)]
    assert result.view(np.uint32).tolist() == wanted


@pytest.mark.pure
def test_other_types_are_refused() -> None:
    x = np.zeros(8, np.int32)
    with pytest.raises(KernelError, match=r"libdevice\.erfinv takes float32; got a block of int32"):
        run(None, of_one, (1,), (x, x), F=libdevice.erfinv, N=8)
    with pytest.raises(KernelError, match=r"libdevice\.ldexp takes float32"):
        run(None, of_two, (1,), (x, x, x), F=libdevice.ldexp, N=8)
