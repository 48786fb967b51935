"""Interpolations of bytes, antialiased ones, and gradients: products with a matrix per axis, which the CPU computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import require_floats
from vkcompute.torch.operators.decompositions import decomposition
from vkcompute.torch.storage import copy_to


@lru_cache(maxsize=64)
def _matrix(kind: str, n: int, count: int, align_corners: bool, scale: float | None) -> Any:
    """Returns the matrix (n, count) by which an axis of n elements becomes one of count."""
    identity = torch.eye(n, dtype=torch.float64, device="cpu")
    if "2d" in kind:  # rows stay; PyTorch's CPU resizes columns of width 1 wrongly
        function = getattr(torch.ops.aten, kind)
        return function(identity[None, None], [n, count], align_corners, None, scale)[0, 0]
    lines = identity.unsqueeze(0)
    function = getattr(torch.ops.aten, f"upsample_{kind}1d" if kind[0] != "_" else f"_upsample{kind}1d")
    named = {"align_corners": align_corners} if kind == "linear" else {}
    return function(lines, [count], scales=scale, **named)[0]


@lru_cache(maxsize=64)
def _integer_matrix(*arguments: Any) -> tuple[Any, int]:
    """Returns the matrix of an axis in units of 2^-bits, and these bits, as PyTorch's CPU has it for bytes.

    They are the most bits, 22 at most, with which its largest weight is less than 2^15.
    """
    matrix = _matrix(*arguments)
    largest, bits = float(matrix.max()), 0
    while bits < 22 and int(0.5 + largest * 2 ** (bits + 1)) < 2**15:
        bits += 1
    scaled = matrix * 2**bits
    return torch.where(scaled < 0, scaled - 0.5, scaled + 0.5).to(torch.int32), bits


def _times(tensor: Any, axis: int, matrix: Any) -> Any:
    """Returns the product of an axis with a matrix."""
    return (tensor.movedim(axis, -1) @ matrix.to(tensor.dtype).to(DEVICE_NAME)).movedim(-1, axis)


def _wide(tensor: Any) -> Any:
    """Returns floats in the dtype in which products are added."""
    return tensor.float() if tensor.element_size() < 4 else tensor


def _backward(kind: str, n_axes: int) -> Callable[..., Any]:
    def run(
        grad_output: Any, output_size: Sequence[int], input_size: Sequence[int], *rest: Any, grad_input: Any
    ) -> Any:
        align_corners, *scales = rest if kind == "linear" or "2d" in kind else (False, *rest)
        scales = [*scales, *[None] * (n_axes - len(scales))]
        result = _wide(grad_output)
        for axis, scale in zip(range(2, 2 + n_axes), scales, strict=True):
            matrix = _matrix(kind, input_size[axis], output_size[axis - 2], bool(align_corners), scale)
            result = _times(result, axis, matrix.t())
        return grad_input.copy_(result)

    return run


for _kind, _axes, _name in (
    ("linear", 1, "upsample_linear1d"), ("linear", 2, "upsample_bilinear2d"), ("linear", 3, "upsample_trilinear3d"),
    *((kind, n, f"{prefix}{n}d") for n in (1, 2, 3)
      for kind, prefix in (("nearest", "upsample_nearest"), ("_nearest_exact", "_upsample_nearest_exact"))),
):  # fmt: skip
    kernel(f"{_name}_backward.grad_input")(_backward(_kind, _axes))


def _forward(kind: str) -> Callable[..., Any]:
    def run(
        self: Any, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None,
        scales_w: float | None = None, *, out: Any,
    ) -> Any:  # fmt: skip
        require_floats(kind, self, torch.uint8)
        if self.dtype != torch.uint8 and not kind.endswith("aa"):
            return copy_to(out, decomposition(f"{kind}.out")(self, output_size, align_corners, scales_h, scales_w))
        is_bytes = self.dtype == torch.uint8
        result = self.int() if is_bytes else _wide(self)
        for axis, scale in ((3, scales_w), (2, scales_h)):
            given = kind, self.shape[axis], output_size[axis - 2], align_corners, scale
            if not is_bytes:
                result = _times(result, axis, _matrix(*given))
            elif self.shape[axis] != output_size[axis - 2]:  # rounded along each axis, as on the CPU
                matrix, bits = _integer_matrix(*given)
                result = ((_times(result, axis, matrix) + (1 << bits >> 1)) >> bits).clamp(0, 255)
        return copy_to(out, result)

    return run


for _kind in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_bicubic2d"):
    kernel(f"{_kind}_backward.grad_input")(_backward(_kind, 2))
for _kind in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_bilinear2d", "upsample_bicubic2d"):
    kernel(f"{_kind}.out")(_forward(_kind))
