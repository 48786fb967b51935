"""Kernels as the compilers of many vendors compile them, without their GPUs: what is refused, and what spills.

Mesa's drivers imitate GPUs: radv by itself, others by shims of a build of Mesa from its source (--mesa BUILD;
docs/drivers.md says how to build it). spirv-cross translates for Apple's. Compilers that are not here are named. The
kernels are those of amd.py, and the modules that recorded.py writes (--modules FOLDER). Prints a table per compiler;
--write records it, and scripts/compilers_table.py makes the page of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from shutil import which
from textwrap import shorten
from typing import Any, NamedTuple

import amd
import recorded

from vkcompute import VkComputeError
from vkcompute.core.device_profile import named
from vkcompute.runtime.launching.imitated_gpu import ImitatedGPU, Outcome, Shader, outcomes_on

RECORD = Path(__file__).resolve().parent / "results" / "compilers.json"
_TIMEOUT_S, _ALL_S = 120, 1800
"""For one kernel that is compiled alone, and for all."""
_MAX_TEXT = 200
_METAL = "30000"
"""The version of Metal's language: 3.0."""
_ICD = "/usr/share/vulkan/icd.d/{}_icd.json"
Row = dict[str, Any]


class Shim(NamedTuple):
    """A driver of Mesa on an imitation of its kernel driver.

    Attributes:
        library: of the imitation, in the build.
        device: part of the names of its devices.
        variable: selects the GPU.
        values: of the variable.
        kind: of the recorded modules that it gets, as of recorded.py.
        environ: other variables that it needs.
    """

    library: str
    device: str
    variable: str
    values: Sequence[str]
    kind: str = "gpu"
    environ: Mapping[str, str] = {}


# By the driver's folder in Mesa's source.
_SHIMS = {
    "intel": Shim(
        "intel/tools/libintel_noop_drm_shim.so", "Intel", "INTEL_STUB_GPU_PLATFORM",
        ("skl", "icl", "tgl", "dg2"), "intel",
    ),
    "freedreno": Shim(
        "freedreno/drm-shim/libfreedreno_noop_drm_shim.so", "Adreno", "FD_GPU_ID", ("618", "660", "740"), "poor"
    ),
    "nouveau": Shim(
        "nouveau/drm-shim/libnouveau_noop_drm_shim.so", "NVK", "NOUVEAU_CHIPSET", ("162", "172")
    ),
    "broadcom": Shim("broadcom/drm-shim/libv3d_noop_drm_shim.so", "V3D", "V3D_VERSION", ("42", "71"), "poor"),
    "panfrost": Shim(
        "panfrost/drm-shim/libpanfrost_noop_drm_shim.so", "Mali", "PAN_GPU_ID", ("7212", "a867"), "poor",
        {"PAN_I_WANT_A_BROKEN_VULKAN_DRIVER": "1", "MESA_VK_VERSION_OVERRIDE": "1.2"},
    ),
    "asahi": Shim("asahi/drm-shim/libapple_shim.so", "Apple", "ASAHI_GENERATION", ("13", "14"), "apple"),
}  # fmt: skip


def gpus(mesa: Path | None, folder: Path) -> Iterator[ImitatedGPU]:
    """Yields the GPUs whose compilers can be asked; `folder` takes manifests of drivers.

    A driver that was not built with its shim is that of a package, of the same version.
    """
    for family in amd.FAMILIES:
        yield ImitatedGPU(f"radv {family}", f"RADV {family}", {"RADV_FORCE_FAMILY": family}, _ALL_S)
    for driver, shim in _SHIMS.items() if mesa else ():
        manifest, library = folder / f"{driver}.json", mesa / f"src/{driver}/vulkan/libvulkan_{driver}.so"
        icd = {"library_path": str(library.resolve()), "api_version": "1.3.0"}
        manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
        installed = Path(_ICD.format(driver))
        used = manifest if library.exists() or not installed.exists() else installed
        for value in shim.values:
            environ = {"LD_PRELOAD": str((mesa / "src" / shim.library).resolve()), shim.variable: value}
            environ["VK_DRIVER_FILES"] = environ["VK_ICD_FILENAMES"] = str(used)
            yield ImitatedGPU(f"{driver} {value}".strip(), shim.device, environ | {**shim.environ}, _ALL_S)


def kind_of(name: str) -> str:
    """Returns the kind of modules that a compiler gets, as of recorded.py."""
    driver = name.partition(" ")[0]
    return _SHIMS[driver].kind if driver in _SHIMS else "apple" if driver == "Metal" else "gpu"


@cache
def kernels(kind: str, modules: Path | None) -> list[Shader]:
    """Returns the kernels for a compiler: those of the table of AMD's, and all that programs have compiled.

    These are as for a large GPU, and then, with names that end with the kind, as for a device of another kind. Intel's
    compilers take minutes for some block programs of the large GPU, and get their own instead.
    """
    vendor = amd.INTEL if kind == "intel" else amd.AMD
    listed = [*amd.shaders(vendor)]
    if modules:
        large = recorded.shaders(modules / "gpu")
        listed += [shader for shader in large if kind != "intel" or shader.subgroup_size is None]
    if kind == "gpu":
        return listed
    own = [*amd.kernels(vendor.like(named(recorded.PROFILES[kind])))]
    own += recorded.shaders(modules / kind) if modules else ()
    known = {shader.spirv for shader in own}
    others = [shader for shader in listed if shader.spirv not in known]
    return others + [shader._replace(name=f"{shader.name}, {kind}") for shader in own]


