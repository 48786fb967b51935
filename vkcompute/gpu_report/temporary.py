"""The temporary folder of a report, for the caches of its processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "vkcompute-report-"
_ABANDONED_AFTER_S = 24 * 3600


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Yields an empty folder, which is deleted after the block; and those that killed reports left, before it."""
    remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
        yield folder


def remove_abandoned(parent: Path) -> None:
    """Deletes folders of this user's reports that nothing has changed for a day; no links, and none of others."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # deleted by another process
            facts = folder.lstat()
            is_own = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
            if stat.S_ISDIR(facts.st_mode) and is_own and time.time() - facts.st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(folder, ignore_errors=True)
