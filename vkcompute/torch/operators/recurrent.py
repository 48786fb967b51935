"""Cells of LSTM and GRU: a kernel each for the states, and for the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkcompute.arrays.algorithms.lines import launch
from vkcompute.jit.kernel import kernel as device_kernel
from vkcompute.jit.library.ids import global_id
from vkcompute.torch.element_types import wide
from vkcompute.torch.kernels import kernel
from vkcompute.torch.operands import operand
from vkcompute.torch.storage import runtime, wrap


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _biased(x: Any, bias: Any, row: Any, k: Any) -> Any:
    return x[row, k] if bias is None else x[row, k] + bias[k]


# -- LSTM -------------------------------------------------------------------------------------------------------------


@device_kernel
def _lstm_cell(
    x: Any, h: Any, x_bias: Any, h_bias: Any, c: Any, hidden: Any, cell: Any, gates: Any, n_rows: int, n: int
) -> None:
    at = global_id(0)
    if at < n_rows * n:
        row, k = at // n, at % n
        i = _sigmoid(_biased(x, x_bias, row, k) + _biased(h, h_bias, row, k))
        f = _sigmoid(_biased(x, x_bias, row, n + k) + _biased(h, h_bias, row, n + k))
        g = np.tanh(_biased(x, x_bias, row, 2 * n + k) + _biased(h, h_bias, row, 2 * n + k))
        o = _sigmoid(_biased(x, x_bias, row, 3 * n + k) + _biased(h, h_bias, row, 3 * n + k))
        state = f * c[row, k] + i * g
        cell[row, k] = state
        hidden[row, k] = o * np.tanh(state)
        gates[row, k] = i
        gates[row, n + k] = f
        gates[row, 2 * n + k] = g
        gates[row, 3 * n + k] = o


@device_kernel
def _lstm_cell_backward(
    grad_hidden: Any, grad_cell: Any, c: Any, cell: Any, gates: Any, by_gates: Any, by_c: Any, n_rows: int, n: int
) -> None:
    at = global_id(0)
    if at < n_rows * n:
        row, k = at // n, at % n
        i, f, g, o = gates[row, k], gates[row, n + k], gates[row, 2 * n + k], gates[row, 3 * n + k]
        t = np.tanh(cell[row, k])
        by_hidden = t * 0 if grad_hidden is None else grad_hidden[row, k]
        by_cell = by_hidden * o * (1 - t * t)
        if grad_cell is not None:
            by_cell = by_cell + grad_cell[row, k]
        by_gates[row, k] = by_cell * g * i * (1 - i)
        by_gates[row, n + k] = by_cell * c[row, k] * f * (1 - f)
        by_gates[row, 2 * n + k] = by_cell * i * (1 - g * g)
        by_gates[row, 3 * n + k] = by_hidden * t * o * (1 - o)
        by_c[row, k] = by_cell * f


@kernel("_thnn_fused_lstm_cell")
def lstm_cell(input_gates: Any, hidden_gates: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the hidden state, the cell's state and the activated gates."""
    n = cx.shape[1]
    return _computed(_lstm_cell, [input_gates, hidden_gates, input_bias, hidden_bias, cx], cx, n, n, 4 * n)


@kernel("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool) -> Any:
    """Returns the gradients by the gates, the cell's state and the bias."""
    n = cx.shape[1]
    gates, state = _computed(_lstm_cell_backward, [grad_hy, grad_cy, cx, cy, workspace], cx, 4 * n, n)
    return gates, state, gates.sum(0) if has_bias else None


# -- GRU --------------------------------------------------------------------------------------------------------------


@device_kernel
def _gru_cell(
    x: Any, h: Any, x_bias: Any, h_bias: Any, before: Any, hidden: Any, kept: Any, n_rows: int, n: int
) -> None:
    at = global_id(0)
    if at < n_rows * n:
        row, k = at // n, at % n
        reset = _sigmoid(_biased(x, x_bias, row, k) + _biased(h, h_bias, row, k))
        update = _sigmoid(_biased(x, x_bias, row, n + k) + _biased(h, h_bias, row, n + k))
        h_new = _biased(h, h_bias, row, 2 * n + k)
        new = np.tanh(_biased(x, x_bias, row, 2 * n + k) + reset * h_new)
        hidden[row, k] = new + update * (before[row, k] - new)
        kept[row, k] = reset
        kept[row, n + k] = update
        kept[row, 2 * n + k] = new
        kept[row, 3 * n + k] = before[row, k]
        kept[row, 4 * n + k] = h_new


@device_kernel
def _gru_cell_backward(
    grad: Any, kept: Any, by_input: Any, by_hidden: Any, by_before: Any, n_rows: int, n: int
) -> None:
    at = global_id(0)
    if at < n_rows * n:
        row, k = at // n, at % n
        reset, update, new = kept[row, k], kept[row, n + k], kept[row, 2 * n + k]
        by_state = grad[row, k]
        by_new = by_state * (1 - update) * (1 - new * new)
        by_update = by_state * (kept[row, 3 * n + k] - new) * (1 - update) * update
        by_reset = by_new * kept[row, 4 * n + k] * (1 - reset) * reset
        by_input[row, k] = by_reset
        by_input[row, n + k] = by_update
        by_input[row, 2 * n + k] = by_new
        by_hidden[row, k] = by_reset
        by_hidden[row, n + k] = by_update
        by_hidden[row, 2 * n + k] = by_new * reset
        by_before[row, k] = by_state * update


@kernel("_thnn_fused_gru_cell")
def gru_cell(input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the hidden state, and what its gradient needs."""
    n = hx.shape[1]
    return _computed(_gru_cell, [input_gates, hidden_gates, input_bias, hidden_bias, hx], hx, n, 5 * n)


@kernel("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
    """Returns the gradients by the gates of input and hidden state, the hidden state and the biases."""
    n = grad_hy.shape[1]
    by_input, by_hidden, state = _computed(_gru_cell_backward, [grad_hy, workspace], grad_hy, 3 * n, 3 * n, n)
    biases = [gates.sum(0) if has_bias else None for gates in (by_input, by_hidden)]
    return by_input, by_hidden, state, *biases


def _computed(chosen: Any, values: list[Any], state: Any, *lengths: int) -> list[Any]:
    """Launches a kernel of cells, and returns its results: rows of these lengths, in the dtype of the state.

    Args:
        values: tensors or None, which the kernel takes before its results.
        state: of shape (rows, n).
    """
    n_rows, n = state.shape
    dtype = wide(state.dtype)
    results = [runtime().empty((n_rows, length), dtype) for length in lengths]
    arrays = [None if value is None else operand(value, dtype) for value in values]
    launch(chosen, n_rows * n, *arrays, *results, n_rows, n)
    return [wrap(result, state.dtype) for result in results]
