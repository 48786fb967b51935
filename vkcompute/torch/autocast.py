"""Autocast: operators that run in its dtype, and operators that run in float32, as on CUDA's devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, exists, is_on_device, operator

_LOWER = (
    "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input convolution einsum linalg_multi_dot linear lstm_cell gru_cell matmul mm mv prelu "
    "scaled_dot_product_attention"
)
"""Operators whose tensors are converted to the dtype of autocast."""
_FLOAT32 = (
    "acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity cross_entropy_loss "
    "cumprod cumsum erfinv exp expm1 gelu group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log "
    "log10 log1p log2 log_softmax.int logsumexp margin_ranking_loss mse_loss nll_loss nll_loss2d norm.Scalar "
    "pow.Tensor_Scalar pow.Tensor_Tensor prod reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss "
    "softmax.int softmin sum sum.dim_IntList tan triplet_margin_loss"
)
"""Operators whose tensors are converted to float32."""
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def add_kernels(library: Any) -> None:
    """Registers the operators that convert their tensors under autocast."""
    for names, dtype in ((_LOWER, lambda: torch.get_autocast_dtype(DEVICE_NAME)), (_FLOAT32, lambda: torch.float32)):
        for name in filter(exists, names.split()):
            library.impl(name, _converting(operator(name), dtype), "AutocastPrivateUse1")


def _converting(function: Any, dtype: Callable[[], Any]) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> Any:
        wanted = dtype()
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return function(
                *[_converted(value, wanted) for value in args],
                **{name: _converted(value, wanted) for name, value in named.items()},
            )

    return run


def _converted(value: Any, dtype: Any) -> Any:
    """Returns floating-point tensors of the device in a dtype, also in lists; float64 and others as they are."""
    if isinstance(value, torch.Tensor):
        is_cast = is_on_device(value) and value.is_floating_point() and value.dtype != torch.float64
        return value.to(dtype) if is_cast else value
    return type(value)([_converted(item, dtype) for item in value]) if type(value) in (list, tuple) else value
