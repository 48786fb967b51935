"""The processor of this machine, which executes the kernels of drivers for CPUs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux


@cache
def fails_store_forwarding() -> bool:
    """True if a load of part of a 64-byte vector stalls after its store: on Intel's processors with AVX-512.

    Their store-to-load forwarding fails there: a Xeon (family 6, model 167) takes 12 cycles per load. False for an
    unknown processor.
    """
    try:
        fields = [line.split() for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    is_intel = ["vendor_id", ":", "GenuineIntel"] in fields
    return is_intel and any(field[:1] == ["flags"] and "avx512f" in field for field in fields)
