"""The checks of `vkcompute doctor`: generators of findings, which need neither a loader nor a driver to run.

Whatever loads code or reads files that are not ours is a trial, in a process of its own with limits.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache as cache_of_calls
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vkcompute._version import __version__
from vkcompute.cli import terminal
from vkcompute.cli.trial import LOADERS, Record
from vkcompute.cli.trials import Answer, Ask, in_a_process, in_this_process
from vkcompute.core import cpu_fallback
from vkcompute.core.manifests import SELECTED_BY

OK, NOTE, FAILED = "ok", "note", "FAILED"
_LOADER_ERRORS = "ERROR", "[Vulkan Loader] ERROR"
_DRIVER = "the GPU vendor's driver, or a software one (Debian and Ubuntu: `apt install mesa-vulkan-drivers`)"
_VARIABLES = (
    *SELECTED_BY, "VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE", "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_LOADER_LAYERS_DISABLE", "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "MESA_VK_DEVICE_SELECT",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "VKCOMPUTE_DEVICE",
    "VKCOMPUTE_VALIDATION", "VKCOMPUTE_SIMULATE", "VKCOMPUTE_CHECK_BOUNDS", "VKCOMPUTE_GLSLC",
    "VKCOMPUTE_ANNOUNCE_AFTER_S", "VKCOMPUTE_GLSLC_TIMEOUT_S", "VKCOMPUTE_CACHE_DIR", "VKCOMPUTE_FUSE",
    "VKCOMPUTE_CALL_PLANS", "VKCOMPUTE_FLOAT64", "VKCOMPUTE_TORCH_FALLBACK", "VKCOMPUTE_DISABLE_FEATURES",
    "VKCOMPUTE_PROFILE", "VKCOMPUTE_DASK_DEVICE_MEMORY", "VKCOMPUTE_SPILL_LIMIT_BYTES", "VKCOMPUTE_KERAS",
)  # fmt: skip
_FOLDERS = "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME"
_OWN, _OF_TESTS = "VKCOMPUTE_", "VKCOMPUTE_TEST_"


@dataclass(frozen=True, slots=True)
class Finding:
    """An outcome of a check.

    Attributes:
        mark: OK, NOTE or FAILED.
        subject: the thing that was checked.
        text: the outcome.
        remedy: the way to correct it; empty if there is nothing to correct.
    """

    mark: str
    subject: str
    text: str
    remedy: str = ""


def packages() -> Iterator[Finding]:
    """Versions of Python and of the packages."""
    yield Finding(OK, "Python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding(OK, "vkcompute", __version__)
    yield from map(_package, ("numpy", "vulkan"))


def _package(name: str) -> Finding:
    try:
        return Finding(OK, name, version(name))
    except PackageNotFoundError:
        return Finding(FAILED, name, "is not installed", f"pip install {name}")


def loader(ask: Ask = in_a_process) -> Iterator[Finding]:
    """The Vulkan loader and its version."""
    answer = ask("the Vulkan loader", "loader")
    last = answer.records[-1] if answer.records else {}
    if answer.problem:
        remedy = "reinstall it; check LD_LIBRARY_PATH; VK_LOADER_LAYERS_DISABLE=~implicit~ leaves implicit layers out"
        yield Finding(FAILED, "loader", f"{last.get('name', 'the loader')} fails: {answer.problem}", remedy)
    elif "path" in last:
        yield Finding(OK, "loader", f"{last['path']}, Vulkan {last['version']}")
    else:
        remedy = "install it: `apt install libvulkan1`, `dnf install vulkan-loader`, `brew install vulkan-loader`, or "
        yield Finding(FAILED, "loader", f"none of {', '.join(LOADERS)} can be loaded", f"{remedy}with {_DRIVER}")


def variables(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Environment variables that change the choice of drivers, devices or tools, and misspelt ones of vkcompute."""
    given = [name for name in _VARIABLES if environ.get(name) or (name in SELECTED_BY and name in environ)]
    for name in given:
        yield Finding(NOTE, name, environ[name] or "empty")
    own = {name for name in environ if name.startswith(_OWN) and not name.startswith(_OF_TESTS)}
    unknown = sorted(own - {*_VARIABLES})
    endings = [name.removeprefix(_OWN) for name in _VARIABLES if name.startswith(_OWN)]
    for name in unknown:
        near = get_close_matches(name.removeprefix(_OWN), endings, 1)
        remedy = f"set {_OWN}{near[0]}" if near else "unset it"
        yield Finding(NOTE, name, "has no effect: there is no such variable", remedy)
    if not given and not unknown:
        yield Finding(OK, "environment", "no variable changes the choice of drivers, devices or tools")


