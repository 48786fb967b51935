"""Records the modules that a process compiles: recorded.py puts this folder first into PYTHONPATH.

Python imports it at the start of every process, also of those that a program starts. Each module is a file, whose name
is made of what the driver gets. The figures of a CPU become those of a GPU, so that programs compile what a GPU gets.
Block programs run for the subgroups that the driver has. They are compiled once more for those of the GPU, and these
modules are recorded.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vkcompute.blocks.launching import block_source
from vkcompute.runtime import tuning
from vkcompute.runtime.launching import compiled_program
from vkcompute.runtime.launching.program import Program

FOLDER = os.environ.get("RECORDED_MODULES")
"""Takes the modules; without it nothing is recorded."""
_KIND = os.environ.get("RECORDED_FOR", "")
_LANES = {"gpu": 32, "intel": 8}
"""Invocations of a subgroup, by the kind of GPU; the profiles of others let no pipeline ask for a size."""


def record(folder: Path, program: Program, special: Sequence[tuple[int, bytes]]) -> None:
    """Writes a module with its specialization constants and the size of its subgroups, once."""
    kinds = {constant.spec_id: constant.dtype for constant in program.interface.spec_constants}
    constants = {key: (kinds[key], value) for key, value in special}
    data = pickle.dumps((program.spirv, constants, program.subgroup_size))
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.module"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps((program.name, program.spirv, constants, program.subgroup_size)))
        draft.replace(path)


def install(folder: Path) -> None:
    """Records every pipeline of this process from now on, also one that the device refuses."""
    made, for_gpu = compiled_program.CompiledProgram.__init__, dict[bytes, Program]()

    def recorded(self: Any, device: Any, program: Program, special: Any = (), *args: Any, **named: Any) -> None:
        known = for_gpu.get(program.spirv)
        record(folder, replace(known, name=program.name) if known else program, special)
        made(self, device, program, special, *args, **named)

    compiled_program.CompiledProgram.__init__ = recorded  # type: ignore[method-assign]
    if lanes := _LANES.get(_KIND):
        _compile_for(lanes, for_gpu)
    tuning.ON_CPU = tuning.ON_INTEL if _KIND == "intel" else tuning.ON_GPU


def _compile_for(lanes: int, programs: dict[bytes, Program]) -> None:
    """Compiles block programs also for subgroups of `lanes`: to programs, by the modules that run in their place."""
    own = block_source.specialize

    def specialized(definition: Any, constants: Any, signature: Any, options: Any, *args: Any, **named: Any) -> Any:
        result, target = own(definition, constants, signature, options, *args, **named), options.target
        wide = options._replace(target=target._replace(subgroup_size=lanes))
        other = own(definition, constants, signature, wide, *args, **named)
        programs[result.module[0]] = Program("", *other.module, subgroup_size=other.subgroup_size)
        return result

    block_source.specialize = specialized


if FOLDER:
    install(Path(FOLDER))
