"""The estimator's parameters, checked when `fit` needs them, as scikit-learn does."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.pipelines.logistic.settings import Floats, Settings


def settings_from(params: Any, targets: Floats, progress: Callable[[int], None] | None) -> Settings:
    """What a run on rows of these weights is asked to do by an object with the parameters as attributes.

    Raises:
        ValueError, TypeError: a parameter cannot be used; the message gives its name, the rule and the value.
    """
    n_rows = len(targets)
    batch_size = n_rows if params.batch_size is None else _count("batch_size", params.batch_size)
    return Settings(
        learning_rate=_number("learning_rate", params.learning_rate, above_zero=True),
        alpha=_number("alpha", params.alpha),
        max_iter=_count("max_iter", params.max_iter),
        batch_size=min(batch_size, n_rows),
        n_rows=n_rows,
        tol=None if params.tol is None else _number("tol", params.tol),
        patience=_count("n_iter_no_change", params.n_iter_no_change),
        mean_weight=float(np.abs(targets).mean(dtype=np.float64)),
        fit_intercept=_flag("fit_intercept", params.fit_intercept),
        permutation=_permutations(params.random_state, n_rows),
        progress=progress,
    )


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
    """A function that gives the next order of the rows."""
    known = isinstance(random_state, (np.random.Generator, np.random.RandomState))
    if not known and random_state is not None and not (isinstance(random_state, Integral) and int(random_state) >= 0):
        raise ValueError(
            f"random_state is None, an int from 0 on, a numpy Generator or RandomState; got {random_state!r}"
        )
    source = random_state if known else np.random.default_rng(random_state)
    return lambda: source.permutation(n_rows).astype(np.uint32)
