"""Drawn arrays: of any shape and dtype, with special values, as views with any strides."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
from vkcompute.runtime.memory.array import Array

HostArray = np.ndarray[Any, Any]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]


def dtypes_of(gpu: vc.Runtime, names: str) -> list[str]:
    """Returns the dtypes that the device has."""
    return [name for name in names.split() if not lacks(gpu, name)]


def values(rng: np.random.Generator, shape: Any, dtype: str, *, special: bool = True) -> HostArray:
    """Returns random elements of few different values, and of the whole range."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.4
    if kind.kind in "iu":
        info = np.iinfo(kind)
        low, high = (info.min, info.max) if rng.random() < 0.5 else (max(info.min, -4), 4)
        return rng.integers(low, high, shape, kind, endpoint=True)
    result = (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3)).round(1).astype(kind)
    if special:
        spots = rng.random(shape) < 0.2
        result = np.where(spots, rng.choice(np.array(SPECIAL, kind), shape), result)
    return np.asarray(result, kind)


@st.composite
def shapes(draw: Any, min_dims: int = 1, max_dims: int = 6) -> tuple[int, ...]:
    """Draws a shape: long with few axes, short with many."""
    n_axes = draw(st.integers(min_dims, max_dims))
    longest = {0: 1, 1: 3000, 2: 70, 3: 17}.get(n_axes, 5)
    return tuple(draw(st.lists(st.integers(0, longest), min_size=n_axes, max_size=n_axes)))


def viewed(data: Any, gpu: vc.Runtime, x: HostArray) -> tuple[HostArray, Array]:
    """Draws a view of an array, on the host and on the device: transposed, reversed or with steps."""
    array = gpu.array(x)
    if data.draw(st.booleans(), "a view"):
        order = data.draw(st.permutations(range(x.ndim)), "order")
        steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1, 2, -3]))) for _ in range(x.ndim))
        x, array = x.transpose(order)[steps], array.transpose(tuple(order))[steps] if x.ndim else array
    return x, array


def seeds() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)
