"""Launches and runs of graphs are cut into submits that take no longer than the limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import OUT_OF_DEVICE_MEMORY, watched
from hang_limit import hang_limit_s
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.queue import Queue

pytestmark = [pytest.mark.queues, pytest.mark.usefixtures("clean_handles")]

BUMP = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] += 1; }
"""


@pytest.mark.parametrize(
    ("limit_s", "fewest", "most"), [(1e-9, 3200, 3200), (1e-3, 17, 3200), (3600.0, 17, 17), (None, 1, 1)]
)
@pytest.mark.parametrize("timelines", [1, 3])
def test_every_run_is_made_in_as_many_submits_as_the_limit_asks(
    limit_s: float | None, fewest: int, most: int, timelines: int
) -> None:
    with watched() as faults, open_runtime(submit_limit_s=limit_s, timelines=timelines) as runtime:
        a, kernel = runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            kernel(a)
        runtime.wait()
        before = faults.calls["vkQueueSubmit"]
        graph.submit(200).result()
        assert fewest <= faults.calls["vkQueueSubmit"] - before <= most
        kernel(a)
        graph.run(3)
        assert set(a.numpy().tolist()) == {204}


def test_a_part_that_fails_is_the_end_of_it() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, kernel = runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            kernel(a)
        faults.arm("vkQueueSubmit", 20, OUT_OF_DEVICE_MEMORY, times=2)
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            graph.submit(100).result()
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            a.numpy()
        a.fill(0)
        graph.run(10)
        assert set(a.numpy().tolist()) == {10}


@pytest.mark.parametrize("arrays", [False, True])
def test_other_threads_launch_while_a_run_is_measured(monkeypatch: pytest.MonkeyPatch, arrays: bool) -> None:
    waits, launched, on_time = threading.Event(), threading.Event(), []

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if name == "vkWaitSemaphores" and not waits.is_set():
                waits.set()
                on_time.append(launched.wait(20))
            result = function(*args)
            if name == "vkGetSemaphoreCounterValue" and not waits.is_set():
                args[2][0] = 0  # or it may be finished before anyone waits
            return result

        return call

    monkeypatch.setattr(vk, "interceptors", [wrap])
    monkeypatch.setattr(Queue, "_spin", lambda *_: False)  # or there may be nothing left to wait for
    with vc.Runtime(submit_limit_s=0.5) as runtime:
        a, b, fetched = runtime.zeros(1000, np.int32), runtime.zeros(1000, np.int32), np.zeros(1000, np.int32)
        kernel = runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            for _ in range(20):
                kernel(a)
            if arrays:
                a.read(fetched)
        thread = threading.Thread(target=graph.run, args=(5,))
        thread.start()
        assert waits.wait(hang_limit_s(20))
        kernel(b)
        launched.set()
        thread.join()
        assert on_time == [True]
        assert set(a.numpy()) == {100}
        assert set(fetched) == {100 * arrays}
        assert set(b.numpy()) == {1}


@pytest.mark.parametrize("limit_s", [0, -1.0])
def test_a_limit_is_positive(limit_s: float) -> None:
    with pytest.raises(ValueError, match="submit_limit_s is a positive"):
        vc.Runtime(submit_limit_s=limit_s)


PLACES = """
layout(local_size_x = 4, local_size_y = 2, local_size_z = 2) in;
layout(binding = 0) buffer A { uvec4 a[]; };
void main() {
    uvec3 n = uvec3(28, 6, 10), i = gl_GlobalInvocationID;
    if (all(lessThan(i, n))) a[(i.z * n.y + i.y) * n.x + i.x] += uvec4(gl_WorkGroupID, gl_LocalInvocationIndex + 1);
}
"""
COUNTS = """
layout(local_size_x = 1) in;
layout(binding = 0) buffer A { uint a[]; };
void main() { a[gl_WorkGroupID.x] = gl_NumWorkGroups.x; }
"""


