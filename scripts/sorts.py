"""Compares sorts on a device with NumPy's stable sort, in random cases: dtypes, sizes, layouts, orders of elements.

python scripts/sorts.py --cases 50000 --state build/sorts.json

Adjacent cases share a layout and a method, so that programs and plans are used again, but have elements of their own.
All of them take sort and argsort, and one other function in turn.

A case is repeated by its number: --first 1584 --cases 1. With --state, a run continues one that was ended, for each
device and profile. VKCOMPUTE_PROFILE=poor takes the least that Vulkan guarantees, and --invocations 253 workgroups of
no power of two. The status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]  # the package of this checkout

import numpy as np  # noqa: E402

import vkcompute as vc  # noqa: E402
from vkcompute import rows, segments  # noqa: E402
from vkcompute.arrays.algorithms import equal_rows, merge_sort, radix  # noqa: E402
from vkcompute.arrays.algorithms.sorting import argsort, sort, topk, unique  # noqa: E402
from vkcompute.core.device_profile import emulated  # noqa: E402
from vkcompute.runtime.memory.array import Array  # noqa: E402
from vkcompute.runtime.tuning import ON_CPU, ON_GPU  # noqa: E402

HostArray = Any
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
LONGEST = 40, 300, 1100, 5000, 20_000
"""Elements of cases, of which each size has as many."""
ADJACENT = 8
"""Cases that share a layout and a method."""
_SMALL, _TILES = ON_CPU._replace(radix_part=64), ON_GPU._replace(radix_own=2)
_BY_DIGITS: list[tuple[Any, str, Any]] = [(radix, "LONGEST_MERGED", 64), (merge_sort, "MOST_MERGED", 0)]
METHODS: dict[str, list[tuple[Any, str, Any]]] = {
    "the device's": [],
    "parts": [(radix, "tuning_of", lambda device: _SMALL), *_BY_DIGITS],
    "workgroups": [(radix, "tuning_of", lambda device: _TILES), *_BY_DIGITS],
    "blocks": [(merge_sort, "MOST_MERGED", 0)],
    "small tables": [(equal_rows, "_FEWEST_SLOTS", 16), (equal_rows, "_MOST_PROBES", 8)],
}  # fmt: skip
"""Attributes of modules that make small arrays take the algorithms of large ones."""


def _few(rng: np.random.Generator, x: HostArray) -> HostArray:
    return x.reshape(-1)[rng.integers(0, min(x.size, 4), x.shape)]


def _with_nan(rng: np.random.Generator, x: HostArray) -> HostArray:
    return np.where(rng.random(x.shape) < 0.7, np.array(np.nan, x.dtype), x) if x.dtype.kind == "f" else x


ORDERS: dict[str, Callable[[np.random.Generator, HostArray], HostArray]] = {
    "random": lambda rng, x: x,
    "equal": lambda rng, x: np.full_like(x, x.reshape(-1)[0]),
    "sorted": lambda rng, x: np.sort(x, -1),
    "reversed": lambda rng, x: np.sort(x, -1)[..., ::-1],
    "few": _few,
    "NaN": _with_nan,
}


class Case(NamedTuple):
    """A case: elements, their layout on the device, and how they are sorted."""

    number: int
    text: str
    x: HostArray
    steps: tuple[slice, ...]
    axis: int
    descending: bool
    method: str
    rng: np.random.Generator


def _elements(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
    """Returns random bits, or few different numbers: floats have zeros of both signs, infinities and NaN."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if rng.random() < 0.5:
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(rng.bytes(nbytes), dtype).reshape(shape).copy()
    numbers = [0, 1, 2, 3, 5, 100] if dtype.kind in "iu" else [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5]
    return rng.choice(np.array(numbers, dtype), shape)


