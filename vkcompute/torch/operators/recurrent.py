"""Cells of LSTM and GRU, composed of other operators of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from vkcompute.torch.kernels import kernel


@kernel("_thnn_fused_lstm_cell")
def lstm_cell(input_gates: Any, hidden_gates: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the hidden state, the cell's state and the activated gates."""
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + (input_bias + hidden_bias)
    one, two, three, four = gates.chunk(4, 1)
    i, f, g, o = one.sigmoid(), two.sigmoid(), three.tanh(), four.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


@kernel("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool) -> Any:
    """Returns the gradients by the gates, the cell's state and the bias."""
    i, f, g, o = workspace.chunk(4, 1)
    t = cy.tanh()
    by_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    by_cy = by_hy * o * (1 - t * t)
    by_cy = by_cy if grad_cy is None else by_cy + grad_cy
    gates = torch.cat(
        [by_cy * g * i * (1 - i), by_cy * cx * f * (1 - f), by_cy * i * (1 - g * g), by_hy * t * o * (1 - o)], 1
    )
    return gates, by_cy * f, gates.sum(0) if has_bias else None


@kernel("_thnn_fused_gru_cell")
def gru_cell(input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """Returns the hidden state, and what its gradient needs."""
    x = input_gates if input_bias is None else input_gates + input_bias
    h = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = x.chunk(3, 1), h.chunk(3, 1)
    reset, update = (x_reset + h_reset).sigmoid(), (x_update + h_update).sigmoid()
    new = (x_new + reset * h_new).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, h_new], 1)


@kernel("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
    """Returns the gradients by the gates of input and hidden state, the hidden state and the biases."""
    reset, update, new, hx, h_new = workspace.chunk(5, 1)
    by_new = grad_hy * (1 - update) * (1 - new * new)
    by_update = grad_hy * (hx - new) * (1 - update) * update
    by_reset = by_new * h_new * (1 - reset) * reset
    by_input = torch.cat([by_reset, by_update, by_new], 1)
    by_hidden = torch.cat([by_reset, by_update, by_new * reset], 1)
    biases = [gates.sum(0) if has_bias else None for gates in (by_input, by_hidden)]
    return by_input, by_hidden, grad_hy * update, *biases
