"""Driver manifests: the JSON files by which the Vulkan loader finds drivers. Loads no driver, and no Vulkan.

Source: Vulkan-Loader, docs/LoaderDriverInterface.md, "Driver Discovery on Linux".
"""

from __future__ import annotations

import json
import os
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vkcompute.disk import open_regular
from vkcompute.errors import DataError

_MAX_NBYTES = 1 << 20
_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux

SELECTED_BY = "VK_DRIVER_FILES", "VK_ICD_FILENAMES"
"""Variables that replace the usual folders; the first one that is set counts, even if it is empty."""

left_out: list[Manifest] = []
"""Broken manifests that made the loader fail, and that this process has told it to leave out."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A driver manifest.

    Attributes:
        library: the driver's library: a path, or a name that the dynamic linker searches; empty if there is a problem.
        problem: the reason why the loader cannot use the manifest; empty if it can.
    """

    path: Path
    library: str = ""
    problem: str = ""


def find(environ: Mapping[str, str] = os.environ) -> list[Manifest]:
    """Returns the manifests that the loader reads, in its order; on Windows only those that a variable names."""
    selected = next((environ[name] for name in SELECTED_BY if name in environ), None)
    if selected is not None:
        paths = _listed(selected)
    else:
        added = _listed(environ.get("VK_ADD_DRIVER_FILES", ""))
        paths = [*added, *[path for folder in _folders(environ) for path in _inside(folder)]]
    return [read(path) for path in dict.fromkeys(paths)]


def read(path: Path) -> Manifest:
    """Reads a manifest."""
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_NBYTES + 1)
        if len(content) > _MAX_NBYTES:
            return Manifest(path, problem=f"has more than {_MAX_NBYTES >> 10:,} KiB, and is no driver manifest")
        text = content.decode()
        if not text.strip():
            return Manifest(path, problem="is empty")
        library = json.loads(text)["ICD"]["library_path"]
    except FileNotFoundError:
        return Manifest(path, problem="does not exist")
    except OSError as error:
        return Manifest(path, problem=f"cannot be read: {error.strerror}")
    except DataError:
        return Manifest(path, problem="is a pipe or a device")
    except (ValueError, RecursionError) as error:  # nested too deeply
        return Manifest(path, problem=f"is not JSON: {error}")
    except (KeyError, TypeError):
        return Manifest(path, problem="names no library: it has no ICD.library_path")
    if not isinstance(library, str) or not library:
        return Manifest(path, problem=f"names no library: its ICD.library_path is {reprlib.repr(library)}")
    if "\0" in library or not _is_encodable(library) or len(library) > _MAX_PATH_CHARACTERS:
        return Manifest(path, problem=f"names no library: its ICD.library_path is no path, {reprlib.repr(library)}")
    if not path.name.lower().endswith(".json"):
        return Manifest(path, problem="is left out by the loader, since its name does not end in .json")
    if "/" in library or "\\" in library:
        library_path = path.parent / library  # an absolute path replaces the folder
        if not os.path.exists(library_path):
            return Manifest(path, problem=f"names the library {library_path}, which does not exist")
        library = str(library_path)
    return Manifest(path, library)


def _is_encodable(name: str) -> bool:
    """False for a lone surrogate that stands for no byte of a file name."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def _listed(paths: str) -> list[Path]:
    """Returns the files of a list of files and folders."""
    entries = [Path(entry) for entry in paths.split(os.pathsep) if entry]
    return [path for entry in entries for path in (_inside(entry) if os.path.isdir(entry) else [entry])]


def _inside(folder: Path) -> list[Path]:
    """Returns the manifests in a folder; none if it may not be read, as the loader finds none there, either."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


def _folders(environ: Mapping[str, str]) -> list[Path]:
    """Returns the folders that the loader searches: those of the XDG base directories, and /etc."""
    if sys.platform == "win32":
        return []
    home = Path(environ.get("HOME", "/"))
    roots = [
        environ.get("XDG_CONFIG_HOME") or home / ".config",
        *(environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"),
        "/usr/local/etc",
        "/etc",
        environ.get("XDG_DATA_HOME") or home / ".local" / "share",
        *(environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":"),
    ]
    if sys.platform == "darwin":
        roots.append("/opt/homebrew/share")
    return [Path(root) / "vulkan" / "icd.d" for root in roots]
