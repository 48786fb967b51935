"""Traces: the measured tasks and host calls, as a table, a trace file or a plot."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vkcompute import disk


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


class Trace:
    """The measured tasks of one device, and the calls of the host.

    Attributes:
        device: its name.
        tasks, host: by start time.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.tasks: list[TaskTime] = []
        self.host: list[HostTime] = []

    def table(self) -> str:
        """Formats count, total, mean and maximum device time, and bandwidth per name and queue, by descending total."""
        named: dict[tuple[str, str], list[TaskTime]] = defaultdict(list)
        for task in self.tasks:
            named[task.name, task.queue].append(task)
        rows = [f"{'task':<23}{'queue':<11}{'count':>7}{'total ms':>11}{'mean us':>10}{'max us':>11}{'GB/s':>7}"]
        for (name, queue), tasks in sorted(named.items(), key=lambda item: -sum(task.ns for task in item[1])):
            total = sum(task.ns for task in tasks)
            rate = sum(task.nbytes for task in tasks) / total if total else 0.0
            mean, longest = total / len(tasks) / 1e3, max(task.ns for task in tasks) / 1e3
            about = f"{name[:22]:<23}{queue:<11}{len(tasks):>7}"
            rows.append(f"{about}{total / 1e6:>11.3f}{mean:>10.1f}{longest:>11.1f}{rate:>7.1f}")
        return "\n".join(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in Chrome's format, for ui.perfetto.dev.

        It has a track per queue and per thread of the host, with an arrow from each launch to its task.
        """
        tracks = {track: tid for tid, track in enumerate(self._tracks(), 1)}
        trace = {
            "traceEvents": [*_headings(tracks), *self._events(tracks)],
            "displayTimeUnit": "ns",
            "otherData": {"device": self.device},
        }
        disk.write_atomic(Path(path), json.dumps(trace).encode())

    def plot(self) -> Any:
        """Plots a row for the host and one per queue, with a bar per call and task. Requires the extra `plot`.

        Returns:
            a matplotlib figure.
        """
        from matplotlib import pyplot

        tracks, origin = self._tracks(), self._origin()
        bars: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        for track, each in self._spans():
            bars[each.name][track].append(((each.start_ns - origin) / 1e6, each.ns / 1e6))
        figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.6 * len(tracks)), layout="constrained")
        # Transfers first, so that the waits and submits within them are visible.
        names = sorted(bars, key=lambda name: name not in ("upload", "download"))
        for number, name in enumerate(names):
            label = name
            for track, spans in bars[name].items():
                row = tracks.index(track)
                axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=f"C{number % 10}", label=label)
                label = f"_{name}"  # in the legend once
        axes.set(yticks=range(len(tracks)), yticklabels=tracks, xlabel="ms", title=f"Tasks on {self.device}")
        axes.invert_yaxis()
        figure.legend(loc="outside lower center", ncols=5, frameon=False)
        return figure

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

    def _origin(self) -> int:
        return min((each.start_ns for _, each in self._spans()), default=0)

    def _events(self, tracks: dict[str, int]) -> Iterator[dict[str, Any]]:
        origin = self._origin()

        def at(ns: int, track: str) -> dict[str, Any]:
            return {"ts": (ns - origin) / 1e3, "pid": 1, "tid": tracks[track]}  # in us

        for track, each in self._spans():
            name = f"{each.name} {each.what}".strip() if isinstance(each, HostTime) else each.name
            detail: dict[str, float] = {"bytes": each.nbytes} if each.nbytes else {}
            if detail and each.ns and each.name != "launch":
                detail["GB/s"] = round(each.nbytes / each.ns, 3)
            yield {"name": name, "ph": "X", **at(each.start_ns, track), "dur": each.ns / 1e3, "args": detail}
        for number, task in enumerate(self.tasks):
            flow = {"name": "launch", "cat": "launch", "id": number}
            yield {**flow, "ph": "s", **at(task.enqueued_ns, task.thread)}
            yield {**flow, "ph": "f", "bp": "e", **at(task.start_ns, task.queue)}


def _headings(tracks: dict[str, int]) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "vkcompute"}}
    for name, tid in tracks.items():
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": tid, "args": {"sort_index": tid}}
