"""Streams against numpy: whatever the chunks, and whatever fails on the way."""

from __future__ import annotations

import _thread
import gc
import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrays import DTYPES, random_bits, same_bits
from hypothesis import given
from hypothesis import strategies as st
from runtimes import lacks, open_runtime

import vkcompute as vc
from vkcompute.runtime.streams.stream import _annotate

pytestmark = pytest.mark.queues

RUNTIMES: dict[str, dict[str, Any]] = {
    "direct": {},
    "staging": {"staging": True},
    "queues": {"timelines": 2},
    "staging-queues": {"staging": True, "timelines": (2, 1)},
}
LENGTHS = """
    layout(local_size_x = 1) in;
    layout(binding = 0) readonly buffer X { float x[]; };
    layout(binding = 1) buffer Total { uint total[]; };
    void main() { total[0] += x.length(); total[1] = total[1] * 31 + x.length(); }
"""
VECTORS = """
    layout(local_size_x = 4) in;
    layout(binding = 0) readonly buffer X { vec4 x[]; };
    layout(binding = 1) writeonly buffer Y { vec4 y[]; };
    void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = x[i] * 2; }
"""


@pytest.fixture(scope="module", params=RUNTIMES)
def rt(request: pytest.FixtureRequest, _silence_at_the_end: None) -> Iterator[vc.Runtime]:
    """A runtime of each kind."""
    with open_runtime(**RUNTIMES[request.param]) as runtime:
        yield runtime


def copy(x: vc.Array, out: vc.Array) -> None:
    out.copy_from(x)


def taken_bytes(runtime: vc.Runtime) -> int:
    """Bytes of device memory that buffers hold, without the staging rings."""
    gc.collect()
    for release in runtime.device.memory.release_callbacks:
        release()
    runtime.device.collect()
    return runtime.device.memory.used_bytes


def told(error: BaseException) -> str:
    """What a stream adds to an error: its note, or before Python 3.11 its cause."""
    return "\n".join(getattr(error, "__notes__", [])) or str(error.__cause__)


def laid_out(array: np.ndarray, how: str, folder: Path) -> np.ndarray:
    """The same array, otherwise in memory."""
    if how == "memmap" and array.size:
        path = folder / f"{len(list(folder.iterdir()))}.npy"
        np.save(path, array)
        return np.load(path, mmap_mode="r+")
    if how == "fortran":
        return np.array(array, order="F")
    if how == "strided" and array.ndim:
        wide = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
        wide[::-2] = array
        return wide[::-2]
    return array


def in_chunks(arrays: tuple[np.ndarray, ...], lengths: list[int]) -> Iterator[tuple[np.ndarray, ...]]:
    """Chunks of these lengths in turn, in memory that is overwritten for the next."""
    lengths = lengths if any(lengths) else [1]
    start, turn = 0, 0
    while start < len(arrays[0]):
        part = slice(start, start + lengths[turn % len(lengths)])
        chunk = tuple(array[part].copy() for array in arrays)
        yield chunk
        for array in chunk:
            array[...] = 0
        start, turn = part.stop, turn + 1


ROWS = st.lists(st.integers(1, 4), max_size=2).map(tuple)
LAYOUTS = st.sampled_from(["plain", "memmap", "fortran", "strided"])


