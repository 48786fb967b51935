"""The functions of `cupy.random`: the older ones, and generators."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkcompute.numpy.random as _random
from vkcompute.compat.cupy import methods  # noqa: F401  # the methods of results
from vkcompute.compat.cupy.arrays import ndarray
from vkcompute.compat.cupy.lifting import lifted
from vkcompute.compat.cupy.random_states import RandomState as RandomState
from vkcompute.compat.cupy.random_states import checked_seed
from vkcompute.compat.cupy.random_states import get_random_state as get_random_state
from vkcompute.compat.cupy.random_states import reset_states as reset_states
from vkcompute.compat.cupy.random_states import set_random_state as set_random_state


class BitGenerator:
    """A source of bits for a generator: a seed, as all generators are Philox 4x32."""

    def __init__(self, seed: Any = None) -> None:
        given = checked_seed(seed.get() if isinstance(seed, ndarray) else seed)
        self.seed_seq = given if isinstance(given, np.random.SeedSequence) else np.random.SeedSequence(given)

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Returns random integers of 32 bits."""
        return Generator(self).integers(0, 2**32, size, np.uint32)


class XORWOW(BitGenerator):
    """A seed; the bits are those of Philox 4x32."""


class MRG32k3a(BitGenerator):
    """A seed; the bits are those of Philox 4x32."""


class Philox4x3210(BitGenerator):
    """A seed; the bits are those of Philox 4x32."""


_DOUBLES = frozenset(["chisquare", "dirichlet", "gamma", "noncentral_chisquare"])
"""Distributions that are computed in float32, of which CuPy has float64."""


class Generator:
    """Makes arrays of random numbers, by the methods of `cupy.random.Generator`."""

    def __init__(self, bit_generator: Any) -> None:
        self.bit_generator = bit_generator

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "bit_generator":
            self._inner = _random.Generator(value.seed_seq)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = lifted(getattr(_random.Generator, name), host=True)

        def draw(*args: Any, **named: Any) -> Any:
            result = method(self._inner, *args, **named)  # that of the seed at the call
            is_drawn = isinstance(result, ndarray) and name in _DOUBLES and "dtype" not in named
            return result.astype(float) if is_drawn and result.dtype == np.float32 else result

        return draw

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draws gamma variates of scale 1, in float32 or float64."""
        kind = np.dtype(dtype)
        if kind not in (np.float32, np.float64):
            raise TypeError(f"Unsupported dtype {kind} for standard_gamma; pass float32 or float64")
        if out is not None and out.dtype != kind:
            raise TypeError("Supplied output array has wrong type.")
        if out is not None and not out.flags.c_contiguous:
            raise ValueError("Supplied output array is not contiguous, writable or aligned.")
        lengths = (size,) if isinstance(size, (int, np.integer)) else size
        if out is not None and lengths is not None and tuple(lengths) != out.shape:
            raise ValueError("size must match out.shape when used together")
        result = _standard_gamma(self._inner, shape, size if out is None else out.shape).astype(kind)
        if out is None:
            return result
        out[...] = result
        return out

    def beta(self, a: Any, b: Any, size: Any = None, dtype: Any = np.float64) -> Any:
        """Draws numbers of the beta distribution, in a dtype."""
        return _beta(self._inner, a, b, size).astype(dtype)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Draws integers from `low` up to `high`, which is among them for `endpoint`; floats are truncated."""
        ends = [int(end) if isinstance(end, float) else end for end in (low, high)]
        return _integers(self._inner, *ends, size, dtype, endpoint)


_integers, _standard_gamma, _beta = (
    lifted(getattr(_random.Generator, name), host=True) for name in ("integers", "standard_gamma", "beta")
)


def default_rng(seed: Any = None) -> Generator:
    """Returns a generator of a seed, which may be a bit generator or a generator."""
    if isinstance(seed, Generator):
        return seed
    return Generator(seed if isinstance(seed, BitGenerator) else XORWOW(seed))


def bytes(length: int) -> Any:
    """Returns random bytes, of the host."""
    state: Any = get_random_state()
    return state.randint(0, 256, length, np.uint8).tobytes()


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(RandomState, name):
        raise AttributeError(f"vkcompute.compat.cupy.random has no {name}", name=name)

    def call(*args: Any, **named: Any) -> Any:
        return getattr(get_random_state(), name)(*args, **named)

    call.__name__, call.__doc__ = name, getattr(RandomState, name).__doc__
    globals()[name] = call
    return call
