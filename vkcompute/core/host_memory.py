"""The memory of this machine, or of the control group (a container's, say) that limits this process to less."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MEMINFO, CGROUP, CGROUP_MOUNT = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60  # cgroups of version 1 give a number near 2**63


class HostMemory(NamedTuple):
    """Bytes of memory that this process may have, and those that are still available.

    Where the system does not tell, `available` is `total`, and `total` is 0.
    """

    total: int
    available: int


def host_memory() -> HostMemory:
    """Returns the state of the host's memory: the least of the machine and of its control groups."""
    if sys.platform == "win32":
        return _of_windows()
    known = [_of_machine(), *_of_groups()]
    totals, available = zip(*known, strict=True)
    return HostMemory(min(totals), min(available))


def _of_machine() -> HostMemory:
    try:
        lines = [line.split() for line in MEMINFO.read_text().splitlines()]
        sizes = {line[0]: int(line[1]) << 10 for line in lines if line[2:] == ["kB"]}
        return HostMemory(sizes["MemTotal:"], sizes["MemAvailable:"])
    except (OSError, ValueError, LookupError):
        pass
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX
        total = 0
    return HostMemory(total, total)


def _of_groups() -> Iterator[HostMemory]:
    """Yields the limits of this process's control group and of those around it, where there are any."""
    try:
        entries = [line.split(":", 2) for line in CGROUP.read_text().splitlines()]
    except OSError:
        return
    for entry in entries:
        if len(entry) != 3 or (entry[1] and "memory" not in entry[1].split(",")):
            continue
        mount, files = CGROUP_MOUNT, ("memory.max", "memory.current", "inactive_file")
        if entry[1]:
            mount, files = (
                CGROUP_MOUNT / "memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            )
        folder = mount / entry[2].lstrip("/")
        for group in (folder, *folder.parents):
            if group != mount and mount not in group.parents:
                break
            try:
                limit, used = (int((group / name).read_text()) for name in files[:2])
                statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                reclaimable = int(statistics.get(files[2], 0))
            except (OSError, ValueError):  # "max", or a folder outside of this container's namespace
                continue
            if limit < _UNLIMITED:
                yield HostMemory(limit, max(limit - used + reclaimable, 0))


def _of_windows() -> HostMemory:
    """Returns what GlobalMemoryStatusEx reports."""
    status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: two uint32 (its size, the load), then total and available
    if sys.platform != "win32" or not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return HostMemory(0, 0)
    return HostMemory(status[1], status[2])
