"""CuPy's `RandomState`: the names and dtypes of older random numbers."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np

import vkcompute.numpy.random as _random
from vkcompute.compat.cupy.lifting import lifted


class RandomState:
    """A generator with the names of `cupy.random.RandomState`, whose methods take a dtype."""

    def __init__(self, seed: Any = None, method: Any = None) -> None:
        self._inner = _random.RandomState(checked_seed(seed))


_FLOATS = (
    "beta", "chisquare", "dirichlet", "exponential", "f", "gamma", "gumbel", "laplace", "logistic", "lognormal",
    "multivariate_normal", "noncentral_chisquare", "noncentral_f", "normal", "pareto", "power", "random_sample",
    "rayleigh", "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal", "standard_t",
    "triangular", "uniform", "vonmises", "wald", "weibull", "random", "ranf", "sample", "rand", "randn",
)  # fmt: skip
_INTEGERS = (
    "binomial", "geometric", "hypergeometric", "logseries", "multinomial", "negative_binomial", "poisson", "zipf",
)  # fmt: skip
_SINGLE_OR_DOUBLE = (
    "lognormal", "normal", "rand", "randn", "random", "random_sample", "ranf", "sample", "standard_normal", "uniform",
)  # fmt: skip
_PLAIN = "choice", "permutation", "shuffle", "tomaxint"


def checked_seed(seed: Any) -> Any:
    """Returns a seed as integers.

    Raises:
        TypeError: it is no integer, nor an array of them.
        ValueError: it is negative, or above 64 bits.
    """
    if seed is None or isinstance(seed, (np.random.SeedSequence, list)):
        return seed
    if isinstance(seed, np.ndarray):
        return [int(number) & 0xFFFFFFFF for number in seed.ravel().tolist()]
    number = np.asarray(seed)
    if number.dtype.kind not in "biu":
        raise TypeError("Seed must be an integer.")
    if not 0 <= int(number) < 2**64:
        raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
    return int(number)


def _seed(self: RandomState, seed: Any = None) -> None:
    """Begins the numbers of a seed; None for others each time."""
    self._inner.seed(checked_seed(seed))


def _with_dtype(name: str, default: Any) -> Any:
    """Returns the method of a distribution, with a dtype of its results."""
    method = lifted(getattr(_random.RandomState, name), host=True)
    n_parameters = len(inspect.signature(method).parameters) - 1  # the dtype follows them

    def draw(self: RandomState, *args: Any, dtype: Any = default, **named: Any) -> Any:
        if len(args) > n_parameters and name not in ("rand", "randn"):
            *args, dtype = args  # type: ignore[assignment]
        kind = np.dtype(default if dtype is None else dtype)
        if name in _SINGLE_OR_DOUBLE and kind not in (np.float32, np.float64):
            raise TypeError("cupy.random only supports float32 and float64")
        result = method(self._inner, *args, **named)
        return result if result.dtype == kind else result.astype(kind)

    draw.__name__, draw.__doc__ = name, f"Draws as `vkcompute.numpy.random.{name}`, in a dtype."
    return draw


def _integers(self: RandomState, low: Any, high: Any = None, size: Any = None) -> Any:
    """Draws integers from `low` to `high`, both included; from 1 to `low` without it."""
    first, last = (1, low) if high is None else (low, high)
    return getattr(self, "randint")(first, last + 1, size)  # noqa: B009  # set below


def _randint(self: RandomState, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
    """Draws integers from `low` up to `high`, which is not among them."""
    ends = [int(end) if isinstance(end, float) else end for end in (low, high)]
    return _draw_integers(self._inner, *ends, size, np.dtype(dtype))


_draw_integers = lifted(_random.RandomState.randint, host=True)


def _plain(name: str) -> Any:
    """Returns a method without a dtype."""
    method = lifted(getattr(_random.RandomState, name), host=True)

    def draw(self: RandomState, *args: Any, **named: Any) -> Any:
        return method(self._inner, *args, **named)

    draw.__name__, draw.__doc__ = name, f"Draws as `vkcompute.numpy.random.{name}`."
    return draw


def _install() -> None:
    for name in _FLOATS:
        setattr(RandomState, name, _with_dtype(name, float))
    for name in _INTEGERS:
        setattr(RandomState, name, _with_dtype(name, "l"))
    for name in _PLAIN:
        setattr(RandomState, name, _plain(name))
    further = {
        "randint": _randint, "random_integers": _integers, "seed": _seed,
    }  # fmt: skip
    for name, function in further.items():
        setattr(RandomState, name, function)


_install()
_random_states: dict[int, RandomState] = {}
"""The states of the functions of the module, by the number of the device."""


def get_random_state() -> RandomState:
    """Returns the state of the functions of the module, whose first seed is that of `CUPY_SEED`, if there is one."""
    if 0 not in _random_states:
        seed = os.environ.get("CUPY_SEED")
        _random_states[0] = RandomState(None if seed is None else int(seed))
    return _random_states[0]


def set_random_state(rs: RandomState) -> None:
    """Sets the state of the functions of the module."""
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _random_states[0] = rs


def reset_states() -> None:
    """Forgets the state of the functions of the module; the next one is new."""
    global _random_states
    _random_states = {}  # a new one: holders of the old one keep its states
