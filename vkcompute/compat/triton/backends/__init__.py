"""`triton.backends`: the target of programs."""

from __future__ import annotations

from vkcompute.compat.triton.backends import compiler

__all__ = ["compiler"]
