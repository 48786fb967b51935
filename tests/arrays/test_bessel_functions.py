"""Bessel and Airy functions, the scaled erfc and normal quantiles: of arrays, kernels and the host, against scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.operations.host import OWN

RANGES: dict[str, tuple[float, float]] = {
    "i0": (-80, 80), "i0e": (-80, 80), "i1": (-80, 80), "i1e": (-80, 80), "k0": (0.01, 60), "k0e": (0.01, 60),
    "k1": (0.01, 60), "k1e": (0.01, 60), "j0": (-40, 40), "j1": (-40, 40), "y0": (0.01, 40), "y1": (0.01, 40),
    "spherical_j0": (-30, 30), "airy_ai": (-20, 9), "erfcx": (-5, 50), "log_ndtr": (-30, 5), "ndtri": (1e-6, 0.999),
}  # fmt: skip
WAVES = "j0", "j1", "y0", "y1", "spherical_j0", "airy_ai"
LIMITS = {
    "i0": "inf inf 1", "i0e": "0 0 1", "i1": "-inf inf 0", "i1e": "0 0 0", "k0": "nan 0 inf", "k0e": "nan 0 inf",
    "k1": "nan 0 inf", "k1e": "nan 0 inf", "j0": "0 0 1", "j1": "0 0 0", "y0": "nan 0 -inf", "y1": "nan 0 -inf",
    "spherical_j0": "0 0 1", "airy_ai": "0 0 0.3550280538878172", "erfcx": "inf 0 1",
    "log_ndtr": "-inf 0 -0.6931471805599453", "ndtri": "nan nan -inf",
}  # fmt: skip
"""The function of -infinity, infinity and 0."""


def expected(name: str, x: Any) -> Any:
    special = pytest.importorskip("scipy.special")
    if name == "spherical_j0":
        return np.sinc(x / math.pi)
    return special.airy(x)[0] if name == "airy_ai" else getattr(special, name)(x)


def compare(name: str, x: Any, result: Any) -> None:
    """Compares to 24 units in the last place; of functions with zeros, of the size of their waves."""
    unit = float(np.finfo(x.dtype).eps)
    wide = x.astype(np.float64)
    absolute = 24 * unit * (1 + abs(wide) ** 1.5) if name == "airy_ai" else 24 * unit * (name in WAVES)
    near = 4 * unit * wide * wide if name in ("erfcx", "log_ndtr") else 24 * unit  # what rounding x does to exp(x * x)
    right = expected(name, wide)
    assert np.all(abs(result - right) <= np.maximum(near, 24 * unit) * abs(right) + absolute), name


@pytest.mark.pure
@pytest.mark.parametrize("name", [name for name in RANGES if name != "i0"])  # NumPy has it
def test_numbers_of_the_host(name: str) -> None:
    function = OWN[name]
    for dtype in (np.float32, np.float64):
        x = np.linspace(*RANGES[name], 120).astype(dtype)
        compare(name, x, np.array([function(item) for item in x], np.float64))
    results = [function(np.float32(item)) for item in (-math.inf, math.inf, 0, math.nan)]
    np.testing.assert_allclose(results, [*map(float, LIMITS[name].split()), math.nan], rtol=1e-6)


@pytest.mark.parametrize("name", ["i0", "k1", "y0", "j1", "airy_ai", "ndtri", "log_ndtr"])
def test_arrays(gpu: vc.Runtime, name: str) -> None:
    x = np.linspace(*RANGES[name], 999).astype(np.float32)
    compare(name, x, getattr(vnp, name)(gpu.array(x)).numpy().astype(np.float64))
    limits = getattr(vnp, name)(gpu.array(np.float32([-math.inf, math.inf, 0, math.nan]))).numpy()
    np.testing.assert_allclose(limits, [*map(float, LIMITS[name].split()), math.nan], rtol=1e-6)


def test_arrays_of_float64(gpu: vc.Runtime) -> None:
    if lacks(gpu, "float64"):
        pytest.skip("the device has no float64")
    x = np.linspace(*RANGES["erfcx"], 999)
    compare("erfcx", x, vnp.erfcx(gpu.array(x)).numpy())


@vc.kernel
def bessel(x: vc.float32[:], out: vc.float32[:, :]) -> None:
    i = vc.global_id()
    if i < len(x):
        out[0, i] = np.i0(x[i])
        out[1, i] = vc.j0(x[i])  # type: ignore[attr-defined]


def test_kernels(gpu: vc.Runtime) -> None:
    x = np.linspace(-30, 30, 100).astype(np.float32)
    out = gpu.empty((2, 100), np.float32)
    bessel(gpu.array(x), out, grid=(2,))
    for name, result in zip(("i0", "j0"), out.numpy().astype(np.float64), strict=True):
        compare(name, x, result)
