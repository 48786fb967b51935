"""Every call that makes something fails in turn: a clean error, nothing leaked, and the runtime works afterwards."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.query import TimestampPool

pytestmark = pytest.mark.usefixtures("clean_handles")

OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST = -1, -2, -4
MAKES = ("vkCreate", "vkAllocate")
OTHERS = ("vkMapMemory", "vkBindBufferMemory", "vkBeginCommandBuffer")

TEXELS = """
layout(local_size_x = 64) in;
layout(binding = 0) uniform samplerBuffer a;
layout(binding = 1) writeonly buffer B { float b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = texelFetch(a, int(i) / 4)[i % 4] * 2; }
"""


class Faults:
    """Counts the calls, fails one of them, and knows which driver objects are alive."""

    def __init__(self) -> None:
        self.armed: tuple[str, int, int] | None = None  # function, which of its calls from now on, result
        self.calls: Counter[str] = Counter()
        self.alive: Counter[str] = Counter()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An interceptor for `vk.interceptors`."""

        def call(*args: Any) -> Any:
            self.calls[name] += 1
            if self.armed is not None and self.armed[0] == name:
                if self.armed[1] == 0:
                    result, self.armed = self.armed[2], None
                    return result
                self.armed = (name, self.armed[1] - 1, self.armed[2])
            result = function(*args)
            self._note(name, result)
            return result

        return call

    def _note(self, name: str, result: int | None) -> None:
        kind = name.removeprefix("vkCreate").removeprefix("vkDestroy").replace("ComputePipelines", "Pipeline")
        if name.startswith("vkCreate") and result == 0:
            self.alive[kind] += 1
        elif name.startswith("vkDestroy") and kind != "Device":
            self.alive[kind] -= 1
        elif name in ("vkAllocateMemory", "vkFreeMemory"):
            self.alive["DeviceMemory"] += (
                1 if name == "vkAllocateMemory" and result == 0 else -1 if result is None else 0
            )


@contextmanager
def watched() -> Iterator[Faults]:
    """Watches the runtimes that are opened in the block; at its end nothing of theirs is left."""
    faults = Faults()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vk, "interceptors", [faults.wrap])
        yield faults
    gc.collect()
    assert +faults.alive == Counter(), "driver objects that nobody destroyed"
    assert -faults.alive == Counter(), "driver objects destroyed twice"


def work(runtime: vc.Runtime) -> None:
    """Some of everything: memory of every kind, kernels, descriptor sets, views, graphs, staging, timestamps."""
    host = np.arange(1000, dtype=np.float32)
    a, b, c = runtime.tensor(host), runtime.empty(1000), runtime.empty(1000)
    runtime.kernel(vc.glsl(TEXELS))(a, b)
    kernel = runtime.kernel(vc.glsl(TEXELS.replace("* 2", "* 4")))
    kernel(b, c)
    with runtime.record() as graph:
        for _ in range(3):
            kernel(a, b)
            kernel(b, c)
    graph.run(2)
    assert np.array_equal(c.numpy(), host * 16)
    big = runtime.full(20 << 20, 7, np.uint8)
    assert big[-1].item() == 7
    pool = TimestampPool(runtime.device.queues[0], 4)
    pool.close()
    graph.close()


def calls_of(action: Callable[[], object], faults: Faults) -> dict[str, int]:
    """How many times the action makes each of the calls that can fail."""
    before = faults.calls.copy()
    action()
    counted = faults.calls - before
    return {name: n for name, n in counted.items() if name.startswith(MAKES) or name in OTHERS}


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_opening_fails_at_every_call(staging: bool) -> None:
    with watched() as faults:
        calls = calls_of(lambda: vc.Runtime(staging=staging).close(), faults)
        assert {"vkCreateSemaphore", "vkCreateCommandPool", "vkCreatePipelineCache"} <= set(calls)
        for name, n in calls.items():
            for k in range(n):
                faults.armed = name, k, OUT_OF_HOST_MEMORY
                if name == "vkCreatePipelineCache":  # a second try, without what the disk gave
                    vc.Runtime(staging=staging).close()
                    continue
                with pytest.raises(vc.VulkanError, match=f"{name}.*VK_ERROR_OUT_OF_HOST_MEMORY"):
                    vc.Runtime(staging=staging)


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_working_fails_at_every_call(staging: bool) -> None:
    with watched() as faults:
        with vc.Runtime(staging=staging) as runtime:
            calls = calls_of(lambda: work(runtime), faults)
        assert {"vkAllocateMemory", "vkCreateShaderModule", "vkAllocateDescriptorSets", "vkMapMemory"} <= set(calls)
        for name, n in calls.items():
            for k in {0, n - 1}:
                with vc.Runtime(staging=staging) as runtime:
                    fails(runtime, faults, (name, k, OUT_OF_DEVICE_MEMORY))


def fails(runtime: vc.Runtime, faults: Faults, fault: tuple[str, int, int]) -> None:
    """The work fails with the fault, and then succeeds."""
    faults.armed = fault
    if fault[0] in ("vkAllocateMemory", "vkCreateBuffer", "vkMapMemory", "vkBindBufferMemory"):
        work(runtime)  # what does not fit is tried again, with what is dead collected
    else:
        with pytest.raises(vc.VulkanError, match=fault[0]) as error:
            work(runtime)
        assert error.value.result == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
        assert error.value.call == fault[0]
        assert faults.armed is None
        del error
    gc.collect()
    work(runtime)


def test_a_device_that_is_lost() -> None:
    with watched() as faults, vc.Runtime() as runtime:
        a = runtime.full(1000, 1.0)
        a.numpy()
        kernel, out = runtime.kernel(vc.glsl(TEXELS)), runtime.empty(1000)
        faults.armed = "vkQueueSubmit", 0, DEVICE_LOST
        future = kernel(a, out)
        with pytest.raises(vc.DeviceLost, match="close this runtime"):
            out.numpy()
        for use in (lambda: kernel(a, out), future.result, future.done, runtime.wait, lambda: a.fill(2)):
            with pytest.raises(vc.DeviceLost):
                use()


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkEndCommandBuffer"])
def test_work_that_cannot_be_submitted_is_not_lost_in_silence(call: str) -> None:
    with watched() as faults, vc.Runtime() as runtime:
        kernel, a, out = runtime.kernel(vc.glsl(TEXELS)), runtime.full(1000, 1.0), runtime.zeros(1000)
        runtime.wait()
        kernel(a, out)
        faults.armed = call, 0, OUT_OF_DEVICE_MEMORY
        with pytest.raises(vc.VulkanError, match=call):
            runtime.wait()
        for use in (out.numpy, runtime.wait, lambda: kernel(a, out)):
            with pytest.raises(vc.VulkanError, match=call):
                use()
        assert a.numpy().tolist() == [1] * 1000, "what is finished can be read"
