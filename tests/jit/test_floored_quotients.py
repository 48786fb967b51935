"""Quotients and remainders of int64 by constants, rounded down, beside NumPy: with integers of 64 bits and without."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

DIVISORS = [
    *(1, 2, 3, 5, 7, 8, 9, 10, 14, 641, 1000, 2**31, 10**9 + 7, 2**32 + 1, 6 * 2**40, 10**18 + 9, 2**62, 2**62 + 1),
    *(2**63 - 25, 2**63 - 1, -1, -2, -3, -7, -8, -1000, -(10**9) - 7, -(2**32), -(2**62) - 1, 1 - 2**63, -(2**63)),
    *(2**31 - 1, 2**31 + 1, 1 - 2**31, -(2**31), -(2**31) - 1),
]
_RANDOM = np.random.default_rng(0)


def dividends() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Corners, numbers of all sizes, and those near multiples of the divisors."""
    bits = _RANDOM.integers(-(2**63), 2**63 - 1, 4000) >> _RANDOM.integers(0, 64, 4000)
    factors = [0, 1, 2, 5, *[int(n) for n in _RANDOM.integers(1, 2**62, 12)]]
    near = [n * (factor % (2**63 // abs(n) + 1)) + step for n in DIVISORS for factor in factors for step in (-1, 0, 1)]
    ends = [sign * 2**power + step for power in (31, 32, 62, 63) for step in (-1, 0, 1) for sign in (-1, 1)]
    inside = [n for n in (*near, *[-n for n in near], *ends) if -(2**63) <= n < 2**63]
    return np.array([*inside, *bits.tolist()], np.int64)


@pytest.fixture(scope="module", params=["", "shaderInt64"])
def runtime(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A runtime with all features, and one that computes on pairs of words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VKCOMPUTE_DISABLE_FEATURES", request.param)
        with vc.Runtime() as opened:
            yield opened


@pytest.mark.parametrize("start", range(0, len(DIVISORS), 8))
def test_results_are_numpys(runtime: vc.Runtime, tmp_path: Path, start: int) -> None:
    divisors, x = DIVISORS[start : start + 8], dividends()
    rows = [f"    out[i, {2 * at}] = x // {n}\n    out[i, {2 * at + 1}] = x % {n}" for at, n in enumerate(divisors)]
    file = tmp_path / "kernels_of_quotients.py"
    head = "import vkcompute as vc\n@vc.kernel\ndef divided(xs, out):\n    i = vc.global_id(0)\n"
    head += "    if i >= len(xs):\n        return\n    x = xs[i]\n"
    file.write_text(head + "\n".join(rows), encoding="utf-8")
    out = runtime.zeros((len(x), 2 * len(divisors)), np.int64)
    kernel: Any = runpy.run_path(str(file))["divided"]
    kernel[len(x)](runtime.array(x), out)
    result = out.numpy()
    with np.errstate(over="ignore"):
        for at, n in enumerate(divisors):
            np.testing.assert_array_equal(result[:, 2 * at], x // np.int64(n), err_msg=f"// {n}")
            np.testing.assert_array_equal(result[:, 2 * at + 1], x % np.int64(n), err_msg=f"% {n}")