def case_of(number: int, dtypes: list[str]) -> Case:
    """Draws the case with a number, which is the same in each run."""
    shared, rng = np.random.default_rng([number // ADJACENT, 7]), np.random.default_rng([number, 8])
    dtype, method, order = str(shared.choice(dtypes)), str(shared.choice(list(METHODS))), str(rng.choice(list(ORDERS)))
    n, n_axes = int(shared.integers(1, shared.choice(LONGEST) + 1)), int(shared.integers(1, 4))
    shape = {1: (n,), 2: (int(shared.integers(1, 9)), n), 3: (2, n, int(shared.integers(1, 4)))}[n_axes]
    steps = tuple([slice(None, None, int(shared.choice([1, 1, 1, -1, 2]))) for _ in shape])
    axis, descending = int(shared.integers(0, n_axes)), bool(shared.random() < 0.5)
    x = ORDERS[order](rng, _elements(rng, shape, np.dtype(dtype)))
    text = f"{dtype}{shape} {order}, steps {[item.step for item in steps]}, axis {axis}, {method}"
    return Case(number, text + ", descending" * descending, x, steps, axis, descending, method, rng)


def stable_order(x: HostArray, axis: int, *, descending: bool) -> HostArray:
    """Returns NumPy's stable order; descending, that of the reversed array, reversed."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def _bits(x: HostArray) -> HostArray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _is_equal(result: Array, expected: HostArray) -> bool:
    """True for equal numbers; NaN equals NaN, and zeros equal each other."""
    return np.array_equal(result.numpy(), expected, equal_nan=expected.dtype.kind == "f")


def differences(gpu: vc.Runtime, case: Case) -> list[str]:
    """Returns the functions whose results differ from NumPy's: sort, argsort, and one other in turn."""
    x, array, down = case.x[case.steps], gpu.array(case.x)[case.steps], case.descending
    order = stable_order(x, case.axis, descending=down)
    ordered = np.take_along_axis(x, order, case.axis)
    others: list[tuple[str, Callable[[], bool]]] = [
        ("topk", lambda: _are_first(array, order, case)),
        ("segments", lambda: _are_segments(array, x, case)),
        ("unique", lambda: _is_unique(array, x)),
    ]
    with ExitStack() as stack:
        for target, name, value in METHODS[case.method]:
            stack.enter_context(patch.object(target, name, value))
        checks: list[tuple[str, Callable[[], bool]]] = [
            ("argsort", lambda: _is_equal(argsort(array, case.axis, descending=down), order)),
            ("sort", lambda: is_sorted(sort(array, case.axis, descending=down), ordered)),
            others[case.number % len(others)],
        ]
        return [name for name, check in checks if not check()]


def _are_first(array: Array, order: HostArray, case: Case) -> bool:
    """True if the first k indices are those of the order."""
    k = int(case.rng.integers(0, order.shape[case.axis] + 1))
    indices = topk(array, k, case.axis, largest=case.descending)[1]
    return _is_equal(indices, np.take(order, np.arange(k), case.axis))


def _flat(array: Array) -> Array:
    return array.reshape(-1) if array.contiguous else array.copy().reshape(-1)


def _are_segments(array: Array, x: HostArray, case: Case) -> bool:
    """True if the flattened array is sorted in six segments, some of which are empty."""
    flat, offsets = x.reshape(-1), np.concatenate([[0], np.sort(case.rng.integers(0, x.size + 1, 5)), [x.size]])
    parts = [a + stable_order(flat[a:b], 0, descending=case.descending) for a, b in pairwise(offsets)]
    return _is_equal(segments.argsort(_flat(array), offsets, descending=case.descending), np.concatenate(parts))


def is_sorted(result: Array, ordered: HostArray) -> bool:
    """True for the same numbers in order; where the host's zeros and NaN are alike, their bits may differ."""
    mine = result.numpy()
    return _is_equal(result, ordered) and np.array_equal(np.sort(_bits(mine), None), np.sort(_bits(ordered), None))


def _is_unique(array: Array, x: HostArray) -> bool:
    """True if distinct elements, the inverse and the counts are NumPy's, and those of groups of rows are, too."""
    array, x = _flat(array), x.reshape(-1)
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    result, groups = unique(array), rows.group(array)
    checks = (
        (result.values, values), (result.inverse, inverse), (result.counts, counts),
        (groups.rows, np.sort(indices)), (groups.counts, counts[np.argsort(indices)]),
    )  # fmt: skip
    return all(_is_equal(mine, expected) for mine, expected in checks)


def run(gpu: vc.Runtime, numbers: range, seconds: float, note: Callable[[int, int], None]) -> int:
    """Runs cases until the time is over; returns how many have failed."""
    lacking = {"int64", "uint64"} - ({"int64", "uint64"} if "shaderInt64" in gpu.device.features else set())
    dtypes = [name for name in DTYPES if name not in lacking]
    end, n_failed = time.monotonic() + seconds, 0
    for number in numbers:
        case = case_of(number, dtypes)
        wrong = differences(gpu, case)
        if wrong:
            n_failed += 1
            print(f"case {number}: {', '.join(wrong)} of {case.text}", flush=True)
        note(number, n_failed)
        if time.monotonic() > end:
            break
    return n_failed


def _opened(invocations: int) -> vc.Runtime:
    """Opens the default device, perhaps with smaller workgroups than it has."""
    names = "maxComputeWorkGroupInvocations", "maxComputeWorkGroupSize"
    limits = dict(zip(names, (invocations, (invocations,) * 3), strict=True)) if invocations else {}
    with emulated(limits=limits):
        return vc.default_runtime()


def main() -> int:
    """Runs the cases that are left, and prints those that fail."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=50_000, help="the number of cases, from the first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--state", type=Path, help="a file that says which cases are done")
    parser.add_argument(
        "--invocations", type=int, default=0, help="the most of a workgroup, if fewer than the device's"
    )
    options = parser.parse_args()
    gpu = _opened(options.invocations)
    key = f"{gpu.device.physical.name} {os.environ.get('VKCOMPUTE_PROFILE', '')} {options.invocations or ''}".strip()
    state = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    first, failed_before = state.get(key, [options.first, 0])

    def note(number: int, n_failed: int) -> None:
        state[key] = [number + 1, failed_before + n_failed]
        if options.state and (number % 50 == 49 or n_failed):
            options.state.parent.mkdir(parents=True, exist_ok=True)
            options.state.write_text(json.dumps(state))

    numbers = range(first, options.first + options.cases)
    n_failed = run(gpu, numbers, options.minutes * 60, note) + failed_before
    done = state.get(key, [first])[0]
    if options.state:
        options.state.write_text(json.dumps(state))
    print(f"{key}: cases {options.first} to {done - 1}: {n_failed} differ", flush=True)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
