"""Logistic regression in numpy float64: the same steps on the same batches as the library takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import vkcompute as vc

Floats = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float32).eps)
descent = partial(vc.LogisticRegression, solver="gradient", alpha=0.0, tol=None)
"""Gradient descent without a penalty, which does not stop early."""


@dataclass
class Fit:
    """The expected result of training.

    Attributes:
        tolerance: of weights and intercept; a bound on the rounding errors of float32.
        loss_tolerance: of the losses.
    """

    coef: Floats
    intercept: float
    losses: Floats
    tolerance: float
    loss_tolerance: float


def fit(
    X: npt.NDArray[Any],
    y: npt.NDArray[Any],
    *,
    learning_rate: float = 0.1,
    max_iter: int = 100,
    alpha: float = 0.0,
    batch_size: int | None = None,
    random_state: int = 0,
    fit_intercept: bool = True,
    sample_weight: npt.NDArray[Any] | None = None,
    coef_init: npt.NDArray[Any] | None = None,
    intercept_init: float = 0.0,
) -> Fit:
    """Gradient descent as `vc.LogisticRegression` documents it; `y` holds 0 and 1."""
    n, d = X.shape
    table = X.astype(np.float32).astype(np.float64)
    weight = np.ones(n) if sample_weight is None else sample_weight / np.mean(sample_weight)
    coef = np.zeros(d) if coef_init is None else coef_init.astype(np.float32).astype(np.float64)
    intercept = float(np.float32(intercept_init))
    size = min(batch_size or n, n)
    random = np.random.default_rng(random_state)
    losses, errors = [], _Errors(table, weight, learning_rate)
    for _ in range(max_iter):
        order = random.permutation(n) if size < n else np.arange(n)
        total = 0.0
        for start in range(0, n, size):
            rows = order[start : start + size]
            x, label, w = table[rows], y[rows], weight[rows]
            z = x @ coef + intercept
            total += np.sum(w * (np.maximum(z, 0) - z * label + np.log1p(np.exp(-np.abs(z)))))
            total += len(rows) * alpha / 2 * (coef @ coef)
            residual = w * (_sigmoid(z) - label)
            errors.step(x, coef, intercept)
            coef = coef - learning_rate * (x.T @ residual / len(rows) + alpha * coef)
            intercept -= learning_rate * residual.mean() * fit_intercept
        losses.append(total / n)
    return Fit(coef, intercept, np.array(losses), *errors.tolerances(max(losses)))


def _sigmoid(z: Floats) -> Floats:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, e) / (1 + e)


class _Errors:
    """A bound on the errors of float32, to first order in its epsilon.

    z is a sum of d + 1 products: an error of (d + 2) eps times the sum of their sizes. The residual changes by at most
    a quarter of that, and has a few eps of its own; sums over rows are pairwise but for runs of 64 tiles. A step moves
    the weights by learning_rate times the mean of residual times x.
    """

    def __init__(self, table: Floats, weight: Floats, learning_rate: float) -> None:
        self._size, self._weight = max(1.0, np.abs(table).max()), max(1.0, weight.max())
        self._rate, self._moved, self._largest_z = learning_rate, 0.0, 0.0
        self._length = table.shape[1] + 2
        self._sum = 16 + np.log2(len(table))

    def step(self, x: Floats, coef: Floats, intercept: float) -> None:
        """Notes one step from these weights."""
        self._largest_z = max(self._largest_z, float((np.abs(x) @ np.abs(coef)).max()) + abs(intercept))
        of_z = EPS * self._length * self._largest_z + self._moved * x.shape[1] * self._size
        of_mean = (of_z / 4 + EPS * self._sum) * self._size * self._weight
        self._moved += self._rate * of_mean

    def tolerances(self, largest_loss: float) -> tuple[float, float]:
        """Of the weights, and of the losses."""
        of_z = EPS * self._length * self._largest_z + self._moved * self._length * self._size
        return self._moved + EPS, of_z * self._weight + EPS * self._sum * (1 + largest_loss)
