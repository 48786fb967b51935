"""Arrays to test with: of every dtype, of random bits, NaNs with payloads among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vkcompute import dtypes

DTYPES = [row.numpy for row in dtypes.TABLE + dtypes.COMPLEX]
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)


def random_bits(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> np.ndarray:
    """An array of random bits; of a bool, of False and True."""
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, n, np.uint8)
    return (raw & 1 if dtype == np.bool_ else raw).view(dtype).reshape(shape)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are alike in dtype, shape and every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@st.composite
def indexed(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A basic index that makes a view: of an array of shape (), `()` makes a copy."""
    index = draw(npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    return index if shape or index != () else ...


def picked(array: np.ndarray, index: Any) -> np.ndarray:
    """`array[index]` as a view, of shape () where one element is left."""
    key = index if isinstance(index, tuple) else (index,)
    return array[key if Ellipsis in key else (*key, Ellipsis)]