def manifests(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """The drivers' manifests, and whether their libraries load."""
    name = next((name for name in SELECTED_BY if name in environ), "")
    given = f"correct or unset {name}" if name else ""
    answer = in_a_process("the driver manifests", "manifests", environ=environ)
    if answer.problem:
        text = f"they cannot be read: {answer.problem}"
        yield Finding(FAILED, "driver manifest", text, given or "check the folders of the manifests")
    problems = [manifest["problem"] or _refusal(manifest["library"]) for manifest in answer.records]
    mark = FAILED if all(problems) else NOTE  # the loader takes the others
    for manifest, problem in zip(answer.records, problems, strict=True):
        if problem:
            remedy = f"{given}, or correct the file" if given else "reinstall the driver, or remove the file"
            yield Finding(mark, "driver manifest", f"{manifest['path']} {problem}", remedy)
        else:
            yield Finding(OK, "driver manifest", f"{manifest['path']}: {manifest['library']}")
    if answer.records or answer.problem:
        return
    if sys.platform == "win32":
        yield Finding(NOTE, "driver manifest", "drivers are listed in the registry, which is not examined")
    else:
        where = f"{name}={environ[name]} names none" if name else "there is none in the folders that the loader reads"
        yield Finding(FAILED, "driver manifest", where, given or _moved(environ) or f"install {_DRIVER}")


def _moved(environ: Mapping[str, str]) -> str:
    """Returns the remedy for a variable that hides the folders of the manifests; empty if none does."""

    def names_drivers(environ: Mapping[str, str]) -> bool:
        return bool(in_a_process("the driver manifests", "manifests", environ=environ).records)

    usual = {name: value for name, value in environ.items() if not name.startswith("XDG_")}
    variable = next((name for name in _FOLDERS if environ.get(name)), "")
    if not variable or names_drivers(environ) or not names_drivers(usual):
        return ""
    return f"correct or unset {variable}, which names the folders of the driver manifests"


def _refusal(library: str) -> str:
    """Returns the reason why a driver's library cannot be loaded; empty if it can."""
    answer = in_a_process(f"the driver {library}", "library", library)
    if answer.problem:
        return f"names {library}, which fails when it is loaded: {answer.problem}"
    [loaded] = answer.records
    if loaded["error"]:
        return f"names a library that does not load: {loaded['error']}"
    return "" if loaded["is_driver"] else f"names {library}, which is no Vulkan driver"


def permissions(folder: Path = Path("/dev/dri")) -> Iterator[Finding]:
    """Access to the GPUs' device files on Linux."""
    if sys.platform != "linux":
        return
    nodes = cpu_fallback.render_nodes(folder)
    if not nodes:
        yield Finding(NOTE, "permissions", cpu_fallback.NO_RENDER_NODE)
    for node in nodes:
        if cpu_fallback.is_accessible(node):
            yield Finding(OK, "permissions", f"{node} can be opened")
        else:
            remedy = "add the user to the node's group, as `sudo usermod -aG render $USER`, and log in again"
            yield Finding(FAILED, "permissions", f"{node} {cpu_fallback.NO_ACCESS}", remedy)


def containers(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """A container, and what NVIDIA's driver needs in one: its capabilities, and the library on which it depends."""
    if sys.platform != "linux":
        return
    inside = next((mark for mark in ("/.dockerenv", "/run/.containerenv") if os.path.exists(mark)), "")
    text = f"inside of one, as {inside} exists" if inside else "no sign of one"
    yield Finding(OK, "container", text)
    if not os.path.exists("/dev/nvidiactl"):
        return
    given = environ.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if inside and not {"all", "graphics"}.intersection(given.split(",")):
        remedy = "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics"
        yield Finding(FAILED, "container", "the NVIDIA runtime leaves its Vulkan driver out", remedy)
    answer = in_a_process("libEGL", "library", "libEGL.so.1")
    if answer.problem or answer.records[0]["error"]:
        remedy = "install it (Debian and Ubuntu: `apt install libegl1`)"
        what = f"fails when it is loaded ({answer.problem})" if answer.problem else "is missing"
        yield Finding(FAILED, "libEGL", f"{what}, which NVIDIA's Vulkan driver needs", remedy)
    else:
        yield Finding(OK, "libEGL", "is installed, which NVIDIA's Vulkan driver needs")


def compilers(ask: Ask = in_a_process) -> Iterator[Finding]:
    """The GLSL compiler, which only kernels in GLSL need."""
    named = os.environ.get("VKCOMPUTE_GLSLC")
    answer = ask("the GLSL compiler", "compiler")
    if answer.problem:
        remedy = "correct what this names, or set VKCOMPUTE_GLSLC to another compiler"
        yield Finding(NOTE, "GLSL compiler", f"the search for it fails: {answer.problem}", remedy)
    elif answer.records[0]["error"]:
        text = answer.records[0]["error"] if named else "none, which only kernels in GLSL need"
        remedy = "correct or unset VKCOMPUTE_GLSLC" if named else "install one, as `apt install glslang-tools`"
        yield Finding(NOTE, "GLSL compiler", text, remedy)
    else:
        yield Finding(OK, "GLSL compiler", answer.records[0]["path"])


def cache(ask: Ask = in_a_process) -> Iterator[Finding]:
    """The cache folder: its place and size, and whether it is used."""
    answer = ask("the cache folder", "cache")
    record: Record = answer.records[0] if answer.records else {"folder": "the cache", "error": answer.problem}
    if record["error"]:
        text = f"{record['folder']} is not used, so each process compiles anew: {record['error']}"
        remedy = "correct that, or set VKCOMPUTE_CACHE_DIR to another folder"
        yield Finding(FAILED, "cache", text, remedy)
    else:
        yield Finding(OK, "cache", f"{record['folder']}, writable, {terminal.nbytes(record['nbytes'])}")


@cache_of_calls
def device_listing() -> Answer:
    """The devices, which two checks need: a driver that hangs is waited for once. Each run of doctor clears it."""
    return in_a_process("the list of devices", "devices")


def devices() -> Iterator[Finding]:
    """The layers, the devices, and the one that is chosen."""
    listing = device_listing()
    said = [line.strip() for line in listing.said.splitlines() if line.startswith(_LOADER_ERRORS)]
    yield from [Finding(NOTE, "loader says", line) for line in dict.fromkeys(said)]
    if listing.problem:
        yield _no_devices(listing.problem)
        return
    head, *records = listing.records
    yield Finding(OK, "layers", ", ".join(head["layers"]) or "none")
    if not records:
        yield Finding(FAILED, "devices", "the drivers have none", f"install {_DRIVER}")
    for device in records:
        yield _device(device, "the only one" if len(records) == 1 else "no other comes before it")
    if records and not any(not device["reasons"] for device in records):
        yield Finding(FAILED, "choice", "no device is chosen", "correct or unset VKCOMPUTE_DEVICE")


def _no_devices(problem: str) -> Finding:
    what, _, remedy = problem.partition("; ")
    if what.startswith(("NoDevice: ", "NoVulkanLoader: ")):
        return Finding(FAILED, "devices", what, _moved(os.environ) or remedy)
    remedy = "correct what this names, or name the manifests of good drivers by VK_DRIVER_FILES"
    return Finding(FAILED, "devices", f"cannot be listed: {problem}", remedy)


def _device(device: Mapping[str, Any], why: str) -> Finding:
    """Describes a device; `why` is the reason for which it would be chosen."""
    subject = f"device {device['index']}"
    choice = f"not chosen: {', '.join(device['reasons'])}" if device["reasons"] else f"chosen: {why}"
    text = f"{device['name']} ({device['kind']}), Vulkan {device['vulkan']}, {choice}"
    if not device["usable"]:
        return Finding(NOTE, subject, text)
    slow = device["kind"] == "cpu" and not device["reasons"]
    lacks = f"; kernels take no {', '.join(device['lacks'])}" if device["lacks"] else ""
    lacks += f"; computes {', '.join(device['emulated'])} by words of 32 bits" if device["emulated"] else ""
    closed = [node for node in cpu_fallback.render_nodes() if not cpu_fallback.is_accessible(node)]
    remedy = f"get access to {closed[0]}" if closed else f"install {_DRIVER.partition(',')[0]}"
    return Finding(NOTE if slow else OK, subject, text + lacks, f"for a GPU, {remedy}" if slow else "")


def computations() -> Iterator[Finding]:
    """Computations on each usable device, compared with NumPy."""
    listing = device_listing()
    for index in [record["index"] for record in listing.records if record.get("usable")]:
        yield from _computed(index, in_a_process(f"device {index}", "computations", str(index)))


def _computed(index: int, answer: Answer) -> Iterator[Finding]:
    subject = f"device {index}"
    for trial in answer.records:
        if not trial["equal"]:
            remedy = "update the driver; choose another device by VKCOMPUTE_DEVICE until then"
            yield Finding(FAILED, subject, f"{trial['trial']}: the result differs from NumPy's", remedy)
    if answer.problem:
        what, _, remedy = answer.problem.partition("; ")
        yield Finding(FAILED, subject, f"a computation failed: {what}", remedy or "update the driver")
    elif all(trial["equal"] for trial in answer.records):
        names = ", ".join(trial["trial"] for trial in answer.records)
        yield Finding(OK, subject, f"{names}: equal to NumPy")


def environment() -> dict[str, str]:
    """Returns the outcomes of the checks of everything but drivers and devices, by subject."""
    checks = packages(), *[check(in_this_process) for check in (loader, compilers, cache)]
    return {finding.subject: finding.text for check in checks for finding in check}


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    loader, manifests, devices, permissions, containers, variables, compilers, cache, packages, computations,
)  # fmt: skip
