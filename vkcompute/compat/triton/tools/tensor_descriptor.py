"""`TensorDescriptor`, under the name of Triton's module."""

from __future__ import annotations

from vkcompute.blocks.launching.tensor_descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]
