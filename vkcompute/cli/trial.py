"""Trials of devices for `vkcompute doctor`, in a process of their own: a broken driver may end it.

python -m vkcompute.cli.trial           lists the layers, and the devices, a line of JSON for each
python -m vkcompute.cli.trial INDEX     computes on one, a line of JSON for each computation
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

N = 100_003


def main(argv: list[str]) -> None:
    """Runs the process."""
    for found in computed(int(argv[0])) if argv else iter(listed()):
        print(json.dumps(found), flush=True)


def listed() -> list[dict[str, Any]]:
    """Returns the layers, then the devices with the reasons against those that are not chosen."""
    from vkcompute.cli.info import verdicts
    from vkcompute.core.instance import Instance, layers
    from vkcompute.core.physical import enumerate_devices

    wanted = os.environ.get("VKCOMPUTE_DEVICE") or None
    with Instance() as instance:
        found = [
            {
                "index": device.index,
                "name": device.name,
                "kind": device.kind,
                "usable": not device.unfit(),
                "driver": "" if device.unfit() else device.driver,
                "vulkan": ".".join(map(str, device.api_version)),
                "reasons": reasons,
                "lacks": [] if device.unfit() else _lacking(device.features),
            }
            for device, reasons in verdicts(enumerate_devices(instance), wanted)
        ]
        return [{"layers": layers()}, *found]


def _lacking(features: dict[str, bool]) -> list[str]:
    """Returns the dtypes that kernels cannot take."""
    from vkcompute.dtypes import TABLE, of_kernels

    return [row.name for row in TABLE if row.name not in of_kernels(features)]


def computed(index: int) -> Iterator[dict[str, Any]]:
    """Yields the outcome of each computation."""
    from vkcompute.jit.elementwise.reduction import reduce
    from vkcompute.pipelines.multiply import multiply
    from vkcompute.runtime.runtime import Runtime

    total = reduce("a + b", 0)
    with Runtime(index) as gpu:
        x, digits = np.random.default_rng(0).random(N, np.float32), np.arange(N, dtype=np.int32) % 10
        trials: dict[str, Callable[[], bool]] = {
            "transfer": lambda: np.array_equal(gpu.array(x).numpy(), x),
            "multiply": lambda: np.array_equal(multiply(x, x, runtime=gpu), x * x),
            "kernel in Python": lambda: _kernel(gpu, x),
            "reduction": lambda: total(gpu.array(digits)).item() == digits.sum(),
        }
        for name, trial in trials.items():
            yield {"trial": name, "equal": bool(trial())}


def _kernel(gpu: Any, x: np.ndarray[Any, Any]) -> bool:
    from vkcompute.jit.kernel import kernel
    from vkcompute.jit.library.ids import global_id

    def scaled(x: Any, out: Any, a: Any) -> None:
        i = global_id(0)
        if i < out.size:
            out[i] = a * x[i]

    out = gpu.empty(N)
    kernel(scaled)(gpu.array(x), out, 2.0)
    return np.array_equal(out.numpy(), 2 * x)


if __name__ == "__main__":
    main(sys.argv[1:])