@pytest.mark.parametrize("timelines", [1, 3])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_divided_launch_is_all_of_it_once(axes: tuple[int, int, int], timelines: int) -> None:
    sizes = [28, 6, 10]
    source = PLACES.replace("28, 6, 10", ", ".join(str(sizes[axis]) for axis in axes))
    nx, ny, nz = (sizes[axis] for axis in axes)
    z, y, x = np.mgrid[:nz, :ny, :nx]
    once = np.stack([x // 4, y // 2, z // 2, (z % 2 * 2 + y % 2) * 4 + x % 4 + 1], -1)
    with watched() as faults, open_runtime(submit_limit_s=1e-9, timelines=timelines) as runtime:
        kernel = runtime.kernel(vc.glsl(source))
        a = runtime.zeros(once.shape, np.uint32)
        for _ in range(3):
            kernel(a, grid=(-(-nx // 4), -(-ny // 2), -(-nz // 2)))
        runtime.wait()
        submits = faults.calls["vkQueueSubmit"]
        assert np.array_equal(a.numpy(), 3 * once)
        longest = max(-(-nx // 4), -(-ny // 2), -(-nz // 2))
        assert faults.calls["vkCmdDispatchBase"] == 3 * longest == submits - 1, "and the fill"
        assert faults.calls["vkCmdDispatch"] == 0


def test_a_kernel_that_counts_workgroups_is_not_divided() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        a = runtime.zeros(100, np.uint32)
        for n in (100, 7):
            runtime.kernel(vc.glsl(COUNTS))(a, grid=n)
        assert a.numpy().tolist() == [7] * 7 + [100] * 93
        assert faults.calls["vkCmdDispatchBase"] == 0
        assert faults.calls["vkQueueSubmit"] >= 2


@vc.kernel
def left(x: Any) -> None:
    """Its loop ends with a value of its own, which takes a guard that must not count workgroups."""
    i = vc.global_id(0)
    if i < x.size:
        x[i] %= 2.5


def test_a_module_is_compiled_alike_with_and_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that takes the one pipeline from its cache for the other would lose the first workgroup of a part."""
    flags = []

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if name == "vkCreateComputePipelines":
                flags.append(args[3].flags)
            return function(*args)

        return call

    monkeypatch.setattr(vk, "interceptors", [wrap])
    for limit_s in (None, 0.5):
        with vc.Runtime(submit_limit_s=limit_s) as runtime:
            for text, dtype in ((BUMP, np.int32), (COUNTS, np.uint32)):
                runtime.kernel(vc.glsl(text))(runtime.zeros(1000, dtype), grid=1).result()
    divisible, counting = 0x10, 0  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT
    assert flags == [divisible, counting] * 2


def test_a_kernel_with_remainders_of_floats_is_divided() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        x = runtime.full(640, 8.0)
        for _ in range(3):
            left(x)
        assert set(x.numpy().tolist()) == {0.5}
        assert faults.calls["vkCmdDispatchBase"] > 0


def test_a_launch_of_no_workgroups_does_nothing() -> None:
    with vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, kernel = runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        for _ in range(3):
            kernel(a, grid=(16, 0, 1)).result()
        kernel(a).result()
        assert set(a.numpy().tolist()) == {1}


def test_short_launches_come_to_share_submits() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e9) as runtime:  # however slow, a small part of it
        a, kernel = runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        for _ in range(10):
            kernel(a).result()
        before = faults.calls["vkQueueSubmit"]
        for _ in range(640):
            kernel(a)
        runtime.wait()
        assert faults.calls["vkQueueSubmit"] - before <= 64  # 11 where none of many queues finishes in between
        assert set(a.numpy().tolist()) == {650}


@pytest.mark.parametrize("part", [0, 1, 9, 15])
def test_where_a_part_fails_the_launch_has_failed(part: int) -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, b, kernel = runtime.zeros(1024, np.int32), runtime.zeros(64, np.int32), runtime.kernel(vc.glsl(BUMP))
        runtime.wait()
        faults.arm("vkQueueSubmit", part, OUT_OF_DEVICE_MEMORY, times=2)
        other = kernel(b) if part else None
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            kernel(a).result()
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            a.numpy()
        if other is not None:
            other.result()
        a.fill(5)
        kernel(a).result()
        assert set(a.numpy().tolist()) == {6}


def test_a_divided_launch_is_measured_by_its_parts() -> None:
    with vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, kernel = runtime.zeros(1024, np.int32), runtime.kernel(vc.glsl(BUMP), name="bump")
        with runtime.profile() as profile:
            kernel(a)
        assert [task.name for task in profile.tasks] == ["bump"] * 16
        assert set(a.numpy().tolist()) == {1}


@pytest.mark.parametrize("timelines", [1, 3])
@pytest.mark.parametrize("part", [0, 5, 15, 16, 31])
def test_where_a_part_of_a_run_fails_all_that_it_writes_has_failed(part: int, timelines: int) -> None:
    with watched() as faults, open_runtime(submit_limit_s=1e-9, timelines=timelines) as runtime:
        a, b, c = (runtime.zeros(1024, np.int32) for _ in range(3))
        kernel = runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            kernel(a)
            kernel(b)
        runtime.wait()
        faults.arm("vkQueueSubmit", part, OUT_OF_DEVICE_MEMORY, times=2)
        future = graph.submit()
        assert future.failed
        assert isinstance(future.exception(), vc.VulkanError)
        for array in (a, b):
            with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
                array.numpy()
        runtime.wait()  # which has nothing to tell but what has been told
        kernel(c).result()
        a.fill(5)
        b.fill(6)
        graph.run(3)
        assert [set(array.numpy().tolist()) for array in (a, b, c)] == [{8}, {9}, {1}]


def test_a_part_that_failed_is_told_of_where_nobody_has_asked() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, kernel = runtime.zeros(1024, np.int32), runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            kernel(a)
        runtime.wait()
        faults.arm("vkQueueSubmit", 3, OUT_OF_DEVICE_MEMORY, times=2)
        graph.submit()
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            runtime.wait()
        runtime.wait()


def test_a_long_launch_of_a_graph_is_divided() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        kernel, a = runtime.kernel(vc.glsl(PLACES)), runtime.zeros((10, 6, 28, 4), np.uint32)
        with runtime.record(t=a) as graph:
            kernel(graph["t"], grid=(7, 3, 5))
        assert faults.calls["vkCmdDispatchBase"] == 0
        graph.run(3)
        assert faults.calls["vkCmdDispatchBase"] == 3 * 7
        once = runtime.zeros(a.shape, np.uint32)
        kernel(once, grid=(7, 3, 5))
        assert np.array_equal(a.numpy(), 3 * once.numpy())
        assert np.array_equal(once.numpy()[5, 3, 14], [3, 1, 2, (5 % 2 * 2 + 3 % 2) * 4 + 14 % 4 + 1])


def test_a_run_that_is_known_to_be_short_is_one_submit() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=3600.0) as runtime:
        a, b, kernel = runtime.zeros(1000, np.int32), runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        with runtime.record() as graph:
            for _ in range(100):
                kernel(a)
            b.copy_from(a)
        for times in (1, 1, 300):
            before = faults.calls["vkQueueSubmit"]
            graph.run(times)
        assert faults.calls["vkQueueSubmit"] - before <= 2, "of 30,000 launches"
        assert set(b.numpy().tolist()) == {30_200}


def test_arrays_reports_and_an_end_work_with_runs_in_parts() -> None:
    @vc.kernel(check_bounds=True)
    def shifted(x: vc.int32[:], out: vc.int32[:], by: vc.int32) -> None:
        i = vc.global_id(0)
        if i < out.shape[0]:
            out[i] = x[i + by]

    with watched(), vc.Runtime(submit_limit_s=1e-9) as runtime:
        x, out, flag = (runtime.zeros(n, np.int32) for n in (300, 300, 1))
        sent, fetched = np.arange(300, dtype=np.int32), np.zeros(300, np.int32)
        bump = runtime.kernel(vc.glsl(BUMP))
        with runtime.record(by=0) as graph:
            x.write(sent)
            shifted(x, out, graph["by"])
            bump(out)
            bump(flag)
            out.read(fetched)
            graph.empty(1, np.int32).fill(7)
        graph.run(2)
        assert np.array_equal(fetched, sent + 1)
        sent += 5
        graph.run(until=flag, times=20, every=2)
        assert np.array_equal(fetched, sent + 1)
        failed = graph.submit(by=1)
        assert isinstance(failed.exception(), vc.KernelError)
        for array in (out, flag):
            with pytest.raises(vc.KernelError):
                array.numpy()
        flag.fill(0)
        graph.run()
        assert np.array_equal(out.numpy(), sent + 1)


def test_a_run_in_parts_is_measured_by_them() -> None:
    with vc.Runtime(submit_limit_s=1e-9) as runtime:
        a, kernel = runtime.zeros(1024, np.int32), runtime.kernel(vc.glsl(BUMP), name="bump")
        with runtime.record() as graph:
            kernel(a)
            a[:512].fill(3)
        with runtime.profile() as profile:
            graph.run(2)
        assert [task.name for task in profile.tasks] == [*["bump"] * 16, "fill"] * 2
