"""Copies of views with gaps: a kernel copies those of many elements, where the device has their dtype."""

from __future__ import annotations

import numpy as np
import pytest
from runtimes import lacks

import vkcompute as vc


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "float16", "float32", "int64", "complex64"])
def test_copies_of_many_runs(gpu: vc.Runtime, name: str) -> None:
    if lacks(gpu, name):
        pytest.skip("regions copy it, which validation compares with each other for minutes")
    data = (np.arange(130 * 97) % 250).astype(name).reshape(130, 97)
    x = gpu.array(data)
    views = [(x.T, data.T), (x[::-1, 1::2], data[::-1, 1::2]), (x[5:].T[3:, ::-2], data[5:].T[3:, ::-2])]
    for view, expected in views:
        copy = view.copy()
        assert copy.contiguous
        assert (copy.numpy() == expected).all()


def test_copies_in_a_graph(gpu: vc.Runtime) -> None:
    data = np.arange(130 * 97, dtype=np.float32).reshape(130, 97)
    x, out = gpu.array(data), gpu.zeros((97, 130))
    with gpu.record(x=x) as graph:
        out.copy_from(graph["x"].T.copy())
    graph.run()
    assert (out.numpy() == data.T).all()
    graph.run(x=gpu.array(-data))
    assert (out.numpy() == -data.T).all()
