"""The timeline of a profile: every task once, in order, with times that make sense."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.core import clock, vk
from vkcompute.core.physical import PhysicalDevice
from vkcompute.jit.elementwise.expression import Expression
from vkcompute.runtime.profiling.profile import Profile
from vkcompute.runtime.profiling.trace import HostTime, TaskTime, Trace

pytestmark = pytest.mark.queues


def profiled(gpu: vc.Runtime) -> Profile:
    """Ten multiplies of 4 MiB, a copy, a fill, and two runs of a graph with an eleventh."""
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
    assert sorted(name.split()[0] for name in names) == ["copy", "fill", *["multiply"] * 12]
    for task in profile.tasks:
        assert task.stop_ns >= task.start_ns
        assert started - 10**7 < task.start_ns < task.stop_ns < ended + 10**7, "the clocks of host and device agree"
        assert task.enqueued_ns < task.stop_ns
    launches = [task for task in profile.tasks if task.name.startswith("multiply")]
    assert all(task.nbytes == 3 << 22 for task in launches)
    assert all(before.stop_ns <= after.start_ns for before, after in pairwise(launches))
    assert all(0.01 < task.gb_per_s < 10_000 for task in launches)


def test_the_tasks_of_a_graph_are_measured_each(gpu: vc.Runtime) -> None:
    x, y = gpu.full(1 << 16, 2.0), gpu.empty(1 << 16)
    with gpu.record(x=x) as graph:
        y.fill(1)
        vc.multiply(graph["x"], y, y)
        graph["x"].copy_from(y)
    other = gpu.full(1 << 16, 3.0)
    with gpu.profile() as profile:
        graph.submit(2)
        graph.run(x=other)
        graph.close()
    n_bytes = {"fill": 1 << 18, "multiply float32": 3 << 18, "copy": 2 << 18}
    names = [task.name for task in profile.tasks]
    assert sorted(names) == sorted([*n_bytes] * 3 + ["copy"] * 2)  # two for the other input, there and back
    assert [task.nbytes for task in profile.tasks] == [n_bytes[name] for name in names]
    computed = [task for task in profile.tasks if task.name != "copy"]  # a copy there may come before earlier runs
    assert all(before.stop_ns <= after.start_ns for before, after in pairwise(computed))
    assert (x.numpy()[0], y.numpy()[0], other.numpy()[0]) == (2, 3, 3)


def test_a_measured_graph_tells_of_its_queue_as_any_other() -> None:
    with open_runtime(timelines=2) as gpu:
        x, y = gpu.full(64, 1.0), gpu.full(64, 1.0)
        with gpu.record() as graph:
            x.fill(2)
            y.copy_from(x)
        gpu.wait()
        plain = graph.submit()
        gpu.wait()
        with gpu.profile() as profile:
            measured = graph.submit()
        assert (measured.queue, measured.placement) == (plain.queue, plain.placement)
        assert len({task.queue for task in profile.tasks}) == 1


def test_a_graph_of_very_many_tasks_is_one(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.runtime.scheduling.scheduler._MAX_MEASURED", 19)
    x = gpu.zeros(64)
    with gpu.record() as graph:
        for i in range(10):
            x.fill(i)
    graph.run(2)  # the first time, single runs show how long they take
    with gpu.profile() as profile:
        graph.submit(1)
        graph.submit(2)
    assert [task.name for task in profile.tasks] == ["fill"] * 10 + ["graph"]
    assert x.numpy()[0] == 9


def test_nothing_is_measured_outside(clean_handles: None) -> None:
    with vc.Runtime() as gpu:
        with gpu.profile() as profile:
            pass
        gpu.full(10, 1.0).numpy()
        assert profile.tasks == []
        assert {row.name for row in profile.rows()} <= {"wait"}
        assert gpu.scheduler.profile is None


def test_more_tasks_than_a_pool_has_queries(gpu: vc.Runtime) -> None:
    a = gpu.zeros(64)
    with gpu.profile() as profile:
        for i in range(1500):
            a.fill(i)
    assert len(profile.tasks) == 1500
    assert a.numpy()[0] == 1499


def test_a_profile_of_several_queues_has_a_track_for_each() -> None:
    with open_runtime(queues=1, timelines=(2, 1), staging=True) as gpu:
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
    on_device = [float(line[41:52]) for line in lines[1:] if not line[23:].startswith("host")]
    assert sum(on_device) == pytest.approx(sum(task.ns for task in profile.tasks) / 1e6, abs=0.01)
    on_host = {line.split()[0]: int(line[34:41]) for line in lines[1:] if line[23:].startswith("host")}
    assert on_host["launch"] == len(profile.tasks) == 14
    assert {"submit", "wait"} <= on_host.keys()


def test_names_are_whole_and_distinct(gpu: vc.Runtime) -> None:
    x, y = gpu.full(100, 2.0), gpu.full(100, 3.0)
    with gpu.profile() as profile:
        vc.elementwise("x * y + x * y * 1000000000 - 1")(x, y)
        vc.reduce("a + b", 0)(x)
        vc.reduce("a + b", 0, map="x * y")(x, y)
        vc.reduce(lambda a, b: max(a, b), 0)(x)
        (vnp.exp(x - 1) * (x + y)).sum().item()
        vnp.sqrt(vnp.minimum(x, y)).numpy()
    names = {task.name for task in profile.tasks} - {"copy"}  # of devices whose memory the host does not see
    assert names == {
        "x * y + x * y * 1000000000 - 1",
        "reduce: a + b",
        "reduce: a + b, map=x * y",
        "reduce: lambda a, b: max(a, b)",
        "reduce: x0 + x1, map=exp(x0 - x1) * (x0 + x2)",
        "sqrt(minimum(x0, x1))",
    }
    lines = profile.table().splitlines()
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in names)


@pytest.mark.pure
def test_a_long_formula_is_abbreviated() -> None:
    steps = [("hypot", "", (0, 0)), *[("hypot", "", (-1 - n, -1 - n)) for n in range(9)]]
    assert len(Expression(1, steps).name) < 250
    assert Expression(1, steps).name.endswith("… (10 operations)")


def test_a_profile_tells_that_the_work_ran_elsewhere(gpu: vc.Runtime) -> None:
    a = np.ones(10, np.float32)
    with vc.Runtime() as other:
        with gpu.profile() as empty:
            vc.multiply(a, a)
        with other.profile() as full:
            vc.multiply(a, a)
        assert {task.name for task in full.tasks} - {"copy"} == {"multiply float32"}
        assert full.note == ""
        elsewhere = rf"No task ran on this runtime, but \d on {re.escape(repr(other))}; profile that one$"
        assert re.search(elsewhere, empty.table())


def test_a_page_holds_the_timeline_and_the_table(gpu: vc.Runtime, tmp_path: Path) -> None:
    x = gpu.zeros(3)
    with gpu.profile() as profile:
        vc.elementwise("x < 1")(x)
    profile.save(tmp_path / "profile.html")
    page = (tmp_path / "profile.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 1
    data = json.loads(page.partition("const profile = ")[2].partition(";\n")[0])
    assert data["tracks"] == ["host", *queues_of(profile)]
    assert [name for name, *_ in data["spans"][1]] == ["x < 1"]
    assert data["rows"][0][:3] == ["x < 1", queues_of(profile)[0], "1"]
    assert sum(map(len, data["spans"])) == len(profile.tasks) + len(profile.host)


@pytest.mark.pure
def test_a_page_has_no_empty_rows() -> None:
    """Spans are in the first free row of their track; tracks without any have none."""
    spans = [(0, 10), (1, 5), (2, 4), (5, 8), (9, 12), (11, 13), (12, 14)]
    trace = Trace("a device")
    trace.tasks = [TaskTime(f"task {a}", "compute 1", a, b, a, "host", 0) for a, b in spans]
    (placed,) = trace._drawn().values()
    assert [row for row, _ in placed] == [0, 1, 2, 1, 1, 0, 1]
    height = int(re.search(r"height:(\d+)px", trace._repr_html_())[1])  # type: ignore[index]
    assert height == 110 + 3 * 18 + 8 + 21 * (1 + len(trace.rows()))


def trace_of(profile: Profile, folder: Path) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The events of the saved trace, and the names of its tracks."""
    profile.save(folder / "trace.json")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return events, {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}


