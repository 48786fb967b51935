"""Random kernels of integers, against Python's own ints: one such kernel has crashed a driver."""

from __future__ import annotations

from vkcompute.gpu_report.checks.random_kernels import numbered
from vkcompute.gpu_report.items import Items

N_PROGRAMS = 60


def items() -> Items:
    """Returns the items by name: the kind and the number, from which a program follows."""
    return numbered(("integers",), N_PROGRAMS)
