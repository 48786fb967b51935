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
    with vc.Runtime() as runtime:
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
