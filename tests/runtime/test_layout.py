"""Views of arrays against numpy's own, element for element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vkcompute.runtime.memory import layout

pytestmark = pytest.mark.pure

SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
DTYPES = st.sampled_from([np.dtype(name) for name in ("int8", "float16", "int32", "float64")])


def numbered(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose bytes differ, so that a wrong offset shows."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return (np.arange(count, dtype=np.uint64) * 157 % 251).astype(np.uint8).view(dtype).reshape(shape)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@dataclass
class View:
    """An array, the indices that were applied to it in turn, and numpy's answer (0-d where one element is left)."""

    array: np.ndarray
    indices: list
    found: np.ndarray

    @property
    def offset(self) -> int:
        return address(self.found) - address(self.array)


@st.composite
def views(draw: st.DrawFn) -> View:
    array = numbered(draw(SHAPES), draw(DTYPES))
    view = View(array, [], array)
    for _ in range(draw(st.integers(1, 2))):
        index = draw(npst.basic_indices(view.found.shape, allow_newaxis=True, allow_ellipsis=True))
        key = index if isinstance(index, tuple) else (index,)
        view.indices.append(index)
        view.found = view.found[key if Ellipsis in key else (*key, Ellipsis)]
    return view


@given(views())
def test_view_is_numpys(view: View) -> None:
    shape, strides, offset = view.array.shape, view.array.strides, 0
    for index in view.indices:
        shape, strides, step = layout.view(shape, strides, index)
        offset += step
    assert shape == view.found.shape
    if view.found.size:
        assert offset == view.offset
        assert all(a == b for a, b, n in zip(strides, view.found.strides, shape, strict=True) if n > 1)


@given(views())
def test_extent_and_contiguity(view: View) -> None:
    result = view.found
    low, high = layout.extent(result.shape, result.strides, result.itemsize)
    places = [address(result[(*at, ...)]) - address(result) for at in np.ndindex(result.shape)]
    assert (low, high) == ((min(places), max(places) + result.itemsize) if places else (0, 0))
    assert layout.is_contiguous(result.shape, result.strides, result.itemsize) == result.flags.c_contiguous


@given(views())
def test_runs_put_together_are_the_elements(view: View) -> None:
    offsets, length = layout.runs(view.found.shape, view.found.strides, view.found.itemsize)
    memory = view.array.tobytes()
    pieces = [memory[view.offset + at : view.offset + at + length] for at in offsets.tolist()]
    assert b"".join(pieces) == view.found.tobytes()


def test_runs_are_as_long_as_they_can_be() -> None:
    whole = np.zeros((4, 5, 6), np.float32)
    assert layout.runs(whole.shape, whole.strides, 4)[1] == whole.nbytes
    rows = whole[:, ::2]
    offsets, length = layout.runs(rows.shape, rows.strides, 4)
    assert (len(offsets), length) == (12, 24)


@given(SHAPES, DTYPES)
def test_contiguous_strides(shape: tuple[int, ...], dtype: np.dtype) -> None:
    strides = layout.contiguous_strides(shape, dtype.itemsize)
    assert layout.is_contiguous(shape, strides, dtype.itemsize)
    if 0 not in shape:
        assert strides == np.empty(shape, dtype).strides


@given(SHAPES, st.lists(st.integers(-1, 12), max_size=4))
def test_reshaped_as_numpy_does(shape: tuple[int, ...], wanted: list[int]) -> None:
    array = np.empty(shape)
    try:
        expected = array.reshape(wanted).shape
    except ValueError:
        with pytest.raises(ValueError, match="takes shapes whose lengths have this product"):
            layout.reshaped(array.size, tuple(wanted))
    else:
        assert layout.reshaped(array.size, tuple(wanted)) == expected


@pytest.mark.parametrize(
    "index", [True, False, (0, True), np.True_, [0, 1], np.array([0]), (slice(None), [0]), 1.0, "a", (None, 0.5)]
)
def test_indices_that_give_no_views(index: object) -> None:
    assert not layout.is_basic(index)


@pytest.mark.parametrize("index", [3, -4, (0, 4), (0, 0, 0), (..., ...)])
def test_numpys_index_errors(index: object) -> None:
    array = np.zeros((3, 4), np.float32)
    with pytest.raises(IndexError) as theirs:
        array[index]  # type: ignore[index]
    with pytest.raises(IndexError) as ours:
        layout.view(array.shape, array.strides, index)
    assert str(ours.value) == str(theirs.value)


def test_views_beyond_32_bits_touch_no_memory() -> None:
    shape, strides, offset = layout.view((1 << 40, 3), (12, 4), (slice(1 << 39, None, 1 << 20), 1))
    assert (shape, strides, offset) == ((1 << 19,), (12 << 20,), (12 << 39) + 4)
