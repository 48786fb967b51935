"""A process that runs a module on a device: `python tools/module_run.py INPUT.npz OUTPUT.npz [MODULE:FUNCTION]`.

The input has the SPIR-V, the arrays in the order of their bindings, the push constants and the grid. The output gets
the arrays after the launch. The function, if there is one, gets the SPIR-V, and returns it as the driver is to see it:
a planted fault.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

import numpy as np  # noqa: E402

import vkcompute as vc  # noqa: E402


def main(source: str, target: str, plant: str = "") -> None:
    """Runs the module."""
    data = np.load(source)
    spirv = data["spirv"].tobytes()
    if plant:
        module, _, name = plant.partition(":")
        spirv = getattr(importlib.import_module(module), name)(spirv)
    arrays = [data[f"array{at}"] for at in range(int(data["n_arrays"]))]
    pushes = [data[f"push{at}"][()] for at in range(int(data["n_pushes"]))]
    with vc.Runtime() as runtime:
        given = [runtime.array(array) for array in arrays]
        kernel = runtime.kernel(spirv, name="candidate", check_types=False)
        kernel(*given, *pushes, grid=int(data["grid"])).result()
        np.savez(target, *[array.numpy() for array in given])


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # a driver's crash at exit is another fault
