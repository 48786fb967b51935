"""CuPy's `RandomState`: the names and dtypes of older random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkcompute.numpy.random as _random
from vkcompute.compat.cupy.lifting import lifted


class RandomState(_random.RandomState):
    """A generator with the names of `cupy.random.RandomState`, whose methods take a dtype."""

    def __init__(self, seed: Any = None, method: Any = None) -> None:
        super().__init__(seed)


_FLOATS = (
    "beta", "chisquare", "dirichlet", "exponential", "f", "gamma", "gumbel", "laplace", "logistic", "lognormal",
    "multivariate_normal", "noncentral_chisquare", "noncentral_f", "normal", "pareto", "power", "random_sample",
    "rayleigh", "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal", "standard_t",
    "triangular", "uniform", "vonmises", "wald", "weibull", "random", "ranf", "sample", "rand", "randn",
)  # fmt: skip
_INTEGERS = (
    "binomial", "geometric", "hypergeometric", "logseries", "multinomial", "negative_binomial", "poisson", "zipf",
)  # fmt: skip
_PLAIN = "choice", "permutation", "randint", "seed", "shuffle"


def _with_dtype(name: str, default: Any) -> Any:
    """Returns the method of a distribution, with a dtype of its results."""
    method = lifted(getattr(_random.RandomState, name), host=True)

    def draw(self: RandomState, *args: Any, dtype: Any = default, **named: Any) -> Any:
        kind = np.dtype(dtype)
        if default is float and kind not in (np.float32, np.float64):
            raise TypeError("cupy.random only supports float32 and float64")
        result = method(self, *args, **named)
        return result if result.dtype == kind else result.astype(kind)

    draw.__name__, draw.__doc__ = name, f"Draws as `vkcompute.numpy.random.{name}`, in a dtype."
    return draw


def _integers(self: RandomState, low: Any, high: Any = None, size: Any = None) -> Any:
    """Draws integers from `low` to `high`, both included; from 1 to `low` without it."""
    first, last = (1, low) if high is None else (low, high)
    return getattr(self, "randint")(first, last + 1, size)  # noqa: B009  # set below


def _install() -> None:
    for name in _FLOATS:
        setattr(RandomState, name, _with_dtype(name, float))
    for name in _INTEGERS:
        setattr(RandomState, name, _with_dtype(name, "l"))
    for name in _PLAIN:
        setattr(RandomState, name, lifted(getattr(_random.RandomState, name), host=True))
    setattr(RandomState, "random_integers", _integers)  # noqa: B010


_install()
_states: list[RandomState] = []


def get_random_state() -> RandomState:
    """Returns the state of the functions of the module."""
    if not _states:
        _states.append(RandomState())
    return _states[0]


def set_random_state(rs: RandomState) -> None:
    """Sets the state of the functions of the module."""
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _states[:] = [rs]


def reset_states() -> None:
    """Forgets the state of the functions of the module; the next one is new."""
    _states.clear()
