"""The order of elements in memory: order=, flags, flat, and what else tells or changes it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp

FLAGS = ("C_CONTIGUOUS", "F_CONTIGUOUS", "FORC", "FNC", "W")


def test_column_major_arrays(gpu: vc.Runtime) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = gpu.array(host)
    for result in (
        vnp.asarray(host, order="F", device=gpu),
        vnp.array(x, order="F"),
        np.asfortranarray(x),
        x.copy(order="F"),
        x.astype(np.float32, order="F"),
        np.copy(x, order="F"),
    ):
        assert (result.strides, result.tolist()) == (np.asfortranarray(host).strides, host.tolist())
        assert result.flags.f_contiguous
        assert np.isfortran(result)
    for make in (vnp.zeros, vnp.ones, vnp.empty, lambda *args, **named: vnp.full(args[0], 3, *args[1:], **named)):
        assert make((2, 3), np.float32, "F", device=gpu).strides == (4, 8)
        assert make((2, 3), np.float32, order="C", device=gpu).strides == (12, 4)
        assert make(5, np.float32, "F", device=gpu).shape == (5,)
    column_major = x.T
    assert vnp.asfortranarray(column_major) is column_major
    assert vnp.ascontiguousarray(column_major).strides == np.ascontiguousarray(host.T).strides
    assert vnp.ascontiguousarray(x[0, 0, 0]).shape == (1,)
    with pytest.raises(ValueError, match="needs a copy"):
        vnp.asarray(x, order="F", copy=False)
    with pytest.raises(ValueError, match='order is "C", "F"'):
        vnp.array(x, order="B")


def test_elements_in_column_major_order(gpu: vc.Runtime) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)[:, ::-1]
    x = gpu.array(host)
    for order in ("C", "F"):
        for shape in ((4, 6), (-1, 8), 24, (3, -1, 2)):
            expected = np.reshape(host, shape, order)
            for result in (vnp.reshape(x, shape, order), x.reshape(shape, order=order)):
                np.testing.assert_array_equal(result.numpy(), expected)
        np.testing.assert_array_equal(x.ravel(order).numpy(), host.ravel(order))
        np.testing.assert_array_equal(x.flatten(order).numpy(), host.flatten(order))


def test_flags(gpu: vc.Runtime) -> None:
    host = np.zeros((3, 4), np.float32)
    x = gpu.array(host)
    for view in (lambda x: x, lambda x: x.T, lambda x: x[::2], lambda x: x[:, :1], lambda x: x[0], lambda x: x[:1, :1]):
        for name in FLAGS:
            assert view(x).flags[name] == view(host).flags[name], name
    assert x.flags.owndata
    assert not x[1:].flags.owndata
    assert not vnp.broadcast_to(x, (2, 3, 4)).flags.writeable
    assert "C_CONTIGUOUS : True" in repr(x.flags)
    with pytest.raises(AttributeError, match="cannot be set"):
        x.flags.writeable = False
    with pytest.raises(AttributeError, match="a flag is one of"):
        _ = x.flags.fast


def test_flat(gpu: vc.Runtime) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = gpu.array(host)
    for view in (lambda x: x, lambda x: x.T, lambda x: x[::-2, 1:]):
        mine, others = view(x), view(host)
        assert (len(mine.flat), mine.flat[3]) == (len(others.flat), others.flat[3])
        assert [int(item) for item in mine.flat] == [*others.flat]
        np.testing.assert_array_equal(np.asarray(mine.flat), others.flat)
        mine.flat[2], others.flat[2] = -1, -1
        mine.flat[::2], others.flat[::2] = 50, 50
        mine.flat[[1, 3]], others.flat[[1, 3]] = [7, 8], [7, 8]
        np.testing.assert_array_equal(x.numpy(), host)
    mine.flat[:2][0] = 5  # a copy, as NumPy's
    np.testing.assert_array_equal(x.numpy(), host)
    with pytest.raises(ValueError, match="share memory"):
        vnp.broadcast_to(x, (2, 3, 4)).flat[0] = 1


def test_memory_that_is_shared(gpu: vc.Runtime) -> None:
    x = gpu.zeros((4, 6))
    assert np.shares_memory(x, x[1:])
    assert not np.shares_memory(x[:, ::2], x[:, 1::2])
    assert np.may_share_memory(x[:, ::2], x[:, 1::2])
    assert not np.shares_memory(x, gpu.zeros(4))


def test_conversions_that_are_allowed(gpu: vc.Runtime) -> None:
    x = gpu.array(np.float32([1.5, 2]))
    assert x.astype(np.int32).tolist() == [1, 2]
    for casting in ("safe", "same_kind", "no"):
        with pytest.raises(TypeError, match=f"casting='{casting}' does not allow"):
            x.astype(np.int32, casting=casting)


def test_extra_axes_of_length_1_are_assigned(gpu: vc.Runtime) -> None:
    x = gpu.zeros((2, 3))
    x[...] = gpu.array(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3))
    x[0] = np.float32([[7, 8, 9]])
    x[[1]] = gpu.array(np.float32([[[4], [4], [4]]]).reshape(1, 1, 3))
    assert x.tolist() == [[7, 8, 9], [4, 4, 4]]
    with pytest.raises(ValueError, match="broadcast"):
        x[...] = gpu.zeros((2, 2, 3))


@given(data=st.data())
def test_a_reshaped_view_is_a_view_where_numpys_is(gpu: vc.Runtime, data: Any) -> None:
    shape = data.draw(st.sampled_from([(12,), (4, 6), (2, 3, 4), (1, 6, 2), (2, 1, 3, 2, 2)]))
    host = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    x = gpu.array(host)
    order = data.draw(st.permutations(range(len(shape))))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in shape)
    mine, others = x.transpose(tuple(order))[steps], host.transpose(order)[steps]
    n = others.size
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    one = data.draw(st.sampled_from(divisors))
    new = data.draw(st.sampled_from([(-1,), (one, -1), (1, n), (n, 1), (one, 1, n // one), others.shape]))
    result, expected = mine.reshape(new), others.reshape(new)
    np.testing.assert_array_equal(result.numpy(), expected)
    assert np.shares_memory(result, x) is np.shares_memory(expected, host)
    result[...] = -1
    expected[...] = -1
    np.testing.assert_array_equal(x.numpy(), host)


def test_functions_write_to_views(gpu: vc.Runtime) -> None:
    for view in (lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2].T, lambda x: x[1]):
        for write in (
            lambda xp, x: xp.put_along_axis(x, xp.argsort(x, 0)[:1], 50, 0),
            lambda xp, x: xp.put(x, [1, 2], [60, 61]),
            lambda xp, x: xp.place(x, x > 5, [70, 71]),
            lambda xp, x: xp.putmask(x, x > 3, 80),
            lambda xp, x: xp.copyto(x, 90, where=x > 2),
            lambda xp, x: xp.fill_diagonal(x, 95) if x.ndim > 1 else None,
            lambda xp, x: x.sort(0),
            lambda xp, x: xp.add.at(x, ([0, 0],), 1),
        ):
            host = np.arange(24, dtype=np.int32).reshape(4, 6) % 11
            x = gpu.array(host)
            write(vnp, view(x))
            write(np, view(host))
            np.testing.assert_array_equal(x.numpy(), host)


def test_elements_are_put_along_no_axis(gpu: vc.Runtime) -> None:
    """NumPy writes to a copy of the elements."""
    host = np.arange(24, dtype=np.int32).reshape(4, 6)
    x = gpu.array(host)
    vnp.put_along_axis(x.T, gpu.array(np.array([0, 2], np.int32)), 50, None)
    host.T.flat[[0, 2]] = 50
    np.testing.assert_array_equal(x.numpy(), host)
