"""The names of NumPy's random numbers before its Generator: `numpy.random.rand` and its kin."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute.arrays.functions.called_names import named_methods
from vkcompute.arrays.functions.random import Generator
from vkcompute.arrays.functions.random_parameters import Size
from vkcompute.runtime.memory.array import Array


@named_methods
class RandomState(Generator):
    """A generator with the names of `numpy.random.RandomState`; its numbers are those of `default_rng`."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(np.random.SeedSequence(seed))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._seed, self._position)

    def __deepcopy__(self, memo: object) -> RandomState:
        return _restored(copy.deepcopy(self._seed), self._position)

    def seed(self, seed: Any = None) -> None:
        """Begins the numbers of a seed; None for others each time."""
        sequence = np.random.SeedSequence(seed)
        stream, *key = sequence.generate_state(3, np.uint32)
        with self._lock:
            self._seed, self._position, self._stream, self._key = sequence, 0, stream, key

    def rand(self, *shape: int) -> Array:
        """Returns uniform floats in [0, 1)."""
        return self.random(shape)

    def randn(self, *shape: int) -> Array:
        """Returns normal floats of mean 0 and standard deviation 1."""
        return self.standard_normal(shape)

    def randint(self, low: Any, high: Any = None, size: Size = None, dtype: npt.DTypeLike | None = None) -> Array:
        """Returns integers from `low` up to `high`, which is not among them; from 0 to `low` without it."""
        return self.integers(low, high, size, None if dtype is int else dtype)

    def tomaxint(self, size: Size = None) -> Array:
        """Returns integers from 0 to the greatest one of int64."""
        return self.integers(0, 2**63, size, np.int64)

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None) -> Array:  # type: ignore[override]
        """Returns elements of a sequence, or integers below a number, chosen at random; see `Generator.choice`.

        Raises:
            ValueError: `a` is neither.
        """
        if a is None or np.ndim(a) > 1:
            raise ValueError(f"choice: a must be 1-dimensional or an integer; got {a!r:.60}")
        return super().choice(a, size, replace, p)

    def random_sample(self, size: Size = None) -> Array:
        """Returns uniform floats in [0, 1)."""
        return self.random(size)

    def ranf(self, size: Size = None) -> Array:
        """Returns uniform floats in [0, 1)."""
        return self.random(size)

    def sample(self, size: Size = None) -> Array:
        """Returns uniform floats in [0, 1)."""
        return self.random(size)


def _restored(seed: np.random.SeedSequence, position: int) -> RandomState:
    """Returns a state that has taken `position` blocks of numbers."""
    state = RandomState()
    state._seed, state._position = seed, position
    state._stream, *state._key = seed.generate_state(3, np.uint32)
    return state


_FUNCTIONS = (
    "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "f", "gamma", "geometric", "gumbel",
    "hypergeometric", "laplace", "logistic", "lognormal", "logseries", "multinomial", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "pareto", "permutation", "poisson", "power",
    "rand", "randint", "randn", "random", "random_sample", "ranf", "rayleigh", "sample", "seed", "shuffle",
    "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular",
    "uniform", "vonmises", "wald", "weibull", "zipf",
)  # fmt: skip
_state = RandomState()

FUNCTIONS = {name: getattr(_state, name) for name in _FUNCTIONS}
"""The functions of `numpy.random` that share one state, by name."""
