"""Records the modules that a process compiles: recorded.py puts this folder first into PYTHONPATH.

Python imports it at the start of every process, also of those that a program starts. Each module is a file, whose name
is made of what the driver gets. The figures of a CPU become those of a GPU, so that programs compile what a GPU gets.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vkcompute.runtime import tuning
from vkcompute.runtime.launching import compiled_program
from vkcompute.runtime.launching.program import Program

FOLDER = os.environ.get("RECORDED_MODULES")
"""Takes the modules; without it nothing is recorded."""


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
    made = compiled_program.CompiledProgram.__init__

    def recorded(self: Any, device: Any, program: Program, special: Any = (), *args: Any, **named: Any) -> None:
        record(folder, program, special)
        made(self, device, program, special, *args, **named)

    compiled_program.CompiledProgram.__init__ = recorded  # type: ignore[method-assign]
    tuning.ON_CPU = tuning.ON_INTEL if os.environ.get("RECORDED_FOR") == "intel" else tuning.ON_GPU


if FOLDER:
    install(Path(FOLDER))
