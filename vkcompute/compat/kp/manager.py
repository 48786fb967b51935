"""Managers: an open device, and the objects made on it."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkcompute.compat.kp.algorithm import Algorithm
from vkcompute.compat.kp.context import ManagerBase
from vkcompute.compat.kp.image import Image, ImageTilings
from vkcompute.compat.kp.memory_objects import Memory, MemoryTypes, Tensor
from vkcompute.compat.kp.sequence import Sequence as OpSequence
from vkcompute.errors import KomputeError, NoDevice

if TYPE_CHECKING:
    from vkcompute.core.physical import PhysicalDevice

logger = logging.getLogger("kp")


class Manager(ManagerBase):
    """Opens a device, and makes memory objects, algorithms and sequences on it.

    Args:
        device: index in the loader's order, or part of the name. By default the device that `VKCOMPUTE_DEVICE` names,
            else the first one.
        family_queue_indices: one queue is opened for each; by default, one in all. The runtime chooses the queue of
            each operation from its data. The log "kp" has a warning for each family that the device lacks.
        desired_extensions: the log "kp" has a warning for each one that the device lacks. All features of the device
            are enabled in any case, with the extensions that they need.

    Attributes:
        runtime: of vkcompute; all objects of the manager use it.
        n_destroyed: number of memory objects and algorithms destroyed so far.

    Raises:
        KomputeError: no device fits.
    """

    def __init__(
        self,
        device: int | str | None = None,
        family_queue_indices: Collection[int] = (),
        desired_extensions: Collection[str] = (),
    ) -> None:
        from vkcompute.runtime.runtime import Runtime  # here, because it imports the vulkan package

        if isinstance(desired_extensions, str):
            raise TypeError(f"desired_extensions is a list of names; got {desired_extensions!r}; write [name]")
        self._n_queues = max(1, len(family_queue_indices))
        if device is None and not os.environ.get("VKCOMPUTE_DEVICE"):
            device = 0
        try:
            super().__init__(Runtime(device, queues=self._n_queues))
        except NoDevice as error:
            raise KomputeError(str(error)) from error
        physical = self.runtime.device.physical
        for family in family_queue_indices:
            if not 0 <= family < len(physical.queue_families):
                logger.warning("%s has no queue family %d; another one is used", physical, family)
        for name in set(desired_extensions) - physical.extensions:
            logger.warning("%s has no extension %s", physical, name)

    def tensor(
        self,
        data: npt.ArrayLike,
        memory_type: MemoryTypes = MemoryTypes.device,
        *,
        tensor_type: MemoryTypes | None = None,
    ) -> Tensor:
        """Makes a tensor of float32 with the data, flattened, on its host side; OpSyncDevice copies it to the device.

        Args:
            tensor_type: `memory_type` by its name in Kompute up to 0.9.

        Raises:
            KomputeError: the data has no element.
            OutOfDeviceMemory: it does not fit.
        """
        return self.tensor_t(np.asarray(data, np.float32), memory_type, tensor_type=tensor_type)

    def tensor_t(
        self,
        data: npt.ArrayLike,
        memory_type: MemoryTypes = MemoryTypes.device,
        *,
        tensor_type: MemoryTypes | None = None,
    ) -> Tensor:
        """Makes a tensor of the data's dtype, as `tensor` otherwise.

        Raises:
            TypeError: vkcompute has no tensors of this dtype.
        """
        return Tensor(self, np.ravel(np.asarray(data)), tensor_type or memory_type)

    def image(
        self,
        data: npt.ArrayLike,
        width: int,
        height: int,
        num_channels: int,
        memory_type: MemoryTypes = MemoryTypes.device,
        tiling: ImageTilings | None = None,
    ) -> Image:
        """Makes an image of float32 texels.

        Args:
            data: numbers of the texels, row by row.
            num_channels: of a texel: 1, 2 or 4.
            tiling: only checked; device images have optimal tiling.

        Raises:
            KomputeError: there are too few numbers, the number of channels is another, or the image exceeds the
                device's largest.
            MissingFeature: shaders of the device cannot load and store this format.
        """
        return self.image_t(np.asarray(data, np.float32), width, height, num_channels, memory_type, tiling)

    def image_t(
        self,
        data: npt.ArrayLike,
        width: int,
        height: int,
        num_channels: int,
        memory_type: MemoryTypes = MemoryTypes.device,
        tiling: ImageTilings | None = None,
    ) -> Image:
        """Makes an image of the data's dtype, as `image` otherwise.

        Raises:
            TypeError: the dtype is not an integer of 8, 16 or 32 bits, float16 or float32.
        """
        flat = np.ravel(np.asarray(data))
        if flat.dtype.kind not in "iuf" or flat.itemsize > 4:
            raise TypeError(f"an image has integers or floats of up to 32 bits; got {flat.dtype}")
        return Image(self, flat, (width, height, num_channels), memory_type, tiling)

    def algorithm(
        self,
        tensors: Sequence[Memory] = (),
        spirv: bytes = b"",
        workgroup: Sequence[int] = (),
        spec_consts: Any = (),
        push_consts: Any = (),
    ) -> Algorithm:
        """Makes an algorithm.

        Args:
            tensors: tensors and images; number n is binding n of set 0.
            workgroup: numbers of workgroups along x, y and z; by default, one for each element of the first tensor.
            spec_consts: specialization constants: number n has id n. A list or array, or a record of a structured
                numpy dtype for constants of several types.
            push_consts: push constants, in the same forms; number n is at byte 4 n.

        Raises:
            KomputeError: a tensor is missing, destroyed, of another manager, or larger than the device binds. Or
                `spirv` is not SPIR-V, a constant does not fit, or there are more workgroups than the device launches.
            MissingFeature: the device lacks a feature that the shader needs.
        """
        return Algorithm(self, tensors, spirv, workgroup, spec_consts, push_consts)

    def sequence(self, queue_index: int = 0, total_timestamps: int = 0) -> OpSequence:
        """Makes a sequence.

        Args:
            queue_index: of the manager's queues; only checked, since the runtime chooses queues itself.
            total_timestamps: number of operations to take timestamps of.

        Raises:
            KomputeError: there is no such queue, or `total_timestamps` is negative.
            MissingFeature: the device has no timestamps.
        """
        self.require_open()
        if not 0 <= index(queue_index) < self._n_queues:
            raise KomputeError(
                f"queue_index numbers the manager's queues, 0 to {self._n_queues - 1}; got {queue_index}"
            )
        if index(total_timestamps) < 0:
            raise KomputeError(f"total_timestamps is a number of operations, 0 or more; got {total_timestamps}")
        return OpSequence(self, total_timestamps)

    def list_devices(self) -> list[dict[str, Any]]:
        """Returns the `get_device_properties` of each device."""
        from vkcompute.core.physical import enumerate_devices

        return [_properties(physical) for physical in enumerate_devices(self.require_open().device.physical.instance)]

    def get_device_properties(self) -> dict[str, Any]:
        """Returns name and limits of the manager's device."""
        return _properties(self.require_open().device.physical)

    def __repr__(self) -> str:
        return f"<kp.Manager of {self.runtime.device}{', destroyed' if self.runtime.closed else ''}>"


def _properties(physical: PhysicalDevice) -> dict[str, Any]:
    limits = physical.limits
    return {
        "device_name": physical.name,
        "max_work_group_count": limits["maxComputeWorkGroupCount"],
        "max_work_group_invocations": limits["maxComputeWorkGroupInvocations"],
        "max_work_group_size": limits["maxComputeWorkGroupSize"],
        "max_push_constants_size": limits["maxPushConstantsSize"],
        "timestamps_supported": bool(limits["timestampComputeAndGraphics"]),
    }
