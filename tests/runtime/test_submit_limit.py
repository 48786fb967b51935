"""Many runs of a graph are cut into submits that take no longer than the limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import OUT_OF_DEVICE_MEMORY, watched

import vkcompute as vc
from vkcompute.core import vk

pytestmark = pytest.mark.usefixtures("clean_handles")

BUMP = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] += 1; }
"""


@pytest.mark.parametrize(
    ("limit_s", "fewest", "most"), [(1e-9, 200, 200), (1e-3, 3, 200), (3600.0, 3, 3), (None, 1, 1)]
)
@pytest.mark.parametrize("timelines", [1, 3])
def test_every_run_is_made_in_as_many_submits_as_the_limit_asks(
    limit_s: float | None, fewest: int, most: int, timelines: int
) -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=limit_s, timelines=timelines) as runtime:
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
            return function(*args)

        return call

    monkeypatch.setattr(vk, "interceptors", [wrap])
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
        assert waits.wait(20)
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
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9, timelines=timelines) as runtime:
        kernel = runtime.kernel(vc.glsl(source))
        a = runtime.zeros(once.shape, np.uint32)
        for _ in range(3):
            kernel(a, grid=(-(-nx // 4), -(-ny // 2), -(-nz // 2)))
        assert np.array_equal(a.numpy(), 3 * once)
        longest = max(-(-nx // 4), -(-ny // 2), -(-nz // 2))
        assert faults.calls["vkCmdDispatchBase"] == 3 * longest == faults.calls["vkQueueSubmit"] - 1, "and the fill"
        assert faults.calls["vkCmdDispatch"] == 0


def test_a_kernel_that_counts_workgroups_is_not_divided() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=1e-9) as runtime:
        a = runtime.zeros(100, np.uint32)
        for n in (100, 7):
            runtime.kernel(vc.glsl(COUNTS))(a, grid=n)
        assert a.numpy().tolist() == [7] * 7 + [100] * 93
        assert faults.calls["vkCmdDispatchBase"] == 0
        assert faults.calls["vkQueueSubmit"] >= 2


def test_short_launches_come_to_share_submits() -> None:
    with watched() as faults, vc.Runtime(submit_limit_s=60.0) as runtime:
        a, kernel = runtime.zeros(1000, np.int32), runtime.kernel(vc.glsl(BUMP))
        for _ in range(10):
            kernel(a).result()
        before = faults.calls["vkQueueSubmit"]
        for _ in range(640):
            kernel(a)
        runtime.wait()
        assert faults.calls["vkQueueSubmit"] - before <= 12
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