def queues_of(profile: Profile) -> list[str]:
    return sorted({task.queue for task in profile.tasks})


def test_trace_is_what_viewers_read(gpu: vc.Runtime, tmp_path: Path) -> None:
    profile = profiled(gpu)
    events, tracks = trace_of(profile, tmp_path)
    spans = [event for event in events if event["ph"] == "X"]
    assert list(tracks.values()) == ["host", *queues_of(profile)]
    assert sum(tracks[event["tid"]] != "host" for event in spans) == len(profile.tasks) == 14
    assert min(event["ts"] for event in spans) == 0
    assert all(event["dur"] >= 0 and event["pid"] == 1 and event["name"] for event in spans)
    assert_spans_nest(spans)


def assert_spans_nest(spans: list[dict[str, Any]]) -> None:
    """Of two spans of a track, one lies within the other, or after it: viewers take no others."""
    for tid in {event["tid"] for event in spans}:
        open_: list[float] = []
        track = [(event["ts"], -event["dur"]) for event in spans if event["tid"] == tid]
        for start, length in sorted(track):
            while open_ and open_[-1] <= start + 1e-6:
                open_.pop()
            assert not open_ or start - length <= open_[-1] + 1e-6
            open_.append(start - length)


def test_arrows_lead_from_each_launch_to_its_task(gpu: vc.Runtime, tmp_path: Path) -> None:
    events, tracks = trace_of(profiled(gpu), tmp_path)
    arrows = [{event["id"]: event for event in events if event["ph"] == end} for end in "sf"]
    assert arrows[0].keys() == arrows[1].keys()
    assert len(arrows[0]) == 14
    begun = {(event["tid"], event["ts"]): event["name"] for event in events if event["ph"] == "X"}
    for tail, head in ((arrows[0][i], arrows[1][i]) for i in arrows[0]):
        assert head["bp"] == "e"
        assert tracks[tail["tid"]] == "host"
        assert tracks[head["tid"]].startswith("compute ")
        assert begun[tail["tid"], tail["ts"]] == f"launch {begun[head['tid'], head['ts']]}"


