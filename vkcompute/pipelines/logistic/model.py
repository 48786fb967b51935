"""Device state of a training run: the weights, and the counters and losses that the host reads copies of."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.settings import Floats
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime

HISTORY_EPOCHS = 4096
"""Epochs whose losses the device keeps in a ring; the host reads them before they are overwritten."""

_HEADER_WORDS = 9  # of `State` in shaders/include/logistic_state.glsl
_EPOCH, _STOPPED, _BEST_LOSS, _INTERCEPT, _INTERCEPT_REST = 1, 2, 4, 6, 7
RUNS, CONVERGED, DIVERGED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Report:
    """A snapshot of the state at the end of a step.

    Attributes:
        n_epochs: epochs completed.
        stopped: RUNS, CONVERGED or DIVERGED.
        intercept: of the decision function.
        history: the loss of epoch i at index i modulo HISTORY_EPOCHS.
    """

    n_epochs: int
    stopped: int
    intercept: float
    history: Floats


class Model:
    """Weights and state.

    Attributes:
        weights: shape (2, n_features rounded up to a multiple of 4), float32, zero-padded. The second row holds the
            low-order parts of the first: a step may be smaller than the rounding error of a float32 weight.
        state: `State` of shaders/include/logistic_state.glsl, as float32 words.
    """

    def __init__(self, runtime: Runtime, weights: Floats, intercept: float, owner: ExitStack) -> None:
        self.n_features = len(weights)
        padded = np.zeros((2, -(-self.n_features // 4) * 4), np.float32)
        padded[0, : self.n_features] = weights
        state = np.zeros(_HEADER_WORDS + HISTORY_EPOCHS, np.float32)
        state[_BEST_LOSS] = np.finfo(np.float32).max
        state[_INTERCEPT] = intercept
        self.weights = owner.enter_context(runtime.array(padded))
        self.state = owner.enter_context(runtime.array(state))

    def write(self, weights: Floats, intercept: float) -> None:
        """Sets the high-order parts of the weights, shape (n_features,), and of the intercept."""
        self.weights[0, : self.n_features].write(weights)
        self.state[_INTERCEPT:_HEADER_WORDS].write(np.array([intercept, 0, 0], np.float32))  # the third is groups_done

    def read_weights(self) -> npt.NDArray[np.float64]:
        """The weights, shape (n_features,). Waits for all steps launched before."""
        weights: npt.NDArray[np.float64] = self.weights.numpy()[:, : self.n_features].sum(0, np.float64)
        return weights


def read_report(copy: Array) -> Report:
    """Decodes a copy of the state. Waits for the copy, and for nothing after it."""
    words = copy.numpy()
    counts = words.view(np.uint32)
    intercept = float(words[_INTERCEPT]) + float(words[_INTERCEPT_REST])
    return Report(int(counts[_EPOCH]), int(counts[_STOPPED]), intercept, words[_HEADER_WORDS:])
