"""A launch that looks like one before is made from what was kept of it; whatever differs has to be seen."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

SCALE = 1


@vc.kernel
def scaled(x: Any, out: Any, factor: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * factor * SCALE


@vc.kernel
def numbered(out: Any, first: Any) -> None:
    i, j = vc.global_id(1), vc.global_id(0)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = first + 10 * i + j


def test_values_change_while_types_stay(gpu: vc.Runtime) -> None:
    x, out = gpu.tensor(np.arange(5, dtype=np.float32)), gpu.zeros(5)
    for factor in (1.0, 2.5, -3.0):
        scaled(x, out, factor)
        assert np.array_equal(out.numpy(), np.arange(5, dtype=np.float32) * np.float32(factor))


def test_the_tensors_of_the_call_are_taken_not_those_of_the_first(gpu: vc.Runtime) -> None:
    tensors = [gpu.tensor(np.full(64, n, np.float32)) for n in range(4)]
    for _ in range(3):
        for n in range(3):
            scaled(tensors[n], tensors[3], 1.0)
            assert (tensors[3].numpy() == n).all()


def test_an_int_that_needs_a_wider_type_is_seen_both_ways(gpu: vc.Runtime) -> None:
    x, out = gpu.tensor(np.ones(4, np.uint32)), gpu.zeros(4, np.uint32)
    for factor in (3, 3_000_000_000, 5, 4_000_000_000, 2**31 - 1):
        scaled(x, out, factor)
        assert (out.numpy() == factor).all()
    with pytest.raises(ValueError, match="64 bits"):
        scaled(x, out, 2**70)
    scaled(x, out, 7)
    assert (out.numpy() == 7).all()


def test_views_of_the_same_bytes_in_another_shape(gpu: vc.Runtime) -> None:
    out = gpu.zeros(12, np.int32)
    for shape in ((3, 4), (4, 3), (2, 6), (3, 4)):
        numbered(out.reshape(shape), 1)
        expected = 1 + 10 * np.arange(shape[0])[:, None] + np.arange(shape[1])
        assert np.array_equal(out.numpy(), expected.reshape(-1))


def test_a_constant_from_outside_changes_between_launches(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = gpu.tensor(np.ones(4, np.float32)), gpu.zeros(4)
    for value in (1, 2, 3, 1):
        monkeypatch.setitem(globals(), "SCALE", value)
        scaled(x, out, 2.0)
        assert (out.numpy() == 2 * value).all()


def test_grids_differ(gpu: vc.Runtime) -> None:
    x, out = gpu.tensor(np.ones(128, np.float32)), gpu.zeros(128)
    for groups, n in ((1, 32), (2, 64), (1, 32)):
        out.fill(0)
        scaled[groups, 32](x, out, 1.0)
        assert out.numpy().sum() == n
    out.fill(0)
    scaled(x, out, 1.0)
    assert out.numpy().sum() == 128


def test_a_graph_records_what_has_been_launched_before(gpu: vc.Runtime) -> None:
    x, out = gpu.tensor(np.ones(4, np.float32)), gpu.zeros(4)
    scaled(x, out, 2.0)
    with gpu.record() as graph:
        scaled(x, out, 2.0)
    out.fill(0)
    assert not out.numpy().any()
    graph.run()
    assert (out.numpy() == 2).all()


def test_closed_tensors_and_runtimes_are_refused_and_functions_keep_none_alive() -> None:
    runtime = vc.Runtime()
    x, out = runtime.tensor(np.ones(4, np.float32)), runtime.zeros(4)
    scaled(x, out, 1.0)
    scaled(x, out, 1.0).result()
    x.close()
    with pytest.raises(vc.ClosedError):
        scaled(x, out, 1.0)
    runtime.close()
    with pytest.raises(vc.ClosedError):
        scaled(out, out, 1.0)
    gone = weakref.ref(runtime)
    del runtime, x, out
    gc.collect()
    assert gone() is None


def test_two_runtimes_take_turns() -> None:
    with vc.Runtime() as one, vc.Runtime() as other:
        pairs = [(gpu.tensor(np.full(8, n, np.float32)), gpu.zeros(8)) for n, gpu in enumerate((one, other), 1)]
        for _ in range(3):
            for n, (x, out) in enumerate(pairs, 1):
                scaled(x, out, 1.0)
                assert (out.numpy() == n).all()
