"""Copies within one array and with broadcasting: as numpy assigns, or refused where bytes are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc

SHAPE = (6, 7)


def indices() -> st.SearchStrategy[tuple[slice, slice]]:
    def axis(n: int) -> st.SearchStrategy[slice]:
        return st.builds(slice, st.integers(0, n - 1), st.integers(1, n), st.sampled_from([1, 2, 3, -1]))

    return st.tuples(axis(SHAPE[0]), axis(SHAPE[1]))


@given(source=indices(), target=indices())
def test_copies_within_an_array(gpu: vc.Runtime, source: Any, target: Any) -> None:
    host = np.arange(42, dtype=np.int32).reshape(SHAPE)
    device = gpu.array(host)
    try:
        want = host.copy()
        want[target] = host[source]
    except ValueError:  # numpy does not broadcast one to the other
        with pytest.raises(ValueError, match="does not broadcast"):
            device[target] = device[source]
        return
    same = source == target
    shares = np.shares_memory(host[source], host[target]) and not same
    if shares:
        with pytest.raises(ValueError, match="share bytes"):
            device[target] = device[source]
        device[target] = device[source].copy()
    else:
        device[target] = device[source]
    assert np.array_equal(device.numpy(), want)


def test_columns_rows_and_itself(gpu: vc.Runtime) -> None:
    host = np.arange(42, dtype=np.float32).reshape(SHAPE)
    x = gpu.array(host)
    x[:, 0] = x[:, 5]
    host[:, 0] = host[:, 5]
    x[:] = x
    row = gpu.array(np.arange(7, dtype=np.float32))
    x[1:3] = row
    host[1:3] = np.arange(7)
    assert np.array_equal(x.numpy(), host)
    x[:] = gpu.full((), 4.0)
    assert np.array_equal(x.numpy(), np.full(SHAPE, 4, np.float32))
    with pytest.raises(ValueError, match=r"shape \(7,\) does not broadcast to \(6,\)"):
        x[:, 0] = row
