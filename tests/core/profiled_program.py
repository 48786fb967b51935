"""Functions of arrays of all types, products, a softmax and a kernel, beside NumPy: for a device with a profile."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn

RNG = np.random.default_rng(0)
DTYPES = "?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"


@vc.kernel
def counted(x: Any, small: Any, counts: Any, sums: Any) -> None:
    i = vc.global_id(0)
    below = vc.warp.shuffle_up(x[i % x.size], 1)
    if i >= x.size:
        return
    vc.atomic.add(counts, x[i] & 3, 1)
    small[i] = x[i] + below
    sums[i] = x[i] * 1e-300 + below


def check_functions(dtype: str) -> None:
    """Selects, adds, sums, sorts and accumulates."""
    x = RNG.integers(0, 2 if dtype == "?" else 50, (40, 30)).astype(dtype)
    given = vnp.asarray(x)
    assert np.array_equal(vnp.where(given == x[0], given, 0).numpy(), np.where(x == x[0], x, 0)), dtype
    assert np.array_equal((given + given).numpy(), x + x), dtype
    assert vnp.sum(given) == x.sum(), dtype
    if np.dtype(dtype).kind != "c":
        assert np.array_equal(vnp.sort(given, axis=0).numpy(), np.sort(x, axis=0)), dtype
        assert np.array_equal(vnp.cumsum(given, axis=1).numpy(), np.cumsum(x, axis=1)), dtype


def check_programs() -> None:
    """Multiplies matrices and normalizes rows."""
    x = RNG.random((30, 20)).astype("f4")
    assert np.allclose(vnp.matmul(vnp.asarray(x), vnp.asarray(x.T)).numpy(), x @ x.T, rtol=1e-5)
    assert np.allclose(nn.softmax(vnp.asarray(x)).numpy().sum(1), 1)


def check_kernel(runtime: vc.Runtime) -> None:
    """Exchanges within warps, counts by atomic operations, and stores small integers and float64."""
    x = RNG.integers(0, 90, 100).astype("i4")
    small, counts, sums = runtime.zeros(100, np.int8), runtime.zeros(4, np.int32), runtime.zeros(100, np.float64)
    counted[2, 64](runtime.array(x), small, counts, sums)
    below = np.where(np.arange(100) % 32, np.roll(x, 1), x)
    assert np.array_equal(small.numpy(), (x + below).astype(np.int8))
    assert np.array_equal(sums.numpy(), x * 1e-300 + below)
    assert np.array_equal(counts.numpy(), np.bincount(x & 3, minlength=4))


if __name__ == "__main__":
    for name in DTYPES:
        check_functions(name)
    check_programs()
    check_kernel(vnp.zeros(1).runtime)
    print("right")
