"""Kernels of shaders with storage images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from vkcompute.compat.kp.device_image import DeviceImage
from vkcompute.runtime.launching.arguments import Bound, bound_range
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.launching.program import load
from vkcompute.runtime.launching.specialization import specialize
from vkcompute.runtime.memory.context import kernel_of

if TYPE_CHECKING:
    from vkcompute.runtime.runtime import Runtime


class ImageKernel(Kernel):
    """A kernel that takes a `DeviceImage` for each storage image."""

    kinds = (*Kernel.kinds, "storage_image")

    def bound(self, tensors: Sequence[Any]) -> list[Bound]:
        self.runtime.require_open()
        found: list[Any] = [
            (each, 0, each.nbytes)
            if isinstance(each, DeviceImage)
            else bound_range(self.name, self.runtime, binding, each, check_type=False)
            for binding, each in zip(self.bindings, tensors, strict=True)
        ]
        return found


def image_kernel(runtime: Runtime, spirv: bytes, constants: Mapping[int | str, Any]) -> ImageKernel:
    """Returns the kernel of a shader with storage images; equal arguments return the same kernel."""
    program = load(spirv)
    specialization = specialize(program.name, program.interface.spec_constants, constants)
    key = "image kernel", program.spirv, specialization
    make = partial(ImageKernel, runtime, program, specialization, check_types=False)
    return kernel_of(runtime, key, make)
