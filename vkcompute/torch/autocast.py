"""Autocast by PyTorch's lists for CUDA: operators in its dtype, in float32, and in their tensors' widest dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, exists, is_on_device, operator

_LOWER = (
    "_convolution _convolution.deprecated _scaled_dot_product_flash_attention _thnn_fused_gru_cell "
    "_thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell linalg_multi_dot "
    "linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention"
)
"""Operators whose tensors are converted to the dtype of autocast."""
_FLOAT32 = (
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss "
    "cosine_similarity cross_entropy_loss cumprod cumsum dist erfinv exp expm1 frobenius_norm.dim group_norm "
    "hinge_embedding_loss huber_loss kl_div l1_loss layer_norm linalg_matrix_norm linalg_matrix_norm.str_ord "
    "linalg_vector_norm log log10 log1p log2 log_softmax.int logsumexp margin_ranking_loss mse_loss multi_margin_loss "
    "multilabel_margin_loss native_layer_norm nll_loss nll_loss2d norm.Scalar norm.ScalarOpt_dim nuclear_norm "
    "nuclear_norm.dim pdist poisson_nll_loss pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod prod.dim_int "
    "reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss softmax.int softmin softplus sum "
    "sum.dim_IntList tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d"
)
"""Operators whose tensors are converted to float32."""
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot"
"""Operators that need tensors of one dtype: float32 if one has it, else that of autocast."""
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def add_kernels(library: Any) -> None:
    """Registers the operators that convert their tensors under autocast."""
    for names, dtype in ((_LOWER, _lower), (_FLOAT32, lambda _: torch.float32), (_WIDEST, _widest)):
        for name in filter(exists, names.split()):
            library.impl(name, _converting(operator(name), dtype), "AutocastPrivateUse1")
    library.impl("binary_cross_entropy", _refuse, "AutocastPrivateUse1")


def _lower(_: Any) -> Any:
    return torch.get_autocast_dtype(DEVICE_NAME)


def _widest(values: Any) -> Any:
    """Returns float32 if a tensor has it, else the dtype of autocast.

    Raises:
        RuntimeError: a tensor has another dtype of 16 bits than that of autocast.
    """
    lower, dtypes = _lower(None), {tensor.dtype for tensor in _tensors(values) if _is_cast(tensor)}
    if torch.float32 in dtypes:
        return torch.float32
    if others := dtypes - {lower}:
        raise RuntimeError(f"autocast to {lower} promotes tensors of it and of float32; got {others.pop()}; convert it")
    return lower


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _refuse(*args: Any, **named: Any) -> Any:
    raise RuntimeError(
        "binary_cross_entropy and BCELoss are unsafe under autocast, as float16 has no logarithm of sigmoids near 0 or "
        "1; use binary_cross_entropy_with_logits or BCEWithLogitsLoss, or turn autocast off for the loss"
    )


def _converting(function: Any, dtype: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> Any:
        wanted = dtype([*args, *named.values()])
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return function(
                *[_converted(value, wanted) for value in args],
                **{name: _converted(value, wanted) for name, value in named.items()},
            )

    return run


def _is_cast(tensor: Any) -> bool:
    """True for a floating-point tensor of the device, but for float64."""
    return is_on_device(tensor) and tensor.is_floating_point() and tensor.dtype != torch.float64


def _converted(value: Any, dtype: Any) -> Any:
    """Returns floating-point tensors of the device in a dtype, also in lists; float64 and others as they are."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _is_cast(value) else value
    return type(value)([_converted(item, dtype) for item in value]) if type(value) in (list, tuple) else value
