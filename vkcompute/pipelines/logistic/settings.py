"""Settings of a training run, validated in `fit` as in scikit-learn, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_LEARNING_RATE = 0.1
_NO_PENALTY = (math.inf,)
"""Values of `C` as in scikit-learn, for no penalty."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One training run.

    Attributes:
        solver: "lbfgs" or "gradient".
        learning_rate, alpha: step length, and factor of the penalty alpha / 2 * sum of the squared weights.
        max_iter: maximum number of iterations or epochs.
        batch_size: rows per step; the number of rows for a full batch.
        n_rows: rows of the table.
        tol: L-BFGS has converged when no derivative exceeds it, nor the share of the loss that is left to gain.
            Gradient descent: an epoch that does not improve the best loss by this much is stale. None: no early
            stopping.
        patience: consecutive stale epochs after which training stops.
        fit_intercept: False keeps the intercept fixed.
        mean_weight: mean sample weight.
        permutation: returns the order of the rows, shape (n_rows,); called before each epoch of several batches.
        progress: called from time to time with the number of epochs completed.
    """

    solver: str
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
    """The result of a training run.

    Attributes:
        weights: shape (n_features,), or (n_classes, n_features) for several classes.
        intercept: of the decision function; shape (n_classes,) for several classes.
        losses: shape (n_epochs,): the mean cross-entropy plus the penalty, each row's before the step that used it.
        converged: True if training stopped by `tol`.
        remedy: why more iterations would not help, and what would; empty if they may.
    """

    weights: npt.NDArray[np.float64]
    intercept: float | npt.NDArray[np.float64]
    losses: Floats
    converged: bool
    remedy: str = ""


def settings_from(
    params: Any, weights: Floats, total_weight: float, progress: Callable[[int], None] | None
) -> Settings:
    """Validates the parameters of an estimator for rows with these weights, whose signs do not count.

    Args:
        total_weight: sum of the weights before they were scaled.

    Raises:
        ValueError, TypeError: a parameter is invalid; the message gives its name, the rule and the value.
    """
    n_rows = len(weights)
    batch_size = n_rows if params.batch_size is None else _count("batch_size", params.batch_size)
    rate = _LEARNING_RATE if params.learning_rate is None else params.learning_rate
    return Settings(
        solver=_solver(params),
        learning_rate=_number("learning_rate", rate, above_zero=True),
        alpha=_strength(params, total_weight),
        max_iter=_count("max_iter", params.max_iter),
        batch_size=min(batch_size, n_rows),
        n_rows=n_rows,
        tol=None if params.tol is None else _number("tol", params.tol),
        patience=_count("n_iter_no_change", params.n_iter_no_change),
        mean_weight=float(np.abs(weights).mean(dtype=np.float64)),
        fit_intercept=_flag("fit_intercept", params.fit_intercept),
        permutation=_permutations(params.random_state, n_rows),
        progress=progress,
    )


def _solver(params: Any) -> str:
    if params.solver not in ("lbfgs", "gradient"):
        raise ValueError(f'solver is "lbfgs" or "gradient"; got {params.solver!r}')
    for name in ("learning_rate", "batch_size"):
        if params.solver == "lbfgs" and getattr(params, name) is not None:
            raise ValueError(
                f'{name} is for gradient descent; got {getattr(params, name)!r} with solver="lbfgs"; '
                'pass solver="gradient"'
            )
    return str(params.solver)


def _strength(params: Any, total_weight: float) -> float:
    """Returns the factor of the penalty beside the mean loss: `alpha`, or that of scikit-learn's `C`."""
    if params.penalty is not None and params.penalty != "l2":
        raise ValueError(f'penalty is "l2" or None; got {params.penalty!r}')
    inverse = math.inf if params.C in _NO_PENALTY else _number("C", params.C, above_zero=True)
    if params.alpha is not None:
        alpha = _number("alpha", params.alpha)
        if params.penalty is None and alpha:
            raise ValueError(
                f"alpha is the strength of the penalty; got {params.alpha!r} with penalty=None; "
                'pass penalty="l2", or leave alpha out'
            )
        return alpha
    return 0.0 if params.penalty is None else min(1 / inverse / total_weight, float(np.finfo(np.float32).max))


def _number(name: str, value: Any, *, above_zero: bool = False) -> float:
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is a number; got {value!r} ({type(value).__name__})")
    number = float(value)
    limit = float(np.finfo(np.float32).max)
    if not math.isfinite(number) or not (0 < number <= limit if above_zero else 0 <= number <= limit):
        raise ValueError(f"{name} is {'above' if above_zero else 'at least'} 0 and finite as float32; got {value!r}")
    return number


def _count(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is an int; got {value!r} ({type(value).__name__})")
    if not 1 <= int(value) < 1 << 32:
        raise ValueError(f"{name} is at least 1 and below 2**32; got {value!r}")
    return int(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False; got {value!r} ({type(value).__name__})")
    return bool(value)


def _permutations(random_state: Any, n_rows: int) -> Callable[[], npt.NDArray[np.uint32]]:
    """A function that returns a new random order of the rows at each call."""
    known = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    if not known and random_state is not None and not (isinstance(random_state, Integral) and int(random_state) >= 0):
        raise ValueError(
            f"random_state is None, an int from 0 on, a numpy Generator or RandomState; got {random_state!r}"
        )
    source = random_state if known else np.random.default_rng(random_state)
    return lambda: source.permutation(n_rows).astype(np.uint32)
