"""Functions of arrays on a group of devices, however its rows are divided, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc

pytestmark = pytest.mark.devices
SHARES = st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.01, 1.0])).filter(any)
both = vc.elementwise("x - 2 * y + a, x * y")
latest = vc.reduce(lambda a, b: b if b % 3 else a, -7)
dot = vc.reduce("a + b", 5, map="x * y")


@given(st.integers(0, 300), st.integers(1, 5), SHARES, st.data())
def test_a_call_equals_numpy(
    two_runtimes: list[vc.Runtime], n: int, d: int, shares: tuple[float, float], data: st.DataObject
) -> None:
    random = np.random.default_rng(n)
    x, y = random.integers(-999, 999, (n, d), np.int32), random.integers(-9, 9, d, np.int32)
    axis = data.draw(st.sampled_from([None, 0, 1, (0, 1), (), -1]))
    keepdims = data.draw(st.booleans())
    with vc.DeviceGroup(two_runtimes) as group:
        group.weights = shares
        array, row = group.array(x), group.replicate(y)
        difference, product = both(array, row, 3)
        assert np.array_equal(difference.numpy(), x - 2 * y + 3)
        assert both(array, row, a=3, out=(array, product)) == (array, product)
        assert np.array_equal(array.numpy(), x - 2 * y + 3)
        assert np.array_equal(product.numpy(), x * y)
        array = group.array(x)
        expected = 5 + (x * y).sum(axis, np.int32, keepdims=keepdims)
        result = dot(array, row, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(result.numpy(), expected)
        out = (two_runtimes[0] if isinstance(result, vc.Array) else group).zeros(expected.shape, np.int32)
        assert dot(array, row, axis=axis, keepdims=keepdims, out=out) is out
        np.testing.assert_array_equal(out.numpy(), expected)
        last = [k for k in x.reshape(-1).tolist() if k % 3]
        assert latest(array).item() == [-7, *last][-1]


def test_what_does_not_fit_a_group(two_runtimes: list[vc.Runtime]) -> None:
    with vc.DeviceGroup(two_runtimes) as group:
        x, y = group.zeros((6, 2)), group.zeros(6)
        for wrong, message in (
            (lambda: both(x, y, 1), "an array sharded by rows has as many axes as the others, 2"),
            (lambda: both(x, group.replicate(np.zeros((6, 2), np.float32)), 1), "has one row, or fewer than 2 axes"),
            (lambda: both(x, two_runtimes[0].zeros((6, 2)), 1), "is not of"),
            (lambda: both(group.replicate(np.zeros(2, np.float32)), 1, 1), "takes a sharded array"),
        ):
            with pytest.raises(ValueError, match=message):
                wrong()
        for function in (both, dot):
            assert group.kernel(function) is function
        assert both(x, group.replicate(np.ones((1, 2), np.float32)), 1.5)[0].numpy().tolist() == [[-0.5, -0.5]] * 6


def test_of_no_elements_a_reduction_is_the_initial_value(two_runtimes: tuple[vc.Runtime, vc.Runtime]) -> None:
    total = vc.reduce("a + b", 5)
    with vc.DeviceGroup(two_runtimes) as group:
        assert total(group.zeros((4, 0), np.int32)).item() == 5
        assert total(group.zeros((0, 3), np.int32), axis=0).tolist() == [5, 5, 5]
        assert total(group.zeros((4, 0, 3), np.int32), axis=(0, 1)).tolist() == [5, 5, 5]
        assert total(group.zeros((4, 0, 3), np.int32), axis=1).numpy().tolist() == [[5, 5, 5]] * 4
