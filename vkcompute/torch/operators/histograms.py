"""Counts of elements: of integers, and of values in bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkcompute.arrays.functions import histograms
from vkcompute.torch.kernels import DEVICE_NAME, kernel
from vkcompute.torch.operands import operand, require_dtype
from vkcompute.torch.storage import copy_to, wrap


@kernel("bincount")
def bincount(self: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Returns how often each integer occurs, or the sums of its weights."""
    if not self.numel():
        return torch.zeros(minlength, dtype=torch.int64, device=DEVICE_NAME)
    given = None if weights is None else operand(weights if weights.is_floating_point() else weights.double())
    counts = wrap(histograms.bincount(operand(self), given, minlength))
    if weights is None:
        return counts.to(torch.int64)
    return counts.to(torch.float32 if weights.dtype == torch.float32 else torch.float64)


@kernel("histc")
def histc(self: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Returns the numbers of elements in bins of equal width."""
    low, high = float(min), float(max)
    if low == high and self.numel():
        low, high = self.min().item(), self.max().item()
    if low == high:
        low, high = low - 1, high + 1
    x = self.reshape(-1)
    x = x[(x >= low) & (x <= high)].to(torch.float32 if self.dtype != torch.float64 else torch.float64)
    at = torch.floor((x - low) * (bins / (high - low))).clamp(0, bins - 1).to(torch.int64)
    return bincount(at, None, bins).to(self.dtype)


@kernel("histc.out")
def histc_into(self: Any, bins: int = 100, min: Any = 0, max: Any = 0, *, out: Any) -> Any:
    """Computes the numbers of elements in bins of equal width."""
    require_dtype(out, self.dtype)
    result = histc(self, bins, min, max)
    return copy_to(out, result)


def _limits(limits: Sequence[float] | None) -> list[tuple[float, float]] | None:
    """Returns the first and the last edge of each coordinate."""
    return None if limits is None else list(zip(limits[::2], limits[1::2], strict=True))


def _counted(self: Any, bins: Any, limits: Any, weight: Any, density: bool) -> tuple[Any, list[Any]]:
    """Returns counts in the dtype of points, a row each, and the edges of bins per coordinate.

    Args:
        bins: numbers of bins, or their edges as tensors.
        limits: the first and the last edge of each coordinate; None for the least and the largest value.
    """
    points = operand(self.contiguous()).reshape(-1, self.shape[-1])
    weights = None if weight is None else operand(weight.contiguous()).reshape(-1)
    given = [operand(edge) if isinstance(edge, torch.Tensor) else edge for edge in bins]
    counts, edges = histograms.histogramdd(points, given, _limits(limits), density, weights)
    return wrap(counts, self.dtype), [wrap(edge, self.dtype) for edge in edges]


@kernel("histogram.bin_ct")
def histogram(
    self: Any, bins: int = 100, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Any:
    """Returns the numbers of elements in bins of equal width, or the sums of their weights, and the edges."""
    counts, edges = _counted(self.reshape(-1, 1), [bins], range, weight, density)
    return counts, edges[0]


@kernel("histogram.bins_tensor")
def histogram_between(self: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    """Returns the numbers of elements between edges, or the sums of their weights, and the edges."""
    return _counted(self.reshape(-1, 1), [bins], None, weight, density)[0], bins.clone()


@kernel("_histogramdd_bin_edges")
def edges_of_points(
    self: Any, bins: Sequence[int], *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> list[Any]:
    """Returns the edges of bins of equal width along each coordinate of points."""
    columns, limits = self.reshape(-1, self.shape[-1]), _limits(range)
    ends = [None] * len(bins) if limits is None else limits
    given = zip(columns.unbind(1), bins, ends, strict=True)
    return [wrap(histograms.histogram_bin_edges(operand(x), n, end), self.dtype) for x, n, end in given]


@kernel("_histogramdd_from_bin_cts")
def histogram_of_points(
    self: Any, bins: Sequence[int], *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Any:
    """Returns the numbers of points in bins of equal width along each coordinate."""
    return _counted(self, bins, range, weight, density)[0]


@kernel("_histogramdd_from_bin_tensors")
def histogram_of_points_between(self: Any, bins: Sequence[Any], *, weight: Any = None, density: bool = False) -> Any:
    """Returns the numbers of points between edges along each coordinate."""
    return _counted(self, bins, None, weight, density)[0]
