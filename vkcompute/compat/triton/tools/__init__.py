"""`triton.tools`: descriptors of arrays, which are arguments of programs."""

from __future__ import annotations

from vkcompute.compat.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
