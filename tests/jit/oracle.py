"""The oracle of kernels in Python, for tests: a check whose device lacks a type is skipped."""

from __future__ import annotations

from typing import Any

import pytest

import vkcompute as vc
from vkcompute.gpu_report.random_programs import oracle
from vkcompute.gpu_report.random_programs.oracle import module

__all__ = ["check", "module"]


def check(gpu: vc.Runtime, kernel: Any, *args: Any, **options: Any) -> None:
    """Compares a kernel on the device with the function on the host; see `oracle.check`."""
    try:
        oracle.check(gpu, kernel, *args, **options)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
