"""Atomic file writes, and a disk cache that tolerates damage.

A cache entry is `MAGIC`, the SHA-256 of the content, and the content. Truncated or altered entries are discarded and
read as missing. Drivers execute entries, so a folder that other users can change is not used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from vkcompute import deferred_calls
from vkcompute.errors import DataError

if sys.platform != "win32":
    import fcntl
    import grp
    import pwd

logger = logging.getLogger(__name__)

MAGIC = b"vkcache1"
LIMIT_NBYTES = 64 << 20
# Scanning a full cache takes as long as compiling, so only keys with these first digits prune: one in 16.
PRUNING_DIGITS = "0"
_HEADER_NBYTES = len(MAGIC) + hashlib.sha256().digest_size
_TEMPORARY_PREFIX = ".writing-"
_ABANDONED_AFTER_S = 60.0  # younger files may not be locked yet
CACHES = "glsl", "pipelines", "python", "rewritten"
"""The folders of caches: compiled GLSL, the drivers' pipelines, compiled kernels in Python, SPIR-V for a driver."""
_ENTRY_NAME = re.compile(r"[0-9a-f]{32,64}(\.bin)?")
_DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

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


def open_regular(path: str | os.PathLike[str], more_flags: int = 0) -> BinaryIO:
    """Opens a regular file for reading, without waiting for the writer of a pipe. `more_flags` are those of os.open.

    Raises:
        DataError: it is a pipe or a device.
        OSError: it cannot be opened.
    """

    def opener(name: str, flags: int) -> int:
        opened = os.open(name, flags | more_flags | getattr(os, "O_NONBLOCK", 0))
        if stat.S_IFMT(os.fstat(opened).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
            return opened  # a folder raises IsADirectoryError
        os.close(opened)
        raise DataError(f"{name} is a pipe or a device; write the data to a regular file")

    return open(path, "rb", opener=opener)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[Path]:
    """Yields the path of a temporary file, which replaces `path` at the end, or is deleted on an error.

    The temporary file has the suffix of `path`, from which many libraries derive the format. Without `mode`, that of a
    replaced file is kept. A symbolic link is followed. A lock marks the file as in use, until its process dies.

    Raises:
        ValueError: `path` is a pipe or a device.
        OSError: the folder cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    require_regular(path)
    temporary = target.with_name(f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}{target.suffix}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode or 0o666)) as file:
            with contextlib.suppress(OSError):  # a file system without locks
                _lock(file)
            if mode is None:
                mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed
            temporary.chmod(mode)  # the caller may have replaced the temporary file
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and (str(error.filename) == str(temporary) or error.errno in _DISK_FULL):
            error.filename = os.fspath(path)  # the name known to the caller
        raise


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raises ValueError if `path` exists and is no regular file, which `replacing` would replace."""
    if os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)} is a folder; name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{os.fspath(path)} is a device or a pipe; outputs must be regular files")


def reserve(file: BinaryIO, nbytes: int) -> None:
    """Reserves the disk space of a file of `nbytes`, where the system can.

    Raises:
        OSError: the disk is full.
    """
    try:
        os.posix_fallocate(file.fileno(), 0, nbytes)
    except AttributeError:  # macOS, Windows
        pass
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise


def _lock(file: BinaryIO) -> None:
    """Locks a file until it is closed or the process dies; raises OSError if another process has locked it."""
    if sys.platform != "win32":  # where open files cannot be deleted
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_abandoned(folder: str | os.PathLike[str]) -> None:
    """Deletes the temporary files that processes left in `folder` when they were killed."""
    before = time.time() - _ABANDONED_AFTER_S
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if not item.name.startswith(_TEMPORARY_PREFIX):
                continue
            with contextlib.suppress(OSError, DataError):  # locked by its writer, or not ours
                if item.stat(follow_symlinks=False).st_mtime < before:
                    with open_regular(item.path) as file:
                        _lock(file)
                    os.unlink(item.path)


def write_atomic(path: Path, data: bytes, mode: int | None = None) -> None:
    """Writes a file atomically: readers see the old or the new content, even after a crash. See `replacing`.

    Raises:
        OSError: the folder cannot be written; no temporary file is left.
    """
    with replacing(path, mode) as temporary, open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_cached(path: Path) -> bytes | None:
    """Reads an entry of `write_cached`. Returns None if it is missing or damaged; deletes a damaged one.

    An entry is no symbolic link, and neither it nor its folders can be written by other users.
    """
    entry = b""
    try:
        _require_private(path.parent)
        with open_regular(path, getattr(os, "O_NOFOLLOW", 0)) as file:
            info = os.fstat(file.fileno())
            if info.st_size <= LIMIT_NBYTES and _defect(info, 0) is None:
                entry = file.read()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a symbolic link
            return None
    except DataError:
        pass
    content = entry[_HEADER_NBYTES:]
    if entry[:_HEADER_NBYTES] == _header(content):
        return content
    deferred_calls.call(partial(logger.debug, "discarding the damaged cache entry %s (%d bytes)", path, len(entry)))
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def _require_private(folder: Path) -> None:
    """Raises PermissionError if users other than this one and root can change a folder, or exchange one of its parents.

    In a parent with the sticky bit, such as /tmp, they can exchange only what belongs to them.
    """
    for start in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))):
        each, inner = start, ""
        while each != inner:  # the root is its own parent
            if defect := _defect(os.stat(each), 0 if each == start else stat.S_ISVTX):
                raise PermissionError(f"the cache is not used, since {each} {defect}")
            each, inner = os.path.dirname(each), each


