"""Figures of the device's memory by the names that torch.cuda has for them."""

from __future__ import annotations

from typing import Any


def memory_stats(memory: Any) -> dict[str, int]:
    """Returns bytes in use, free and kept for reuse, and their peaks.

    Args:
        memory: what `Runtime.memory` returns.
    """
    reserved = memory.used + memory.pooled
    peaks = {"allocated_bytes": (memory.used, memory.peak), "active_bytes": (memory.used, memory.peak),
             "reserved_bytes": (reserved, max(memory.peak, reserved)), "inactive_split_bytes": (memory.pooled,) * 2,
             "requested_bytes": (memory.used, memory.peak)}  # fmt: skip
    figures = {f"{name}.all.current": pair[0] for name, pair in peaks.items()}
    figures |= {f"{name}.all.peak": pair[1] for name, pair in peaks.items()}
    return figures | {"spilled_bytes": memory.spilled, "free_bytes": memory.free, "num_alloc_retries": 0, "num_ooms": 0}


def memory_summary(name: str, memory: Any) -> str:
    """Returns a table of the bytes in use, kept for reuse, free and on the host."""
    rows = (("in use", memory.used), ("peak", memory.peak), ("kept for reuse", memory.pooled), ("free", memory.free),
            ("moved to the host", memory.spilled))  # fmt: skip
    lines = [f"| {title:<20} | {nbytes / 2**20:>12.1f} MiB |" for title, nbytes in rows]
    return "\n".join([f"Memory of {name}", *lines])
