"""Checks of values on the device: a kernel copies them, and fails if one is out of range, as do readers of the copy.

PyTorch's CUDA device asserts in its kernels, too: the error is raised where the host waits.
"""

from __future__ import annotations

from typing import Any

from vkcompute.arrays.algorithms.lines import flat, launch
from vkcompute.jit.kernel import PythonKernel, kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.array import Array


@kernel
def _copy_probabilities(values: Any, out: Any) -> None:
    i = global_id(0)
    if i < values.size:
        if not (values[i] >= 0 and values[i] <= 1):
            raise RuntimeError("probabilities must be between 0 and 1; one is not; clamp them")
        out[i] = values[i]


@kernel
def _copy_weights(values: Any, out: Any) -> None:
    i = global_id(0)
    if i < values.size:
        if not (values[i] >= 0 and values[i] < float("inf")):
            raise RuntimeError("weights must be finite and at least 0; one is inf, nan or negative; clamp them")
        out[i] = values[i]


@kernel
def _copy_draws(draws: Any, sums: Any, out: Any, n: int) -> None:
    i = global_id(0)
    if i < draws.size:
        if not sums[i // n] > 0:
            raise RuntimeError("the sum of a row's weights must be above 0; give a row at least one weight above 0")
        out[i] = draws[i]


def probabilities(values: Array) -> Array:
    """Returns a copy of probabilities; its kernel fails with RuntimeError unless all are in [0, 1]."""
    return _copied(_copy_probabilities, values)


def weights(values: Array) -> Array:
    """Returns a copy of weights; its kernel fails with RuntimeError unless all are finite and at least 0."""
    return _copied(_copy_weights, values)


def drawn_rows(values: Array, sums: Array) -> Array:
    """Returns a copy of drawn rows; its kernel fails with RuntimeError unless each sum is above 0.

    Args:
        values: (..., n)
        sums: of weights, or the largest ratio, one per row.
    """
    return _copied(_copy_draws, values, flat(sums), numbers=(values.shape[-1],))


def _copied(check: PythonKernel, values: Array, *others: Array, numbers: tuple[int, ...] = ()) -> Array:
    if not values.size:
        return values
    out = temporary(values.runtime, values.shape, values.dtype)
    launch(check, values.size, flat(values), *others, out.reshape(-1), *numbers)
    return out
