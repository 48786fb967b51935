"""Atomic file writes, and a disk cache that tolerates damage.

A cache entry is `MAGIC`, the SHA-256 of the content, and the content. Truncated or altered entries are discarded and
read as missing. Drivers execute entries, so a folder that other users can change is not used.

Users' files may have any name in any folder. So only files that this module wrote are deleted or replaced: entries are
known by their whole name and by `MAGIC`, temporary files by a marker beside them.
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
_MARKER_NAME = re.compile(r"\.vkcompute-writing-([0-9a-f]{16})")
_MARK = b"A marker of vkcompute for the temporary file "
_ABANDONED_AFTER_S = 60.0  # younger files may not be locked yet
_OWN_FOLDER = "vkcompute"
CACHES = "glsl", "pipelines", "python", "rewritten", "tuning"
"""The folders of caches.

They hold compiled GLSL, the drivers' pipelines, compiled kernels in Python, SPIR-V for a driver, and the fastest
configurations of block programs.
"""
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}\.bin")
_NO_HOME = Path("~")
_DISK_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_OPEN_FILES = re.compile(r"/proc/\d+/(task/\d+/)?fd|/dev/fd")
_MAX_LINKS = 40  # of Linux
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)

_warned = False


def cache_folder() -> Path:
    """The folder of all caches, which may not exist yet: `vkcompute` in `VKCOMPUTE_CACHE_DIR`, or in the user's cache.

    It begins with "~", and is not used, where the user has no home directory.
    """
    named = os.environ.get("VKCOMPUTE_CACHE_DIR")
    return (Path(named) if named else _user_cache()) / _OWN_FOLDER


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else _home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches"
    # XDG base directory specification: relative paths must be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return Path(xdg) if os.path.isabs(xdg) else _home() / ".cache"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # HOME is unset, and the user is not in /etc/passwd, as in many containers
        return _NO_HOME


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
    replaced file is kept. A symbolic link is followed. A marker beside the temporary file is locked until the process
    ends, so that `remove_abandoned` knows what a killed process has left.

    Raises:
        ValueError: `path` is a pipe or a device.
        OSError: the folder cannot be written, or the disk is full.
    """
    require_regular(path)
    target = Path(os.path.realpath(path))
    token = secrets.token_hex(8)
    marker = target.with_name(f".vkcompute-writing-{token}")
    temporary = target.with_name(f"{_TEMPORARY_PREFIX}{token}{target.suffix}")
    try:
        with open(marker, "xb", opener=partial(os.open, mode=0o600)) as mark:
            with contextlib.suppress(OSError):  # a file system without locks
                _lock(mark)
            mark.write(_MARK + os.fsencode(temporary.name))
            mark.flush()
            with open(temporary, "xb", opener=partial(os.open, mode=mode or 0o666)):
                pass
            if mode is None:
                mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            temporary.chmod(mode)  # the caller may have replaced the temporary file
            os.replace(temporary, target)
        with contextlib.suppress(OSError):
            marker.unlink()
    except BaseException as error:
        for written in (temporary, marker):
            with contextlib.suppress(OSError):
                written.unlink()
        own = str(error.filename) in (str(temporary), str(marker)) if isinstance(error, OSError) else False
        if isinstance(error, OSError) and (own or error.errno in _DISK_FULL):
            error.filename = os.fspath(path)  # the name known to the caller
        raise


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raises ValueError if `path` exists and is no regular file, which `replacing` would replace.

    A name of an open file, as /dev/stdout, is none: its holder would keep the file that was replaced.
    """
    if os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)} is a folder; name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{os.fspath(path)} is a device or a pipe; outputs must be regular files")
    link = os.path.abspath(path)
    for _ in range(_MAX_LINKS):
        if _OPEN_FILES.fullmatch(os.path.realpath(os.path.dirname(link))):
            raise ValueError(f"{os.fspath(path)} is an open file of a process; name the file itself")
        if not os.path.islink(link):
            return
        link = os.path.join(os.path.dirname(link), os.readlink(link))


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
    """Deletes the temporary files that processes left in `folder` when they were killed, and their markers."""
    for marker in _listed(folder):
        name = _MARKER_NAME.fullmatch(marker.name)
        if name is None:
            continue
        with contextlib.suppress(OSError, DataError):  # locked by its writer, or not ours
            # A date in the future was written before the clock was set back.
            if abs(time.time() - marker.stat(follow_symlinks=False).st_mtime) < _ABANDONED_AFTER_S:
                continue
            with open_regular(marker.path, _NO_LINKS) as file:
                _lock(file)
                mark = file.read(1024)
            known = _MARK + f"{_TEMPORARY_PREFIX}{name[1]}".encode()
            temporary = os.fsdecode(mark.removeprefix(_MARK))
            is_whole = mark.startswith(known) and os.path.basename(temporary) == temporary
            if is_whole or known.startswith(mark):
                os.unlink(marker.path)  # first, since this fails on Windows while the writer has it open
            if is_whole:
                os.unlink(os.path.join(folder, temporary))


def _listed(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """The content of a folder by name; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda item: item.name)
    except OSError:
        return []


def write_atomic(path: Path, data: bytes, mode: int | None = None, *, synced: bool = True) -> None:
    """Writes a file atomically: readers see the old or the new content. See `replacing`.

    Args:
        synced: waits for the disk, so that this holds after a power cut, too.

    Raises:
        OSError: the folder cannot be written; no temporary file is left.
    """
    with replacing(path, mode) as temporary, open(temporary, "wb") as file:
        file.write(data)
        if synced:
            file.flush()
            os.fsync(file.fileno())