def _defect(info: os.stat_result, exempt: int) -> str | None:
    """The reason why other users can change a file or a folder, unless its mode has the bit `exempt`."""
    if not hasattr(os, "geteuid"):  # Windows, whose profiles are private
        return None
    if info.st_uid not in (0, os.geteuid()):
        return f"belongs to user {info.st_uid}"
    others = 0o002 if info.st_mode & 0o020 and _is_private_group(info.st_gid) else 0o022
    if info.st_mode & others and not info.st_mode & exempt:
        return f"can be written by other users (mode {stat.S_IMODE(info.st_mode):04o}; chmod go-w)"
    return None


def _is_private_group(gid: int) -> bool:
    """True for a group of this user alone, for which many distributions make new files writable (umask 002)."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return (gid, group.gr_name) == (user.pw_gid, user.pw_name) and {*group.gr_mem} <= {user.pw_name}


def write_cached(path: Path, data: bytes) -> None:
    """Writes a cache entry, creating folders. If that fails, warns once per process."""
    global _warned
    try:
        with contextlib.suppress(FileNotFoundError):  # the folder was deleted meanwhile
            _make_private(path.parent)
            write_atomic(path, _header(data) + data, mode=0o600)
    except (OSError, ValueError) as error:
        if isinstance(error, FileExistsError) and not _is_obstacle(error.filename):
            return  # deleted after mkdir found it, and perhaps made again
        level = logging.DEBUG if _warned else logging.WARNING
        _warned = True
        text = "cannot write the cache entry %s: %s; set VKCOMPUTE_CACHE_DIR to another folder"
        deferred_calls.call(partial(logger.log, level, text, path, error))


def _make_private(folder: Path) -> None:
    """Makes a folder, unless it exists, that other users cannot change."""
    for each in (*reversed(folder.parents), folder):
        each.mkdir(mode=0o700, exist_ok=True)
    _require_private(folder)


def require_usable_cache() -> None:
    """Writes a file to the cache, and deletes it.

    Raises:
        OSError: the folder cannot be made or written, or other users can change it.
    """
    folder = cache_folder() / CACHES[-1]
    _make_private(folder)
    probe = folder / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    write_atomic(probe, b"", mode=0o600)
    probe.unlink()


def _is_obstacle(path: str) -> bool:
    """True if something other than a folder has the name `path`."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def keep_cached(path: Path, data: bytes) -> None:
    """`write_cached` for a folder of at most LIMIT_NBYTES. The name must begin with a hexadecimal digit."""
    write_cached(path, data)
    if path.name[0] in PRUNING_DIGITS:
        prune(path.parent, LIMIT_NBYTES)


def prune(folder: Path, limit_nbytes: int) -> None:
    """Deletes the oldest entries of `folder` (not of subfolders) until it has at most `limit_nbytes`."""
    remove_abandoned(folder)
    entries: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            with contextlib.suppress(OSError):  # deleted by another process
                info = item.stat(follow_symlinks=False)
                if item.is_file(follow_symlinks=False) and not item.name.startswith(_TEMPORARY_PREFIX):
                    entries.append((info.st_mtime, info.st_size, item.path))
    excess_nbytes = sum(nbytes for _, nbytes, _ in entries) - limit_nbytes
    for _, nbytes, path in sorted(entries):
        if excess_nbytes <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess_nbytes -= nbytes


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file of the cache."""

    path: Path
    nbytes: int


def cache_entries() -> list[CacheEntry]:
    """Returns the files of all caches, by folder. Other files in the folder are left out, as are symbolic links."""
    found = []
    for folder in (cache_folder() / name for name in CACHES):
        with contextlib.suppress(OSError), os.scandir(folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                with contextlib.suppress(OSError):  # deleted by another process
                    if _ENTRY_NAME.fullmatch(item.name) and item.is_file(follow_symlinks=False):
                        found.append(CacheEntry(Path(item.path), item.stat(follow_symlinks=False).st_size))
    return found


def clear_cache() -> list[CacheEntry]:
    """Deletes the files of all caches, and folders that are empty then. Returns what it deleted.

    Raises:
        OSError: a file cannot be deleted.
    """
    entries = cache_entries()
    for entry in entries:
        entry.path.unlink(missing_ok=True)
    folder = cache_folder()
    for each in (*[folder / name for name in CACHES], folder):
        remove_abandoned(each)
        with contextlib.suppress(OSError):  # it has other files, or is missing
            each.rmdir()
    return entries


def _header(content: bytes) -> bytes:
    return MAGIC + hashlib.sha256(content).digest()