def test_the_hosts_part_is_on_its_track() -> None:
    with open_runtime(staging=True) as gpu:
        x = gpu.empty(1 << 20)
        with gpu.profile() as profile:
            x.write(np.ones(1 << 20, np.float32))
            vc.multiply(x, 2.0, x)
            gpu.wait()
            x.numpy()
        by_name: dict[str, list[HostTime]] = {}
        for call in profile.host:
            by_name.setdefault(call.name, []).append(call)
        assert set(by_name) == {"upload", "launch", "submit", "wait", "download"}
        assert [call.nbytes for call in (*by_name["upload"], *by_name["download"])] == [1 << 22] * 2
        assert [call.what for call in by_name["launch"]] == ["copy", "multiply float32", "copy"]
        assert {call.thread for call in profile.host} == {"host"}
        [download] = by_name["download"]
        assert any(download.start_ns <= call.start_ns < call.stop_ns <= download.stop_ns for call in by_name["wait"])
        assert profile.host == sorted(profile.host, key=lambda call: (call.start_ns, -call.stop_ns))
        observed = {*vars(gpu.transfers), *(name for queue in gpu.device.queues for name in vars(queue))}
        assert not observed & {"upload", "download", "submit", "wait"}, "nothing is left behind that would cost"
        n_calls = len(profile.host)
        x.numpy()
        assert len(profile.host) == n_calls


