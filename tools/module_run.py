"""A process that runs a module on a device: `python tools/module_run.py INPUT.npz OUTPUT.npz [MODULE:FUNCTION]`.

The input has the SPIR-V, the arrays in the order of their bindings, the push constants, the grid and a limit in
seconds. The output gets the seconds of compilation and launch, and the arrays after it. The function, if there is one,
gets the SPIR-V, and returns it as the driver is to see it: a planted fault. SIGALRM ends a process at the limit, which
counts from when the device is open and has answered.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

import numpy as np  # noqa: E402

import vkcompute as vc  # noqa: E402


def main(source: str, target: str, plant: str = "") -> None:
    """Runs the module."""
    data = np.load(source)
    module, _, name = plant.partition(":")
    planted = getattr(importlib.import_module(module), name) if plant else bytes
    arrays = [data[f"array{at}"] for at in range(int(data["n_arrays"]))]
    pushes = [data[f"push{at}"][()] for at in range(int(data["n_pushes"]))]
    with vc.Runtime() as runtime:
        given = [runtime.array(array) for array in arrays]
        for array in given:
            array.numpy()  # a device that recovers from the hang of another process answers when it is ready
        started = time.monotonic()
        if hasattr(signal, "setitimer"):  # not on Windows, where the parent's limit is the only one
            signal.setitimer(signal.ITIMER_REAL, float(data["limit_s"]))
        kernel = runtime.kernel(planted(data["spirv"].tobytes()), name="candidate", check_types=False)
        kernel(*given, *pushes, grid=int(data["grid"])).result()
        np.savez(target, time.monotonic() - started, *[array.numpy() for array in given])


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # a driver's crash at exit is another fault
