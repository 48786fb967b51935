"""Inputs of graphs that are replaced between runs, temporaries that share memory, and graphs in graphs."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from machine import ADD, ALIGN, SCALE

import vkcompute as vc
import vkcompute.numpy as vnp

N = 4 * ALIGN


@pytest.fixture
def scale(rt: vc.Runtime) -> vc.Kernel:
    return rt.kernel(vc.glsl(SCALE))


@pytest.fixture
def add(rt: vc.Runtime) -> vc.Kernel:
    return rt.kernel(vc.glsl(ADD))


def full(rt: vc.Runtime, *values: int) -> list[vc.Array]:
    return [rt.full(N, value, np.int32) for value in values]


def content(array: vc.Array) -> int:
    result = set(array.numpy().ravel().tolist())
    assert len(result) == 1, result
    return int(result.pop())


# -- inputs -----------------------------------------------------------------------------------------------------------


def test_arrays_and_values_are_replaced_for_one_run(rt: vc.Runtime, add: vc.Kernel) -> None:
    x, y, out = full(rt, 1, 20, 0)
    with rt.record(x=x, k=2) as graph:
        add(graph["x"], y, out, graph["k"])
    seen = []
    for inputs in ({}, {"k": 3}, {"x": y}, {"x": y, "k": -1}, {"k": 3, "x": x}, {}):
        graph.run(**inputs)
        seen.append(content(out))
    assert seen == [41, 61, 60, 0, 61, 41]


def test_many_inputs_in_turn_while_the_runs_are_pending(rt: vc.Runtime, add: vc.Kernel) -> None:
    """More than are kept: recordings are given up while they run."""
    total, zero = full(rt, 0, 0)
    with rt.record(x=zero, k=0) as graph:
        add(graph["x"], total, other := rt.empty(N, np.int32), 1)
        add(other, zero, total, graph["k"])
    for i in range(60):
        graph.submit(x=rt.full(N, i, np.int32), k=i)
    assert content(total) == sum(range(60))


def test_alternating_inputs_are_recorded_once(
    rt: vc.Runtime, scale: vc.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = full(rt, 0, 0, 0)
    with rt.record(x=arrays[0], d=1) as graph:
        scale(graph["x"], 1, graph["d"])
    for array in arrays:
        graph.run(x=array, d=1)
    monkeypatch.setattr("vkcompute.runtime.graphs.recording_cache.GraphRecording", None)
    for _ in range(5):
        for array in arrays:
            graph.submit(x=array)
    assert [content(array) for array in arrays] == [6, 6, 6]


def test_new_inputs_are_copied_and_record_nothing(
    rt: vc.Runtime, add: vc.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, out = full(rt, 1, 2, 0)
    with rt.record(x=x, out=out) as graph:
        add(graph["x"], y, graph["out"], 1)
    graph.run(x=rt.full(N, 5, np.int32))
    monkeypatch.setattr("vkcompute.runtime.graphs.recording_cache.GraphRecording", None)
    kept = [(rt.full(N, i, np.int32), rt.zeros(N, np.int32)) for i in range(20)]
    for given, result in kept:
        graph.submit(x=given, out=result)
    assert [content(result) for _, result in kept] == [i + 2 for i in range(20)]


def test_zeros_of_both_signs_are_different_values(rt: vc.Runtime) -> None:
    source = """
        layout(local_size_x = 1) in;
        layout(binding = 0) writeonly buffer A { float a[]; };
        layout(push_constant) uniform P { float k; };
        void main() { a[0] = k; }
    """
    kernel, out = rt.kernel(vc.glsl(source)), rt.empty(1)
    with rt.record(k=0.0) as graph:
        kernel(out, graph["k"], grid=1)
    signs = []
    for k in (0.0, -0.0, np.float32(-0.0), 0):
        graph.run(k=k)
        signs.append(bool(np.signbit(out.numpy()[0])))
    assert signs == [False, True, True, False]


def test_views_of_an_input_move_with_it(rt: vc.Runtime, add: vc.Kernel, scale: vc.Kernel) -> None:
    x, y = rt.array(np.arange(N, dtype=np.int32)), rt.array(np.arange(N, dtype=np.int32) * 10)
    whole = rt.zeros(3 * N, np.int32)
    inside = whole[N : 2 * N]
    inside.copy_from(y)
    out, even = rt.zeros(ALIGN, np.int32), rt.zeros(N // 2, np.int32)
    with rt.record(x=x) as graph:
        scale(graph["x"][ALIGN : 2 * ALIGN], 2, 1)
        out.copy_from(graph["x"].reshape(4, ALIGN)[1])
        even.copy_from(graph["x"][::2])
        graph["x"][: ALIGN - 1].fill(7)
        graph["x"].view(np.int64)[-4:].fill(-1)
    for array, factor in ((x, 1), (y, 10), (inside, 10)):
        graph.run(x=array)
        want = np.arange(N, dtype=np.int32) * factor
        want[ALIGN : 2 * ALIGN] = want[ALIGN : 2 * ALIGN] * 2 + 1
        assert np.array_equal(out.numpy(), want[ALIGN : 2 * ALIGN])
        assert np.array_equal(even.numpy(), want[::2])
        want[: ALIGN - 1], want[-8:] = 7, -1
        assert np.array_equal(array.numpy(), want)
    assert set(whole[:N].numpy()) | set(whole[2 * N :].numpy()) == {0}


def test_an_input_that_overlaps_what_the_first_one_did_not(rt: vc.Runtime, add: vc.Kernel) -> None:
    """What is independent with one array is not with another, so that barriers are found anew."""
    a, b, c, d = full(rt, 1, 2, 3, 4)
    with rt.record(x=a) as graph:
        add(b, c, d, 1)  # d = 5
        add(graph["x"], graph["x"], c, 1)
    graph.run(x=d)
    assert content(c) == 10


def test_inputs_are_held_until_others_take_their_place(rt: vc.Runtime, scale: vc.Kernel) -> None:
    x = rt.full(N, 1, np.int32)
    with rt.record(x=x) as graph:
        scale(graph["x"], 2, 0)
    result = x.reshape(N)
    x.close()
    for _ in range(3):
        graph.run()
        graph.run(x=rt.full(N, 5, np.int32))
        gc.collect()
    others = full(rt, *range(20))
    graph.run()
    assert content(result) == 16
    assert [content(other) for other in others] == [*range(20)]


@pytest.mark.parametrize(
    ("error", "match", "given"),
    [
        (
            ValueError,
            r"'x' of this graph has shape \(256,\); got \(255,\)",
            lambda rt: {"x": rt.zeros(N, np.int32)[1:]},
        ),
        (ValueError, "shape", lambda rt: {"x": rt.zeros((N, 1), np.int32)}),
        (TypeError, "'x' of this graph is int32; got uint32", lambda rt: {"x": rt.zeros(N, np.uint32)}),
        (TypeError, "'x' of this graph is a device array; got ndarray", lambda rt: {"x": np.zeros(N, np.int32)}),
        (ValueError, r"contiguous.*\.copy\(\)", lambda rt: {"x": rt.zeros(2 * N, np.int32)[::2]}),
        (TypeError, "no input y: this graph's inputs are x, k", lambda rt: {"y": 1}),
        (TypeError, "'k' of a graph is a device array, or a number", lambda rt: {"k": rt.zeros(1)}),
        (TypeError, "number", lambda rt: {"k": "3"}),
        (TypeError, "push constant k of .* is int32.*got 0.5", lambda rt: {"k": 0.5}),
        (ValueError, "push constant k of .* is int32.*got 4294967296", lambda rt: {"k": 1 << 32}),
    ],
)
def test_inputs_that_do_not_fit(
    rt: vc.Runtime, scale: vc.Kernel, error: type[Exception], match: str, given: Callable[[vc.Runtime], Any]
) -> None:
    x = rt.full(N, 1, np.int32)
    with rt.record(x=x, k=2) as graph:
        scale(graph["x"], graph["k"], 0)
    for run in (graph.run, graph.submit):
        with pytest.raises(error, match=match):
            run(**given(rt))
    graph.run()
    assert content(x) == 2


def test_a_closed_input_and_one_of_another_runtime(rt: vc.Runtime, scale: vc.Kernel) -> None:
    x = rt.full(N, 1, np.int32)
    with rt.record(x=x) as graph:
        scale(graph["x"], 2, 0)
    closed = rt.zeros(N, np.int32)
    graph.run(x=closed)
    closed.close()
    with pytest.raises(vc.ClosedError):
        graph.run(x=closed)
    with vc.Runtime() as other, pytest.raises(ValueError, match="another runtime"):
        graph.run(x=other.zeros(N, np.int32))
    with pytest.raises(vc.ClosedError):
        rt.record(x=closed)
    with pytest.raises(ValueError, match="'times'"):
        rt.record(times=x)
    with pytest.raises(TypeError, match="'f' of a graph is a device array, or a number"):
        rt.record(f=print)
    with pytest.raises(KeyError, match="inputs are x"):
        graph["z"]


def test_mistakes_are_found_where_they_are_made(rt: vc.Runtime, scale: vc.Kernel, add: vc.Kernel) -> None:
    x = rt.full(N, 1, np.int32)
    with rt.record(x=x, f=rt.zeros(N), k=1.5) as graph:
        with pytest.raises(TypeError, match="holds int32; the array is float32"):
            scale(graph["f"], 1, 1)
        with pytest.raises(TypeError, match=r"push constant d of .*got 1.5"):
            scale(graph["x"], 1, graph["k"])
        with pytest.raises(TypeError, match="takes 3 arrays"):
            add(graph["x"])
        with pytest.raises(TypeError, match="takes a device array; got int"):
            add(graph["x"], 3, graph["x"], 1)
        with pytest.raises(ValueError, match="grid"):
            scale(graph["x"], 1, 1, grid=1 << 40)
        with pytest.raises(ValueError, match="contiguous"):
            scale(graph["x"][::2], 1, 1)
        with pytest.raises(TypeError, match="push constants"):
            scale(graph["x"], 1)
        with pytest.raises(ValueError, match="multiples of"):
            scale(graph["x"][1:], 1, 1)
        with pytest.raises(ValueError, match="queue"):
            scale(x, 1, 1, queue=0)
        with pytest.raises(ValueError, match="share bytes"):
            graph["x"][1:].copy_from(graph["x"][:-1])
        scale(graph["x"], d=3, k=2)
    graph.run()
    assert content(x) == 5
    eager = {
        "launch": lambda: scale(graph["x"], 1, 1),
        "parameter": lambda: scale(x, 1, graph["k"]),
        "copy": lambda: x.copy_from(graph["x"]),
        "copy into": lambda: graph["x"].copy_from(x),
        "numpy": graph["x"].numpy,
        "write": lambda: graph["x"].write(1),
        "fill": lambda: graph["x"].fill(1),
        "dlpack": graph["x"].__dlpack__,
        "array": lambda: rt.array(graph["x"]),
        "input": lambda: graph.run(x=graph["x"]),
    }
    for use in eager.values():
        with pytest.raises((ValueError, TypeError), match=r"of (a|the) graph|push constant"):
            use()
    graph.run()
    assert content(x) == 13


def test_a_fill_of_whole_words_and_an_input_without(rt: vc.Runtime) -> None:
    """A fill of an array of bytes goes into its padding, which a view in the middle of an array does not have."""
    whole = rt.zeros(62, np.int8)
    with rt.record(x=rt.zeros(10, np.int8)) as graph:
        graph["x"].fill(1)
    for view in (whole[52:], whole[20:30], whole[1:11]):
        graph.run(x=view)
        assert view.numpy().tolist() == [1] * 10
    assert whole.numpy().sum() == 30
    with pytest.raises(ValueError, match=r"whole words"), rt.record(x=whole[20:30]) as graph:
        graph["x"].fill(1)


@pytest.mark.parametrize("times", [1, 3])
def test_large_inputs_are_copied_once_and_then_bound(rt: vc.Runtime, add: vc.Kernel, times: int) -> None:
    n = 1 << 18  # elements of 4 bytes: the least that is bound
    x, small, out = rt.full(n, 1, np.int32), rt.full(N, 5, np.int32), rt.zeros(N, np.int32)
    others = [rt.full(n + 1, i, np.int32)[i - 9 :][:n] for i in (10, 9)]  # the first begins at no aligned byte
    with rt.record(x=x, small=small) as graph:
        graph["x"] += 1
        add(graph["x"][:N], graph["small"], out, 1)
        graph["small"][:1].fill(7)
    for turn in range(1, 4):
        for other in others:
            small.fill(turn)
            graph.run(times, x=other, small=small)
            expected = (10 if other is others[0] else 9) + turn * times
            assert (other[0].item(), other[-1].item()) == (expected, expected)
            assert content(out[1:]) == expected + turn
            assert small[:2].numpy().tolist() == [7, turn]
    assert content(x) == 1


def test_a_copy_between_an_input_and_itself(rt: vc.Runtime) -> None:
    x, y = full(rt, 1, 2)
    with rt.record(x=x) as graph:
        graph["x"][: N // 2].copy_from(y[N // 4 : 3 * N // 4])
    with pytest.raises(ValueError, match="share bytes"):
        graph.run(x=y)
    graph.run()
    assert x.numpy().tolist() == [2] * (N // 2) + [1] * (N // 2)


@vc.kernel
def affine(x: Any, out: Any, k: Any, flip: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = -x[i] if flip else k * x[i]


def test_a_python_kernel_with_inputs(rt: vc.Runtime) -> None:
    x, y, out = full(rt, 2, 3, 0)
    with rt.record(x=x, k=5, flip=False) as graph:
        part = graph.empty(N, np.int32)
        affine(graph["x"], part, graph["k"], False)
        affine(part, out, 1, graph["flip"])
    seen = []
    for inputs in ({}, {"k": 7}, {"flip": True, "x": y}, {"flip": np.True_}):
        graph.run(**inputs)
        seen.append(content(out))
    assert seen == [10, 14, -15, -10]
    with pytest.raises(TypeError, match="int32"):
        graph.run(k=0.5)


# -- temporaries ------------------------------------------------------------------------------------------------------


def test_a_chain_of_temporaries_takes_the_memory_of_two(rt: vc.Runtime, add: vc.Kernel) -> None:
    n = 1 << 18
    x = rt.full(n, 1, np.int32)
    rt.device.collect(wait=True)
    before = rt.device.memory.used_bytes
    with rt.record(x=x) as graph:
        last = graph["x"]
        for _ in range(20):
            following = graph.empty(n, np.int32)
            add(last, last, following, 1)
            last = following
        x.copy_from(last)
    assert rt.device.memory.used_bytes - before <= 2 * 4 * n + 4096
    graph.run()
    assert content(x) == 1 << 20
    graph.submit(x=rt.full(n, 3, np.int32))
    assert content(x) == 3 << 20
    del graph
    rt.device.collect(wait=True)
    assert rt.device.memory.used_bytes <= before


def test_views_and_odd_lengths_of_temporaries(rt: vc.Runtime, scale: vc.Kernel) -> None:
    out = rt.zeros(3 * 7, np.int8)
    values = rt.zeros(ALIGN, np.int32)
    with rt.record() as graph:
        for i in range(3):
            part = graph.empty(7, np.int8)
            part.fill(i + 1)
            out[7 * i : 7 * i + 7].copy_from(part)
        pair = graph.empty((2, ALIGN), np.int32)
        pair.fill(5)
        scale(pair[1], 3, 0)
        values.copy_from(pair[1])
        graph.empty(0).fill(1)
    graph.run(2)
    assert out.numpy().tolist() == [1] * 7 + [2] * 7 + [3] * 7
    assert content(values) == 15


def test_temporaries_outside_of_their_graph(rt: vc.Runtime, scale: vc.Kernel) -> None:
    with rt.record() as graph:
        part = graph.empty(N, np.int32)
        with pytest.raises(ValueError, match="cannot be recorded"):
            part.numpy()
        with pytest.raises(TypeError):
            graph.empty(3, object)
        part.fill(1)
        scale(part, 2, 0)
    uses = {
        "numpy": part.numpy,
        "copy": part.copy,
        "launch": lambda: scale(part, 1, 1),
        "fill": lambda: part.fill(1),
        "write": lambda: part.write(1),
        "view": part[:9].numpy,
    }
    for use in uses.values():
        with pytest.raises(ValueError, match="a temporary of 1024 bytes of a graph has memory only while"):
            use()
    with rt.record() as other, pytest.raises(ValueError, match="another graph"):
        scale(part, 1, 1)
    with rt.record() as other, pytest.raises(ValueError, match="another graph"):
        rt.zeros(N, np.int32).copy_from(part)
    with pytest.raises(ValueError, match="not being recorded"):
        graph.empty(3)
    graph.run()
    other.run()


# -- graphs in graphs -------------------------------------------------------------------------------------------------


def test_a_graph_in_a_graph(rt: vc.Runtime, add: vc.Kernel, scale: vc.Kernel) -> None:
    x, y, z = full(rt, 1, 2, 0)
    with rt.record(a=x, k=1) as inner:
        part = inner.empty(N, np.int32)
        add(inner["a"], inner["a"], part, inner["k"])  # a (1 + k)
        inner["a"].copy_from(part)
    with rt.record(b=y, n=2) as outer:
        inner.run(a=outer["b"], k=outer["n"])
        between = outer.empty(N, np.int32)
        between.copy_from(outer["b"])
        inner.run(times=3, a=between)
        inner.submit(2)
        add(x, between, z, 1)
        with pytest.raises(ValueError, match="shape"):
            inner.run(a=between[: N // 2])
        with pytest.raises(ValueError, match="recorded into a graph"):
            inner.submit().result()
    outer.run()
    assert [content(t) for t in (x, y, z)] == [8, 6, 4 + 48]
    inner.close()
    x.fill(1)
    outer.run(b=z, n=0)
    assert [content(t) for t in (x, y, z)] == [8, 6, 4 + 52 * 8]


def test_a_graph_of_another_runtime_in_a_graph(rt: vc.Runtime, scale: vc.Kernel) -> None:
    """It is recorded nowhere: it runs."""
    with vc.Runtime() as other:
        x = other.full(N, 1, np.int32)
        with other.record() as foreign:
            other.kernel(vc.glsl(SCALE))(x, 2, 0)
        with rt.record() as graph:
            foreign.run()
        assert content(x) == 2
        graph.run()
        assert content(x) == 2


# -- which graph records ----------------------------------------------------------------------------------------------


def test_tasks_of_asyncio_record_into_their_own_graphs(rt: vc.Runtime, scale: vc.Kernel) -> None:
    arrays = full(rt, 0, 0, 0)

    async def record(array: vc.Array, n: int) -> vc.Graph:
        with rt.record() as graph:
            for _ in range(n):
                scale(array, 1, 1)
                await asyncio.sleep(0)
        return graph

    async def launch() -> None:
        for _ in range(5):
            scale(arrays[2], 1, 1)
            await asyncio.sleep(0)

    async def main() -> list[vc.Graph]:
        first, second, _ = await asyncio.gather(record(arrays[0], 3), record(arrays[1], 7), launch())
        return [first, second]

    graphs = asyncio.run(main())
    assert [content(array) for array in arrays] == [0, 0, 5]
    for graph in graphs:
        graph.run()
    assert [content(array) for array in arrays] == [3, 7, 5]


def test_a_thread_with_the_context_of_a_recording_launches(rt: vc.Runtime, scale: vc.Kernel) -> None:
    import contextvars

    x, y = full(rt, 0, 0)
    with rt.record() as graph:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(scale, x, 1, 1))
        thread.start()
        thread.join()
        scale(y, 1, 1)
    context.run(scale, x, 1, 1)
    assert (content(x), content(y)) == (2, 0)
    graph.run()
    assert (content(x), content(y)) == (2, 1)


def test_a_recording_left_in_another_context(rt: vc.Runtime, scale: vc.Kernel) -> None:
    import contextvars

    x = rt.zeros(N, np.int32)
    graph = rt.record()
    contextvars.copy_context().run(graph.__enter__)
    scale(x, 1, 1)
    graph.__exit__(None, None, None)
    abandoned = rt.record()
    abandoned.__enter__()
    scale(x, 10, 10)
    del abandoned
    gc.collect()
    scale(x, 1, 1)
    with rt.record() as graph:
        scale(x, 100, 0)
    assert content(x) == 2
    graph.run()
    assert content(x) == 200


def test_choices_of_inputs_are_given_up_where_memory_is_short() -> None:
    n = 1 << 20
    with vc.Runtime(memory_limit_bytes=40 << 20) as gpu:
        x, y = gpu.full(n, 1, np.int32), gpu.zeros(n, np.int32)
        with gpu.record(x=x) as graph:
            y.copy_from(graph["x"])
        for value in range(2, 6):
            graph.run(x=gpu.full(n, value, np.int32))
            assert content(y) == value
        large = gpu.full(6 * n, 7, np.int32)  # 24 of 40 MiB: not beside those of four choices
        assert content(large) == 7
        graph.run()
        assert content(y) == 1
        graph.run(x=gpu.full(n, 8, np.int32))
        assert content(y) == 8


OVERLAPPING: dict[str, tuple[int, Callable[[Any, vc.Array], Any]]] = {
    "multiply": (256, lambda x, out: vc.multiply(x, np.float32(2), out)),
    "elementwise": (256, lambda x, out: vc.elementwise("x + 1")(x, out=out)),
    "a repeated element": (768, lambda x, out: vc.elementwise("x + y")(x[:1], out, out=out)),
}


@pytest.mark.parametrize(("start", "work"), OVERLAPPING.values(), ids=OVERLAPPING)
@pytest.mark.parametrize("nested", [False, True], ids=["", "nested"])
def test_an_input_that_overlaps_the_result_is_refused(
    gpu: vc.Runtime, start: int, work: Callable[[Any, vc.Array], Any], nested: bool
) -> None:
    base = gpu.array(np.arange(4096, dtype=np.float32))
    with gpu.record(x=gpu.zeros(2048)) as graph:
        work(graph["x"], base[512:2560])
    if nested:
        inner = graph
        with gpu.record(x=gpu.zeros(2048)) as graph:
            inner.run(x=graph["x"])
    with pytest.raises(
        ValueError, match=r"overlaps memory that the graph writes before it has read.*pass a \.copy\(\)"
    ):
        graph.run(x=base[start : start + 2048])
    graph.run(x=base[:2048].copy())


def test_an_input_that_overlaps_the_result_of_a_reduction(gpu: vc.Runtime) -> None:
    base = gpu.array(np.arange(4096, dtype=np.float32))
    with gpu.record(x=gpu.zeros((1024, 2))) as graph:
        vc.reduce("a + b", 0)(graph["x"], axis=1, out=base[512:1536])
    graph.run(x=base[:2048].reshape(1024, 2))
    np.testing.assert_array_equal(base[512:1536].numpy(), np.arange(2048).reshape(1024, 2).sum(1))


def test_an_input_is_written_in_place_and_never_replaced(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4, np.int32)
    with gpu.record(x=x, n=3) as graph:
        graph["x"] += 2
        graph["x"][...] *= 5
        for wrong in (lambda: graph.__setitem__("x", x), lambda: graph.__setitem__("n", 4)):
            with pytest.raises(TypeError, match=r"given with the run; write its elements by graph\['.'\]\[\.\.\.\]"):
                wrong()
        with pytest.raises(KeyError, match="no input 'y'"):
            graph["y"] = x
    graph.run()
    assert x.tolist() == [10] * 4


def test_views_of_one_input_overlap_as_views_of_an_array_do(gpu: vc.Runtime) -> None:
    values = np.arange(4, dtype=np.int32)
    x = gpu.array(values)
    with gpu.record(x=x) as graph:
        given = graph["x"]
        given[::-1] = given * 4 + given[::-1]
    graph.run()
    values[::-1] = values * 4 + values[::-1]
    assert np.array_equal(x.numpy(), values)


def test_an_input_may_be_the_result(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(8, dtype=np.float32))
    with gpu.record(x=x) as graph:
        vc.elementwise("x + 1")(graph["x"], out=x)
        vc.multiply(x, graph["x"], x)
    graph.run()
    np.testing.assert_array_equal(x.numpy(), np.arange(1, 9) ** 2)


def _chosen(value: Any) -> int:
    match value:
        case 2:
            return 1
    return 0


CHOICES: dict[str, Callable[[Any], object]] = {
    "if": lambda s: 1 if s else 0,
    "not": lambda s: not s,
    "or": lambda s: s or 3,
    "equal": lambda s: s == 2,
    "equal to itself": lambda s: s == s,
    "unequal": lambda s: s != 2,
    "among": lambda s: s in (1, 2),
    "key": lambda s: {2: 1}[s],
    "member": lambda s: s in {2},
    "match": _chosen,
    "array": lambda s: np.where(s, 1, 0),
    "compared with an array": lambda s: np.arange(3) == s,
    "sum": lambda s: s + 1,
    "less": lambda s: s < 1,
    "float": float,
    "range": range,
    "int": int,
    "text": lambda s: f"{s}",
    "digits": lambda s: f"{s:.2f}",
    "rounded": round,
    "negative": lambda s: -s,
    "array on the host": np.asarray,
}
WITH_ARRAYS: dict[str, Any] = {
    "greater": lambda x, s: x > s,
    "less": lambda x, s: s > x,
    "sum": lambda x, s: x + s,
    "product": lambda x, s: s * x,
    "assigned": lambda x, s: x.__setitem__(0, s),
    "full": lambda x, s: x.runtime.full(3, s),
    "index": lambda x, s: x[:s],
    "where": lambda x, s: vnp.where(x > 1, s, x),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("default", [2, 0, 1.5, True])
def test_the_number_of_a_run_decides_nothing_in_the_recording(gpu: vc.Runtime, choice: str, default: Any) -> None:
    with gpu.record(s=default) as graph, pytest.raises(TypeError, match="'s' is given with each run of the graph"):
        CHOICES[choice](graph["s"])


@pytest.mark.parametrize("use", WITH_ARRAYS)
def test_the_number_of_a_run_is_no_operand_of_arrays(gpu: vc.Runtime, use: str) -> None:
    x = gpu.zeros(3)
    with gpu.record(s=2) as graph, pytest.raises(TypeError, match="'s' is given with each run of the graph"):
        WITH_ARRAYS[use](x, graph["s"])