def outcomes_of(gpu: ImitatedGPU, shaders: Sequence[Shader]) -> list[Outcome]:
    """Compiles shaders in one process; one at which the compiler ends or takes too long is tried again alone."""
    outcomes = outcomes_on(gpu, shaders, with_assembly=False)
    alone = gpu._replace(timeout_s=_TIMEOUT_S)
    return [
        outcomes_on(alone, [shader], with_assembly=False)[0] if type(outcome) is VkComputeError else outcome
        for shader, outcome in zip(shaders, outcomes, strict=True)
    ]


def row(gpu: ImitatedGPU, shaders: Sequence[Shader]) -> Row:
    """Returns what the compiler for a GPU makes of shaders."""
    try:
        outcomes = outcomes_of(gpu, shaders)
    except VkComputeError as error:  # no such driver, or one that ends at once
        return {"absent": str(error)}
    return summary(gpu.name, shaders, outcomes)


def summary(name: str, shaders: Sequence[Shader], outcomes: Sequence[Outcome]) -> Row:
    """Returns a row of the table: the kernels that spill, and those refused by reasons."""
    refused: dict[str, list[str]] = {}
    spilled: dict[str, Any] = {}
    device, driver, tells = "", "", False
    for shader, outcome in zip(shaders, outcomes, strict=True):
        if isinstance(outcome, VkComputeError):
            refused.setdefault(reason(str(outcome), shader.name), []).append(shader.name)
            continue
        statistics = outcome.statistics
        device, driver = statistics.device.strip(), statistics.driver
        tells |= statistics.spills is not None or statistics.scratch_nbytes is not None
        if statistics.spills or statistics.scratch_nbytes:
            spilled[shader.name] = statistics.spills or f"{statistics.scratch_nbytes} bytes"
    counts = _counts(name, shaders, refused)
    return {"device": device or name, "driver": driver, **counts, "spills": spilled if tells else None}


def _counts(name: str, shaders: Sequence[Shader], refused: Mapping[str, Sequence[str]]) -> Row:
    """Returns the kind of device, the numbers of all kernels and of those for such a device, and the refusals."""
    kind = kind_of(name)

    def n_own(names: Iterable[str]) -> int:
        return sum(kind == "gpu" or name.endswith(f", {kind}") for name in names)

    own = n_own(shader.name for shader in shaders)
    own_refused = n_own(name for names in refused.values() for name in names)
    return {"kind": kind, "kernels": len(shaders), "own": [own - own_refused, own], "refused": dict(refused)}


def reason(message: str, name: str) -> str:
    """Returns an error without the names of the shader and of the device."""
    line = message.rpartition(f"cannot run {name}: ")[2].removeprefix(f"{name}: ").partition("\n")[0]
    if line.startswith((f"{name} has ", f"{name} needs ")):  # what the device has, and a remedy, follow
        line = line.removeprefix(f"{name} ").partition(";")[0]
    elif line.startswith("the compiler for "):  # the driver's words follow
        line = line.partition(": ")[0].replace(" no answer", " gave no answer")
    return shorten(line, _MAX_TEXT, placeholder=" …")


def metal(shaders: Sequence[Shader]) -> Row:
    """Returns what spirv-cross refuses to translate to Metal's language."""
    if which("spirv-cross") is None:
        return {"absent": "spirv-cross is not installed"}
    refused: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "shader.spv")
        for shader in shaders:
            module.write_bytes(shader.spirv)
            command = ["spirv-cross", "--msl", "--msl-version", _METAL, "--output", "/dev/null", str(module)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                refused.setdefault(done.stderr.strip().splitlines()[-1], []).append(shader.name)
    return {"device": "Apple", "driver": "spirv-cross, Metal 3.0", **_counts("Metal", shaders, refused), "spills": None}


def text(name: str, row: Row) -> str:
    """Returns the row as lines."""
    if "absent" in row:
        return f"{name}: not here: {row['absent']}"
    n_refused = sum(map(len, row["refused"].values()))
    lines = [
        f"{name}: {row['device']}, {row['driver']}: {row['kernels'] - n_refused} of {row['kernels']} kernels compiled",
        *[f"  spills: {kernel} ({number})" for kernel, number in (row["spills"] or {}).items()],
        *[f"  refused: {len(kernels)} x {why}: {', '.join(kernels)}" for why, kernels in row["refused"].items()],
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles, prints and records; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("\n", " "))
    parser.add_argument("--mesa", type=Path, metavar="BUILD", help="the folder of a build of Mesa with shims")
    parser.add_argument("--modules", type=Path, metavar="FOLDER", help="the folder that recorded.py has written")
    parser.add_argument("--only", default="", metavar="TEXT", help="compilers whose names contain this")
    parser.add_argument("--kernels", default="", metavar="TEXT", help="kernels whose names contain this")
    parser.add_argument("--write", action="store_true", help=f"record the rows in {RECORD.name}, beside those there")
    arguments = parser.parse_args(argv)
    rows: dict[str, Row] = json.loads(RECORD.read_text()) if arguments.write and RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        asked = {gpu.name: gpu for gpu in gpus(arguments.mesa, Path(folder))}
        for name in [name for name in (*asked, "Metal") if arguments.only in name]:
            shaders = [
                shader for shader in kernels(kind_of(name), arguments.modules) if arguments.kernels in shader.name
            ]
            rows[name] = row(asked[name], shaders) if name in asked else metal(shaders)
            print(text(name, rows[name]), flush=True)
            if arguments.write:
                RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VkComputeError as error:
        sys.exit(str(error))
