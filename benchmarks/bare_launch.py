"""Measures the host's time for a bare launch of one checkout, once per line of standard input.

Usage: bare_launch.py FOLDER, which holds the package. Writes microseconds per launch, one line per measurement.
"""

from __future__ import annotations

import sys

sys.path[:1] = [sys.argv[1], *sys.path[:1]]

import numpy as np  # noqa: E402
from host_time import per_call_us  # noqa: E402

import vkcompute as vc  # noqa: E402


def main() -> None:
    """Answers each line with a measurement."""
    add = vc.elementwise("x + y")
    with vc.Runtime() as gpu:
        x, y = (gpu.array(np.ones((64, 64), np.float32)) for _ in range(2))
        out = gpu.empty((64, 64), np.float32)
        print("ready", flush=True)
        for _ in sys.stdin:
            print(per_call_us(lambda: add(x, y, out=out), gpu.wait), flush=True)


if __name__ == "__main__":
    main()