def read_cached(path: Path) -> bytes | None:
    """Reads an entry of `write_cached`. Returns None if it is missing or damaged; deletes a damaged one.

    An entry is no symbolic link, and neither it nor its folders can be written by other users.
    """
    try:
        _require_private(path.parent)
        with open_regular(path, _NO_LINKS) as file:
            info = os.fstat(file.fileno())
            is_usable = info.st_size <= LIMIT_NBYTES and _defect(info, 0) is None
            entry = file.read() if is_usable else file.read(len(MAGIC))
    except (OSError, DataError):
        return None
    content = entry[_HEADER_NBYTES:]
    if entry[:_HEADER_NBYTES] == _header(content):
        return content
    deferred_calls.call(partial(logger.debug, "discarding the damaged cache entry %s (%d bytes)", path, len(entry)))
    if _is_magic(entry[: len(MAGIC)]):
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _is_magic(head: bytes) -> bool:
    """True for the first bytes of an entry, which may have been truncated."""
    return MAGIC.startswith(head)


def _is_entry(path: str | os.PathLike[str]) -> bool:
    """True for a file of this cache, damaged or not."""
    try:
        with open_regular(path, _NO_LINKS) as file:
            return _is_magic(file.read(len(MAGIC)))
    except (OSError, DataError):
        return False


def _require_private(folder: Path) -> None:
    """Raises PermissionError if users other than this one and root can change a folder, or exchange one of its parents.

    In a parent with the sticky bit, such as /tmp, they can exchange only what belongs to them.
    """
    _require_home(folder)
    for start in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))):
        ancestor, inner = start, ""
        while ancestor != inner:  # the root is its own parent
            if defect := _defect(os.stat(ancestor), 0 if ancestor == start else stat.S_ISVTX):
                raise PermissionError(f"the cache is not used, since {ancestor} {defect}")
            ancestor, inner = os.path.dirname(ancestor), ancestor


def _require_home(folder: Path) -> None:
    if _NO_HOME in folder.parents:
        raise PermissionError("the cache is not used, since ~ names no home directory")


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
            if os.path.lexists(path) and not _is_entry(path):
                raise ValueError("a file of another program has its name")
            write_atomic(path, _header(data) + data, mode=0o600, synced=False)  # a damaged one is read as missing
    except (OSError, ValueError) as error:
        if isinstance(error, FileExistsError) and not _is_obstacle(error.filename):
            return  # deleted after mkdir found it, and perhaps made again
        level = logging.DEBUG if _warned else logging.WARNING
        _warned = True
        text = "cannot write the cache entry %s: %s; set VKCOMPUTE_CACHE_DIR to another folder"
        deferred_calls.call(partial(logger.log, level, text, path, error))


def _make_private(folder: Path) -> None:
    """Makes a folder, unless it exists, that other users cannot change."""
    _require_home(folder)
    for ancestor in (*reversed(folder.parents), folder):
        ancestor.mkdir(mode=0o700, exist_ok=True)
    _require_private(folder)


def require_usable_cache() -> None:
    """Writes a file to the cache, and deletes it.

    Raises:
        OSError: the folder cannot be made or written, or other users can change it.
    """
    folder = cache_folder() / CACHES[-1]
    _make_private(folder)
    probe = folder / secrets.token_hex(32)  # the name of an entry
    write_atomic(probe, _header(b""), mode=0o600)
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
    """Deletes the oldest entries of `folder` (not of subfolders) until they have at most `limit_nbytes`."""
    remove_abandoned(folder)
    named: list[tuple[float, int, str]] = []
    now = time.time()
    for item in _listed(folder):
        with contextlib.suppress(OSError):  # deleted by another process
            if _ENTRY_NAME.fullmatch(item.name) and item.is_file(follow_symlinks=False):
                info = item.stat(follow_symlinks=False)
                # Dates in the future are of before the clock was set back: older than those of now.
                named.append((info.st_mtime if info.st_mtime <= now else 0.0, info.st_size, item.path))
    if _nbytes(named) <= limit_nbytes:
        return
    entries = [entry for entry in named if _is_entry(entry[2])]
    excess_nbytes = _nbytes(entries) - limit_nbytes
    for _, nbytes, path in sorted(entries):
        if excess_nbytes <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            excess_nbytes -= nbytes


def _nbytes(entries: list[tuple[float, int, str]]) -> int:
    return sum(nbytes for _, nbytes, _ in entries)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file of the cache."""

    path: Path
    nbytes: int


def cache_entries() -> list[CacheEntry]:
    """Returns the files of all caches, by folder. Other files in the folder are left out, as are symbolic links.

    Raises:
        OSError: a folder cannot be listed.
    """
    root = cache_folder()
    if _NO_HOME in root.parents:
        return []
    entries = []
    for folder in (root / name for name in CACHES):
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            continue
        for path in (folder / name for name in names if _ENTRY_NAME.fullmatch(name)):
            with contextlib.suppress(OSError):  # deleted by another process
                if _is_entry(path):
                    entries.append(CacheEntry(path, path.stat().st_size))
    return entries


def clear_cache() -> list[CacheEntry]:
    """Deletes the files of all caches, and folders that are empty then. Returns what it deleted.

    Raises:
        OSError: a folder cannot be listed, or a file cannot be deleted.
    """
    entries = cache_entries()
    for entry in entries:
        entry.path.unlink(missing_ok=True)
    root = cache_folder()
    for folder in (*[root / name for name in CACHES], root):
        remove_abandoned(folder)
        with contextlib.suppress(OSError):  # it has other files, or is missing
            folder.rmdir()
    return entries


def _header(content: bytes) -> bytes:
    return MAGIC + hashlib.sha256(content).digest()
