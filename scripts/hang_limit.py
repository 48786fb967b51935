"""The time after which a process that has not ended is taken for one that hangs."""

from __future__ import annotations

import os

IDLE_S = 600
"""The limit on an idle machine: some hundred times what the slowest child of a test takes there."""


def hang_limit_s(idle_s: int = IDLE_S) -> int:
    """Returns the limit in whole seconds under the present load: `idle_s`, times the processes that share a core."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return round(idle_s * max(1.0, load / (os.cpu_count() or 1)))
