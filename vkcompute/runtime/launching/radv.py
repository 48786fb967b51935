"""Compilation for AMD GPUs that this machine may lack, by the compiler in Mesa's driver radv.

With RADV_FORCE_FAMILY, radv imitates a GPU of that family: pipelines are compiled, and nothing runs. It reads the
variable once, and ends the process for a family that it does not know. So another process compiles, by `main`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vkcompute.core.compiler_device import CompilerDevice
from vkcompute.core.instance import DRIVER_SELECTORS, Instance
from vkcompute.core.physical import choose, enumerate_devices
from vkcompute.errors import MissingFeature, NoDevice, VkComputeError
from vkcompute.runtime.launching.compiled_program import CompiledProgram
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.launching.statistics import KernelStatistics

_FAMILIES = "vega10, navi10 or navi21"


class Shader(NamedTuple):
    """SPIR-V to compile: its name for messages, and specialization constants by name or id."""

    name: str
    spirv: bytes
    constants: Mapping[int | str, Any] = {}


class Compilation(NamedTuple):
    """A compiled shader."""

    statistics: KernelStatistics
    assembly: str


def compile_on(device: CompilerDevice, shaders: Sequence[Shader]) -> list[Compilation]:
    """Compiles shaders on a device that tells how; raises as `Kernel.statistics` and `Runtime.kernel`."""
    found = []
    for name, spirv, constants in shaders:
        program = load(spirv, name=name)
        special = specialize(name, program.interface.spec_constants, constants)
        compiled = CompiledProgram(device, program, special)
        found.append(Compilation(compiled.statistics(), compiled.assembly()))
    return found


def compile_for(family: str, shaders: Sequence[Shader]) -> list[Compilation]:
    """Compiles shaders for a family of AMD GPUs, such as "navi21", in a process of its own.

    Raises:
        NoDevice: radv is not installed.
        ValueError: radv does not know the family.
        MissingFeature: the GPU lacks something that a shader needs, or has too little of it.
    """
    if not family.isalnum():
        raise ValueError(_unknown(family))
    env = {name: value for name, value in os.environ.items() if name not in DRIVER_SELECTORS}
    env |= {"RADV_FORCE_FAMILY": family, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    done = subprocess.run(command, input=pickle.dumps(list(shaders)), env=env, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")
    if "Unknown family" in said:
        raise ValueError(_unknown(family))
    if done.returncode:
        raise VkComputeError(f"the compiler for {family} ended with status {done.returncode}: {said[-1000:]}")
    found: list[Compilation] | Exception = pickle.loads(done.stdout)
    if isinstance(found, Exception):
        raise found
    return found


def _unknown(family: str) -> str:
    return f"the installed radv knows no family of GPUs called {family!r}; take {_FAMILIES}, or another of Mesa's names"


def main() -> None:
    """Compiles the pickled shaders on stdin; writes the compilations, or an error, to stdout."""
    shaders = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(_compiled(os.environ["RADV_FORCE_FAMILY"], shaders)))


def _compiled(family: str, shaders: Sequence[Shader]) -> list[Compilation] | VkComputeError:
    try:
        physical = choose(enumerate_devices(Instance()), f"RADV {family}")
        with CompilerDevice(physical) as device:
            return compile_on(device, shaders)
    except NoDevice:
        return NoDevice(
            "AMD's compiler is a part of Mesa's driver radv, which is not installed; install it (Debian and Ubuntu: "
            "`apt install mesa-vulkan-drivers`)"
        )
    except (VkComputeError, ValueError, TypeError) as error:
        return MissingFeature(str(error))
