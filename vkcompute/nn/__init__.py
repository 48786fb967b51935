"""Functions of neural networks on arrays, by PyTorch's names and argument names."""

from __future__ import annotations

from vkcompute.nn.activations import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from vkcompute.nn.attention import scaled_dot_product_attention
from vkcompute.nn.convolution import conv1d, conv2d
from vkcompute.nn.linear import linear
from vkcompute.nn.normalization import layer_norm, log_softmax, logsumexp, rms_norm, softmax, var_mean
from vkcompute.nn.pooling import avg_pool2d, max_pool2d
from vkcompute.nn.selection import topk

__all__ = [
    "avg_pool2d", "conv1d", "conv2d", "elu", "gelu", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsumexp",
    "max_pool2d", "relu", "rms_norm", "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "softplus", "tanh",
    "topk", "var_mean",
]  # fmt: skip
