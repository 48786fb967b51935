"""Functions of neural networks on arrays, by PyTorch's names and argument names."""

from __future__ import annotations

from vkcompute.nn.activations import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from vkcompute.nn.normalization import layer_norm, log_softmax, logsumexp, rms_norm, softmax

__all__ = [
    "elu", "gelu", "layer_norm", "leaky_relu", "log_softmax", "logsumexp", "relu", "rms_norm", "sigmoid", "silu",
    "softmax", "softplus", "tanh",
]  # fmt: skip
