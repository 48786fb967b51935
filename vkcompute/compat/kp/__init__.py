"""Kompute's Python interface (0.8, 0.9 and later): `import vkcompute.compat.kp as kp`.

Names, signatures and defaults are Kompute's; docs/kompute.md says what differs. Importing this loads no driver.
"""

from __future__ import annotations

from vkcompute.compat.kp.algorithm import Algorithm
from vkcompute.compat.kp.image import Image, ImageTilings
from vkcompute.compat.kp.manager import Manager
from vkcompute.compat.kp.memory import DataTypes, Memory, MemoryTypes, Tensor
from vkcompute.compat.kp.operations import OpAlgoDispatch, OpBase, OpCopy, OpMult, OpSyncDevice, OpSyncLocal
from vkcompute.compat.kp.sequence import Sequence
from vkcompute.errors import KomputeError

__version__ = "0.9.0"  # of Kompute
OpTensorSyncDevice, OpTensorSyncLocal, OpTensorCopy = OpSyncDevice, OpSyncLocal, OpCopy
TensorTypes = MemoryTypes
device, host, storage, deviceAndHost = MemoryTypes  # noqa: N816  # Kompute's name

__all__ = [
    "Algorithm", "DataTypes", "Image", "ImageTilings", "KomputeError", "Manager", "Memory", "MemoryTypes",
    "OpAlgoDispatch", "OpBase", "OpCopy", "OpMult", "OpSyncDevice", "OpSyncLocal", "OpTensorCopy", "OpTensorSyncDevice",
    "OpTensorSyncLocal", "Sequence", "Tensor", "TensorTypes", "device", "deviceAndHost", "host", "storage",
]  # fmt: skip
globals().update(DataTypes.__members__)  # kp.float and so on, as there; not for `import *`, where they would hide ours
