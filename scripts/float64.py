"""Compares operations on float64 by words with those of the host, to the bit: special values, and random ones.

python scripts/float64.py --pairs 10000000 --seed 1 --only multiply
python scripts/float64.py --pairs 1000000 --oracle softfloat

The device is told to have neither float64 nor int64. All special values are combined with all others. Of the random
pairs, which have all exponents, a third has exponents near each other, and in a sixth the numbers nearly cancel. The
second oracle is Berkeley SoftFloat (`pip install softfloatpy`), which needs no hardware and has fused multiply-adds.
All NaN count as equal. The status is 1 after a difference.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["VKCOMPUTE_DISABLE_FEATURES"] = "shaderFloat64,shaderInt64"
sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

HostArray = np.ndarray[Any, Any]
_CHUNK = 1 << 20


class Operation(NamedTuple):
    """An operation.

    Attributes:
        n: the number of operands.
        compute: computes it with `vkcompute.numpy` or NumPy.
        softfloat: its name in SoftFloat, and more arguments; "" if it has none.
        host: False if NumPy has none.
    """

    n: int
    compute: Callable[..., Any]
    softfloat: str = ""
    more: tuple[int, ...] = ()
    host: bool = True


@vc.vectorize
def fused(x: Any, y: Any, z: Any) -> Any:
    """Returns the sum of a product and a number, rounded once."""
    return vc.fma(x, y, z)


_DOWN, _UP, _TO_ZERO = 2, 3, 1  # SoftFloat's modes
OPERATIONS: dict[str, Operation] = {
    "add": Operation(2, lambda xp, x, y: x + y, "f64_add"),
    "subtract": Operation(2, lambda xp, x, y: x - y, "f64_sub"),
    "multiply": Operation(2, lambda xp, x, y: x * y, "f64_mul"),
    "divide": Operation(2, lambda xp, x, y: x / y, "f64_div"),
    "fmod": Operation(2, lambda xp, x, y: xp.fmod(x, y)),
    "fma": Operation(3, lambda xp, x, y, z: fused(x, y, z), "f64_mul_add", host=False),
    "sqrt": Operation(1, lambda xp, x: xp.sqrt(x), "f64_sqrt"),
    "less": Operation(2, lambda xp, x, y: x < y, "f64_lt"),
    "less equal": Operation(2, lambda xp, x, y: x <= y, "f64_le"),
    "equal": Operation(2, lambda xp, x, y: x == y, "f64_eq"),
    "maximum": Operation(2, lambda xp, x, y: xp.maximum(x, y)),
    "floor": Operation(1, lambda xp, x: xp.floor(x), "f64_round_to_int", (_DOWN,)),
    "ceil": Operation(1, lambda xp, x: xp.ceil(x), "f64_round_to_int", (_UP,)),
    "trunc": Operation(1, lambda xp, x: xp.trunc(x), "f64_round_to_int", (_TO_ZERO,)),
    "rint": Operation(1, lambda xp, x: xp.rint(x), "f64_round_to_int"),
    "to float32": Operation(1, lambda xp, x: x.astype(np.float32), "f64_to_f32"),
    "to float16": Operation(1, lambda xp, x: x.astype(np.float16), "f64_to_f16"),
}


def specials() -> HostArray:
    """Returns zeros, subnormal numbers, limits, infinities, NaN, and numbers at which roundings change."""
    tiny, huge, eps = np.finfo(np.float64).tiny, np.finfo(np.float64).max, np.finfo(np.float64).eps
    positive = [
        0.0, 5e-324, tiny - 5e-324, tiny, tiny + 5e-324, 0.25, 0.5 - eps / 4, 0.5, 1 - eps / 2, 1, 1 + eps, 1.5, 2, 2.5,
        3, 1 / 3, math.pi, 2.0**31, 2.0**32 - 1, 2.0**51 + 0.5, 2.0**52 - 0.5, 2.0**52 + 1, 2.0**53 - 1, 2.0**53,
        2.0**63,
        2.0**64, 1e150, 1e-150, 1e-160, 2.0**-1022 * 1.5, 65504, 65519.99, 65520, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001,
        2.0**-126, 2.0**-149, 2.0**-150, 2.0**-150 * 1.0001, 3.4028234663852886e38, 3.4028235677973362e38,
        3.4028235677973366e38, 2.0**1023, huge, math.inf,
    ]  # fmt: skip
    quiet = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FFC000000000000], np.uint64).view(np.float64)
    return np.concatenate([positive, np.negative(positive), quiet])


def pairs(rng: np.random.Generator, n: int) -> tuple[HostArray, HostArray]:
    """Returns numbers of all bits; in some pairs, the second one is near the first."""
    bits, others = rng.integers(0, 2**64, (2, n), dtype=np.uint64)
    sizes = rng.integers(-64, 65, n).astype(np.int64)
    near = (bits.view(np.int64) + (sizes << 52)).view(np.uint64)
    cancelling = bits + sizes.view(np.uint64) ^ np.uint64(1 << 63)
    kind = rng.integers(0, 6, n)
    y = np.where(kind < 3, others, np.where(kind < 5, near ^ others >> np.uint64(12), cancelling))
    return bits.view(np.float64), y.view(np.float64)


def operands(rng: np.random.Generator, n_operands: int, n: int) -> list[HostArray]:
    """Returns random operands."""
    return [*pairs(rng, n), pairs(rng, n)[0]][:n_operands]


def differences(result: HostArray, expected: HostArray) -> HostArray:
    """Returns the places where results have other bits, but for NaN."""
    word = np.dtype(f"u{expected.dtype.itemsize}")
    different = np.ascontiguousarray(result).view(word) != np.ascontiguousarray(expected).view(word)
    return np.flatnonzero(different & ~((result != result) & (expected != expected)))


def by_host(operation: Operation, given: list[HostArray]) -> HostArray:
    """Returns what NumPy computes."""
    with np.errstate(all="ignore"):
        return np.asarray(operation.compute(np, *given))


def by_softfloat(operation: Operation, given: list[HostArray]) -> HostArray:
    """Returns what Berkeley SoftFloat computes."""
    softfloat: Any = importlib.import_module("softfloatpy")
    function, make = getattr(softfloat, operation.softfloat), softfloat.Float64.from_bytes
    more = [softfloat.RoundingMode(mode) for mode in operation.more]
    columns = [struct.unpack("8s" * x.size, x.astype(">f8").tobytes()) for x in given]
    results = [function(*map(make, row), *more) for row in zip(*columns, strict=True)]
    if isinstance(results[0], bool):
        return np.array(results)
    whole = b"".join([number.to_bytes() for number in results])
    size = len(whole) // len(results)
    return np.frombuffer(whole, f">f{size}").astype(f"f{size}")


def run(name: str, oracle: str, n_random: int, seed: int, runtime: vc.Runtime) -> int:
    """Compares an operation; prints its first differences, and returns their number."""
    operation, rng = OPERATIONS[name], np.random.default_rng(seed)
    n_different, start = 0, time.perf_counter()
    every = [x.ravel() for x in np.meshgrid(*[specials()] * operation.n)]
    sizes = [min(_CHUNK, n_random - first) for first in range(0, n_random, _CHUNK)]
    for given in (every, *(operands(rng, operation.n, size) for size in sizes)):
        result = operation.compute(vnp, *map(runtime.array, given)).numpy()
        expected = (by_host if oracle == "host" else by_softfloat)(operation, given)
        wrong = differences(result, expected)
        for at in wrong[: 3 * (not n_different)]:
            print(f"{name} of {[x[at] for x in given]}: {result[at]!r}, not {expected[at]!r}")
        n_different += len(wrong)
    counts = f"{len(every[0]):>9,} special, {n_random:>11,} random"
    print(f"{name:<12}{counts}  {n_different} different  {time.perf_counter() - start:.0f} s", flush=True)
    return n_different


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10_000_000, help="random pairs per operation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=OPERATIONS, help="one operation")
    parser.add_argument("--oracle", choices=["host", "softfloat"], default="host")
    given = parser.parse_args()
    with vc.Runtime(allow_cpu=True) as runtime:
        if "shaderFloat64" in runtime.device.features:
            raise SystemExit("VKCOMPUTE_DISABLE_FEATURES has left the device float64")
        print(f"{runtime.device}, without float64 and int64")
        names = [given.only] if given.only else [*OPERATIONS]
        known = [
            name for name in names if (OPERATIONS[name].host if given.oracle == "host" else OPERATIONS[name].softfloat)
        ]
        return int(sum([run(name, given.oracle, given.pairs, given.seed, runtime) for name in known]) > 0)


if __name__ == "__main__":
    sys.exit(main())
