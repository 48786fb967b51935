"""Launches on views: strided, offset, reversed, transposed and broadcast arrays, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vkcompute as vc

DTYPES = [np.dtype(name) for name in ("float32", "int32", "uint32")]


@vc.kernel
def combine(x, y, out):
    k, j, i = vc.global_id(0), vc.global_id(1), vc.global_id(2)
    if k < out.shape[2] and j < out.shape[1] and i < out.shape[0]:
        out[i, j, k] = x[i, j, k] * 2 + y[-1, j, k]


@vc.kernel
def double(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] * 2


@vc.kernel
def shift(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] + 1


@vc.kernel
def scale(n, x, factor, out, start):
    i = vc.global_id(0)
    if i < n:
        out[i] = x[i] * factor + start


@vc.kernel
def histogram(x, counts):
    vc.atomic.add(counts, x[vc.global_id(0)], 1)


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], *, writable: bool) -> tuple[tuple[int, ...], Any]:
    """A shape, and a function that takes a view of `shape` from a NumPy or device array of it."""
    order = draw(st.permutations(range(len(shape))))
    base, slices, repeated = [0] * len(shape), [], []
    for axis in order:
        step, before = draw(st.sampled_from([-2, -1, 1, 2, 3])), draw(st.integers(0, 3))
        once = not writable and draw(st.integers(0, 4)) == 0
        n = 1 if once else shape[axis]
        base[len(slices)] = before + (n - 1) * abs(step) + 1 + draw(st.integers(0, 2))
        last = before + (n - 1) * abs(step)
        slices.append(slice(before, last + 1, step) if step > 0 else slice(last, before - 1 if before else None, step))
        repeated.append(n)
    back = [order.index(axis) for axis in range(len(shape))]

    def view(of: Any) -> Any:
        result = of[(*slices, ...)].transpose(*back)
        if writable:
            return result
        return result.broadcast_to(shape) if isinstance(of, vc.Array) else np.broadcast_to(result, shape)

    return tuple(base), view


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1000, shape).astype(dtype)


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 3), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99), data=st.data()
)
def test_kernels_take_any_view(
    gpu: vc.Runtime, shape: tuple[int, int, int], dtype: np.dtype[Any], seed: int, data: st.DataObject
) -> None:
    drawn = [data.draw(views(shape, writable=at == 2)) for at in range(3)]
    hosts = [filled(base, dtype, seed + at) for at, (base, _) in enumerate(drawn)]
    arrays = [gpu.array(each) for each in hosts]
    combine(*[view(each) for (_, view), each in zip(drawn, arrays, strict=True)])
    simulated = [each.copy() for each in hosts]
    combine.simulate(*[view(item) for (_, view), item in zip(drawn, simulated, strict=True)])
    x, y, out = [view(each) for (_, view), each in zip(drawn, hosts, strict=True)]
    out[...] = x * 2 + y[-1]
    for array, changed, host in zip(arrays, hosts, simulated, strict=True):
        assert np.array_equal(array.numpy(), changed), "the elements of the view have changed, and no others"
        assert np.array_equal(host, changed)


weighted = vc.elementwise("x * 2 - y * z")


@settings(max_examples=15)  # most of them compile three kernels
@given(
    shape=st.lists(st.integers(1, 4), max_size=4).map(tuple),
    ranks=st.tuples(*[st.integers(0, 4)] * 2),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_functions_of_elements_take_any_view(
    gpu: vc.Runtime, shape: tuple[int, ...], ranks: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    shapes = [shape, *[shape[max(len(shape) - rank, 0) :] for rank in ranks], shape]
    drawn = [data.draw(views(each, writable=at == 3)) for at, each in enumerate(shapes)]
    hosts = [filled(base, np.dtype(np.int32), seed + at) for at, (base, _) in enumerate(drawn)]
    arrays = [gpu.array(host) for host in hosts]
    x, y, z, out = [view(array) for (_, view), array in zip(drawn, arrays, strict=True)]
    a, b, c, d = [view(host) for (_, view), host in zip(drawn, hosts, strict=True)]
    assert np.array_equal(weighted(x, y, z).numpy(), a * 2 - b * c)
    weighted(x, y, z, out=out)
    d[...] = a * 2 - b * c
    assert np.array_equal(arrays[3].numpy(), hosts[3]), "the elements of the view have changed, and no others"
    weighted(out, 1, x, out=out)
    d[...] = d * 2 - a
    weighted(out[::-1], 1, 1, out=out) if shape else None
    d[...] = d[::-1] * 2 - 1 if shape else d
    assert np.array_equal(arrays[3].numpy(), hosts[3]), "a result that is an argument, too"


total = vc.reduce("a + b", 0, map="x * y")


@settings(max_examples=15)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple), seed=st.integers(0, 99), data=st.data())
def test_reductions_take_any_view(gpu: vc.Runtime, shape: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    left = () if axis is None else shape[:axis] + shape[axis + 1 :]
    drawn = [data.draw(views(shape, writable=False)) for _ in range(2)] + [data.draw(views(left, writable=True))]
    hosts = [filled(base, np.dtype(np.int32), seed + at) for at, (base, _) in enumerate(drawn)]
    arrays = [gpu.array(host) for host in hosts]
    x, y, out = [view(array) for (_, view), array in zip(drawn, arrays, strict=True)]
    a, b, d = [view(host) for (_, view), host in zip(drawn, hosts, strict=True)]
    d[...] = (a * b).sum(axis, np.int32)
    assert np.array_equal(total(x, y, axis=axis).numpy(), d)
    total(x, y, axis=axis, out=out)
    assert np.array_equal(arrays[2].numpy(), hosts[2])


def test_numbers_behind_views(gpu: vc.Runtime) -> None:
    x, out = np.arange(20, dtype=np.float32), gpu.zeros(20)
    for n in (7, 10):  # the second launch repeats the plan of the first
        scale[1, 64](n, gpu.array(x)[1::2], 3, out[::-2], 5)
        assert out.numpy()[::-2].tolist() == [*(x[1::2] * 3 + 5)[:n], *[0] * (10 - n)]


def test_functions_of_views_in_a_graph(gpu: vc.Runtime) -> None:
    array = np.arange(200, dtype=np.int32)
    x, out, sums = gpu.array(array), gpu.zeros((4, 5), np.int32), gpu.zeros(5, np.int32)
    with gpu.record(x=x[:60]) as graph:
        weighted(graph["x"][3:23].reshape(4, 5), 1, 1, out=out[::-1])
        total(graph["x"][4:64:3][:20], 1, out=sums[2])
    for start in (0, 1, 5, 64, 130):
        graph.run(x=x[start : start + 60])
        part = array[start : start + 60]
        assert np.array_equal(out.numpy()[::-1], part[3:23].reshape(4, 5) * 2 - 1)
        assert sums.numpy()[2] == part[4:64:3][:20].sum()


def test_repeated_launches_on_views(gpu: vc.Runtime) -> None:
    x, out = gpu.array(np.arange(100, dtype=np.int32)), gpu.zeros(10, np.int32)
    for start in (0, 1, 40, 1, 0):
        weighted(x[start : start + 30 : 3], 1, 1, out=out)
        assert out.numpy().tolist() == [2 * n - 1 for n in range(start, start + 30, 3)]
        double(x[start : start + 30 : 3], out)
        assert out.numpy().tolist() == [2 * n for n in range(start, start + 30, 3)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bool", "float64", "int64"])
def test_elements_of_other_sizes(gpu: vc.Runtime, dtype: str) -> None:
    array = (np.arange(40) % 2).astype(dtype)
    x, out = gpu.array(array), gpu.zeros(13, np.float32)
    try:
        double(x[37::-3], out)
    except vc.MissingFeature:
        pytest.skip(f"the device has no {dtype}")
    assert np.array_equal(out.numpy(), array[37::-3].astype(np.float32) * 2)


def test_writes_through_views_are_ordered(gpu: vc.Runtime) -> None:
    x = gpu.zeros(256, np.int32)
    expected = np.zeros(256, np.int32)
    for start in range(20):
        shift(x[start : start + 200], x[start : start + 200])
        expected[start : start + 200] += 1
        shift(x[255::-2], x[255::-2])
        expected[255::-2] += 1
    assert np.array_equal(x.numpy(), expected)


def test_views_beside_bytes_that_a_copy_writes(gpu: vc.Runtime) -> None:
    # A device binds from an aligned byte: the copy before, and the one after it, touch bytes of the binding.
    add = vc.elementwise("x + 1")
    out, x, one = gpu.zeros(10), gpu.array(np.arange(10, dtype=np.float32)), gpu.array(np.ones(1, np.float32))
    for _ in range(2):  # the second time by a plan
        out[:1].copy_from(one)
        add(x[1:], out=out[1:])
        out[:1].copy_from(one)
        x[:1].copy_from(one)
    assert out.numpy().tolist() == [1, *range(2, 11)]


def test_views_with_atomics_checked_indices_and_rows(gpu: vc.Runtime) -> None:
    counts = gpu.zeros((4, 2), np.int32)
    indices = np.arange(64, dtype=np.int32) % 4
    histogram[1, 64](gpu.array(indices), counts[::-1, 1])
    assert np.array_equal(counts.numpy(), [[0, 16]] * 4)

    @vc.kernel(check_bounds=True)
    def beyond(x, out):
        out[vc.global_id(0)] = x[vc.global_id(0)]

    x = gpu.array(np.arange(64, dtype=np.int32))
    with pytest.raises(vc.KernelError, match=r"index 3 is outside of x, whose shape is \(3,\)"):
        beyond[1, 4](x[1:40:13], x[48:]).result()

    @vc.kernel
    def normal(v, out):
        i = vc.global_id(0)
        if i < out.shape[0]:
            out[i] = vc.vector.normalize(vc.float32x3(v[i]))

    v = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    out = gpu.zeros((3, 2, 4))
    normal[1, 64](gpu.array(v)[1].T, out.transpose(2, 0, 1)[:, :, 1])
    expected = v[1].T / np.linalg.norm(v[1].T, axis=1, keepdims=True)
    assert np.allclose(out.numpy()[:, 1].T, expected, rtol=1e-6)


def test_broadcast_views_are_not_written(gpu: vc.Runtime) -> None:
    x, one = gpu.zeros(8), gpu.zeros(1)
    for call in (
        lambda: double(x, one.broadcast_to(8)),
        lambda: one.broadcast_to(8).write(3),
        lambda: one.broadcast_to((2, 8)).fill(3),
        lambda: one.broadcast_to(8).copy_from(x),
    ):
        with pytest.raises(ValueError, match=r"share memory.*strides are \(0,.*\.copy\(\)"):
            call()
    double(one.broadcast_to(8), x)
    assert one.broadcast_to((2, 3)).numpy().tolist() == [[0] * 3] * 2


def test_elements_between_multiples_of_their_size_are_refused(gpu: vc.Runtime) -> None:
    odd = gpu.zeros(41, np.uint8)[1:].view(np.int32)
    with pytest.raises(ValueError, match=r"multiples of their size, 4 bytes; the offset is 1.*\.copy\(\)"):
        double(odd, gpu.zeros(10))
    odd = gpu.zeros((4, 6), np.uint8)[:, :4].view(np.int32)
    with pytest.raises(ValueError, match=r"strides are \(6,\); pass a \.copy\(\)"):
        double(odd[:, 0], gpu.zeros(4))


def test_views_of_what_a_graph_is_given(gpu: vc.Runtime) -> None:
    array = np.arange(120, dtype=np.int32)
    x, out = gpu.array(array), gpu.zeros(20, np.int32)
    with gpu.record(x=x[:60]) as graph:
        between = graph.empty(20, np.int32)
        double(graph["x"][1:41:2], between[::-1])
        shift(between[::-1], out)
    for start in (0, 1, 3, 16, 59):  # the view begins between the bytes at which the device may bind it
        graph.run(x=x[start : start + 60])
        assert np.array_equal(out.numpy(), array[start : start + 60][1:41:2] * 2 + 1)


def test_transpositions(gpu: vc.Runtime) -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = gpu.array(array)
    for args in ((), ((1, 0, 2),), (2, 0, 1), (-1, 0, 1), ([0, 2, 1],)):
        assert np.array_equal(x.transpose(*args).numpy(), array.transpose(*args))
    assert np.array_equal(x.T.numpy(), array.T)
    assert x[0, 0, 0].T.shape == ()
    for args in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with pytest.raises(ValueError, match="each of the axes 0 to 2 once"):
            x.transpose(*args)
    with pytest.raises(ValueError, match="does not broadcast"):
        x.broadcast_to((2, 3))
