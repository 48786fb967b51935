"""What a profile found: the tasks, as a table, as a trace, as a picture."""

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
    """One task.

    Attributes:
        name: the kernel's, or "copy", "fill", "graph".
        queue: role and index of the queue, e.g. "compute 0".
        start_ns, stop_ns: on the host's `time.perf_counter_ns` clock. A task starts when all before it on the queue
            have finished, so tasks of one queue do not overlap.
        enqueued_ns: when the host launched it, on the same clock.
        nbytes: of the ranges that it declares to read and write.
    """

    name: str
    queue: str
    start_ns: int
    stop_ns: int
    enqueued_ns: int
    nbytes: int

    @property
    def ns(self) -> int:
        """Time on the device."""
        return self.stop_ns - self.start_ns

    @property
    def gb_per_s(self) -> float:
        """Bytes touched per second of device time, in 1e9 bytes."""
        return self.nbytes / self.ns if self.ns else 0.0


class Timeline:
    """Tasks of one device.

    Attributes:
        device: its name.
        tasks: in order of their start.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.tasks: list[TaskTime] = []

    def table(self) -> str:
        """Per name: launches, total, mean and longest time on the device, bytes per second; the costliest first."""
        named: dict[str, list[TaskTime]] = defaultdict(list)
        for task in self.tasks:
            named[task.name].append(task)
        rows = [f"{'task':<32}{'count':>8}{'total ms':>11}{'mean us':>10}{'max us':>10}{'GB/s':>8}"]
        for name, tasks in sorted(named.items(), key=lambda item: -sum(task.ns for task in item[1])):
            total = sum(task.ns for task in tasks)
            rate = sum(task.nbytes for task in tasks) / total if total else 0.0
            mean, longest = total / len(tasks) / 1e3, max(task.ns for task in tasks) / 1e3
            rows.append(f"{name[:31]:<32}{len(tasks):>8}{total / 1e6:>11.3f}{mean:>10.1f}{longest:>10.1f}{rate:>8.2f}")
        return "\n".join(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace in the Chrome format, which ui.perfetto.dev opens: a track per queue, and the host's."""
        events = [*_tracks(["host", *sorted({task.queue for task in self.tasks})])]
        origin = min((min(task.enqueued_ns, task.start_ns) for task in self.tasks), default=0)
        threads = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
        for task in self.tasks:
            detail = {"bytes": task.nbytes, "GB/s": round(task.gb_per_s, 3)}
            span = {"name": task.name, "ph": "X", "pid": 1, "tid": threads[task.queue], "args": detail}
            events.append({**span, "ts": (task.start_ns - origin) / 1e3, "dur": task.ns / 1e3})
            launch = {"name": f"launch {task.name}", "ph": "i", "s": "t", "pid": 1, "tid": threads["host"]}
            events.append({**launch, "ts": (task.enqueued_ns - origin) / 1e3})
        trace = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"device": self.device}}
        disk.write_atomic(Path(path), json.dumps(trace).encode())

    def plot(self) -> Any:
        """A matplotlib figure: a lane per queue, a bar per task. Needs the extra `plot`."""
        from matplotlib import pyplot

        queues = sorted({task.queue for task in self.tasks})
        names = sorted({task.name for task in self.tasks})
        origin = min((task.start_ns for task in self.tasks), default=0)
        figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.6 * len(queues)), layout="constrained")
        for number, name in enumerate(names):
            for row, queue in enumerate(queues):
                bars = [(t.start_ns, t.ns) for t in self.tasks if t.name == name and t.queue == queue]
                spans = [((start - origin) / 1e6, ns / 1e6) for start, ns in bars]
                label = name if row == 0 else None
                axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=f"C{number % 10}", label=label)
        axes.set(yticks=range(len(queues)), yticklabels=queues, xlabel="ms", title=f"Tasks on {self.device}")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=4, frameon=False)
        return figure


def _tracks(names: list[str]) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "vkcompute"}}
    for tid, name in enumerate(names):
        yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": tid, "args": {"sort_index": tid}}
