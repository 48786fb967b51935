"""Copies of views with gaps: a kernel copies those of many elements, where the device has their dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.runtime.memory import view as views


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "float16", "float32", "int64", "complex64"])
def test_copies_of_many_runs(gpu: vc.Runtime, name: str) -> None:
    if lacks(gpu, name):
        pytest.skip("regions copy it, which validation compares with each other for minutes")
    data = (np.arange(130 * 97) % 250).astype(name).reshape(130, 97)
    x = gpu.array(data)
    pairs = [(x.T, data.T), (x[::-1, 1::2], data[::-1, 1::2]), (x[5:].T[3:, ::-2], data[5:].T[3:, ::-2])]
    for view, expected in pairs:
        copy = view.copy()
        assert copy.contiguous
        assert (copy.numpy() == expected).all()


@pytest.mark.parametrize("length", [1, 7, 8, 63, 64])
@pytest.mark.parametrize("n_runs", [16, 17, 64, 65])
def test_copies_of_few_and_of_long_runs(gpu: vc.Runtime, n_runs: int, length: int) -> None:
    """On both sides of the numbers at which a kernel takes the place of regions."""
    data = np.arange(n_runs * 2 * length, dtype=np.float32).reshape(n_runs, 2 * length)
    x, out = gpu.array(data), gpu.zeros((n_runs, 2 * length))
    part, expected = x[:, length:], data[:, length:]
    assert np.array_equal(part.copy().numpy(), expected)
    assert np.array_equal(vnp.concat([part, part.T.T], axis=1).numpy(), np.concatenate([expected] * 2, 1))
    out[:, :length] = part
    out[:, length:].copy_from(part)
    assert np.array_equal(out.numpy(), np.concatenate([expected] * 2, 1))


def test_copies_in_a_graph(gpu: vc.Runtime) -> None:
    data = np.arange(130 * 97, dtype=np.float32).reshape(130, 97)
    x, out = gpu.array(data), gpu.zeros((97, 130))
    with gpu.record(x=x) as graph:
        out.copy_from(graph["x"].T.copy())
    graph.run()
    assert (out.numpy() == data.T).all()
    graph.run(x=gpu.array(-data))
    assert (out.numpy() == -data.T).all()


_STEPS = [slice(None), slice(None, None, -1), slice(1, None, 2), slice(2, 3), slice(3, 3), slice(-3, None)]


@pytest.mark.parametrize("most", [64, 2**24])
@given(data=st.data())
def test_pieces_side_by_side(gpu: vc.Runtime, most: int, data: st.DataObject) -> None:
    host = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
    whole = gpu.array(host)
    axis = data.draw(st.integers(-3, 2))
    pieces = []
    for _ in range(data.draw(st.integers(1, 6))):
        key = [slice(None)] * 3
        key[axis] = data.draw(st.sampled_from(_STEPS))
        own = gpu.array(host + 1000) if data.draw(st.booleans()) else whole
        pieces.append((own[tuple(key)], (host + 1000 if own is not whole else host)[tuple(key)]))
    order = data.draw(st.permutations(range(3)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_MOST_JOINED", most)
        result = vnp.concat([item.transpose(order) for item, _ in pieces], axis=order.index(axis % 3))
    expected = np.concatenate([item.transpose(order) for _, item in pieces], order.index(axis % 3))
    assert np.array_equal(result.numpy(), expected)


def test_pieces_in_a_graph(gpu: vc.Runtime) -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, other, out = gpu.array(data), gpu.array(-data), gpu.zeros((8, 4))
    with gpu.record(x=x) as graph:
        out.copy_from(vnp.concat([graph["x"][1:], other, graph["x"][::-1]]))
    for values in (data, data * 10):
        graph.run(x=gpu.array(values))
        assert np.array_equal(out.numpy(), np.concatenate([values[1:], -data, values[::-1]]))


@pytest.mark.parametrize(
    ("window", "axis"), [((2, 3), None), ((2,), (1,)), ((2, 2), (1, 1)), (3, 0), ((0,), (0,)), ((5, 1), None)]
)
def test_sliding_windows(gpu: vc.Runtime, window: tuple[int, ...], axis: tuple[int, ...] | None) -> None:
    host = np.arange(35, dtype=np.float32).reshape(5, 7)
    for x, expected in ((gpu.array(host), host), (gpu.array(host)[::2, ::-1], host[::2, ::-1])):
        if window == (5, 1) and len(expected) < 5:
            continue
        wanted = np.lib.stride_tricks.sliding_window_view(expected, window, axis)
        result = np.lib.stride_tricks.sliding_window_view(x, window, axis)
        assert type(result) is vc.Array
        assert np.array_equal(result.numpy(), wanted)
        assert np.allclose((result * 2).sum(-1).numpy(), (wanted * 2).sum(-1))
        assert np.array_equal(result.copy().numpy(), wanted)


@vc.kernel
def filled(x: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        x[i, 0] = 1


def test_windows_that_overlap_are_not_written(gpu: vc.Runtime) -> None:
    x, at = gpu.zeros(7), gpu.array(np.array([0, 2], np.int32))
    windows = vnp.sliding_window_view(x, 3)
    writes: list[Callable[[], Any]] = [
        lambda: windows.write(1.0),
        lambda: windows.__setitem__(slice(1, None), 1.0),
        lambda: windows.__setitem__(at, 1.0),
        lambda: windows.__setitem__(windows == 0, 1.0),
        lambda: windows.__setitem__((0, 0), 1.0),
        lambda: windows.__setitem__(0, x[:3]),
        lambda: vnp.fill_diagonal(vnp.broadcast_to(x, (7, 7)), 1.0),
        lambda: windows.flat.__setitem__(0, 1.0),
        lambda: windows.__iadd__(1),
        lambda: vnp.add.at(windows, at, 1.0),
        lambda: vnp.maximum.at(windows, at, 1.0),
        lambda: filled[1](windows),
        lambda: filled.simulate[1](windows),
    ]
    for write in writes:
        with pytest.raises(ValueError, match=r"share memory|read-only"):
            write()
    assert not x.numpy().any()
    apart = vnp.sliding_window_view(x, 3)[::3]
    apart[...] = 2.0
    assert x.numpy().tolist() == [2, 2, 2, 2, 2, 2, 0]


@pytest.mark.parametrize(("window", "axis", "message"), [(8, None, "from 0 to 7; got 8"), ((2, 2), None, "per axis")])
def test_wrong_windows(gpu: vc.Runtime, window: int, axis: None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vnp.sliding_window_view(gpu.zeros(7), window, axis)
