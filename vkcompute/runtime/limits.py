"""How many bindings a kernel may have on a device. Drivers do not look, and some crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vkcompute.core.device import Device
from vkcompute.spirv.interface import Binding

# Per kind of binding: the limit on how many of them a kernel may have, and what they are called.
_PER_KERNEL = {
    "storage_buffer": ("maxPerStageDescriptorStorageBuffers", "storage buffers"),
    "uniform_buffer": ("maxPerStageDescriptorUniformBuffers", "uniform buffers"),
    "uniform_texel_buffer": ("maxPerStageDescriptorSampledImages", "texel buffers"),
}


def check_bindings(kernel: str, device: Device, bindings: Sequence[Binding]) -> None:
    """Raises ValueError if a kernel has more bindings, or more sets of them, than the device binds at a time."""
    limits = device.physical.limits
    most = limits["maxBoundDescriptorSets"]
    highest = max((binding.set for binding in bindings), default=0)
    if highest >= most:
        raise ValueError(f"{kernel} has a binding in set {highest}; {device} binds {most} sets, 0 to {most - 1}")
    for kind, count in Counter(binding.kind for binding in bindings).items():
        limit, noun = _PER_KERNEL[kind]
        if count > limits[limit]:
            raise ValueError(
                f"{kernel} has {count} {noun}; {device} binds {limits[limit]} at a time; pack several in one"
            )
    if len(bindings) > limits["maxPerStageResources"]:
        raise ValueError(f"{kernel} has {len(bindings)} bindings; {device} takes {limits['maxPerStageResources']}")
