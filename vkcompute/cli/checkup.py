"""The checks of `vkcompute doctor`: generators of findings, which need neither a loader nor a driver to run."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vkcompute import disk
from vkcompute._version import __version__
from vkcompute.cli import terminal
from vkcompute.compilers import discovery
from vkcompute.core import cpu_fallback
from vkcompute.core.manifests import SELECTED_BY, Manifest, find
from vkcompute.errors import NoCompiler

OK, NOTE, FAILED = "ok", "note", "FAILED"
_TIMEOUT_S = 120
_TRIAL = "vkcompute.cli.trial"
_LOADER_ERRORS = "ERROR", "[Vulkan Loader] ERROR"
_DRIVER = "the GPU vendor's driver, or a software one (Debian and Ubuntu: `apt install mesa-vulkan-drivers`)"
_NO_DRIVER = 3
_LOAD = (
    "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); "
    "names = 'vk_icdGetInstanceProcAddr', 'vkGetInstanceProcAddr'; "
    f"sys.exit(0 if any(hasattr(library, name) for name in names) else {_NO_DRIVER})"
)
_LOADERS = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib")}
_VARIABLES = (
    *SELECTED_BY, "VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE", "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_LOADER_LAYERS_DISABLE", "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "MESA_VK_DEVICE_SELECT",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "VKCOMPUTE_DEVICE",
    "VKCOMPUTE_VALIDATION", "VKCOMPUTE_SIMULATE", "VKCOMPUTE_CHECK_BOUNDS", "VKCOMPUTE_GLSLC",
    "VKCOMPUTE_GLSLC_TIMEOUT_S", "VKCOMPUTE_CACHE_DIR", "VKCOMPUTE_FUSE", "VKCOMPUTE_DISABLE_FEATURES",
    "VKCOMPUTE_DASK_DEVICE_MEMORY", "VKCOMPUTE_SPILL_LIMIT_BYTES",
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


def loader() -> Iterator[Finding]:
    """The Vulkan loader and its version."""
    names = _LOADERS.get(sys.platform, ("libvulkan.so.1", "libvulkan.so"))
    for name in names:
        try:
            library = ctypes.CDLL(name)
            number = ctypes.c_uint32()
            library.vkEnumerateInstanceVersion(ctypes.byref(number))
        except (OSError, AttributeError):
            continue
        found = number.value
        text = f"{_path_of(name)}, Vulkan {found >> 22}.{found >> 12 & 0x3FF}.{found & 0xFFF}"
        yield Finding(OK, "loader", text)
        return
    remedy = "install it: `apt install libvulkan1`, `dnf install vulkan-loader`, `brew install vulkan-loader`, or with "
    yield Finding(FAILED, "loader", f"none of {', '.join(names)} can be loaded", remedy + _DRIVER)


def _path_of(name: str) -> str:
    """Returns the file of a loaded library, where the system tells it."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return name
    return next((line.split()[-1] for line in lines if Path(line.split()[-1]).name.startswith(name)), name)


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
    found = find(environ)
    problems = [each.problem or _refusal(each) for each in found]
    mark = FAILED if all(problems) else NOTE  # the loader takes the others
    for each, problem in zip(found, problems, strict=True):
        if problem:
            remedy = f"{given}, or correct the file" if given else "reinstall the driver, or remove the file"
            yield Finding(mark, "driver manifest", f"{each.path} {problem}", remedy)
        else:
            yield Finding(OK, "driver manifest", f"{each.path}: {each.library}")
    if not found and sys.platform == "win32":
        yield Finding(NOTE, "driver manifest", "drivers are listed in the registry, which is not examined")
    elif not found:
        where = f"{name}={environ[name]} names none" if name else "there is none in the folders that the loader reads"
        yield Finding(FAILED, "driver manifest", where, given or _moved(environ) or f"install {_DRIVER}")


def _moved(environ: Mapping[str, str]) -> str:
    """Returns the remedy for a variable that hides the folders of the manifests; empty if none does."""
    usual = {each: environ[each] for each in environ if not each.startswith("XDG_")}
    variable = next((each for each in _FOLDERS if environ.get(each)), "")
    if not variable or find(environ) or not find(usual):
        return ""
    return f"correct or unset {variable}, which names the folders of the driver manifests"


def _refusal(manifest: Manifest) -> str:
    """Returns the reason why a driver's library cannot be loaded; empty if it can."""
    done = _python("-c", _LOAD, manifest.library)
    if done.returncode == 0:
        return ""
    if done.returncode == _NO_DRIVER:
        return f"names {manifest.library}, which is no Vulkan driver"
    return f"names a library that does not load: {_error_line(done.stderr) or f'status {done.returncode}'}"


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
    try:
        ctypes.CDLL("libEGL.so.1")
        yield Finding(OK, "libEGL", "is installed, which NVIDIA's Vulkan driver needs")
    except OSError:
        remedy = "install it (Debian and Ubuntu: `apt install libegl1`)"
        yield Finding(FAILED, "libEGL", "is missing, which NVIDIA's Vulkan driver needs", remedy)


