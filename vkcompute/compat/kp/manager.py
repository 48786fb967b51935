"""The manager: a device opened, and everything made on it."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from operator import index
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from vkcompute.compat.kp.algorithm import Algorithm
from vkcompute.compat.kp.image import Image, ImageTilings
from vkcompute.compat.kp.memory import Memory, MemoryTypes, Tensor
from vkcompute.compat.kp.sequence import Sequence as Recorded
from vkcompute.errors import KomputeError, NoDevice

if TYPE_CHECKING:
    from vkcompute.core.physical import PhysicalDevice
    from vkcompute.runtime.runtime import Runtime

logger = logging.getLogger("kp")


class Manager:
    """Opens a device.

    Args:
        device: its place in the loader's order, or part of its name; without it what `VKCOMPUTE_DEVICE` names, or the
            first one.
        family_queue_indices: one queue for each; without them there is one. They are counted: which queue of the device
            runs what follows from the data, and families that the device does not have are noted in the log "kp".
        desired_extensions: noted in the log where the device lacks one. Features, and the extensions that they need,
            are switched on wherever the device has them.

    Attributes:
        runtime: of vkcompute, on which everything is made.
        n_destroyed: how many memory objects and algorithms have been destroyed.

    Raises:
        KomputeError: none fits.
    """

    def __init__(
        self,
        device: int | str | None = None,
        family_queue_indices: Collection[int] = (),
        desired_extensions: Collection[str] = (),
    ) -> None:
        from vkcompute.runtime.runtime import Runtime  # here, because it loads the driver

        if isinstance(desired_extensions, str):
            raise TypeError(f"desired_extensions is a list of names; got {desired_extensions!r}; write [name]")
        self.n_destroyed = 0
        self._n_queues = max(1, len(family_queue_indices))
        if device is None and not os.environ.get("VKCOMPUTE_DEVICE"):
            device = 0
        try:
            self.runtime: Runtime = Runtime(device, queues=self._n_queues)
        except NoDevice as error:
            raise KomputeError(str(error)) from error
        self._made: WeakSet[Memory | Algorithm | Recorded] = WeakSet()
        physical = self.runtime.device.physical
        for family in family_queue_indices:
            if not 0 <= family < len(physical.queue_families):
                logger.warning("%s has no queue family %d; another one is used", physical, family)
        for name in set(desired_extensions) - physical.extensions:
            logger.warning("%s has no extension %s", physical, name)

    def opened(self) -> Runtime:
        """The runtime.

        Raises:
            KomputeError: the manager is destroyed.
        """
        if self.runtime.closed:
            raise KomputeError("this Manager is destroyed; make a new one")
        return self.runtime

    def add(self, made: Memory | Algorithm | Recorded) -> None:
        """Notes what is to be destroyed with the manager."""
        self._made.add(made)

    # -- Kompute's ----------------------------------------------------------------------------------------------------

    def tensor(
        self,
        data: npt.ArrayLike,
        memory_type: MemoryTypes = MemoryTypes.device,
        *,
        tensor_type: MemoryTypes | None = None,
    ) -> Tensor:
        """A tensor with the data as float32, flattened, on its host's side: OpSyncDevice brings it to the device.

        Args:
            tensor_type: `memory_type` under its earlier name.

        Raises:
            KomputeError: there is no element.
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
        """The same in the data's own type: any that a tensor of vkcompute holds.

        Raises:
            TypeError: none does.
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
        """An image of float32 texels of 1, 2 or 4 channels, whose numbers `data` has row by row.

        Args:
            tiling: checked, and no more: images are tiled as the device likes it best.

        Raises:
            KomputeError: there are too few numbers, or another number of channels, or it is larger than the device's
                images.
            MissingFeature: the device's shaders cannot store such texels.
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
        """The same in the data's own type: integers of 8, 16 or 32 bits, float16, float32.

        Raises:
            TypeError: it is another one.
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
        """An algorithm.

        Args:
            tensors: tensors and images; the n-th is binding n of set 0.
            workgroup: workgroups along x, y and z; without it as many along x as the first tensor has elements.
            spec_consts: specialization constants: the n-th is the one of id n. A list or array, or a record of a
                structured numpy dtype for constants of several types.
            push_consts: push constants, likewise; the n-th stands for what the shader has at byte 4 n.

        Raises:
            KomputeError: a tensor is missing, destroyed or another manager's, or larger than the device binds; the
                shader is none; a constant does not fit; or the workgroups are more than the device launches.
            MissingFeature: the shader needs what the device lacks.
        """
        return Algorithm(self, tensors, spirv, workgroup, spec_consts, push_consts)

    def sequence(self, queue_index: int = 0, total_timestamps: int = 0) -> Recorded:
        """A sequence.

        Args:
            queue_index: of the manager's queues. It is checked, and no more: where work runs follows from its data.
            total_timestamps: the most operations whose times are kept.

        Raises:
            KomputeError: there is no such queue, or fewer timestamps than none.
            MissingFeature: the device has no timestamps.
        """
        self.opened()
        if not 0 <= index(queue_index) < self._n_queues:
            raise KomputeError(f"queue_index {queue_index} is none of the manager's {self._n_queues} queues, from 0")
        if index(total_timestamps) < 0:
            raise KomputeError(
                f"total_timestamps is the most operations that are timed, from 0; got {total_timestamps}"
            )
        return Recorded(self, total_timestamps)

    def list_devices(self) -> list[dict[str, Any]]:
        """What `get_device_properties` gives, of every device."""
        from vkcompute.core.physical import enumerate_devices

        return [_properties(physical) for physical in enumerate_devices(self.opened().device.physical.instance)]

    def get_device_properties(self) -> dict[str, Any]:
        """Name and limits of the manager's device."""
        return _properties(self.opened().device.physical)

    def destroy(self) -> None:
        """Destroys all that the manager made, once the device has finished with it; twice is once."""
        for each in list(self._made):
            each.destroy()
        self.runtime.close()

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
