"""Values that operators require. The device checks them, and a wrong one fails what reads the result.

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
            raise RuntimeError("all elements must be between 0 and 1, as they are probabilities")
        out[i] = values[i]


@kernel
def _copy_weights(values: Any, out: Any) -> None:
    i = global_id(0)
    if i < values.size:
        if not (values[i] >= 0 and values[i] < float("inf")):
            raise RuntimeError("a weight is inf, nan or below 0")
        out[i] = values[i]


@kernel
def _copy_draws(draws: Any, sums: Any, out: Any, n: int) -> None:
    i = global_id(0)
    if i < draws.size:
        if not sums[i // n] > 0:
            raise RuntimeError("the sum of a row's weights must be above 0")
        out[i] = draws[i]


def probabilities(values: Array) -> Array:
    """Returns a copy of numbers of [0, 1]."""
    return _copied(_copy_probabilities, values)


def weights(values: Array) -> Array:
    """Returns a copy of numbers that are finite and not negative."""
    return _copied(_copy_weights, values)


def draws(values: Array, sums: Array) -> Array:
    """Returns a copy of rows whose sums of weights, or largest ones, are above 0.

    Args:
        values: (..., n)
        sums: one per row.
    """
    return _copied(_copy_draws, values, flat(sums), after=(values.shape[-1],))


def _copied(check: PythonKernel, values: Array, *others: Array, after: tuple[int, ...] = ()) -> Array:
    if not values.size:
        return values
    out = temporary(values.runtime, values.shape, values.dtype)
    launch(check, values.size, flat(values), *others, out.reshape(-1), *after)
    return out
