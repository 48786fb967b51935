"""The backend of dask.array: collections whose chunks are device arrays."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.array.backends import ArrayBackendEntrypoint, array_creation_dispatch

from vkcompute.arrays.expressions.promotion import default_float
from vkcompute.arrays.functions.random import Generator
from vkcompute.dask import dispatches, patches, results
from vkcompute.runtime.memory.array import Array, restored

dispatches.register()
patches.register()
results.register()


def meta_of(ndim: int, dtype: Any) -> Array:
    """Returns an array without elements. It opens no device until something is computed with it."""
    return restored(np.empty((0,) * ndim, dtype))


class Generators(Generator):
    """A source of random chunks: what Dask calls a bit generator, and seeds per chunk."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed))

    @property
    def _seed_seq(self) -> np.random.SeedSequence:
        return self._seed

    def __dask_tokenize__(self) -> Any:
        return "vkcompute.Philox", self._seed.entropy, self._seed.spawn_key

    def __reduce__(self) -> Any:
        return Generators, (self._seed,)


class RandomState(Generators):
    """The names of NumPy's older generators, by which Dask makes the chunks of `da.random.normal(...)`."""

    random_sample, randint = Generators.random, Generators.integers


class Backend(ArrayBackendEntrypoint):
    """Makes collections of device arrays: `dask.config.set({"array.backend": "vkcompute"})`.

    Dtypes default to those of `vkcompute.numpy`: float32, unless `vnp.set_default_dtype` says otherwise.
    """

    default_bit_generator, RandomState = Generators, RandomState

    @classmethod
    def to_backend_dispatch(cls) -> Any:
        """Returns the function that moves a chunk to the device."""
        return dispatches.to_device

    @classmethod
    def to_backend(cls, data: Any, **named: Any) -> Any:
        """Returns a collection whose chunks are device arrays."""
        if isinstance(data._meta, Array):
            return data
        return data.map_blocks(dispatches.to_device, meta=meta_of(data.ndim, data.dtype), **named)

    @staticmethod
    def arange(*args: Any, like: Any = None, **named: Any) -> Any:
        """Returns evenly spaced numbers, as `dask.array.arange`."""
        like = meta_of(1, default_float()) if like is None else like
        with config.set({"array.backend": "numpy"}):
            return da.arange(*args, like=like, **named)


def _creation(name: str) -> Any:
    def create(shape: Any, *args: Any, dtype: Any = None, meta: Any = None, **named: Any) -> Any:
        n_values = 1 if name == "full" else 0
        args, dtype = args[:n_values], args[n_values] if len(args) > n_values else dtype
        ndim = len(shape) if isinstance(shape, (tuple, list)) else np.size(shape)
        if dtype is None or dtype is float:  # da.full passes the type of its number
            dtype = default_float()
        if meta is None:
            meta = meta_of(ndim, dtype)
        with config.set({"array.backend": "numpy"}):
            return getattr(da, name)(shape, *args, dtype=dtype, meta=meta, **named)

    create.__name__, create.__doc__ = name, f"Returns a collection, as `dask.array.{name}`."
    return staticmethod(create)


for _name in ("ones", "zeros", "empty", "full"):
    setattr(Backend, _name, _creation(_name))
array_creation_dispatch.register_backend("vkcompute", Backend())
