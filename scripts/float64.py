"""Compares operations on float64 by words with those of the host, to the bit, for random pairs of all exponents.

python scripts/float64.py --pairs 10000000 --seed 1 --only multiply

The device is told to have neither float64 nor int64. A third of the pairs has exponents near each other, and in a sixth
the numbers nearly cancel. All NaN count as equal. The status is 1 after a difference.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["VKCOMPUTE_DISABLE_FEATURES"] = "shaderFloat64,shaderInt64"
sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

HostArray = np.ndarray[Any, Any]
_CHUNK = 1 << 20
OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, y: x + y,
    "subtract": lambda xp, x, y: x - y,
    "multiply": lambda xp, x, y: x * y,
    "divide": lambda xp, x, y: x / y,
    "sqrt": lambda xp, x, y: xp.sqrt(xp.abs(x)),
    "less": lambda xp, x, y: x < y,
    "equal": lambda xp, x, y: x == y,
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "floor": lambda xp, x, y: xp.floor(x),
    "rint": lambda xp, x, y: xp.rint(x),
    "to float32": lambda xp, x, y: x.astype(np.float32),
}


def pairs(rng: np.random.Generator, n: int) -> tuple[HostArray, HostArray]:
    """Returns numbers of all bits; in some pairs, the second one is near the first."""
    bits, others = rng.integers(0, 2**64, (2, n), dtype=np.uint64)
    sizes = rng.integers(-64, 65, n).astype(np.int64)
    near = (bits.view(np.int64) + (sizes << 52)).view(np.uint64)
    cancelling = bits + sizes.view(np.uint64) ^ np.uint64(1 << 63)
    kind = rng.integers(0, 6, n)
    y = np.where(kind < 3, others, np.where(kind < 5, near ^ others >> np.uint64(12), cancelling))
    return bits.view(np.float64), y.view(np.float64)


def differences(result: HostArray, expected: HostArray) -> HostArray:
    """Returns the places where results have other bits, but for NaN."""
    word = np.dtype(f"u{expected.dtype.itemsize}")
    different = np.ascontiguousarray(result).view(word) != np.ascontiguousarray(expected).view(word)
    return np.flatnonzero(different & ~((result != result) & (expected != expected)))


def run(name: str, n_pairs: int, seed: int, runtime: vc.Runtime) -> int:
    """Compares an operation; prints its first differences, and returns their number."""
    rng, n_different, start, function = np.random.default_rng(seed), 0, time.perf_counter(), OPERATIONS[name]
    for first in range(0, n_pairs, _CHUNK):
        x, y = pairs(rng, min(_CHUNK, n_pairs - first))
        result = function(vnp, runtime.array(x), runtime.array(y)).numpy()
        with np.errstate(all="ignore"):
            expected = function(np, x, y)
        wrong = differences(result, expected)
        for at in wrong[: 3 * (not n_different)]:
            print(f"{name} of {x[at]!r} and {y[at]!r}: {result[at]!r}, not {expected[at]!r}")
        n_different += len(wrong)
    print(f"{name:<12} {n_pairs:>12,} pairs  {n_different} different  {time.perf_counter() - start:.0f} s", flush=True)
    return n_different


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10_000_000, help="pairs per operation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=OPERATIONS, help="one operation")
    given = parser.parse_args()
    with vc.Runtime(allow_cpu=True) as runtime:
        if "shaderFloat64" in runtime.device.features:
            raise SystemExit("VKCOMPUTE_DISABLE_FEATURES has left the device float64")
        print(f"{runtime.device}, without float64 and int64")
        names = [given.only] if given.only else [*OPERATIONS]
        return int(sum([run(name, given.pairs, given.seed, runtime) for name in names]) > 0)


if __name__ == "__main__":
    sys.exit(main())
