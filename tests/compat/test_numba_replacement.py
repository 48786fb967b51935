"""Libraries that import Numba take our package after `install_as_numba`, by each path that it has."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from vkcompute.compat import replacement

pytestmark = pytest.mark.pure

PROGRAM = """
import importlib
from vkcompute.compat.numba import install_as_numba

install_as_numba()
from numba import cuda
from numba.cuda.cudadrv.devicearray import auto_device
from numba.misc.special import literal_unroll

for path in {paths}:
    module = importlib.import_module(f"numba.{{path}}".rstrip("."))
    assert module.__name__.startswith("vkcompute.compat.numba"), module
print(cuda.jit.__module__, literal_unroll((1, 2)), auto_device.__module__)
"""


def test_modules_are_ours_by_all_paths(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    run = run_python(PROGRAM.format(paths=sorted(replacement._OF_NUMBA)))
    ours = "vkcompute.compat.numba.cuda"
    assert run.stdout == f"{ours}.dispatcher (1, 2) {ours}.factories\n", run.stderr
