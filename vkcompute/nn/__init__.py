"""Functions of neural networks on arrays, by PyTorch's names and argument names."""

from __future__ import annotations

import sys
from typing import Any

from vkcompute.nn import activations as _activations
from vkcompute.nn.activations import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from vkcompute.nn.attention import scaled_dot_product_attention
from vkcompute.nn.convolution import conv1d, conv2d
from vkcompute.nn.linear import linear
from vkcompute.nn.normalization import layer_norm, log_softmax, logsumexp, rms_norm, softmax, var_mean
from vkcompute.nn.pooling import avg_pool2d, max_pool2d
from vkcompute.nn.selection import kthvalue, topk

__all__ = [
    "avg_pool2d", "conv1d", "conv2d", "elu", "gelu", "kthvalue", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "logsumexp", "max_pool2d", "relu", "rms_norm", "scaled_dot_product_attention", "sigmoid", "silu",
    "softmax", "softplus", "tanh", "topk", "var_mean",
]  # fmt: skip
__all__ += [name for name in _activations.NAMES if name not in __all__]


def __getattr__(name: str) -> Any:
    """Returns a further row of the registry as a function of arrays."""
    if name not in _activations.NAMES:
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    return getattr(_activations, name)
