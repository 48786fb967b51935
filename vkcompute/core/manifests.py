"""Driver manifests: the JSON files by which the Vulkan loader finds drivers. Loads no driver, and no Vulkan.

Source: Vulkan-Loader, docs/LoaderDriverInterface.md, "Driver Discovery on Linux".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            return Manifest(path, problem="is empty")
        library = json.loads(text)["ICD"]["library_path"]
    except FileNotFoundError:
        return Manifest(path, problem="does not exist")
    except OSError as error:
        return Manifest(path, problem=f"cannot be read: {error.strerror}")
    except ValueError as error:
        return Manifest(path, problem=f"is not JSON: {error}")
    except (KeyError, TypeError):
        return Manifest(path, problem="names no library: it has no ICD.library_path")
    if not isinstance(library, str) or not library:
        return Manifest(path, problem=f"names no library: its ICD.library_path is {library!r}")
    if "/" in library or "\\" in library:
        place = path.parent / library  # an absolute path replaces the folder
        if not os.path.exists(place):
            return Manifest(path, problem=f"names the library {place}, which does not exist")
        library = str(place)
    return Manifest(path, library)


def _listed(paths: str) -> list[Path]:
    """Returns the files of a list of files and folders."""
    entries = [Path(each) for each in paths.split(os.pathsep) if each]
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
