"""The software Vulkan drivers for tests: their manifests, and SwiftShader's download."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from packages import has_apt, refresh
from report import run_quietly, say

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ROOT / ".drivers"
SWIFTSHADER_PACKAGE = "chromium-common"
SWIFTSHADER_FILES = ("vk_swiftshader_icd.json", "libvk_swiftshader.so")
# Ours, and those of browsers that contain SwiftShader.
SWIFTSHADER_FOLDERS = (DRIVERS / "swiftshader", Path("/usr/lib/chromium"), Path("/opt/google/chrome"))
# Variables that select the loader's drivers. The second is for loaders before 1.3.207.
SELECTORS = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
OTHER_SELECTORS = ("VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE")


def only(manifests: str) -> dict[str, str]:
    """This process's environment with the loader restricted to `manifests` (paths joined by os.pathsep)."""
    env = {name: value for name, value in os.environ.items() if name not in OTHER_SELECTORS}
    return env | dict.fromkeys(SELECTORS, manifests)


def _data_dirs(env: Mapping[str, str]) -> list[Path]:
    """The loader's search folders for vulkan/icd.d on Linux, by its documentation."""
    home = Path(env.get("HOME", "/"))
    dirs = [env.get("XDG_CONFIG_HOME", str(home / ".config")), *env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")]
    dirs += ["/etc", env.get("XDG_DATA_HOME", str(home / ".local/share"))]
    dirs += env.get("XDG_DATA_DIRS", "/usr/local/share:/usr/share").split(":")
    return [Path(d) for d in dirs if d]


def lavapipe() -> Path | None:
    """Lavapipe's manifest, or None if it is not installed."""
    for folder in _data_dirs(os.environ):
        for manifest in sorted((folder / "vulkan/icd.d").glob("lvp_icd*.json")):
            return manifest
    return None


def swiftshader() -> Path | None:
    """SwiftShader's manifest, ours or a browser's, or None."""
    for folder in SWIFTSHADER_FOLDERS:
        if all((folder / name).is_file() for name in SWIFTSHADER_FILES):
            return folder / SWIFTSHADER_FILES[0]
    return None


def fetch_swiftshader() -> str:
    """Download Debian's browser package, and unpack SwiftShader into .drivers/, without administrator rights.

    Returns "" on success, else the reason for the failure.
    """
    if not has_apt() or shutil.which("dpkg-deb") is None:
        return f"SwiftShader is unpacked from Debian's {SWIFTSHADER_PACKAGE} package, which needs apt-get and dpkg-deb"
    DRIVERS.mkdir(exist_ok=True)
    say(f"SwiftShader: downloading {SWIFTSHADER_PACKAGE} and unpacking its driver into .drivers/")
    with tempfile.TemporaryDirectory(dir=DRIVERS) as scratch:
        folder = Path(scratch)
        problem = _download(folder)
        if problem:
            return problem
        target = DRIVERS / "swiftshader"
        unpacked = folder / "swiftshader"
        _unpack(next(folder.glob("*.deb")), unpacked)
        missing = [name for name in SWIFTSHADER_FILES if not (unpacked / name).is_file()]
        if missing:
            return f"{SWIFTSHADER_PACKAGE} does not contain {' and '.join(missing)} here (a transitional package?)"
        shutil.rmtree(target, ignore_errors=True)
        unpacked.rename(target)
    return ""


def _download(folder: Path) -> str:
    """Download the .deb into `folder`, after an update of stale package lists. Returns "" or the error."""
    command = ["apt-get", "-qq", "download", SWIFTSHADER_PACKAGE]
    if run_quietly(command, cwd=folder) is None:
        return ""
    refresh()
    output = run_quietly(command, cwd=folder)
    if output is None:
        return ""
    return f"SwiftShader: apt-get download {SWIFTSHADER_PACKAGE} failed: {' '.join(output.split())[-200:]}"


def _unpack(package: Path, target: Path) -> None:
    """Unpack only SWIFTSHADER_FILES of a .deb into the new folder `target`."""
    target.mkdir()
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = PurePosixPath(member.name).name
            content = archive.extractfile(member) if member.isfile() and name in SWIFTSHADER_FILES else None
            if content is not None:
                with content, (target / name).open("wb") as file:
                    shutil.copyfileobj(content, file)
