"""Traces: the measured tasks and host calls, as a table, a trace file or a plot."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from vkcompute import disk

_HEADINGS = ("task", "queue", "count", "total ms", "mean us", "max us", "GB/s")
_MOST_DRAWN = 20_000  # tasks and calls in a page
_MOST_NAMES = 20  # in a plot, the number of colours of matplotlib's tab20
_PAGE = Path(__file__).with_name("timeline.html")


@dataclass(frozen=True, slots=True)
class TaskTime:
    """A measured task.

    Attributes:
        name: the kernel's, or "copy", "fill"; or "graph" for a submit of more than 10,000 recorded tasks.
        queue: role and index of the queue, e.g. "compute 0".
        start_ns, stop_ns: on the host's `time.perf_counter_ns` clock. A task starts when all earlier ones on its queue
            have finished, so tasks of one queue do not overlap.
        enqueued_ns: the time of the launch, on the same clock.
        thread: the thread that launched it, as `HostTime.thread`.
        nbytes: of the ranges that it reads and writes.
    """

    name: str
    queue: str
    start_ns: int
    stop_ns: int
    enqueued_ns: int
    thread: str
    nbytes: int

    @property
    def ns(self) -> int:
        """Time on the device."""
        return self.stop_ns - self.start_ns

    @property
    def gb_per_s(self) -> float:
        """Bytes accessed per second of device time, in 1e9 bytes."""
        return self.nbytes / self.ns if self.ns else 0.0


@dataclass(frozen=True, slots=True)
class HostTime:
    """A measured call of the host. Nested calls are measured too, within the time of the outer one.

    Attributes:
        name: "launch" (recording a task), "submit" (of a batch to a queue), "wait", "upload" or "download".
        what: the task launched; else empty.
        thread: "host" for the main thread; for others with their name.
        start_ns, stop_ns: on the clock of `time.perf_counter_ns`.
        nbytes: moved, or declared by the task; 0 for submits and waits.
    """

    name: str
    what: str
    thread: str
    start_ns: int
    stop_ns: int
    nbytes: int

    @property
    def ns(self) -> int:
        """Time on the host."""
        return self.stop_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Row:
    """The tasks or calls of one name on one queue or thread, as a row of the table."""

    name: str
    track: str
    count: int
    total_ms: float
    mean_us: float
    max_us: float
    gb_per_s: float

    @classmethod
    def of(cls, name: str, track: str, spans: Sequence[HostTime | TaskTime]) -> Row:
        total, nbytes = sum(span.ns for span in spans), sum(span.nbytes for span in spans)
        longest, nbytes = max(span.ns for span in spans), 0 if name == "launch" else nbytes
        return cls(name, track, len(spans), total / 1e6, total / len(spans) / 1e3, longest / 1e3, nbytes / (total or 1))

    def cells(self) -> tuple[str, ...]:
        """Returns the row as text."""
        times = f"{self.total_ms:.3f}", f"{self.mean_us:.1f}", f"{self.max_us:.1f}", f"{self.gb_per_s:.1f}"
        return self.name, self.track, str(self.count), *times


class Trace:
    """The measured tasks of one device, and the calls of the host.

    Attributes:
        device: its name.
        tasks, host: by start time.
        note: a sentence below the table; empty if there is nothing to say.
    """

    note = ""

    def __init__(self, device: str) -> None:
        self.device = device
        self.tasks: list[TaskTime] = []
        self.host: list[HostTime] = []

    def table(self) -> str:
        """Formats count, total, mean and maximum time, and bandwidth, by descending total.

        Rows are of the tasks by name and queue, then of the host's calls by name and thread. A nested call counts in
        both rows.
        """
        cells = [_HEADINGS, *[row.cells() for row in self.rows()]]
        name, track = (max(least, *[len(row[at]) + 1 for row in cells]) for at, least in ((0, 23), (1, 11)))
        form = f"{{:<{name}}}{{:<{track}}}{{:>7}}{{:>11}}{{:>10}}{{:>11}}{{:>7}}"
        return "\n".join([*[form.format(*row) for row in cells], *filter(None, [self.note])])

    def rows(self) -> list[Row]:
        """Returns the rows of the table."""
        every: list[Row] = []
        for spans in ([(task.queue, task) for task in self.tasks], [(span.thread, span) for span in self.host]):
            named: dict[tuple[str, str], list[HostTime | TaskTime]] = defaultdict(list)
            for track, span in spans:
                named[span.name, track].append(span)
            rows = [Row.of(name, track, group) for (name, track), group in named.items()]
            every += sorted(rows, key=lambda row: -row.total_ms)
        return every

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in Chrome's format, for ui.perfetto.dev; to a file called *.html the page of `html()`.

        It has a track per queue and per thread of the host, with an arrow from each launch to its task.
        """
        if Path(path).suffix == ".html":
            disk.write_atomic(Path(path), self.html().encode())
            return
        tracks = {track: tid for tid, track in enumerate(self._tracks(), 1)}
        trace = {
            "traceEvents": [*_headings(tracks), *self._events(tracks)],
            "displayTimeUnit": "ns",
            "otherData": {"device": self.device},
        }
        disk.write_atomic(Path(path), json.dumps(trace).encode())

    def html(self) -> str:
        """Returns a page with the timeline, which can be zoomed, and the table. It needs no other file.

        Of very many tasks and calls, it shows the longest 20,000.
        """
        drawn, n_spans, origin = self._drawn(), sum(1 for _ in self._spans()), self._origin()
        by_track: dict[str, list[Any]] = {track: [] for track in drawn}
        for track, spans in drawn.items():
            for row, span in spans:
                name = f"{span.name} {span.what}".strip() if isinstance(span, HostTime) else span.name
                nbytes = 0 if span.name == "launch" else span.nbytes
                by_track[track].append((name, (span.start_ns - origin) / 1e6, span.ns / 1e6, nbytes, row))
        more = f", the longest {_MOST_DRAWN:,} of {n_spans:,}" if n_spans > _MOST_DRAWN else ""
        table = {
            "title": f"{self!r}{more}. {self.note}".rstrip(". "),
            "tracks": [*drawn],
            "spans": list(by_track.values()),
            "headings": _HEADINGS,
            "rows": [row.cells() for row in self.rows()],
        }
        data = json.dumps(table).replace("<", "\\u003c")  # no end tag inside the script
        return _PAGE.read_text(encoding="utf-8").replace("/*PROFILE*/null", data)

    def _repr_html_(self) -> str:
        # As of timeline.html: a line per row of a track, and per row of the table. The page corrects it for its fonts.
        lines = [1 + max(row for row, _ in spans) for spans in self._drawn().values()]
        height = 110 + sum(18 * n + 8 for n in lines) + 21 * (1 + len(self.rows()))
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" title="profile"></iframe>'

    def __repr__(self) -> str:
        ms = sum(task.ns for task in self.tasks) / 1e6
        tasks = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks)} tasks"
        return f"<profile of {self.device}: {tasks}, {ms:.3f} ms on the device>"

    def plot(self) -> Any:
        """Plots a row for the host and one per queue, with a bar per call and task. Requires the extra `plot`.

        Returns:
            a matplotlib figure. A notebook shows it once, below the cell.

        Raises:
            ImportError: matplotlib is not installed.
        """
        try:
            import matplotlib

            from vkcompute.runtime.profiling.figures import subplots
        except ImportError as error:
            raise ImportError(f"plot() needs matplotlib: pip install 'vkcompute[plot]' ({error})") from error
        tracks, bars = self._tracks(), self._bars()
        size = 10, 1.5 + 0.6 * len(tracks)
        figure, axes = subplots(figsize=size, layout="constrained")
        # Transfers first, so that the waits and submits within them are visible.
        names = sorted(bars, key=lambda name: (name.endswith(" others"), name not in ("upload", "download")))
        colors = matplotlib.color_sequences["tab10" if len(names) <= 10 else "tab20"]
        handles = []
        for color, name in zip(colors, names, strict=False):
            for track, spans in bars[name].items():
                bar = axes.broken_barh(spans, (tracks.index(track) - 0.4, 0.8), facecolors=[color])
            handles.append(bar)
        axes.set(yticks=range(len(tracks)), yticklabels=tracks, xlabel="ms", title=f"Tasks on {self.device}")
        axes.invert_yaxis()
        legend = figure.legend(handles, [""] * len(names), loc="outside lower center", ncols=5, frameon=False)
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)  # as a label, a name that begins with "_" would be left out
        return figure

    def _bars(self) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """Returns starts and lengths in ms, by name and track; of more than 20 names, the shortest are "others"."""
        total: dict[str, int] = defaultdict(int)
        for _, span in self._spans():
            total[span.name] += span.ns
        longest = sorted(total, key=lambda name: -total[name])
        others = longest[_MOST_NAMES - 1 :] if len(longest) > _MOST_NAMES else []
        bars: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        origin = self._origin()
        for track, span in self._spans():
            name = f"{len(others)} others" if span.name in others else span.name
            bars[name][track].append(((span.start_ns - origin) / 1e6, span.ns / 1e6))
        return bars

    def _tracks(self) -> list[str]:
        """The names of the tracks: the host's threads, the main thread first, then the queues."""
        return [
            *(sorted({call.thread for call in self.host}) or ["host"]),
            *sorted({task.queue for task in self.tasks}),
        ]

    def _spans(self) -> Iterator[tuple[str, HostTime | TaskTime]]:
        """Yields each call and task with its track."""
        yield from ((call.thread, call) for call in self.host)
        yield from ((task.queue, task) for task in self.tasks)

    def _drawn(self) -> dict[str, list[tuple[int, HostTime | TaskTime]]]:
        """Returns the calls and tasks of a page with their rows, by track; tracks without any are left out.

        Nested calls are in rows below the call that contains them. A row is used again once it is free.
        """
        spans = sorted(self._spans(), key=lambda pair: -pair[1].ns)[:_MOST_DRAWN]
        rows_by_track: dict[str, list[tuple[int, HostTime | TaskTime]]] = {track: [] for track in self._tracks()}
        ends: dict[str, list[int]] = {track: [] for track in rows_by_track}
        for track, span in sorted(spans, key=lambda pair: (pair[1].start_ns, -pair[1].stop_ns)):
            rows = ends[track]
            row = next((at for at, end in enumerate(rows) if end <= span.start_ns), len(rows))
            rows[row : row + 1] = [span.stop_ns]
            rows_by_track[track].append((row, span))
        return {track: rows for track, rows in rows_by_track.items() if rows}

    def _origin(self) -> int:
        return min((span.start_ns for _, span in self._spans()), default=0)

    def _events(self, tracks: dict[str, int]) -> Iterator[dict[str, Any]]:
        origin = self._origin()

        def at(ns: int, track: str) -> dict[str, Any]:
            return {"ts": (ns - origin) / 1e3, "pid": 1, "tid": tracks[track]}  # in us

        for track, span in self._spans():
            name = f"{span.name} {span.what}".strip() if isinstance(span, HostTime) else span.name
            detail: dict[str, float] = {"bytes": span.nbytes} if span.nbytes else {}
            if detail and span.ns and span.name != "launch":
                detail["GB/s"] = round(span.nbytes / span.ns, 3)
            yield {"name": name, "ph": "X", **at(span.start_ns, track), "dur": span.ns / 1e3, "args": detail}
        for number, task in enumerate(self.tasks):
            flow = {"name": "launch", "cat": "launch", "id": number}
            yield {**flow, "ph": "s", **at(task.enqueued_ns, task.thread)}
            yield {**flow, "ph": "f", "bp": "e", **at(task.start_ns, task.queue)}


def _headings(tracks: dict[str, int]) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "vkcompute"}}
    for name, tid in tracks.items():
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": tid, "args": {"sort_index": tid}}
