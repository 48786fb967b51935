"""Every call that makes something fails in turn: a clean error, nothing leaked, and the runtime works afterwards."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import DEVICE_LOST, OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY, Faults, watched
from runtimes import open_runtime

import vkcompute as vc
from shaders import MULTIPLY
from vkcompute.core import vk
from vkcompute.core.lifetime import live_counts
from vkcompute.core.queue import Queue
from vkcompute.core.timestamp_pool import TimestampPool

pytestmark = pytest.mark.usefixtures("clean_handles")

MAKES = ("vkCreate", "vkAllocate")
OTHERS = ("vkMapMemory", "vkBindBufferMemory", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit")

TEXELS = """
layout(local_size_x = 64) in;
layout(binding = 0) uniform samplerBuffer a;
layout(binding = 1) writeonly buffer B { float b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = texelFetch(a, int(i) / 4)[i % 4] * 2; }
"""


def work(runtime: vc.Runtime) -> None:
    """Some of everything: memory of every kind, kernels, descriptor sets, views, graphs, staging, timestamps."""
    runtime.device.memory.block_bytes = 1 << 20  # SwiftShader writes all of a new block
    host = np.arange(1000, dtype=np.float32)
    a, b, c = runtime.array(host), runtime.empty(1000), runtime.empty(1000)
    runtime.kernel(vc.glsl(TEXELS))(a, b)
    kernel = runtime.kernel(vc.glsl(TEXELS.replace("* 2", "* 4")))
    kernel(b, c)
    with runtime.record() as graph:
        for _ in range(3):
            kernel(a, b)
            kernel(b, c)
    sent, fetched = host + 1, np.zeros(1000, np.float32)
    with runtime.record(x=a) as outer:
        part = outer.empty(1000)
        part.write(sent)
        kernel(part, c)
        graph.run()
        kernel(outer["x"], part)
        part.read(fetched)
    outer.run(x=b)
    outer.submit().result()
    assert np.array_equal(fetched, host * 4)
    graph.run(2)
    assert np.array_equal(c.numpy(), host * 16)
    big = runtime.full(3 << 20, 7, np.uint8)
    assert big[-1].item() == 7
    pool = TimestampPool(runtime.device.queues[0], 4)
    pool.close()
    graph.close()
    outer.close()


def calls_of(action: Callable[[], object], faults: Faults) -> dict[str, int]:
    """How many times the action makes each of the calls that can fail."""
    before = faults.calls.copy()
    action()
    counted = faults.calls - before
    return {name: n for name, n in counted.items() if name.startswith(MAKES) or name in OTHERS}


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_opening_fails_at_every_call(staging: bool) -> None:
    with watched() as faults:
        calls = calls_of(lambda: open_runtime(staging=staging).close(), faults)
        assert {"vkCreateSemaphore", "vkCreateCommandPool", "vkCreatePipelineCache"} <= set(calls)
        for name, n in calls.items():
            for k in range(n):
                faults.arm(name, k, OUT_OF_HOST_MEMORY, times=2)  # most are tried twice
                with pytest.raises(vc.VulkanError, match=f"{name}.*VK_ERROR_OUT_OF_HOST_MEMORY"):
                    open_runtime(staging=staging)
                faults.armed = None


@pytest.mark.rotates
@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_working_fails_at_every_call(staging: bool, times: int) -> None:
    with watched() as faults:
        with open_runtime(staging=staging, queues=1) as runtime:
            calls = calls_of(lambda: work(runtime), faults)
        assert {"vkAllocateMemory", "vkCreateShaderModule", "vkAllocateDescriptorSets", "vkQueueSubmit"} <= set(calls)
        for name, n in calls.items():
            for k in {n - 1} if times == 1 else {0, n - 1}:
                with open_runtime(staging=staging, queues=1) as runtime:
                    faults.arm(name, k, OUT_OF_DEVICE_MEMORY, times)
                    fails(runtime, faults, name, times)


def fails(runtime: vc.Runtime, faults: Faults, name: str, times: int) -> None:
    """The work gets over one failure, fails cleanly after two in a row, leaves nothing, and then succeeds."""
    before, memory = live_counts(), runtime.device.memory
    if not memory.kinds["device"].host_visible and name == "vkMapMemory":
        work(runtime)  # only staging memory is mapped, which is tried for a third time
    elif times == 1 and name != "vkEndCommandBuffer":  # of which there is no second try: the recording is spoilt
        work(runtime)
    else:
        with pytest.raises(vc.VulkanError, match=name) as error:
            work(runtime)
        assert error.value.result == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
        assert error.value.call == name
        del error
    assert faults.armed is None or name == "vkEndCommandBuffer"
    faults.armed = None
    work(runtime)
    gc.collect()
    runtime.wait()
    runtime.device.collect()
    after = live_counts()
    lasting = {
        "PipelineLayout",
        "ComputePipeline",
        "DescriptorSets",
        "BufferView",
        "MemoryBlock",
        "Buffer",
    }  # of kernels, staging slots
    assert {kind: n for kind, n in after.items() if kind not in lasting} == {
        kind: n for kind, n in before.items() if kind not in lasting
    }


def test_a_device_that_is_lost() -> None:
    with watched() as faults, open_runtime(timelines=2) as runtime:
        a = runtime.full(1000, 1.0)
        a.numpy()
        kernel, out = runtime.kernel(vc.glsl(TEXELS)), runtime.empty(1000)
        with runtime.record() as graph:
            kernel(a, out)
        other = kernel(a, runtime.empty(1000), queue=1)
        called: list[Exception | None] = []
        faults.arm("vkQueueSubmit", 0, DEVICE_LOST)
        future = kernel(a, out, queue=0)
        with pytest.raises(vc.DeviceLost, match="close this runtime"):
            out.numpy()
        future.add_done_callback(lambda done: called.append(done.exception()))
        for use in (
            lambda: kernel(a, out), future.result, other.result, runtime.wait, runtime.flush, graph.run,
            lambda: a.fill(2), out.numpy, lambda: runtime.array([1.0]).numpy(),
        ):  # fmt: skip
            with pytest.raises(vc.DeviceLost):
                use()
        assert future.done()
        assert other.done()
        assert isinstance(future.exception(), vc.DeviceLost)
        assert isinstance(called[0], vc.DeviceLost)
        with vc.Runtime() as another:
            work(another)


@pytest.mark.parametrize("k", range(0, 12, 2))
def test_a_device_that_is_lost_at_any_submit(k: int) -> None:
    with watched() as faults, open_runtime(staging=True, timelines=(2, 1)) as runtime:
        kernel = runtime.kernel(vc.glsl(TEXELS))
        faults.arm("vkQueueSubmit", k, DEVICE_LOST)
        futures = []

        def work_on() -> None:
            for _ in range(50):
                a, out = runtime.full(1000, 1.0), runtime.empty(1000)
                futures.append(kernel(a, out))
                runtime.flush()
                futures.append(out.copy_from(a))
                out.numpy()

        with pytest.raises(vc.DeviceLost):
            work_on()
        failed = [isinstance(future.exception(), vc.DeviceLost) for future in futures]
        assert failed == sorted(failed), "what was seen to be finished stays so, the rest has failed"
        assert all(future.done() for future in futures)
        with pytest.raises(vc.DeviceLost):
            runtime.zeros(10)
    with vc.Runtime() as another:
        work(another)


@pytest.mark.parametrize("call", ["vkCreateInstance", "vkCreateDevice", "vkEnumeratePhysicalDevices"])
def test_opening_fails_at_the_loaders_calls(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loader:
        def __getattr__(self, name: str) -> object:
            return (lambda *_: OUT_OF_HOST_MEMORY) if name == call else getattr(lib, name)

    lib = vk.lib
    with watched():
        monkeypatch.setattr(vk, "lib", Loader())
        with pytest.raises(vc.VulkanError, match=f"{call}.*VK_ERROR_OUT_OF_HOST_MEMORY"):
            vc.Runtime()
        monkeypatch.undo()
        vc.Runtime().close()


@pytest.mark.parametrize("call", ["vkGetSemaphoreCounterValue", "vkWaitSemaphores"])
def test_a_device_that_is_lost_while_somebody_waits(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    if call == "vkWaitSemaphores":
        monkeypatch.setattr(Queue, "_spin", lambda *_: False)  # or there may be nothing left to wait for
    with watched() as faults, vc.Runtime() as runtime:
        kernel, a, out = runtime.kernel(vc.glsl(TEXELS)), runtime.full(1000, 1.0), runtime.zeros(1000)
        future = kernel(a, out)
        faults.arm(call, 0, DEVICE_LOST)
        with pytest.raises(vc.DeviceLost):
            future.result()
        for use in (future.result, runtime.wait, lambda: kernel(a, out)):
            with pytest.raises(vc.DeviceLost):
                use()


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkEndCommandBuffer"])
def test_work_that_cannot_be_submitted_is_not_lost_in_silence(call: str) -> None:
    with watched() as faults, open_runtime() as runtime:
        kernel, a, out = runtime.kernel(vc.glsl(TEXELS)), runtime.full(1000, 1.0), runtime.zeros(1000)
        runtime.wait()
        kernel(a, out)
        faults.arm(call, 0, OUT_OF_DEVICE_MEMORY, times=2 if call == "vkQueueSubmit" else 1)
        with pytest.raises(vc.VulkanError, match=call):
            runtime.wait()
        runtime.wait()  # told once
        uses: list[Callable[[], object]] = [out.numpy, lambda: kernel(out, a)]
        if runtime.device.memory.unified:
            uses.insert(1, lambda: np.from_dlpack(out))
        for use in uses:
            with pytest.raises(vc.VulkanError, match=call):
                use()
        with pytest.raises(vc.VulkanError, match=call):
            a.numpy()  # which the last of them was to write
        a.fill(3)
        kernel(a, out)
        assert out.numpy().tolist() == [6] * 1000


@pytest.mark.parametrize("name", ["vkCreateShaderModule", "vkCreateComputePipelines", "vkCreateDescriptorPool"])
def test_what_is_made_and_then_objected_to_is_destroyed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    objecting: list[bool] = []

    def wrap(called: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            function(*args)
            if objecting:
                raise vc.ValidationError("the layer objects", "VUID-of-a-test", "here")
            return 0

        return call if called == name else function

    with watched():
        vk.interceptors.append(wrap)
        with vc.Runtime() as runtime:
            objecting.append(True)
            with pytest.raises(vc.ValidationError, match="objects"):
                runtime.kernel(MULTIPLY)(*[runtime.zeros(4)] * 3)
            objecting.clear()
            runtime.kernel(MULTIPLY)(*[runtime.zeros(4)] * 3).result()
