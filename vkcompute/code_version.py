"""The version of the installed code, for the keys of what it computes and keeps on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vkcompute._version import __version__


def code_version(*folders: Path) -> str | None:
    """Returns a text that changes with the files in folders of this package, with Python, and with numpy.

    It has the size and the time of every file, subfolders included. Where all have one time, as reproducible
    installations set it, it has their contents, too. None if they cannot be listed, as in an archive.
    """
    texts = [_files(folder) for folder in folders]
    if None in texts:
        return None
    return " ".join((__version__, sys.version, np.__version__, *map(str, texts)))


@functools.cache
def _files(folder: Path) -> str | None:
    try:
        modules = sorted(_modules(str(folder), folder.name))
        texts = [f"{name} {info.st_size} {info.st_mtime_ns}" for name, _, info in modules]
        if len({info.st_mtime_ns for *_, info in modules}) == 1:
            texts += [hashlib.sha256(Path(path).read_bytes()).hexdigest() for _, path, _ in modules]
    except OSError:
        return None
    return " ".join(texts) or None


def _modules(path: str, name: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yields the name in the package, the path and the status of every module in a folder."""
    with os.scandir(path) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                yield from _modules(entry.path, f"{name}/{entry.name}")
            elif entry.name.endswith(".py"):
                yield f"{name}/{entry.name}", entry.path, entry.stat()
