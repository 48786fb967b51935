"""The functions of `cupyx.scipy.linalg` that arrays have."""

from __future__ import annotations

from typing import Any

from vkcompute.compat.cupy import linalg as _linalg
from vkcompute.compat.cupy import tril as tril
from vkcompute.compat.cupy import triu as triu


def __getattr__(name: str) -> Any:
    return getattr(_linalg, name)
