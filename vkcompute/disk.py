"""Atomic file writes, and a disk cache that tolerates damage.

A cache entry is `MAGIC`, the SHA-256 of the content, and the content. Truncated or altered entries are discarded and
read as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

MAGIC = b"vkcache1"
LIMIT_NBYTES = 64 << 20
# Scanning a full cache takes as long as compiling, so only keys with these first digits prune: one in 16.
PRUNING_DIGITS = "0"
_HEADER_NBYTES = len(MAGIC) + hashlib.sha256().digest_size
_TEMPORARY_PREFIX = ".writing-"
_ABANDONED_AFTER_S = 3600.0  # older temporary files belong to processes that died

_warned = False


def cache_folder() -> Path:
    """The folder of all caches, which may not exist yet. `VKCOMPUTE_CACHE_DIR` overrides it."""
    own = os.environ.get("VKCOMPUTE_CACHE_DIR")
    return Path(own) if own else _user_cache() / "vkcompute"


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # XDG base directory specification: relative paths must be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of a temporary file, which replaces `path` at the end, or is deleted on an error.

    The temporary file has the suffix of `path`, from which many libraries derive the format. The mode of a replaced
    file is kept; a symbolic link is followed.

    Raises:
        OSError: the folder cannot be written.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        temporary.chmod(mode)  # the caller may have replaced the temporary file
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(temporary):
            error.filename = os.fspath(path)  # the name known to the caller
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file atomically: readers see the old or the new content, even after a crash.

    Raises:
        OSError: the folder cannot be written; no temporary file is left.
    """
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_cached(path: Path) -> bytes | None:
    """Reads an entry of `write_cached`. Returns None if it is missing or damaged; deletes a damaged one."""
    try:
        with open(path, "rb") as file:
            entry = file.read()
    except OSError:
        return None
    content = entry[_HEADER_NBYTES:]
    if entry[:_HEADER_NBYTES] == _header(content):
        return content
    logger.debug("discarding the damaged cache entry %s (%d bytes)", path, len(entry))
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def write_cached(path: Path, data: bytes) -> None:
    """Writes a cache entry, creating folders. If that fails, warns once per process."""
    global _warned
    try:
        with contextlib.suppress(FileNotFoundError):  # the folder was deleted meanwhile
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # drivers execute the content
            write_atomic(path, _header(data) + data)
    except OSError as error:
        if isinstance(error, FileExistsError) and not os.path.lexists(error.filename):
            return  # deleted after mkdir found it
        level = logging.DEBUG if _warned else logging.WARNING
        _warned = True
        logger.log(level, "cannot write the cache entry %s: %s; set VKCOMPUTE_CACHE_DIR to another folder", path, error)


def keep_cached(path: Path, data: bytes) -> None:
    """`write_cached` for a folder of at most LIMIT_NBYTES. The name must begin with a hexadecimal digit."""
    write_cached(path, data)
    if path.name[0] in PRUNING_DIGITS:
        prune(path.parent, LIMIT_NBYTES)


def prune(folder: Path, limit_nbytes: int) -> None:
    """Deletes the oldest entries of `folder` (not of subfolders) until it has at most `limit_nbytes`."""
    entries: list[tuple[float, int, str]] = []
    abandoned_before = time.time() - _ABANDONED_AFTER_S
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            with contextlib.suppress(OSError):  # deleted by another process
                info = item.stat(follow_symlinks=False)
                if not item.is_file(follow_symlinks=False):
                    continue
                if not item.name.startswith(_TEMPORARY_PREFIX):
                    entries.append((info.st_mtime, info.st_size, item.path))
                elif info.st_mtime < abandoned_before:
                    os.unlink(item.path)
    excess_nbytes = sum(nbytes for _, nbytes, _ in entries) - limit_nbytes
    for _, nbytes, path in sorted(entries):
        if excess_nbytes <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess_nbytes -= nbytes


def _header(content: bytes) -> bytes:
    return MAGIC + hashlib.sha256(content).digest()
