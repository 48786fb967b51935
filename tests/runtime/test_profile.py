"""The timeline of a profile: every task once, in order, with times that make sense."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.runtime.profile import Profile


def profiled(gpu: vc.Runtime) -> Profile:
    """Ten multiplies of 4 MiB, a copy, a fill and a graph."""
    a = gpu.full(1 << 20, 1.5)
    small = gpu.zeros(64)
    with gpu.record() as graph:
        vc.multiply(a, 1.0, a)
    with gpu.profile() as profile:
        for _ in range(10):
            vc.multiply(a, 1.0, a)
        small.copy_from(a[:64])
        small.fill(2)
        graph.submit(2)
    return profile


def test_every_task_is_measured_once(gpu: vc.Runtime) -> None:
    started = time.perf_counter_ns()
    profile = profiled(gpu)
    ended = time.perf_counter_ns()
    names = [task.name for task in profile.tasks]
    assert sorted(name.split()[0] for name in names) == ["copy", "fill", "graph", *["multiply"] * 10]
    for task in profile.tasks:
        assert task.stop_ns >= task.start_ns
        assert started - 10**7 < task.start_ns < task.stop_ns < ended + 10**7, "the clocks of host and device agree"
        assert task.enqueued_ns < task.stop_ns
    launches = [task for task in profile.tasks if task.name.startswith("multiply")]
    assert all(task.nbytes == 3 << 22 for task in launches)
    assert all(before.stop_ns <= after.start_ns for before, after in pairwise(launches))
    assert all(0.01 < task.gb_per_s < 10_000 for task in launches)


def test_nothing_is_measured_outside(clean_handles: None) -> None:
    with vc.Runtime() as gpu:
        with gpu.profile() as profile:
            pass
        gpu.full(10, 1.0).numpy()
        assert profile.tasks == []
        assert profile.table().count("\n") == 0
        assert gpu.scheduler.profile is None


def test_more_tasks_than_a_pool_has_queries(gpu: vc.Runtime) -> None:
    a = gpu.zeros(64)
    with gpu.profile() as profile:
        for i in range(1500):
            a.fill(i)
    assert len(profile.tasks) == 1500
    assert a.numpy()[0] == 1499


def test_a_profile_of_several_queues_has_a_track_for_each() -> None:
    with vc.Runtime(timelines=(2, 1), staging=True) as gpu:
        chains = [gpu.full(1 << 12, 1.0) for _ in range(2)]
        with gpu.profile() as profile:
            for _ in range(5):
                for chain in chains:
                    vc.multiply(chain, 2.0, chain)
            chains[0].numpy()
        assert {task.queue for task in profile.tasks} == {"compute 0", "compute 1", "transfer 2"}


def test_table_fits_a_terminal_and_adds_up(gpu: vc.Runtime) -> None:
    profile = profiled(gpu)
    lines = profile.table().splitlines()
    assert max(map(len, lines)) <= 80
    total_ms = sum(float(line[40:51]) for line in lines[1:])
    assert total_ms == pytest.approx(sum(task.ns for task in profile.tasks) / 1e6, abs=0.01)


def test_trace_is_what_viewers_read(gpu: vc.Runtime, tmp_path: Path) -> None:
    profile = profiled(gpu)
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    assert set(tracks.values()) == {"host", "compute 0"}
    assert len(spans) == len(profile.tasks)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 and tracks[event["tid"]] == "compute 0" for event in spans)
    assert len([event for event in events if event["ph"] == "i"]) == len(profile.tasks)


def test_plot_draws_a_bar_per_task(gpu: vc.Runtime) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    profile = profiled(gpu)
    figure = profile.plot()
    bars = sum(len(collection.get_paths()) for collection in figure.axes[0].collections)
    assert bars == len(profile.tasks)
    matplotlib.pyplot.close(figure)


def test_profiles_do_not_nest(gpu: vc.Runtime) -> None:
    with gpu.profile(), pytest.raises(ValueError, match="profiled already"), gpu.profile():
        pass
    with gpu.profile() as profile:
        gpu.zeros(4).numpy()
    assert np.all([task.name == "fill" for task in profile.tasks])


def test_an_error_inside_leaves_the_runtime_unprofiled(gpu: vc.Runtime) -> None:
    with pytest.raises(RuntimeError, match="stop"), gpu.profile():
        raise RuntimeError("stop")
    assert gpu.scheduler.profile is None
