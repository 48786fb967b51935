"""Files that may vanish or rot: where caches live, writes that are never half done, reads that never fail.

A cache entry is `MAGIC`, the SHA-256 of the content, the content. An entry that is truncated or altered is discarded
and reads as absent, so whoever reads a cache only ever sees what was written, or nothing.
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
# Looking through a full cache takes as long as compiling does, so only entries whose key begins so do it: one in 16.
PRUNING_DIGITS = "0"
_HEADER_NBYTES = len(MAGIC) + hashlib.sha256().digest_size
_TEMPORARY_PREFIX = ".writing-"
_ABANDONED_AFTER_S = 3600.0  # a temporary file this old belongs to a process that died

_warned = False


def cache_folder() -> Path:
    """The folder of every cache; it need not exist yet. `VKCOMPUTE_CACHE_DIR` names it outright."""
    own = os.environ.get("VKCOMPUTE_CACHE_DIR")
    return Path(own) if own else _user_cache() / "vkcompute"


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # The XDG base directory specification: a relative path is to be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives the path of a new file to write, which takes the place of `path` at the end; on an error it is deleted.

    A file that is replaced leaves its mode to the new one, and a symbolic link stays one. The new file has the suffix
    of `path`, which tells many a library what to write.

    Raises:
        OSError: the folder cannot be written.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        temporary.chmod(mode)  # what was yielded may have been replaced by another file
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(temporary):
            error.filename = os.fspath(path)  # the name that the caller knows
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Make `path` hold `data`: a reader sees the old content or the new, also after a crash.

    Raises:
        OSError: the folder cannot be written; nothing is left behind.
    """
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_cached(path: Path) -> bytes | None:
    """What `write_cached` wrote to `path`; None if there is nothing, or it is damaged (then it is deleted)."""
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
    """Keep `data` at `path`, making folders as needed. A disk that cannot be written costs one warning per process."""
    global _warned
    try:
        with contextlib.suppress(FileNotFoundError):  # somebody has deleted the folder meanwhile
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # what drivers execute is for its owner to write
            write_atomic(path, _header(data) + data)
    except OSError as error:
        if isinstance(error, FileExistsError) and not os.path.lexists(error.filename):
            return  # or while it was found to be there
        level = logging.DEBUG if _warned else logging.WARNING
        _warned = True
        logger.log(level, "cannot write the cache entry %s: %s; VKCOMPUTE_CACHE_DIR names another folder", path, error)


def keep_cached(path: Path, data: bytes) -> None:
    """`write_cached`, in a folder that holds LIMIT_NBYTES at most; the name begins with a hexadecimal digit."""
    write_cached(path, data)
    if path.name[0] in PRUNING_DIGITS:
        prune(path.parent, LIMIT_NBYTES)


def prune(folder: Path, limit_nbytes: int) -> None:
    """Delete the oldest entries of `folder` (not of its subfolders) until the rest fit into `limit_nbytes`."""
    entries: list[tuple[float, int, str]] = []
    abandoned_before = time.time() - _ABANDONED_AFTER_S
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            with contextlib.suppress(OSError):  # another process may delete it first
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