def compilers() -> Iterator[Finding]:
    """The GLSL compiler, which only kernels in GLSL need."""
    named = os.environ.get("VKCOMPUTE_GLSLC")
    try:
        yield Finding(OK, "GLSL compiler", discovery.find().path)
    except NoCompiler as error:
        text = str(error).partition(";")[0] if named else "none, which only kernels in GLSL need"
        remedy = "correct or unset VKCOMPUTE_GLSLC" if named else "install one, as `apt install glslang-tools`"
        yield Finding(NOTE, "GLSL compiler", text, remedy)


def cache() -> Iterator[Finding]:
    """The cache folder: its place and size, and whether it is used."""
    folder = disk.cache_folder()
    try:
        disk.require_usable_cache()
    except OSError as error:
        at = "" if error.filename == str(folder) else f"{error.filename}: "
        why = f"{at}{error.strerror}" if error.strerror else str(error)
        remedy = "correct that, or set VKCOMPUTE_CACHE_DIR to another folder"
        yield Finding(FAILED, "cache", f"{folder} is not used, so each process compiles anew: {why}", remedy)
        return
    size = sum(entry.nbytes for entry in disk.cache_entries())
    yield Finding(OK, "cache", f"{folder}, writable, {terminal.nbytes(size)}")


def devices() -> Iterator[Finding]:
    """The layers, the devices, and the one that is chosen."""
    listing = _python("-m", _TRIAL)
    said = [line.strip() for line in listing.stderr.splitlines() if line.startswith(_LOADER_ERRORS)]
    yield from [Finding(NOTE, "loader says", line) for line in dict.fromkeys(said)]
    if listing.returncode:
        text = _error_line(listing.stderr) or f"the process ended with status {listing.returncode}"
        what, _, remedy = text.partition("; ")
        is_own = what.startswith(("NoDevice: ", "NoVulkanLoader: "))
        remedy = _moved(os.environ) or remedy if is_own else "correct what this names"
        yield Finding(FAILED, "devices", what if is_own else text, remedy)
        return
    head, *found = _json_lines(listing.stdout)
    yield Finding(OK, "layers", ", ".join(head["layers"]) or "none")
    if not found:
        yield Finding(FAILED, "devices", "the drivers have none", f"install {_DRIVER}")
    for device in found:
        yield _device(device, "the only one" if len(found) == 1 else "no other comes before it")
    if found and not any(not device["reasons"] for device in found):
        yield Finding(FAILED, "choice", "no device is chosen", "correct or unset VKCOMPUTE_DEVICE")


def _device(device: Mapping[str, Any], why: str) -> Finding:
    """Describes a device; `why` is the reason for which it would be chosen."""
    subject = f"device {device['index']}"
    choice = f"not chosen: {', '.join(device['reasons'])}" if device["reasons"] else f"chosen: {why}"
    text = f"{device['name']} ({device['kind']}), Vulkan {device['vulkan']}, {choice}"
    if not device["usable"]:
        return Finding(NOTE, subject, text)
    slow = device["kind"] == "cpu" and not device["reasons"]
    lacks = f"; kernels take no {', '.join(device['lacks'])}" if device["lacks"] else ""
    closed = [node for node in cpu_fallback.render_nodes() if not cpu_fallback.is_accessible(node)]
    remedy = f"get access to {closed[0]}" if closed else f"install {_DRIVER.partition(',')[0]}"
    return Finding(NOTE if slow else OK, subject, text + lacks, f"for a GPU, {remedy}" if slow else "")


def computations() -> Iterator[Finding]:
    """Computations on each usable device, compared with NumPy."""
    listing = _python("-m", _TRIAL)
    for device in [each for each in _json_lines(listing.stdout) if each.get("usable")]:
        yield from _trials(device["index"])


def _trials(index: int) -> Iterator[Finding]:
    subject, done = f"device {index}", _python("-m", _TRIAL, str(index))
    trials = list(_json_lines(done.stdout))
    for trial in trials:
        if not trial["equal"]:
            remedy = "update the driver; choose another device by VKCOMPUTE_DEVICE until then"
            yield Finding(FAILED, subject, f"{trial['trial']}: the result differs from NumPy's", remedy)
    if done.returncode:
        text = _error_line(done.stderr) or f"the process ended with status {done.returncode}"
        what, _, remedy = text.partition("; ")
        yield Finding(FAILED, subject, f"a computation failed: {what}", remedy or "update the driver")
    elif all(trial["equal"] for trial in trials):
        names = ", ".join(trial["trial"] for trial in trials)
        yield Finding(OK, subject, f"{names}: equal to NumPy")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, with this package, and with the loader's errors on stderr."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    environ = os.environ | {"PYTHONPATH": path, "VK_LOADER_DEBUG": os.environ.get("VK_LOADER_DEBUG", "error")}
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, env=environ, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_TIMEOUT_S} s")


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in text.splitlines() if line.startswith("{"))


def _error_line(text: str) -> str:
    """Returns the error of a traceback, without its notes; the last line of another text."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    at = max((place + 1 for place, line in enumerate(lines) if line.startswith(" ")), default=len(lines))
    return next(iter(lines[at:] or lines[-1:]), "").strip().removeprefix("vkcompute.errors.")


def environment() -> dict[str, str]:
    """Returns the outcomes of the checks of everything but drivers and devices, by subject."""
    return {each.subject: each.text for check in (packages, loader, compilers, cache) for each in check()}


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    loader, manifests, devices, permissions, containers, variables, compilers, cache, packages, computations,
)  # fmt: skip
