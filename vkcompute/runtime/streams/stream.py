"""Streams: host data of any size in chunks, which are uploaded, processed and downloaded at the same time."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from vkcompute.errors import VkComputeError
from vkcompute.runtime.graphs.graph import Graph
from vkcompute.runtime.memory import layout
from vkcompute.runtime.memory.array import Array, empty
from vkcompute.runtime.memory.context import Context
from vkcompute.runtime.memory.host_data import HostArray, refuse_mask
from vkcompute.runtime.progress import progress_bar
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.streams.halo import Halo

Chunk = HostArray | tuple[HostArray, ...]
Source = Chunk | Iterable[Chunk]
Work = (
    Callable[[Array, Array], object]  # so that type checkers know the parameters of the most frequent lambdas
    | Callable[[Array, Array, Array], object]
    | Callable[..., object]
    | Graph
)
Sink = HostArray | Callable[[slice, HostArray], object]
Progress = Callable[[int, int | None], object]
Row = tuple[np.dtype[Any], tuple[int, ...]]
"""dtype and shape of a row, which is one index of an array's first axis"""
_At = tuple[int, slice, int]
"""number, rows and bytes of a chunk"""

CHUNK_BYTES = 8 << 20
DEPTH = 3  # chunks: one in upload, one in work, one in download
_END: Any = object()  # of a source


