"""Volumes at coordinates between their elements: grid_sample of five axes, and its gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from vkcompute.torch.kernels import kernel
from vkcompute.torch.operators.gradients import gradients

_NEAREST = 1  # at::native::detail::GridSamplerInterpolation
_BORDER, _REFLECTION = 1, 2  # at::native::detail::GridSamplerPadding


def _reflected(x: Any, low: float, high: float) -> Any:
    """Returns coordinates between two bounds, at which they are reflected."""
    span = high - low
    if span <= 0:
        return torch.zeros_like(x)
    distance = torch.abs(x - low)
    rest = torch.remainder(distance, span)
    is_even = torch.remainder(torch.floor(distance / span), 2) == 0
    return torch.where(is_even, rest + low, span - rest + low)


def _coordinates(x: Any, n: int, padding_mode: int, align_corners: bool) -> Any:
    """Returns the indices, with fractions, of coordinates from -1 to 1 along an axis of n elements."""
    at = (x + 1) / 2 * (n - 1) if align_corners else ((x + 1) * n - 1) / 2
    if padding_mode == _REFLECTION:
        at = _reflected(at, 0, n - 1) if align_corners else _reflected(at, -0.5, n - 0.5)
    return at.clamp(0, n - 1) if padding_mode in (_BORDER, _REFLECTION) else at


@kernel("grid_sampler_3d")
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Returns the elements of volumes at coordinates, from the nearest or the eight next ones."""
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    sizes = input.shape[2:]
    axes = [
        _coordinates(grid[..., 2 - axis], n, padding_mode, align_corners).reshape(grid.shape[0], -1)
        for axis, n in enumerate(sizes)
    ]
    flat = input.reshape(*input.shape[:2], -1)
    if interpolation_mode == _NEAREST:
        result = _at(flat, sizes, [torch.round(at) for at in axes])
    else:
        result = 0
        lows = [torch.floor(at) for at in axes]
        for corner in itertools.product((0, 1), repeat=3):
            weight: Any = 1.0
            for at, low, step in zip(axes, lows, corner, strict=True):
                weight = weight * (at - low if step else low + 1 - at)
            corners = [low + step for low, step in zip(lows, corner, strict=True)]
            result = result + _at(flat, sizes, corners) * weight.unsqueeze(1)
    return result.reshape(*input.shape[:2], *grid.shape[1:4])


def _at(flat: Any, sizes: Sequence[int], indices: Sequence[Any]) -> Any:
    """Returns elements of flat volumes at indices, which are whole floats; 0 outside."""
    index: Any = 0
    is_inside: Any = True
    for at, n in zip(indices, sizes, strict=True):
        within = (at >= 0) & (at < n)
        whole = torch.where(within, at, 0).to(torch.int64)
        index = index * n + whole
        is_inside = within & is_inside
    elements = flat.gather(2, index.unsqueeze(1).expand(-1, flat.shape[1], -1))
    return torch.where(is_inside.unsqueeze(1), elements, 0)


@kernel("grid_sampler_3d_backward")
def grid_sampler_backward(
    grad_output: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """Returns the gradients of sampled volumes by these and by the coordinates."""
    by_input, by_grid = gradients(
        lambda x, g: grid_sampler(x, g, interpolation_mode, padding_mode, align_corners), (input, grid), grad_output
    )
    return by_input if output_mask[0] else None, by_grid