@given(
    n=st.integers(0, 40),
    rows=st.tuples(ROWS, ROWS),
    kinds=st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)),
    layouts=st.tuples(LAYOUTS, LAYOUTS),
    lengths=st.none() | st.lists(st.integers(0, 7), min_size=1, max_size=4),
    chunk_bytes=st.sampled_from([1, 7, 64, 200, 1 << 20]),
    depth=st.integers(1, 5),
    called=st.tuples(st.booleans(), st.booleans()),
)
def test_what_goes_up_comes_down(
    rt: vc.Runtime,
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    rows: Any,
    kinds: Any,
    layouts: Any,
    lengths: list[int] | None,
    chunk_bytes: int,
    depth: int,
    called: Any,
) -> None:
    """Two sources that differ in dtype and rows come down crosswise, into arrays or through functions."""
    folder = tmp_path_factory.mktemp("stream")
    want = [random_bits((n, *row), kind, seed) for seed, (row, kind) in enumerate(zip(rows, kinds, strict=True))]
    sources = (laid_out(want[0], layouts[0], folder), want[1])
    got = [np.zeros_like(want[1]), laid_out(np.zeros_like(want[0]), layouts[1], folder)]
    seen: list[tuple[int, int, int]] = []

    def into(target: np.ndarray) -> Callable[[slice, np.ndarray], None]:
        def put(at: slice, chunk: np.ndarray) -> None:
            seen.append((id(target), at.start, at.stop))
            target[at] = chunk

        return put

    def work(x: vc.Array, y: vc.Array, first: vc.Array, second: vc.Array) -> None:
        first.copy_from(y)
        second.copy_from(x)

    done: list[tuple[int, int | None]] = []
    n_rows = rt.stream(
        sources if lengths is None else in_chunks(sources, lengths),
        work,
        [into(target) if call else target for target, call in zip(got, called, strict=True)],
        outputs=[(kinds[1 - i], rows[1 - i]) if call else None for i, call in enumerate(called)],
        depth=depth,
        chunk_bytes=chunk_bytes,
        progress=lambda *step: done.append(step),
    )
    assert n_rows == n
    assert same_bits(np.array(got[0]), want[1])
    assert same_bits(np.array(got[1]), want[0])
    assert [step[0] for step in done] == sorted({step[0] for step in done})
    assert (done[-1] if done else (0, None))[0] == n
    assert {step[1] for step in done} <= {n if lengths is None else None}
    for target in got:  # every row once, in order
        extents = [extent[1:] for extent in seen if extent[0] == id(target)]
        assert [start for start, _ in extents] == [0, *(stop for _, stop in extents)][: len(extents)]


def test_an_array_without_axes_is_one_row(rt: vc.Runtime) -> None:
    out = np.zeros((), np.int16)
    assert rt.stream(np.array(-7, np.int16), copy, out) == 1
    assert out == -7
    chunks: list[tuple[slice, np.ndarray]] = []
    assert rt.stream(iter([np.array(5), np.array(6)]), copy, lambda *chunk: chunks.append(chunk)) == 2
    assert [(rows, chunk.tolist()) for rows, chunk in chunks] == [(slice(0, 1), [5]), (slice(1, 2), [6])]


def test_the_chunks_that_functions_get_are_their_own(rt: vc.Runtime) -> None:
    kept: list[np.ndarray] = []
    source = np.arange(100, dtype=np.int32)
    rt.stream(source, copy, lambda _, chunk: kept.append(chunk), chunk_bytes=40)
    assert len(kept) == 10
    assert np.array_equal(np.concatenate(kept), source)


def test_rows_without_bytes(rt: vc.Runtime) -> None:
    got: list[tuple[int, ...]] = []
    assert rt.stream(np.empty((5, 0), np.int8), copy, lambda _, chunk: got.append(chunk.shape)) == 5
    assert got == [(5, 0)]