def test_each_thread_has_its_track(tmp_path: Path) -> None:
    with open_runtime(timelines=2) as gpu:

        def work() -> None:
            x = gpu.full(1 << 12, 1.0)
            for _ in range(30):
                vc.multiply(x, 1.0, x)
            x.numpy()

        threads = [threading.Thread(target=work, name="worker") for _ in range(3)]
        with gpu.profile() as profile:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert {"host, worker", "host, worker (1)", "host, worker (2)"} <= {call.thread for call in profile.host}
        assert {task.thread for task in profile.tasks if task.name.startswith("multiply")} == {
            call.thread for call in profile.host if "worker" in call.thread
        }
        events, _ = trace_of(profile, tmp_path)
        assert_spans_nest([event for event in events if event["ph"] == "X"])


class OtherClock:
    """Makes a runtime's device count differently: from another moment, faster, with fewer bits."""

    def __init__(self, zero: int, rate: float, bits: int) -> None:
        self.zero, self.rate, self.bits, self.started = zero, rate, bits, time.perf_counter_ns()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An interceptor for `vk.interceptors`."""

        def query(*args: Any) -> Any:
            result = function(*args)
            ticks = vk.ffi.cast("uint64_t*", args[5])
            for i in range(args[3]):
                ticks[i] = self.of(ticks[i])
            return result

        def calibrated(*args: Any) -> Any:
            result = function(*args)
            args[3][0] = self.of(args[3][0])
            return result

        wrapped = {"vkGetQueryPoolResults": query, "vkGetCalibratedTimestampsEXT": calibrated}
        return wrapped.get(name, function)

    def of(self, ticks: int) -> int:
        """What this clock shows when the device's own shows `ticks`."""
        return (self.zero + round((ticks - self.started) * self.rate)) % (1 << self.bits)


