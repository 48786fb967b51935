"""The processor of this machine, on which drivers for CPUs run kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux


@cache
def stalls_on_parts_of_wide_vectors() -> bool:
    """True if a load of a part of a 64-byte vector waits until the vector is stored: on Intel's with AVX-512.

    A Xeon (family 6, model 167) takes 12 cycles per such load. False where the processor is not known.
    """
    try:
        fields = [line.split() for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    of_intel = ["vendor_id", ":", "GenuineIntel"] in fields
    return of_intel and any(each[:1] == ["flags"] and "avx512f" in each for each in fields)