def stream(
    runtime: Context,
    source: Source,
    work: Work,
    sink: Sink | Sequence[Sink] | None,
    outputs: Any,
    depth: int,
    chunk_bytes: int,
    halo: int | tuple[int, int],
    edge: float | str,
    progress: Progress | bool | None,
) -> int:
    """See `Runtime.stream`."""
    overlap = Halo.of(halo, edge)
    runtime.scheduler.refuse_recording("stream()", "stream before or after the recording")
    for name, value in (("depth", depth), ("chunk_bytes", chunk_bytes)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is an int from 1; got {value!r}")
    if not callable(work) and not isinstance(work, Graph):
        raise TypeError(f"work is a kernel, a graph or a function to be called with arrays; got {type(work).__name__}")
    if overlap.n_rows and isinstance(work, Graph):
        raise ValueError("with a halo, sources are longer than sinks, which graphs do not support; pass a function")
    sinks, n_rows = _sinks(sink, outputs), None
    _refuse_shared_sinks(sinks)
    if isinstance(source, (np.ndarray, tuple, str, os.PathLike)):
        arrays = _arrays(source)
        n_rows = len(arrays[0])
        _check_overlaps(arrays, sinks, overlap)
        chunks: Iterator[Chunk] = overlap.cut(tuple(arrays), _step(runtime, arrays, work, sinks, chunk_bytes, overlap))
    elif isinstance(source, Iterable):
        chunks = overlap.of_chunks(map(_same_rows(), source)) if overlap.n_rows else iter(source)
    else:
        raise TypeError(f"a source is an array, a tuple, or an iterator of them; got {type(source).__name__}")
    with progress_bar(progress, "stream", "rows", n_rows) as update:
        run = _Stream(runtime, work, sinks, depth, update, n_rows, halo=overlap.n_rows)
        if n_rows is not None:
            run.check_full(n_rows, at_end=True)
        return run.run(chunks)


def _check_overlaps(arrays: list[HostArray], sinks: list[tuple[Sink, Row | None]], overlap: Halo) -> None:
    """Raises ValueError if writing a sink may change rows of a source that are read later."""
    pairs = [(target, array) for target, _ in sinks if isinstance(target, np.ndarray) for array in arrays]
    if any(clash(target, array) for target, array in pairs):
        raise ValueError("a sink overlaps a source in another way than being the same array; pass another array")
    if overlap.n_rows and any(layout.shares_memory(target, array) for target, array in pairs):
        raise ValueError("with a halo, later chunks read rows before them: a sink must not share memory with a source")


def _refuse_shared_sinks(sinks: list[tuple[Sink, Row | None]]) -> None:
    """Raises ValueError if two sinks have memory in common: the results of one would overwrite those of the other."""
    arrays = [(at, target) for at, (target, _) in enumerate(sinks) if isinstance(target, np.ndarray)]
    for (one, mine), (other, its) in combinations(arrays, 2):
        if layout.shares_memory(mine, its):
            raise ValueError(f"each sink has memory of its own; sinks {one} and {other} share some; pass another array")


def _step(
    runtime: Context,
    arrays: list[HostArray],
    work: Work,
    sinks: list[tuple[Sink, Row | None]],
    chunk_bytes: int,
    overlap: Halo,
) -> int:
    """Returns the number of rows of a chunk."""
    if isinstance(work, Graph):
        return _rows_of(work, len(arrays[0]))
    widest = max(_row_bytes(row) for row in [*map(_row, arrays), *(row for _, row in sinks if row)])
    return max(1, min(chunk_bytes, runtime.device.max_binding_bytes) // widest - overlap.n_rows)


def _same_rows() -> Callable[[Chunk], tuple[HostArray, ...]]:
    """Returns a function that checks that chunks are alike but for their length, and returns the arrays of one."""
    first: list[Row] = []

    def checked(chunk: Chunk) -> tuple[HostArray, ...]:
        arrays = _arrays(chunk)
        rows = [_row(array) for array in arrays]
        _require_alike(first or rows, rows)
        first[:] = rows
        return tuple(arrays)

    return checked


def feed(runtime: Context, chunks: Iterable[Chunk], work: Work) -> None:
    """Streams chunks that the library makes itself, without sinks and without notes on errors."""
    _Stream(runtime, work, [], DEPTH, None, None, annotates=False).run(iter(chunks))


class _ChunkArrays:
    """Arrays for one chunk at a time: those of the sources, then those of the sinks.

    None of them is a view: a kernel with vector elements may round up the end of an array with a buffer of its own.
    """

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._graph: Graph | None = None  # the work recorded on these arrays
        self._run: Future | None = None  # the last of its runs

    def launch(self, work: Work, n_sinks: int) -> None:
        """Launches the work on the arrays, and stores the arrays that it returns in those of the sinks."""
        if not isinstance(work, Graph):
            _store(work(*self.arrays), self.arrays[len(self.arrays) - n_sinks :])
            return
        if self._graph is None:
            inputs = work.arrays
            if len(inputs) != len(self.arrays):
                raise ValueError(
                    f"sources and sinks are {len(self.arrays)} arrays, and the graph was recorded with "
                    f"{len(inputs)} arrays: record(x=…) names one for each source, then for each sink"
                )
            with Graph(work.runtime, {}) as graph:
                work.submit(1, **dict(zip(inputs, self.arrays, strict=True)))
            self._graph = graph
        self._run = self._graph.submit()

    def wait(self) -> None:
        """Waits for the run of a graph, which then has filled its arrays."""
        if self._run is not None:
            self._run.result()
            self._run = None

    def close(self) -> None:
        """Frees the arrays."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None
        while self.arrays:
            self.arrays.pop().close()


class _Stream:
    """One run of a stream: `depth` sets of arrays, used in turn, and the chunks on the device."""

    def __init__(
        self,
        runtime: Context,
        work: Work,
        sinks: list[tuple[Sink, Row | None]],
        depth: int,
        progress: Progress | None,
        n_rows: int | None,
        *,
        halo: int = 0,
        annotates: bool = True,
    ) -> None:
        self._runtime, self._work, self._sinks = runtime, work, sinks
        self._progress, self._n_rows, self._annotates = progress, n_rows, annotates
        self._halo = halo
        self._array_sets = deque(_ChunkArrays() for _ in range(depth))
        self._in_flight: deque[tuple[_At, _ChunkArrays]] = deque()
        self._rows: list[Row] = []  # of the sources
        self._n_read = self._n_chunks = 0
        self._at: _At = 0, slice(0, 0), 0
        self._stage = ""

    def run(self, chunks: Iterator[Chunk]) -> int:
        """Processes every chunk; returns the number of rows."""
        try:
            while self._start_next(chunks):
                pass
            while self._in_flight:
                self._finish_oldest()
        except BaseException as error:
            if self._annotates:
                _annotate(error, self._where())
            with contextlib.suppress(VkComputeError):  # the device is lost, and `error` says so
                self._runtime.wait()
            raise
        finally:
            for target in self._array_sets:
                target.close()
        return self._n_read

    def _start_next(self, chunks: Iterator[Chunk]) -> bool:
        """Uploads the next chunk and starts the work on it; returns False at the end of the source."""
        if len(self._in_flight) == len(self._array_sets):
            self._finish_oldest()
        number, start = self._n_chunks, self._n_read
        self._at, self._stage = (number, slice(start, start), 0), "being read"
        chunk = next(chunks, _END)
        if chunk is _END:
            self.check_full(start, at_end=True)
            return False
        hosts = self._checked(chunk)
        rows = slice(start, start + len(hosts[0]) - self._halo)
        self.check_full(rows.stop)
        self._n_chunks, self._n_read = number + 1, rows.stop
        if rows.stop == start:
            return True
        self._at, self._stage = (number, rows, sum(host.nbytes for host in hosts)), "being uploaded"
        target = self._next_arrays(rows.stop - start)
        for array, host in zip(target.arrays, hosts, strict=False):
            array.write(host)
        self._stage = "being processed"
        if number == 0:
            _check_parameters(self._work, len(hosts), len(self._sinks))
        target.launch(self._work, len(self._sinks))
        self._runtime.flush()
        self._in_flight.append((self._at, target))
        return True

    def _checked(self, chunk: Chunk) -> list[HostArray]:
        arrays = _arrays(chunk)
        rows = [_row(array) for array in arrays]
        self._rows = self._rows or rows
        _require_alike(self._rows, rows)
        return arrays

    def check_full(self, n_rows: int, *, at_end: bool = False) -> None:
        """Raises ValueError if the source has more rows than a sink, or fewer at its end."""
        for sink, _ in self._sinks:
            if isinstance(sink, np.ndarray) and (n_rows > len(sink) or (at_end and n_rows < len(sink))):
                raise ValueError(
                    f"the sink has {len(sink)} rows and the source {'' if at_end else 'at least '}{n_rows}; pass an "
                    "array of the source's length, or a function"
                )

    def _next_arrays(self, n_rows: int) -> _ChunkArrays:
        """The next set of arrays, made anew if the chunk has another length than the last one in it."""
        target = self._array_sets[0]
        self._array_sets.rotate(-1)
        if not target.arrays or target.arrays[0].shape[0] != n_rows + self._halo:
            target.close()
            for dtype, shape in self._rows:
                target.arrays.append(empty(self._runtime, (n_rows + self._halo, *shape), dtype))
            for dtype, shape in (row or self._rows[0] for _, row in self._sinks):
                target.arrays.append(empty(self._runtime, (n_rows, *shape), dtype))
        return target

    def _finish_oldest(self) -> None:
        """Waits for the oldest chunk on the device, and passes its results to the sinks."""
        (self._at, target), self._stage = self._in_flight.popleft(), "being downloaded"
        rows = self._at[1]
        target.wait()
        for (sink, _), array in zip(self._sinks, target.arrays[len(self._rows) :], strict=True):
            if isinstance(sink, np.ndarray):
                array.read(sink[rows])
            else:
                sink(rows, array.numpy())
        if not self._sinks:
            for array in target.arrays:
                self._runtime.transfers.wait_for(array.range, write=True)
        if self._progress is not None:
            self._progress(rows.stop, self._n_rows)

    def _where(self) -> str:
        number, rows, nbytes = self._at
        extent = f"rows {rows.start} to {rows.stop - 1}, {nbytes} bytes" if nbytes else f"rows from {rows.start}"
        return f"chunk {number} of the stream ({extent}) was {self._stage}"


def _store(returned: object, sinks: Sequence[Array]) -> None:
    """Stores the arrays that work returns, one per sink. Futures, None and the sinks' own arrays need no store.

    Raises:
        TypeError: it returns something else, which no sink would get.
        ValueError: an array has another shape than its sink.
    """
    results = returned if isinstance(returned, (tuple, list)) else (returned,)
    if not sinks or all(isinstance(result, (Future, NoneType)) for result in results):
        return
    if all(any(result is sink for sink in sinks) for result in results):
        return
    if len(results) != len(sinks) or not all(isinstance(result, (Array, NoneType)) for result in results):
        got = ", ".join(type(result).__name__ for result in results)
        raise TypeError(
            f"work stores its results in the arrays of the sinks and returns None, or returns a device array per sink, "
            f"here {len(sinks)}; got {got}"
        )
    for sink, result in zip(sinks, results, strict=True):
        if not isinstance(result, Array) or result is sink:
            continue
        if result.shape != sink.shape:
            rule = f"work returns an array of the sink's shape, {sink.shape}; got {result.shape}"
            raise ValueError(f"{rule}; reshape it, or pass a sink of its shape")
        if not np.can_cast(result.dtype, sink.dtype, "same_kind"):
            raise TypeError(
                f"work returns an array of {result.dtype}, and its sink has {sink.dtype}; convert it, as "
                f"result.astype({str(sink.dtype)!r})"
            )
        sink[...] = result


def _require_alike(first: list[Row], this: list[Row]) -> None:
    if first != this:
        was, now = ([f"{dtype}{shape}" for dtype, shape in kinds] for kinds in (first, this))
        raise ValueError(f"chunks are alike but for their length: the first has rows of {was}, this of {now}")


def _check_parameters(work: Work, n_sources: int, n_sinks: int) -> None:
    """Raises TypeError if a function written in Python does not take an array per source and per sink."""
    if not isinstance(work, FunctionType):
        return
    try:
        inspect.signature(work).bind(*range(n_sources + n_sinks))
    except TypeError as error:
        rule = f"work takes an array per source, then one per sink, here {n_sources} and {n_sinks}"
        raise TypeError(f"{rule}; {work.__name__}{inspect.signature(work)}: {error}") from None


def _sinks(sink: Sink | Sequence[Sink] | None, outputs: Any) -> list[tuple[Sink, Row | None]]:
    """Each sink with the kind of its rows; None for rows like those of the first source."""
    several = isinstance(sink, (tuple, list))
    if several and not sink:
        raise ValueError(f"a stream without a sink is given None; got {sink!r}")
    sinks: Any = sink if several else () if sink is None else (sink,)
    if outputs is None:
        outputs = [None] * len(sinks)
    elif not several:
        outputs = [outputs]
    if len(outputs) != len(sinks):
        raise ValueError(f"outputs has one dtype per sink; got {len(outputs)} for {len(sinks)} sinks")
    return [_sink(*pair) for pair in zip(sinks, outputs, strict=True)]


def _sink(sink: Any, output: Any) -> tuple[Sink, Row | None]:
    if isinstance(sink, np.ndarray):
        if output is not None:
            raise ValueError(f"an array sink has a dtype of its own; outputs has {output!r} for it; pass None")
        if not sink.flags.writeable:
            raise ValueError("a sink is read-only; pass a writeable array")
        array = _as_rows(sink)
        return array, _row(array)
    if not callable(sink):
        raise TypeError(f"a sink is an array or a function of (rows, array); got {type(sink).__name__}")
    if output is None:
        return sink, None
    dtype = np.dtype(output)  # numpy accepts ("float32", (3,)) for rows of 3
    return sink, (dtype.base, dtype.shape)


def _arrays(chunk: Any) -> list[HostArray]:
    """The arrays of a chunk, or of a whole source; checks that they have the same length."""
    parts = chunk if isinstance(chunk, tuple) else (chunk,)
    for part in parts:
        if not isinstance(part, np.ndarray):
            is_path = isinstance(part, (str, os.PathLike))
            remedy = 'open the file with np.load(path, mmap_mode="r")' if is_path else "convert it with np.asarray()"
            raise TypeError(f"streams take numpy arrays; got {type(part).__name__}; {remedy}")
        refuse_mask(part)
    arrays = [_as_rows(part) for part in parts]
    lengths = [len(array) for array in arrays]
    if len({*lengths}) != 1:
        raise ValueError(
            f"the arrays of a chunk have the same length; got {lengths or 'none'}; pass consecutive chunks in a list"
        )
    return arrays


def _as_rows(array: HostArray) -> HostArray:
    """The array as a plain ndarray; one without axes becomes one row."""
    array = np.asarray(array)
    return array if array.ndim else array.reshape(1)


def _row(array: HostArray) -> Row:
    return array.dtype, array.shape[1:]


def _rows_of(graph: Graph, n_rows: int) -> int:
    """The number of rows in one run of a graph."""
    shape = next((array.shape for array in graph.arrays.values()), ())
    step = shape[0] if shape else 1
    if step < 1 or n_rows % step:
        raise ValueError(
            f"a graph runs on arrays of the shape that it was recorded for: on {step} rows at a time; the source has "
            f"{n_rows}, no multiple; record it for another number, or stream the rest by itself"
        )
    return step


def _row_bytes(row: Row) -> int:
    dtype, shape = row
    return max(1, dtype.itemsize * math.prod(shape))


def clash(target: HostArray, source: HostArray) -> bool:
    """Returns True if writing rows of `target` may change other rows of `source`."""
    same = layout.address(target) == layout.address(source) and target.strides == source.strides
    return not same and layout.shares_memory(target, source)


def _annotate(error: BaseException, note: str) -> None:
    """Adds a note to an error; before Python 3.11, which has no notes, as its cause."""
    add_note = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(note)
    else:
        cause = VkComputeError(note)
        cause.__cause__, cause.__context__, error.__cause__ = error.__cause__, error.__context__, cause
