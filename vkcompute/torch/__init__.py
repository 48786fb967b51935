"""PyTorch's device `vk`: tensors in device memory, computed by the functions of arrays.

    import torch
    import vkcompute.torch

    x = torch.ones(3, device="vk", requires_grad=True)
    (x * 2).sum().backward()

PyTorch calls `autoload` by itself where vkcompute is installed. No driver is loaded before a tensor is made.

    FallbackWarning     an operator is computed on the host
    array_of(tensor)    the memory of a tensor as an array
    from_array(array)   a tensor on the memory of an array
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from vkcompute.torch.errors import FallbackWarning as FallbackWarning

if TYPE_CHECKING:
    from vkcompute.torch.storage import array_of as array_of
    from vkcompute.torch.storage import from_array as from_array

__all__ = ["FallbackWarning", "array_of", "autoload", "from_array"]


def autoload() -> None:
    """Does nothing: the import of this module registers the device. The entry point `torch.backends` calls it."""


def __getattr__(name: str) -> Any:
    """Imports what makes arrays on first use."""
    if name not in ("array_of", "from_array"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(importlib.import_module("vkcompute.torch.storage"), name)


# Last: where PyTorch is not imported yet, it loads the entry point of this module meanwhile.
importlib.import_module("vkcompute.torch.registration").register()
