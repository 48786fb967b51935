"""Kompute's Python interface, version 0.7 and later: `import vkcompute.compat.kp as kp`.

Names, signatures and defaults are Kompute's; docs/kompute.md lists the differences. `vkcompute.compat.kp05` has the
interface of earlier versions. Importing this module loads no driver.
"""

from __future__ import annotations

from vkcompute.compat.kp.algorithm import Algorithm
from vkcompute.compat.kp.image import Image, ImageTilings
from vkcompute.compat.kp.manager import Manager
from vkcompute.compat.kp.memory_objects import DataTypes, Memory, MemoryTypes, Tensor
from vkcompute.compat.kp.operations import OpAlgoDispatch, OpBase, OpCopy, OpMult, OpSyncDevice, OpSyncLocal
from vkcompute.compat.kp.sequence import Sequence
from vkcompute.compat.kp.shader import Shader
from vkcompute.errors import KomputeError

__version__ = "0.9.0"  # of Kompute
# Names of Kompute 0.7 to 0.9
OpTensorSyncDevice, OpTensorSyncLocal, OpTensorCopy = OpSyncDevice, OpSyncLocal, OpCopy
TensorTypes = MemoryTypes
device, host, storage, deviceAndHost = MemoryTypes  # noqa: N816  # Kompute's name

__all__ = [
    "Algorithm", "DataTypes", "Image", "ImageTilings", "KomputeError", "Manager", "Memory", "MemoryTypes",
    "OpAlgoDispatch", "OpBase", "OpCopy", "OpMult", "OpSyncDevice", "OpSyncLocal", "OpTensorCopy", "OpTensorSyncDevice",
    "OpTensorSyncLocal", "Sequence", "Shader", "Tensor", "TensorTypes", "device", "deviceAndHost", "host", "storage",
]  # fmt: skip
globals().update(DataTypes.__members__)  # kp.float etc.; not in __all__, where they would hide the built-in names
