"""vkcompute: GPU computing from Python on every vendor's hardware, through Vulkan.

    import numpy as np
    import vkcompute as vc

    with vc.Runtime() as gpu:
        x = gpu.array(np.arange(8, dtype=np.float32))
        y = vc.elementwise("2 * x + 1")(x)
        print(y.numpy())

Devices and memory
    devices()                    the devices of this machine
    Runtime(device=None)         an open device: arrays, kernels, graphs, streams, profiles
    default_runtime()            the runtime of what is made without one, if several or none are open
    set_default_runtime(gpu)     sets it
    Array                        a typed array in device memory, as made by Runtime.array, empty, zeros and full
    DeviceGroup(devices=None)    several devices; the rows of an array are sharded over them
    Future                       the result of a launch, a copy or a graph, which completes later
    Graph                        recorded work that runs repeatedly, as made by Runtime.record
    graph(function)              a function that is recorded at its first call, and replayed with other arrays

Arrays
    numpy                        NumPy's functions of device arrays: import vkcompute.numpy as vnp
    nn                           functions of neural networks
    rows                         groups of equal rows, joins, distinct rows: from vkcompute import rows
    segments                     sorts and scans of segments of any lengths

Kernels
    @kernel                      compiles a Python function; kernel(x, y), kernel[groups, local_size](x, y) launch it
    Kernel                       a kernel in GLSL or SPIR-V, as made by Runtime.kernel
    glsl(source)                 compiles GLSL to SPIR-V
    elementwise(expression)      a function of arrays from an expression of numbers
    @vectorize                   a function of arrays from a Python function of numbers
    reduce(function, initial)    a reduction over axes
    @function                    marks a Python function that kernels call

In kernels in Python
    global_id(axis), group_id, local_id, local_size, num_groups
    shared(shape, dtype), barrier(), barrier_count(condition), barrier_all, barrier_any, memory_fence(), grid_barrier()
    local(shape, dtype)          an array of the invocation's own
    fma(x, y, z)                 x * y + z, rounded once or twice
    popcount(x), clz, ctz        numbers of set bits, and of leading and trailing zeros
    bit_reverse(x)               the bits in reverse order
    bitcast(x, dtype)            the same bits as a number of another type
    sigmoid(x), gelu, relu, ...  functions of elements that neither Python nor NumPy has
    random                       philox, uniform, normal: numbers from a counter and a key
    atomic                       add, min, max, and_, or_, xor, exchange, compare_exchange
    subgroup                     size, local_id, reductions, scans, votes, broadcasts, shuffles
    warp                         the same of 32 invocations on every device: votes, matches, shuffles
    vector                       dot, cross, length, normalize
    float32, int32, ...          scalar types, also for annotations: x: vc.float32[:]
    float32x3, int32x2, ...      vectors of 2 to 4 float16, float32, float64, int32 or uint32

Pipelines
    multiply(a, b)               the elementwise product of NumPy arrays of any size, or of device arrays
    multiply_files(a, b, out)    the same for .npy files
    LogisticRegression           a scikit-learn classifier that trains on the device

Errors
    VkComputeError               the base class of the others
    NoDevice, NoVulkanLoader, NoCompiler, MissingFeature, OutOfDeviceMemory, DeviceLost, VulkanError, ValidationError,
    CompileError, SpirvError, KernelError, ClosedError, DataError, DtypeError; the warnings HostCopyWarning,
    CPUFallbackWarning, SpillWarning, UnlikeDevicesWarning

`help(vkcompute.Runtime)` and the like describe each of them. Names are imported on first use: `import vkcompute` loads
no driver and starts no thread.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from vkcompute import array_namespace
from vkcompute._version import __version__ as __version__
from vkcompute.errors import ClosedError as ClosedError
from vkcompute.errors import CompileError as CompileError
from vkcompute.errors import CPUFallbackWarning as CPUFallbackWarning
from vkcompute.errors import DataError as DataError
from vkcompute.errors import DeviceLost as DeviceLost
from vkcompute.errors import DtypeError as DtypeError
from vkcompute.errors import HostCopyWarning as HostCopyWarning
from vkcompute.errors import KernelError as KernelError
from vkcompute.errors import MissingFeature as MissingFeature
from vkcompute.errors import NoCompiler as NoCompiler
from vkcompute.errors import NoDevice as NoDevice
from vkcompute.errors import NoVulkanLoader as NoVulkanLoader
from vkcompute.errors import OutOfDeviceMemory as OutOfDeviceMemory
from vkcompute.errors import SpillWarning as SpillWarning
from vkcompute.errors import SpirvError as SpirvError
from vkcompute.errors import UnlikeDevicesWarning as UnlikeDevicesWarning
from vkcompute.errors import ValidationError as ValidationError
from vkcompute.errors import VkComputeError as VkComputeError
from vkcompute.errors import VulkanError as VulkanError
from vkcompute.glsl import glsl as glsl

if TYPE_CHECKING:
    from vkcompute import nn as nn
    from vkcompute import numpy as numpy
    from vkcompute import rows as rows
    from vkcompute import segments as segments
    from vkcompute.jit.elementwise.elementwise import elementwise as elementwise
    from vkcompute.jit.elementwise.elementwise import vectorize as vectorize
    from vkcompute.jit.elementwise.reduction import reduce as reduce
    from vkcompute.jit.kernel import function as function
    from vkcompute.jit.kernel import kernel as kernel
    from vkcompute.jit.library import atomic as atomic
    from vkcompute.jit.library import random as random
    from vkcompute.jit.library import subgroup as subgroup
    from vkcompute.jit.library import vector as vector
    from vkcompute.jit.library import warp as warp
    from vkcompute.jit.library.bit_operations import bit_reverse as bit_reverse
    from vkcompute.jit.library.bit_operations import bitcast as bitcast
    from vkcompute.jit.library.bit_operations import clz as clz
    from vkcompute.jit.library.bit_operations import ctz as ctz
    from vkcompute.jit.library.bit_operations import popcount as popcount
    from vkcompute.jit.library.element_functions import fma as fma
    from vkcompute.jit.library.ids import global_id as global_id
    from vkcompute.jit.library.ids import group_id as group_id
    from vkcompute.jit.library.ids import local_id as local_id
    from vkcompute.jit.library.ids import local_size as local_size
    from vkcompute.jit.library.ids import num_groups as num_groups
    from vkcompute.jit.library.private import local as local
    from vkcompute.jit.library.vector import float16x2 as float16x2
    from vkcompute.jit.library.vector import float16x3 as float16x3
    from vkcompute.jit.library.vector import float16x4 as float16x4
    from vkcompute.jit.library.vector import float32x2 as float32x2
    from vkcompute.jit.library.vector import float32x3 as float32x3
    from vkcompute.jit.library.vector import float32x4 as float32x4
    from vkcompute.jit.library.vector import float64x2 as float64x2
    from vkcompute.jit.library.vector import float64x3 as float64x3
    from vkcompute.jit.library.vector import float64x4 as float64x4
    from vkcompute.jit.library.vector import int32x2 as int32x2
    from vkcompute.jit.library.vector import int32x3 as int32x3
    from vkcompute.jit.library.vector import int32x4 as int32x4
    from vkcompute.jit.library.vector import uint32x2 as uint32x2
    from vkcompute.jit.library.vector import uint32x3 as uint32x3
    from vkcompute.jit.library.vector import uint32x4 as uint32x4
    from vkcompute.jit.library.workgroup import barrier as barrier
    from vkcompute.jit.library.workgroup import barrier_all as barrier_all
    from vkcompute.jit.library.workgroup import barrier_any as barrier_any
    from vkcompute.jit.library.workgroup import barrier_count as barrier_count
    from vkcompute.jit.library.workgroup import grid_barrier as grid_barrier
    from vkcompute.jit.library.workgroup import memory_fence as memory_fence
    from vkcompute.jit.library.workgroup import shared as shared
    from vkcompute.pipelines.logistic_regression import LogisticRegression as LogisticRegression
    from vkcompute.pipelines.multiply import multiply as multiply
    from vkcompute.pipelines.multiply_files import multiply_files as multiply_files
    from vkcompute.runtime.devices import DeviceInfo as DeviceInfo
    from vkcompute.runtime.devices import devices as devices
    from vkcompute.runtime.graphed import graph as graph
    from vkcompute.runtime.graphs.graph import Graph as Graph
    from vkcompute.runtime.groups.group import DeviceGroup as DeviceGroup
    from vkcompute.runtime.launching.kernel import Kernel as Kernel
    from vkcompute.runtime.memory.array import Array as Array
    from vkcompute.runtime.runtime import Runtime as Runtime
    from vkcompute.runtime.runtime import default_runtime as default_runtime
    from vkcompute.runtime.runtime import set_default_runtime as set_default_runtime
    from vkcompute.runtime.scheduling.future import Future as Future
    from vkcompute.scalars import bfloat16 as bfloat16
    from vkcompute.scalars import bool_ as bool_
    from vkcompute.scalars import complex64 as complex64
    from vkcompute.scalars import complex128 as complex128
    from vkcompute.scalars import float8_e4m3fn as float8_e4m3fn
    from vkcompute.scalars import float8_e4m3fnuz as float8_e4m3fnuz
    from vkcompute.scalars import float8_e5m2 as float8_e5m2
    from vkcompute.scalars import float8_e5m2fnuz as float8_e5m2fnuz
    from vkcompute.scalars import float16 as float16
    from vkcompute.scalars import float32 as float32
    from vkcompute.scalars import float64 as float64
    from vkcompute.scalars import int8 as int8
    from vkcompute.scalars import int16 as int16
    from vkcompute.scalars import int32 as int32
    from vkcompute.scalars import int64 as int64
    from vkcompute.scalars import uint8 as uint8
    from vkcompute.scalars import uint16 as uint16
    from vkcompute.scalars import uint32 as uint32
    from vkcompute.scalars import uint64 as uint64

# There is no `__all__`: with one, help() of the package would be help() of every class in it.
_LAZY = {  # module -> its names, imported on first use
    "runtime.runtime": "Runtime default_runtime set_default_runtime",
    "runtime.devices": "DeviceInfo devices",
    "runtime.memory.array": "Array",
    "runtime.launching.kernel": "Kernel",
    "runtime.graphed": "graph",
    "runtime.graphs.graph": "Graph",
    "runtime.groups.group": "DeviceGroup",
    "runtime.scheduling.future": "Future",
    "jit.kernel": "kernel function",
    "jit.elementwise.elementwise": "elementwise vectorize",
    "jit.elementwise.reduction": "reduce",
    "jit.library.bit_operations": "bit_reverse bitcast clz ctz popcount",
    "jit.library.element_functions": "fma",
    "jit.library.ids": "global_id group_id local_id local_size num_groups",
    "jit.library.private": "local",
    "jit.library.workgroup": "shared barrier barrier_count barrier_all barrier_any grid_barrier memory_fence",
    "jit.library.vector": " ".join(
        f"{element}x{n}" for element in ("float16", "float32", "float64", "int32", "uint32") for n in (2, 3, 4)
    ),
    "jit.compilation.annotations": "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz",
    "pipelines.logistic_regression": "LogisticRegression",
    "pipelines.multiply": "multiply",
    "pipelines.multiply_files": "multiply_files",
}
array_namespace.register(namespace="vkcompute.numpy", methods="vkcompute.arrays.methods")
_HOMES = {name: home for home, names in _LAZY.items() for name in names.split()}
_NAMESPACES = ("atomic", "random", "subgroup", "vector", "warp")
_MODULES = ("neighbours", "nn", "numpy", "rows", "segments")


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        value: Any = importlib.import_module(f"vkcompute.jit.library.{name}")
    elif name in _MODULES:
        value = importlib.import_module(f"vkcompute.{name}")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"vkcompute.{_HOMES[name]}"), name)
    elif name not in _submodules() and name in (own := _functions_of_elements()):
        value = own[name]
    else:
        remedy = importlib.import_module("vkcompute.jit.frontend.other_words").on_host(name)
        text = f"module 'vkcompute' has no attribute {name!r}{remedy}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


@cache
def _submodules() -> frozenset[str]:
    """Returns the names of modules, which `from vkcompute import ir` asks for before it imports them."""
    pkgutil = importlib.import_module("pkgutil")  # it takes as long to import as this package
    return frozenset(each.name for each in pkgutil.iter_modules(__path__))


def _functions_of_elements() -> dict[str, Any]:
    own: dict[str, Any] = importlib.import_module("vkcompute.operations.host").OWN
    return own


def __dir__() -> list[str]:
    errors = [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Exception)]
    special = [name for name in globals() if name.startswith("__")]
    return sorted({*_HOMES, *_NAMESPACES, *_MODULES, *_functions_of_elements(), *errors, *special, "glsl"})
