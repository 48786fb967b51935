"""What a training run is asked to do, and what comes of it. No device here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Settings:
    """One training run.

    Attributes:
        learning_rate, alpha: step length, and strength of the penalty alpha / 2 * sum of the squared weights.
        max_iter: epochs at most.
        batch_size: rows per step; the number of rows for a full batch.
        n_rows: of the table.
        tol: an epoch that does not improve the best loss by this much is stale; None: training does not stop early.
        patience: stale epochs in a row after which training stops.
        mean_weight: of the rows.
        fit_intercept: whether the intercept moves.
        permutation: called before each epoch of several batches: the order of the rows, shape (n_rows,).
        progress: called now and then with the number of epochs done.
    """

    learning_rate: float
    alpha: float
    max_iter: int
    batch_size: int
    n_rows: int
    tol: float | None
    patience: int
    fit_intercept: bool
    mean_weight: float
    permutation: Callable[[], npt.NDArray[np.uint32]]
    progress: Callable[[int], None] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What training has found.

    Attributes:
        weights: shape (n_features,).
        intercept: of the decision function.
        losses: of each epoch: mean cross-entropy of its rows and the penalty, before the step that each took part in.
        converged: whether it stopped by `tol`.
    """

    weights: npt.NDArray[np.float64]
    intercept: float
    losses: Floats
    converged: bool
