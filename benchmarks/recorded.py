"""Runs all examples and benchmarks, and records the modules that they compile, for benchmarks/compilers.py.

python benchmarks/recorded.py build/recorded

A software driver runs them. It pretends to be the devices of PROFILES in turn, so that kernels are compiled for what
these have. A program that ends with an error, as on a device that lacks something, has its kernels up to there, and is
named with its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT)]

from vkcompute.runtime.launching.imitated_gpu import Shader  # noqa: E402
from vkcompute.runtime.launching.push_constants import CODES  # noqa: E402

# A kind of GPU -> the device that the driver pretends to be.
PROFILES = {
    "gpu": "amd-rx-9070-xt-radv",
    "intel": "intel-arc-a770-mesa",
    "apple": "apple-m1-moltenvk",
    "poor": "poor",
}
# The programs of this folder that compile kernels, and arguments with which they end soon.
BENCHMARKS = {
    "run": ("--smoke", "--peers", "none"),
    "host": ("--smoke",),
    "dask_tasks": ("--gigabytes", "0.1"),
    "interrupts": ("--minutes", "0.1"),
    "soak": ("--minutes", "0.1", "--threads", "1"),
    "steady": ("--steps", "20"),
    "switches": ("--schedules", "1", "--only", "recording"),
}
# The others, with the reason why nothing is recorded.
LEFT_OUT = {
    "amd": "compiles without a device; its kernels are in the table in any case",
    "device_work": "makes calls of host.py",
    "unit_calls": "a part of host.py",
    "compilers": "is the table",
    "cuda_programs": "compares programs with Numba CUDA and CuPy; other benchmarks have kernels of these kinds",
    "mutations": "compiles damaged modules on purpose",
    "programs": "compiles random kernels, which are without end",
    "recorded": "is this program",
    "stream_once": "a part of streaming.py",
    "torch_calls": "needs PyTorch",
    "torch_compilation": "needs PyTorch",
    "torch_training": "needs PyTorch",
}
RECORD = HERE / "results" / "recorded_modules.json"
_LIMIT_S = 240
"""For one program. What it has compiled by then is recorded."""


def programs() -> list[tuple[str, ...]]:
    """Returns the commands of all programs, relative to the root."""
    examples = [(f"examples/{path.name}",) for path in sorted((ROOT / "examples").glob("*.py"))]
    return examples + [(f"benchmarks/{name}.py", *options) for name, options in BENCHMARKS.items()]


def run(program: Sequence[str], kind: str, folder: Path) -> str:
    """Runs a program that records into a folder; returns how it ended, or an empty text if it ended well."""
    paths = [str(HERE / "recorder"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "RECORDED_MODULES": str(folder),
        "RECORDED_FOR": kind,
        "VKCOMPUTE_PROFILE": PROFILES[kind],
    }
    command = [sys.executable, str(ROOT / program[0]), *program[1:]]
    with tempfile.TemporaryDirectory() as where:
        env["VKCOMPUTE_CACHE_DIR"] = where  # an empty one: the recorder sees what is compiled
        try:
            done = subprocess.run(
                command, cwd=where, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"ended after {_LIMIT_S} s"
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return f"status {done.returncode}: {last}" if done.returncode else ""


def shaders(folder: Path) -> Iterator[Shader]:
    """Yields the modules in a folder, in the order of their names; those of one name are numbered."""
    modules = sorted((pickle.loads(path.read_bytes()) for path in sorted(folder.glob("*.module"))), key=itemgetter(0))
    counted: dict[str, int] = {}
    for name, spirv, constants, subgroup_size in modules:
        counted[name] = number = counted.get(name, 0) + 1
        values = {key: struct.unpack("<" + CODES[dtype], data)[0] for key, (dtype, data) in constants.items()}
        yield Shader(f"{name} #{number}", spirv, values, subgroup_size=subgroup_size)


def names(folder: Path) -> dict[str, int]:
    """Returns the names of the kernels in a folder, with the number of modules that each has."""
    return dict(sorted(Counter(shader.name.rpartition(" #")[0] for shader in shaders(folder)).items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Records; the exit status is 1 if nothing was recorded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="takes a folder per kind of GPU; kept if it is there")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose names contain this")
    parser.add_argument("--kind", choices=PROFILES, action="append", help="default: all")
    parser.add_argument("--write", action="store_true", help=f"record the names in {RECORD.name}")
    arguments = parser.parse_args(argv)
    recorded: dict[str, dict[str, int]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    n_modules = 0
    for kind in arguments.kind or PROFILES:
        folder = arguments.folder.resolve() / kind
        if not arguments.only:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        for program in programs():
            if arguments.only in program[0]:
                ending = run(program, kind, folder)
                n_modules = len(list(folder.glob("*.module")))
                print(f"{kind}: {n_modules:4} modules after {program[0]}{': ' if ending else ''}{ending}", flush=True)
        recorded[kind] = names(folder)
    if arguments.write:
        RECORD.write_text(json.dumps(recorded, indent=1) + "\n")
    return 0 if n_modules else 1


if __name__ == "__main__":
    sys.exit(main())
