"""Places where a command is to write: looked at before the work begins."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def check(path: str, *taken: str | None) -> None:
    """Refuses a place that cannot be written, before any work is done for it.

    Args:
        path: where a file is to be written, a new one or one to be replaced.
        taken: the paths of the command's inputs and other outputs.

    Raises:
        ValueError: it is one of `taken`, a folder, a device, or in no folder that can be written.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}; create it first")
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder; give the name of a file in it")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is a device or a pipe; outputs are files")
    if any(_same(path, other) for other in taken if other is not None):
        raise ValueError(f"{path} is named twice, and writing it would destroy the other; give it another name")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission to write in {folder}")


def _same(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
