"""Measures calls of one checkout of the library, one for each line of standard input: a name among host.py's calls.

Usage: unit_calls.py FOLDER [SIZE CALLS]. The folder holds the package. Writes microseconds of the host per call, or
of the device with square arrays of this size and so many calls between two waits; nothing where the checkout cannot
make the call, as an early one lacks its function. An empty line is a bare launch.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

sys.path[:1] = [sys.argv[1], *sys.path[:1]]

import numpy as np  # noqa: E402
from host_time import device_us, per_call_us  # noqa: E402

import vkcompute as vc  # noqa: E402

Call = Callable[[], Any]


def calls_of(gpu: vc.Runtime) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yields functions that make host.py's calls, by name, on this checkout: as many as it can prepare."""
    import host  # after the package, which it would take from its own checkout

    host.N = int(sys.argv[2]) if len(sys.argv) > 2 else host.N
    arrays = host.Data(gpu.array, host.values())
    made = host.array_cases, host.index_cases, host.network_cases
    groups = [*[cases(arrays, None, None) for cases in made], host.kernel_cases(gpu, arrays)]
    for cases in groups:
        with contextlib.suppress(Exception):
            for case in cases:
                yield case.name, lambda case=case: host.computing(case.ours)


def main() -> None:
    """Answers each line with a measurement."""
    add = vc.elementwise("x + y")
    measure = partial(device_us, calls=int(sys.argv[3])) if len(sys.argv) > 3 else per_call_us
    with vc.default_runtime() as gpu:  # on which generators draw
        x, y = (gpu.array(np.ones((64, 64), np.float32)) for _ in range(2))
        out = gpu.empty((64, 64), np.float32)
        known: dict[str, Callable[[], Call]] = {"": lambda: lambda: add(x, y, out=out)}
        print("ready", flush=True)
        for line in sys.stdin:
            if (name := line.strip()) and len(known) == 1:
                with contextlib.suppress(Exception):
                    known |= calls_of(gpu)
            try:
                print(measure(known[name](), gpu.wait), flush=True)
            except Exception:
                print(flush=True)


if __name__ == "__main__":
    main()