@pytest.mark.parametrize("calibrated", [True, False], ids=["calibrated", "round trip"])
@pytest.mark.parametrize(
    "other", [(1 << 62, 1.0, 64), (1 << 62, 1.01, 64), ((1 << 36) - 1_000_000, 1.0, 36)], ids=["far", "fast", "wraps"]
)
def test_other_clocks(other: tuple[int, float, int], calibrated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts from 1970, one that is 1 % too fast, and one that starts again from 0 in the middle."""
    if not calibrated:
        monkeypatch.setattr(clock, "EXTENSIONS", ())
    device_clock = OtherClock(*other)
    monkeypatch.setattr(vk, "interceptors", [device_clock.wrap])
    families = PhysicalDevice.queue_families.func  # type: ignore[attr-defined]
    monkeypatch.setattr(
        PhysicalDevice,
        "queue_families",
        property(lambda physical: tuple(replace(family, timestamp_bits=other[2]) for family in families(physical))),
    )
    with vc.Runtime() as gpu:
        x, moments = gpu.full(1 << 18, 1.0), []
        device_clock.started = time.perf_counter_ns()
        with gpu.profile() as profile:
            for _ in range(8):
                moments.append(time.perf_counter_ns())
                vc.multiply(x, 1.0, x)
                gpu.wait()
                time.sleep(0.01)
    moments.append(time.perf_counter_ns())
    slack = 10**6 if calibrated and "VK_EXT_calibrated_timestamps" in gpu.device.physical.extensions else 5 * 10**7
    for task, (before, after) in zip(profile.tasks, pairwise(moments), strict=True):
        assert before - slack < task.start_ns < task.stop_ns < after + slack
        assert task.stop_ns - task.start_ns < after - before


def test_plot_draws_a_bar_per_call_and_task(gpu: vc.Runtime) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    profile = profiled(gpu)
    figure = profile.plot()
    axes = figure.axes[0]
    bars = sum(len(collection.get_paths()) for collection in axes.collections)
    assert bars == len(profile.tasks) + len(profile.host)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["host", *queues_of(profile)]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == sorted({task.name for task in (*profile.tasks, *profile.host)})
    matplotlib.pyplot.close(figure)


@pytest.mark.parametrize("n_kernels", [3, 30])
def test_each_colour_of_a_plot_has_a_name(n_kernels: int) -> None:
    """Also the names that begin with `_`, which matplotlib leaves out by itself; the shortest ones share one colour."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    trace = Trace("a device")
    trace.tasks = [TaskTime(f"_{k}", "compute 0", 99 * k, 100 * k + 9, 0, "host", 0) for k in range(n_kernels)]
    figure = trace.plot()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == (["_0", "_1", "_2"] if n_kernels == 3 else [*(f"_{k}" for k in range(11, 30)), "11 others"])
    colours = [tuple(collection.get_facecolor()[0]) for collection in figure.axes[0].collections]
    assert len(set(colours)) == len(colours) == len(names)
    assert sum(len(collection.get_paths()) for collection in figure.axes[0].collections) == n_kernels
    matplotlib.pyplot.close(figure)


def test_plot_and_trace_of_nothing(gpu: vc.Runtime, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    with gpu.profile() as profile:
        pass
    figure = profile.plot()  # it imports pyplot
    matplotlib.pyplot.close(figure)
    assert trace_of(profile, tmp_path)[1][1] == "host"


def test_profiles_do_not_nest(gpu: vc.Runtime) -> None:
    with gpu.profile(), pytest.raises(ValueError, match="profiled already"), gpu.profile():
        pass
    with gpu.profile() as profile:
        gpu.zeros(4)
    assert np.all([task.name == "fill" for task in profile.tasks])


def test_an_error_inside_leaves_the_runtime_unprofiled(gpu: vc.Runtime) -> None:
    with pytest.raises(RuntimeError, match="stop"), gpu.profile():
        raise RuntimeError("stop")
    assert gpu.scheduler.profile is None


def test_what_could_not_be_submitted_is_left_out(monkeypatch: pytest.MonkeyPatch, clean_handles: None) -> None:
    """Its timestamps will never be written: the profile does not wait for them."""
    full = [False]

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return (lambda *args: -2 if full[0] else function(*args)) if name == "vkQueueSubmit" else function

    monkeypatch.setattr(vk, "interceptors", [wrap])
    with open_runtime(queues=1) as gpu:
        x, y = gpu.full(1 << 12, 1.0), gpu.full(1 << 12, 1.0)
        with gpu.profile() as profile:
            x.fill(2)
            gpu.wait()
            vc.multiply(x, 2.0, x)
            full[0] = True  # VK_ERROR_OUT_OF_DEVICE_MEMORY
            with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
                gpu.wait()
            full[0] = False
            y.fill(3)
        assert [task.name for task in profile.tasks] == ["fill", "fill"]
        assert y.numpy()[0] == 3
        assert gpu.scheduler.profile is None


def test_a_device_that_is_lost_in_a_profile(monkeypatch: pytest.MonkeyPatch, clean_handles: None) -> None:
    lost = [False]

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return (lambda *args: -4 if lost[0] else function(*args)) if name == "vkQueueSubmit" else function

    monkeypatch.setattr(vk, "interceptors", [wrap])
    with open_runtime() as gpu:
        x = gpu.full(1 << 12, 1.0)
        profile = gpu.profile()
        profile.__enter__()
        gpu.wait()
        lost[0] = True
        x.fill(1)
        with pytest.raises(vc.DeviceLost):
            profile.__exit__()
        assert gpu.scheduler.profile is None
        assert "submit" not in vars(gpu.device.queues[0])
        assert profile.tasks == []
