"""Compilation for AMD GPUs that this machine may lack, by the compiler in Mesa's driver radv.

With RADV_FORCE_FAMILY, radv imitates a GPU of that family: pipelines are compiled, and nothing runs. It reads the
variable once, and ends the process for a family that it does not know. So another process compiles, by `main`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from vkcompute.child_process import Limits, run_python
from vkcompute.core.compiler_device import CompilerDevice
from vkcompute.core.instance import DRIVER_SELECTORS, Instance
from vkcompute.core.physical import choose, enumerate_devices
from vkcompute.errors import MissingFeature, NoDevice, VkComputeError
from vkcompute.runtime.launching.compiled_program import CompiledProgram
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.launching.statistics import KernelStatistics
from vkcompute.slow_work import announced

_FAMILIES = "vega10, navi10 or navi21"
_LIMITS = Limits(timeout_s=600, output_nbytes=256 << 20)
_SHOWN_CHARACTERS = 1000


class Shader(NamedTuple):
    """SPIR-V to compile.

    Attributes:
        name: for messages.
        constants: specialization constants by name or id.
        features: Vulkan features that its atomic operations on floats need.
        emulated: SPIR-V for a device without these.
    """

    name: str
    spirv: bytes
    constants: Mapping[int | str, Any] = {}
    features: tuple[str, ...] = ()
    emulated: bytes = b""


class Compilation(NamedTuple):
    """A compiled shader."""

    statistics: KernelStatistics
    assembly: str


Outcome = Compilation | VkComputeError
"""A compiled shader, or the reason why it cannot be compiled."""


def compile_on(device: CompilerDevice, shaders: Iterable[Shader]) -> Iterator[Outcome]:
    """Compiles shaders on a device that tells how; the errors are those of `Kernel.statistics` and `Runtime.kernel`."""
    return (_outcome(device, shader) for shader in shaders)


def _outcome(device: CompilerDevice, shader: Shader) -> Outcome:
    spirv = shader.spirv if device.features.issuperset(shader.features) else shader.emulated or shader.spirv
    try:
        program = load(spirv, name=shader.name)
        special = specialize(shader.name, program.interface.spec_constants, shader.constants)
        compiled = CompiledProgram(device, program, special)
        return Compilation(compiled.statistics(), compiled.assembly())
    except VkComputeError as error:
        return error
    except (ValueError, TypeError) as error:
        return MissingFeature(str(error))


def compile_for(family: str, shaders: Sequence[Shader]) -> list[Compilation]:
    """Compiles shaders for a family of AMD GPUs, such as "navi21", in a process of its own.

    Raises:
        NoDevice: radv is not installed.
        ValueError: radv does not know the family.
        MissingFeature: the GPU lacks something that a shader needs, or has too little of it.
        VkComputeError: the compiler fails.
    """
    compiled = []
    for outcome in outcomes_for(family, shaders):
        if isinstance(outcome, VkComputeError):
            raise outcome
        compiled.append(outcome)
    return compiled


def outcomes_for(family: str, shaders: Sequence[Shader]) -> list[Outcome]:
    """Compiles shaders as `compile_for`; one that fails has its error in the place of its compilation.

    Raises:
        NoDevice, ValueError: as of `compile_for`.
        VkComputeError: the compiler ends before the first shader.
    """
    if not family.isalnum():
        raise ValueError(_unknown(family))
    outcomes, end = _outcomes_of_a_process(family, shaders)
    while len(outcomes) < len(shaders):  # the compiler ended its process, as at an instruction that it does not know
        outcomes.append(VkComputeError(f"{shaders[len(outcomes)].name}: the compiler for {family} {end}"))
        if rest := shaders[len(outcomes) :]:
            more, end = _outcomes_of_a_process(family, rest)
            outcomes += more
    return outcomes


def _outcomes_of_a_process(family: str, shaders: Sequence[Shader]) -> tuple[list[Outcome], str]:
    """Compiles shaders up to one that ends the compiler; returns their outcomes, and how it ended."""
    environ = {name: value for name, value in os.environ.items() if name not in DRIVER_SELECTORS}
    environ |= {"RADV_FORCE_FAMILY": family}
    with announced(f"compiling {', '.join(shader.name for shader in shaders)} for {family}"):
        done = run_python(main, limits=_LIMITS, data=pickle.dumps(list(shaders)), environ=environ)
    said = done.errors.decode(errors="replace")
    if "Unknown family" in said:
        raise ValueError(_unknown(family))
    end = f"{done.ending}: {said.strip()[-_SHOWN_CHARACTERS:]}".rstrip(": ")
    stream, records = io.BytesIO(done.output), []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # its end, perhaps within a record
        while True:
            records.append(pickle.load(stream))
    if not records or records[0] is not None:
        raise records[0] if records else VkComputeError(f"the compiler for {family} {end}")
    return records[1:], end


def _unknown(family: str) -> str:
    return f"the installed radv knows no family of GPUs called {family!r}; take {_FAMILIES}, or another of Mesa's names"


def main(answer: BinaryIO) -> None:
    """Compiles the pickled shaders on stdin; writes None, then their outcomes; or an error alone."""
    shaders = pickle.load(sys.stdin.buffer)
    for record in _records(os.environ["RADV_FORCE_FAMILY"], shaders):
        pickle.dump(record, answer)
        answer.flush()


def _records(family: str, shaders: Sequence[Shader]) -> Iterator[Outcome | None]:
    try:
        physical = choose(enumerate_devices(Instance()), f"RADV {family}")
    except NoDevice:
        yield NoDevice(
            "AMD's compiler is a part of Mesa's driver radv, which is not installed; install it (Debian and Ubuntu: "
            "`apt install mesa-vulkan-drivers`)"
        )
        return
    with CompilerDevice(physical) as device:
        yield None
        yield from compile_on(device, shaders)
