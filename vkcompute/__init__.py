"""vkcompute: GPU computing from Python on every vendor's hardware, through Vulkan.

    import numpy as np
    import vkcompute as vc

    with vc.Runtime() as gpu:
        x = gpu.tensor(np.arange(8, dtype=np.float32))
        out = gpu.empty(x.shape, x.dtype)
        ...

Names are imported on first use: `import vkcompute` loads no driver and starts no thread.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from vkcompute._version import __version__
from vkcompute.errors import (
    ClosedError,
    CompileError,
    DataError,
    DeviceLost,
    KernelError,
    MissingFeature,
    NoCompiler,
    NoDevice,
    NoVulkanLoader,
    OutOfDeviceMemory,
    SpirvError,
    ValidationError,
    VkComputeError,
    VulkanError,
)
from vkcompute.glsl import glsl

if TYPE_CHECKING:
    from numpy import bool_, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

    from vkcompute.jit import api
    from vkcompute.jit.api import *  # noqa: F403
    from vkcompute.pipelines.logistic_regression import LogisticRegression
    from vkcompute.pipelines.multiply import multiply
    from vkcompute.pipelines.multiply_files import multiply_files
    from vkcompute.runtime.graphs.graph import Graph
    from vkcompute.runtime.groups.group import DeviceGroup
    from vkcompute.runtime.launching.kernel import Kernel
    from vkcompute.runtime.memory.tensor import Tensor
    from vkcompute.runtime.runtime import Runtime, default_runtime
    from vkcompute.runtime.scheduling.future import Future

_HOMES = {
    "LogisticRegression": "vkcompute.pipelines.logistic_regression",
    "Runtime": "vkcompute.runtime.runtime",
    "default_runtime": "vkcompute.runtime.runtime",
    "Tensor": "vkcompute.runtime.memory.tensor",
    "Kernel": "vkcompute.runtime.launching.kernel",
    "Graph": "vkcompute.runtime.graphs.graph",
    "DeviceGroup": "vkcompute.runtime.groups.group",
    "Future": "vkcompute.runtime.scheduling.future",
    "multiply": "vkcompute.pipelines.multiply",
    "multiply_files": "vkcompute.pipelines.multiply_files",
    **dict.fromkeys(
        """
        kernel function elementwise vectorize reduce global_id group_id local_id local_size num_groups shared barrier
        atomic_add atomic_and atomic_compare_exchange atomic_exchange atomic_max atomic_min atomic_or atomic_xor
        num_subgroups subgroup_add subgroup_all subgroup_and subgroup_any subgroup_ballot subgroup_broadcast
        subgroup_broadcast_first subgroup_elect subgroup_exclusive_add subgroup_exclusive_max subgroup_exclusive_min
        subgroup_exclusive_mul subgroup_id subgroup_inclusive_add subgroup_inclusive_max subgroup_inclusive_min
        subgroup_inclusive_mul subgroup_local_id subgroup_max subgroup_min subgroup_mul subgroup_or subgroup_shuffle
        subgroup_shuffle_down subgroup_shuffle_up subgroup_shuffle_xor subgroup_size subgroup_xor
        cross dot length normalize
        """.split(),
        "vkcompute.jit.api",
    ),
    **{f"{t}x{n}": "vkcompute.jit.api" for t in "float16 float32 float64 int32 uint32".split() for n in (2, 3, 4)},
    **dict.fromkeys(
        "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(),
        "vkcompute.jit.compilation.annotations",
    ),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'vkcompute' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


__all__ = [
    "__version__",
    # devices, tensors, kernels, graphs
    "DeviceGroup", "Future", "Graph", "Kernel", "Runtime", "Tensor", "default_runtime", "glsl",
    # kernels in Python: these types, and jit/api.py
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    # pipelines
    "LogisticRegression", "multiply", "multiply_files",
    # errors
    "ClosedError", "CompileError", "DataError", "DeviceLost", "KernelError", "MissingFeature", "NoCompiler",
    "NoDevice", "NoVulkanLoader", "OutOfDeviceMemory", "SpirvError", "ValidationError", "VkComputeError", "VulkanError",
]  # fmt: skip
if TYPE_CHECKING:
    __all__ += api.__all__
else:
    __all__ += sorted(_HOMES.keys() - __all__)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
