"""Each Vulkan call of a large program fails once: the error is raised, nothing leaks, and the next run succeeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from faults import OUT_OF_DEVICE_MEMORY, watched

import vkcompute as vc
from vkcompute.compat import kp

pytestmark = pytest.mark.usefixtures("clean_handles")

Compile = Callable[..., bytes]
CALLS = """
    vkCreateImage vkCreateImageView vkBindImageMemory vkCreateQueryPool vkQueueSubmit vkBeginCommandBuffer
    vkEndCommandBuffer vkAllocateCommandBuffers vkAllocateDescriptorSets vkCreateCommandPool vkCreateComputePipelines
    vkGetQueryPoolResults
""".split()


def _program(manager: kp.Manager, spirv: Compile) -> list[float]:
    """Uses two tensors and an image, with and without timestamps, evaluated eagerly and as a graph."""
    declared = "layout(binding = 0, r32f) uniform image2D m; layout(binding = 1) buffer C { float c[]; };"
    image, tensor = manager.image(np.arange(4), 4, 1, 1), manager.tensor([4] * 4)
    shader = spirv("c[i] += imageLoad(m, ivec2(i, 0)).x;", 0, declared)
    add = kp.OpAlgoDispatch(manager.algorithm([image, tensor], shader, (4,)))
    double = kp.OpAlgoDispatch(manager.algorithm([tensor], spirv("v0[i] *= 2;", 1)))
    upload = manager.sequence().record(kp.OpSyncDevice([image, tensor])).eval()
    timed = manager.sequence(total_timestamps=3).record(add).record(double).record(kp.OpSyncLocal([tensor]))
    timed.eval()
    upload.eval()
    timed.eval_async().eval_await()
    assert len(timed.get_timestamps()) == 4
    plain = manager.sequence().record(kp.OpSyncLocal([tensor])).eval()
    result: list[float] = plain.eval() and tensor.data().tolist()
    return result


@pytest.mark.parametrize("call", CALLS)
def test_every_call_fails_once(spirv: Compile, call: str) -> None:
    with watched() as faults:
        manager = kp.Manager()
        before = faults.calls[call]
        expected = _program(manager, spirv)
        n_calls = faults.calls[call] - before
        assert expected == [16, 22, 28, 34]  # 2 (2 (4 + k) + k)
        manager.destroy()
        for after in sorted({0, n_calls // 2, n_calls - 1} - {-1}):
            manager = kp.Manager()
            faults.arm(call, after, OUT_OF_DEVICE_MEMORY, times=2)  # the second time, too
            try:
                _program(manager, spirv)
            except vc.VkComputeError as error:
                told = str(error)
            else:
                told = f"{call} was not made so often" if faults.armed else ""
            faults.armed = None
            assert call in told, (after, told)
            assert _program(manager, spirv) == expected
            manager.destroy()
