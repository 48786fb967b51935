"""Compilation for GPUs that this machine lacks, by drivers that imitate them.

Pipelines are compiled, and nothing runs. Such drivers read what to imitate once, and may end the process: so another
process compiles, by `main`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from vkcompute.child_process import Limits, run_python
from vkcompute.core.instance import DRIVER_SELECTORS, Instance
from vkcompute.core.logical_device import CompilerDevice
from vkcompute.core.physical import choose, enumerate_devices
from vkcompute.errors import MissingFeature, NoDevice, VkComputeError
from vkcompute.runtime.launching.compiled_program import CompiledProgram
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.launching.statistics import KernelStatistics
from vkcompute.slow_work import announced

_OUTPUT_NBYTES = 256 << 20
_SHOWN_CHARACTERS = 1000


class ImitatedGPU(NamedTuple):
    """A GPU that a driver imitates.

    Attributes:
        name: for messages.
        device: the name of its device, as `choose` takes it.
        environ: the variables that make the driver imitate it.
        timeout_s: for all kernels of a call.
    """

    name: str
    device: str
    environ: Mapping[str, str]
    timeout_s: float = 600


class Shader(NamedTuple):
    """SPIR-V to compile.

    Attributes:
        name: for messages.
        constants: specialization constants by name or id.
        features: Vulkan features that its atomic operations on floats need.
        emulated: SPIR-V for a device without these.
        subgroup_size: as of `Program`.
    """

    name: str
    spirv: bytes
    constants: Mapping[int | str, Any] = {}
    features: tuple[str, ...] = ()
    emulated: bytes = b""
    subgroup_size: int | None = None


class Compilation(NamedTuple):
    """A compiled shader. Without its assembly if that was not asked for."""

    statistics: KernelStatistics
    assembly: str


Outcome = Compilation | VkComputeError
"""A compiled shader, or the reason why it cannot be compiled."""


def compile_on(device: CompilerDevice, shaders: Iterable[Shader], *, with_assembly: bool = True) -> Iterator[Outcome]:
    """Compiles shaders on a device that tells how; the errors are those of `Kernel.statistics` and `Runtime.kernel`."""
    return (_outcome(device, shader, with_assembly) for shader in shaders)


def _outcome(device: CompilerDevice, shader: Shader, with_assembly: bool) -> Outcome:
    spirv = shader.spirv if device.features.issuperset(shader.features) else shader.emulated or shader.spirv
    try:
        program = replace(load(spirv, name=shader.name), subgroup_size=shader.subgroup_size)
        special = specialize(shader.name, program.interface.spec_constants, shader.constants)
        compiled = CompiledProgram(device, program, special)
        return Compilation(compiled.statistics(), compiled.assembly() if with_assembly else "")
    except VkComputeError as error:
        return error
    except (ValueError, TypeError) as error:
        return MissingFeature(str(error))


def outcomes_on(gpu: ImitatedGPU, shaders: Sequence[Shader], *, with_assembly: bool = True) -> list[Outcome]:
    """Compiles shaders in a process of its own; one that fails has its error in the place of its compilation.

    Raises:
        NoDevice: no driver has the device.
        VkComputeError: the compiler ends before the first shader.
    """
    outcomes, end = _outcomes_of_a_process(gpu, shaders, with_assembly)
    while len(outcomes) < len(shaders):  # the compiler ended its process, as at an instruction that it does not know
        outcomes.append(VkComputeError(f"{shaders[len(outcomes)].name}: the compiler for {gpu.name} {end}"))
        if rest := shaders[len(outcomes) :]:
            more, end = _outcomes_of_a_process(gpu, rest, with_assembly)
            outcomes += more
    return outcomes


def _outcomes_of_a_process(
    gpu: ImitatedGPU, shaders: Sequence[Shader], with_assembly: bool
) -> tuple[list[Outcome], str]:
    """Compiles shaders up to one that ends the compiler; returns their outcomes, and how it ended."""
    environ = {name: value for name, value in os.environ.items() if name not in DRIVER_SELECTORS}
    environ |= gpu.environ
    limits = Limits(timeout_s=gpu.timeout_s, output_nbytes=_OUTPUT_NBYTES)
    work = gpu.device, list(shaders), with_assembly
    what = shaders[0].name if len(shaders) == 1 else f"{len(shaders)} shaders"
    with announced(f"compiling {what} for {gpu.name}"):
        done = run_python(main, limits=limits, data=pickle.dumps(work), environ=environ)
    end = f"{done.ending}: {done.errors.decode(errors='replace').strip()[-_SHOWN_CHARACTERS:]}".rstrip(": ")
    stream, records = io.BytesIO(done.output), []
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # its end, perhaps within a record
        while True:
            records.append(pickle.load(stream))
    if not records or records[0] is not None:
        raise records[0] if records else VkComputeError(f"the compiler for {gpu.name} {end}")
    return records[1:], end


def main(answer: BinaryIO) -> None:
    """Compiles the pickled shaders on stdin; writes None, then their outcomes; or an error alone."""
    for record in _records(*pickle.load(sys.stdin.buffer)):
        pickle.dump(record, answer)
        answer.flush()


def _records(name: str, shaders: Sequence[Shader], with_assembly: bool) -> Iterator[Outcome | None]:
    try:
        physical = choose(enumerate_devices(Instance()), name)
    except NoDevice as error:
        yield error
        return
    with CompilerDevice(physical) as device:
        yield None
        yield from compile_on(device, shaders, with_assembly=with_assembly)