def test_chunks_are_cut_by_the_widest_array_and_by_the_largest_binding(
    rt: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def work(narrow: vc.Array, wide: vc.Array, out: vc.Array) -> None:
        lengths.append(narrow.shape[0])
        assert wide.shape == (lengths[-1], 3)
        out.copy_from(wide.reshape(-1)[: lengths[-1]])

    sources = np.zeros(100, np.int8), np.zeros((100, 3), np.int32)
    rt.stream(sources, work, lambda *_: None, outputs=np.int32, chunk_bytes=480)
    assert lengths == [40, 40, 20]
    lengths.clear()
    monkeypatch.setattr(type(rt.device), "max_binding_bytes", 240)
    rt.stream(sources, work, np.empty(100, np.int32))
    assert lengths == [20] * 5
    lengths.clear()
    rt.stream(sources, work, lambda *_: None, outputs=np.int32, chunk_bytes=1)
    assert lengths == [1] * 100


def test_a_kernel_sees_the_rows_of_its_chunk_and_no_more(rt: vc.Runtime) -> None:
    lengths = [5, 5, 5, 5, 3, 8, 1, 64, 65, 64, 64]
    with rt.zeros(2, np.uint32) as total:
        kernel = rt.kernel(vc.glsl(LENGTHS))
        chunks = (np.zeros(n, np.float32) for n in lengths)
        rt.stream(chunks, lambda x: kernel(x, total, grid=1))
        want = 0
        for n in lengths:
            want = want * 31 + n
        assert total.numpy().tolist() == [sum(lengths), want % (1 << 32)]


@pytest.mark.parametrize("n", [1, 1000, 1001, 1003])
def test_a_kernel_of_vectors_takes_chunks_of_any_length(rt: vc.Runtime, n: int) -> None:
    source = np.arange(n, dtype=np.float32)
    out = np.zeros(n, np.float32)
    rt.stream(source, rt.kernel(vc.glsl(VECTORS)), out, chunk_bytes=4 * 97)
    assert np.array_equal(out, source * 2)


def test_the_result_may_be_the_source(rt: vc.Runtime) -> None:
    data = np.arange(1000, dtype=np.int32)
    rt.stream(data, lambda x, out: vc.multiply(x, 3, out), data, chunk_bytes=256)
    assert np.array_equal(data, np.arange(1000) * 3)
    table = np.arange(2000, dtype=np.int32).reshape(1000, 2)
    rt.stream(table[:, 0], copy, table[:, 1], chunk_bytes=256)  # between each other, but nowhere the same
    assert np.array_equal(table[:, 1], np.arange(0, 2000, 2))


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_no_more_than_depth_chunks_are_read_ahead(rt: vc.Runtime, depth: int, sink: bool) -> None:
    n_read = n_done = 0
    ahead: list[int] = []

    def read() -> Iterator[np.ndarray]:
        nonlocal n_read
        for n_read in range(1, 21):
            ahead.append(n_read - n_done)
            yield np.full(100, n_read, np.int32)

    def count(n_rows: int, _: int | None) -> None:
        nonlocal n_done
        n_done = n_rows // 100

    with rt.zeros(100, np.int32) as kept:
        work = copy if sink else (lambda x: kept.copy_from(x))
        rt.stream(read(), work, (lambda *_: None) if sink else None, depth=depth, progress=count)
        assert max(ahead) == depth
        assert n_done == 20
        assert sink or kept.numpy()[0] == 20


class Stop(Exception):
    """Raised by tests."""


PLACES = ("source", "dtype", "shape", "length", "type", "work", "sink", "progress", "ctrl-c")


@pytest.mark.parametrize("at", [0, 1, 2, 3, 6, 9])
@pytest.mark.parametrize("place", PLACES)
def test_a_fault_in_any_place_at_any_chunk(rt: vc.Runtime, place: str, at: int) -> None:
    """The error comes out as it was raised, names the chunk, and leaves neither memory taken nor work on its way."""
    n, rows = 10, 50
    sources = [np.full((rows, 2), i + 1, np.int32) for i in range(n)]
    out = np.zeros((n * rows, 2), np.int32)
    odd: dict[str, Any] = {
        "dtype": np.zeros((rows, 2), np.float32),
        "shape": np.zeros((rows, 3), np.int32),
        "length": (np.zeros((rows, 2), np.int32), np.zeros((rows + 1, 2), np.int32)),
        "type": [[1, 2]],
    }
    launched: list[vc.Future] = []
    n_delivered = 0

    def fail(where: str, number: int) -> None:
        if number == at and place == where:
            raise Stop(where)

    def read() -> Iterator[Any]:
        for i, source in enumerate(sources):
            fail("source", i)
            yield odd[place] if place in odd and i == at else source

    def work(x: vc.Array, y: vc.Array) -> None:
        number = len(launched)
        vc.multiply(x, 5, y)
        launched.append(y.copy_from(x))
        fail("work", number)
        if number == at and place == "ctrl-c":
            signal.raise_signal(signal.SIGINT)

    def put(where: slice, chunk: np.ndarray) -> None:
        nonlocal n_delivered
        fail("sink", n_delivered)
        out[where] = chunk
        n_delivered += 1

    before = taken_bytes(rt)
    errors = {"dtype": ValueError, "shape": ValueError, "length": ValueError, "type": TypeError}
    if place in ("dtype", "shape") and at == 0:
        pytest.skip("the first chunk says what the others are like")
    with pytest.raises(KeyboardInterrupt if place == "ctrl-c" else errors.get(place, Stop)) as caught:
        rt.stream(read(), work, put, progress=lambda done, _: fail("progress", done // rows - 1))
    assert f"chunk {at} of the stream (rows {'from ' if place in ('source', *errors) else ''}{at * rows}" in told(
        caught.value
    )
    assert all(future.done() for future in launched)
    assert np.array_equal(out[: n_delivered * rows], np.repeat(np.arange(1, n_delivered + 1), rows)[:, None] * [1, 1])
    assert not out[n_delivered * rows :].any()
    assert n_delivered <= at + (place == "progress")
    assert taken_bytes(rt) == before
    assert rt.stream(iter(sources), copy, out) == n * rows
    assert np.array_equal(out[:, 1], np.repeat(np.arange(1, n + 1), rows))


@pytest.mark.parametrize("options", RUNTIMES.values(), ids=RUNTIMES)
def test_nothing_is_left_of_a_stream_that_failed(clean_handles: None, options: dict[str, Any]) -> None:
    with open_runtime(**options) as gpu:
        with pytest.raises(Stop):
            gpu.stream(np.ones(10_000, np.int8), copy, _raise_at(3), chunk_bytes=1000)
        assert taken_bytes(gpu) == 0
        assert gpu.device.memory.used_bytes == 0 or options.get("staging")


@pytest.mark.parametrize("delay_s", [0.001, 0.004, 0.01, 0.03])
@pytest.mark.parametrize("options", RUNTIMES.values(), ids=RUNTIMES)
def test_ctrl_c_at_any_moment(clean_handles: None, options: dict[str, Any], delay_s: float) -> None:
    """An endless stream ends, and the process holds nothing once the runtime is closed."""
    chunk = np.ones(5000, np.int32)
    with open_runtime(**options) as gpu:
        timer = threading.Timer(delay_s, _thread.interrupt_main)

        def start(n_rows: int, _: int | None) -> None:
            if n_rows == len(chunk):
                timer.start()

        with pytest.raises(KeyboardInterrupt) as caught:
            gpu.stream(itertools.repeat(chunk), lambda x, y: vc.multiply(x, 3, y), lambda *_: None, progress=start)
        assert "of the stream (rows " in told(caught.value)
        timer.join()
        del caught


def _raise_at(number: int) -> Callable[[slice, np.ndarray], None]:
    calls = iter(range(100))

    def put(_rows: slice, _chunk: np.ndarray) -> None:
        if next(calls) == number:
            raise Stop

    return put


@pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
def test_memory_that_runs_out_names_the_chunk_and_is_given_back() -> None:
    with vc.Runtime(memory_limit_bytes=16 << 20) as gpu:
        sizes = [1 << 20, 1 << 20, 1 << 20, 12 << 20]
        with pytest.raises(vc.OutOfDeviceMemory) as caught:
            gpu.stream((np.zeros(n, np.int8) for n in sizes), copy, lambda *_: None)
        place = "rows 3145728 to 15728639, 12582912 bytes) was being "
        assert place + "processed" in told(caught.value) or place + "uploaded" in told(caught.value)
        del caught  # whose frames have arguments of the launch
        assert taken_bytes(gpu) == 0
        assert gpu.stream(np.zeros(64 << 20, np.int8), copy, lambda *_: None, chunk_bytes=1 << 20) == 64 << 20


def test_before_python_3_11_the_note_is_the_errors_cause() -> None:
    class Old(Exception):
        add_note = None

    cause = KeyError("cause")
    error = Old("text")
    error.__cause__ = cause
    _annotate(error, "chunk 7")
    assert isinstance(error.__cause__, vc.VkComputeError)
    assert str(error.__cause__) == "chunk 7"
    assert error.__cause__.__cause__ is cause


def test_streams_of_several_threads(rt: vc.Runtime) -> None:
    sources = [random_bits((5000,), np.dtype(np.int32), seed) for seed in range(3)]
    outs = [np.zeros_like(source) for source in sources]

    def run(i: int) -> None:
        rt.stream(sources[i], lambda x, y: vc.multiply(x, i + 2, y), outs[i], chunk_bytes=1000)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, (source, out) in enumerate(zip(sources, outs, strict=True)):
        assert np.array_equal(out, source * np.int32(i + 2))


def test_a_stream_in_the_work_of_another(rt: vc.Runtime) -> None:
    source = np.arange(100, dtype=np.int32)
    inner = np.zeros_like(source)
    outer = np.zeros_like(source)

    def work(x: vc.Array, y: vc.Array) -> None:
        rt.stream(source, copy, inner, chunk_bytes=80)
        vc.multiply(x, int(inner[2]), y)

    rt.stream(source, work, outer, chunk_bytes=100)
    assert np.array_equal(outer, source * 2)


def test_a_list_is_arrays_one_after_another(rt: vc.Runtime) -> None:
    parts = [random_bits((n, 3), np.dtype(np.int64), n) for n in (4, 1, 9)]
    out = np.zeros((14, 3), np.int64)
    rt.stream(parts, copy, out)
    assert same_bits(out, np.concatenate(parts))


def test_a_graph_is_replayed_on_each_chunk(rt: vc.Runtime) -> None:
    before = taken_bytes(rt)
    data = random_bits((1200, 2), np.dtype(np.int32), 1)
    other = random_bits((1200,), np.dtype(np.int32), 2)
    got, summed = np.zeros_like(other), np.zeros_like(data)
    with rt.zeros((100, 2), np.int32) as x, rt.zeros(100, np.int32) as y, rt.zeros((100, 2), np.int32) as kept:
        with rt.record(x=x, y=y, first=y.copy(), second=x.copy()) as graph:
            between = graph.empty((100, 2), np.int32)
            vc.multiply(graph["x"], 3, between)
            graph["second"].copy_from(between)
            graph["first"].copy_from(graph["y"])
            kept.copy_from(between)
        for depth in (1, 3, 8):
            got[:], summed[:] = 0, 0
            assert rt.stream((data, other), graph, (got, summed), depth=depth) == 1200
            assert np.array_equal(got, other)
            assert np.array_equal(summed, data * np.int32(3))
            assert np.array_equal(kept.numpy(), summed[-100:])
        with pytest.raises(ValueError, match=r"on 100 rows at a time; the source has 1150"):
            rt.stream((data[:1150], other[:1150]), graph, (got[:1150], summed[:1150]))
        with pytest.raises(ValueError, match=r"are 3 arrays, and the graph was recorded with 4 arrays"):
            rt.stream((data, other), graph, got)
        with pytest.raises(ValueError, match=r"input 'x' of this graph has shape \(100, 2\); got \(50, 2\)") as caught:
            rt.stream([(data[:100], other[:100]), (data[:50], other[:50])], graph, (got[:150], summed[:150]))
        assert "chunk 1 of the stream (rows 100 to 149" in told(caught.value)
        graph.close()
        del graph, between, caught  # whose traceback holds the graph, and that its inputs
    assert taken_bytes(rt) == before


ONES = np.ones(10, np.float32)
LOCKED = np.ones(10, np.float32)
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((ONES, copy, ONES[:9].copy()), {}, ValueError, "sink has 9 rows and the source 10"),
        ((ONES, copy, LOCKED), {}, ValueError, "read-only"),
        ((ONES, copy, ONES[::-1]), {}, ValueError, "overlaps a source"),
        ((ONES[1:], copy, ONES[:-1]), {}, ValueError, "overlaps a source"),
        ((iter([ONES, ONES]), copy, np.ones(30, np.float32)), {}, ValueError, "sink has 30 rows and the source 20"),
        ((iter([ONES, ONES]), copy, np.ones(15, np.float32)), {}, ValueError, "15 rows and the source at least 20"),
        (((ONES, ONES[:4]), copy), {}, ValueError, r"same length; got \[10, 4\]; .*in a list"),
        (((), copy), {}, ValueError, "same length; got none"),
        (([[1.0, 2.0]], copy), {}, TypeError, "numpy arrays; got list"),
        ((7, copy), {}, TypeError, "a source is an array.*got int"),
        ((iter(["a"]), copy), {}, TypeError, "numpy arrays; got str"),
        (("a.npy", copy), {}, TypeError, r'got str; open the file with np\.load\(path, mmap_mode="r"\)'),
        ((Path("a.npy"), copy), {}, TypeError, r"got PosixPath; open the file with np\.load"),
        ((np.ma.array(ONES), copy), {}, TypeError, r"a masked array has a mask, .* pass x\.filled\(value\)"),
        ((ONES, lambda x: None, ONES.copy()), {}, TypeError, "per source, then one per sink, here 1 and 1; <lambda>"),
        ((iter([ONES, None, ONES]), lambda x: x), {}, TypeError, "numpy arrays; got NoneType"),
        ((ONES, "multiply"), {}, TypeError, "work is a kernel, a graph or a function.*got str"),
        ((ONES, copy, 5), {}, TypeError, "a sink is an array or a function.*got int"),
        ((ONES, copy, [ONES.copy(), 5]), {}, TypeError, "got int"),
        ((ONES, copy, []), {}, ValueError, "without a sink is given None; got"),
        ((ONES, copy), {"outputs": np.int8}, ValueError, "got 1 for 0 sinks"),
        ((ONES, copy, ONES), {"outputs": np.int8}, ValueError, "an array sink has a dtype"),
        ((ONES, copy), {"depth": 0}, ValueError, "depth is an int from 1; got 0"),
        ((ONES, copy), {"depth": 2.0}, ValueError, "depth is an int from 1; got 2.0"),
        ((ONES, copy), {"chunk_bytes": 0}, ValueError, "chunk_bytes is an int from 1; got 0"),
        ((ONES.astype("S3"), copy, lambda *_: None), {}, TypeError, "an array's dtype must be one of"),
        ((ONES.astype(">f4"), copy, lambda *_: None), {}, TypeError, r"astype\('float32'\)"),
    ],
)
def test_what_is_refused(
    gpu: vc.Runtime, arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        gpu.stream(*arguments, **options)


def test_arrays_that_work_returns_are_stored(rt: vc.Runtime) -> None:
    x, out, other = np.arange(60, dtype=np.float32), np.zeros(60, np.float32), np.zeros(60, np.float32)
    other = other if lacks(rt, "float64") else other.astype(np.float64)
    rt.stream(x, lambda a, b: a * 2, out, chunk_bytes=80)
    assert np.array_equal(out, 2 * x)
    rt.stream(x, lambda a, b, c: (a + 1, a * 3), (out, other), chunk_bytes=80)
    assert np.array_equal(out, x + 1)
    assert np.array_equal(other, 3 * x)

    def in_place(a: vc.Array, b: vc.Array, c: vc.Array) -> Any:
        b.copy_from(a)
        return b, a - 1

    rt.stream(x, in_place, (out, other), chunk_bytes=80)
    assert np.array_equal(out, x)
    assert np.array_equal(other, x - 1)
    rt.stream(x, lambda a, b: [b.copy_from(a), None], out)  # not arrays: nothing to store


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (
            lambda x, out: x.numpy() * 2,
            TypeError,
            "returns None, or returns a device array per sink, here 1; got ndarray",
        ),
        (lambda x, out: 5, TypeError, "got int"),
        (lambda x, out: (x + 1, x + 2), TypeError, "here 1; got Array, Array"),
        (lambda x, out: x.sum(), ValueError, r"an array of the sink's shape, \(10,\); got \(\)"),
        (lambda x, out: x * 1j, TypeError, r"complex64, and its sink has float32; convert it, as result.astype"),
    ],
)
def test_returned_values_that_no_sink_would_get(gpu: vc.Runtime, work: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        gpu.stream(ONES, work, ONES.copy())


def test_no_stream_in_a_recording_nor_on_a_closed_runtime() -> None:
    with vc.Runtime() as gpu:
        graph = gpu.record()
        with pytest.raises(ValueError, match=r"stream\(\) runs at once"), graph:
            gpu.stream(ONES, copy, ONES)
    with pytest.raises(vc.ClosedError):
        gpu.stream(ONES, copy, ONES)


def test_two_sinks_of_the_same_memory_are_refused(gpu: vc.Runtime) -> None:
    data, out = np.zeros(8, np.float32), np.zeros(16, np.float32)

    def both(x: vc.Array, one: vc.Array, other: vc.Array) -> None:
        one.copy_from(x)
        other.copy_from(x)

    for sinks in ((out[:8], out[:8]), (out[:8], out[4:12]), (out[::2], out[:8])):
        with pytest.raises(ValueError, match="sinks 0 and 1 share some"):
            gpu.stream(data, both, sinks)
    data[:] = 3
    gpu.stream(data, both, (out[:8], out[8:]))
    gpu.stream(data, both, (out[::2], out[1::2]))
    assert set(out.tolist()) == {3}
