"""Kompute's Python interface up to version 0.6, as in the tutorials of 2020 and 2021.

    import vkcompute.compat.kp05 as kp

    a, b, out = kp.Tensor([2, 2, 2]), kp.Tensor([1, 2, 3]), kp.Tensor([0, 0, 0])
    mgr = kp.Manager()
    mgr.eval_tensor_create_def([a, b, out])
    mgr.eval_algo_data_def([a, b, out], shader)   # SPIR-V, or the text of a GLSL shader
    mgr.eval_tensor_sync_local_def([out])
    out.data()                                    # [2.0, 4.0, 6.0]

Raises KomputeError where Kompute only logs a message: evaluating while recording, recording before `begin`. Version 0.7
has the interface of `vkcompute.compat.kp`. Importing this module loads no driver.
"""

from __future__ import annotations

import logging

from vkcompute.compat.kp.shader import Shader
from vkcompute.compat.kp05.manager import Manager
from vkcompute.compat.kp05.sequence import Sequence
from vkcompute.compat.kp05.tensor import Tensor, TensorTypes

device, staging, storage = TensorTypes
host = staging
__all__ = [
    "Manager", "Sequence", "Shader", "Tensor", "TensorTypes", "device", "host", "log_level", "staging", "storage",
]  # fmt: skip


def log_level(level: int) -> None:
    """Sets the lowest level of messages in the log "kp": 0 or 1 all, 2 information, 3 warnings, 4 errors."""
    logging.getLogger("kp").setLevel(max(level, 1) * 10)
