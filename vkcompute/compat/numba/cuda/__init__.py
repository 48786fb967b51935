"""Numba's `cuda`: kernels in Python on grids of blocks of threads, on any device."""

from __future__ import annotations

from typing import NoReturn

from vkcompute.compat.numba import config, types
from vkcompute.compat.numba.cuda import devicearray, libdevice, vector_types
from vkcompute.compat.numba.cuda import driver as cudadrv
from vkcompute.compat.numba.cuda.arguments import In, InOut, Out
from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, as_cuda_array, from_cuda_array_interface, is_cuda_array
from vkcompute.compat.numba.cuda.atomics import atomic
from vkcompute.compat.numba.cuda.devices import (
    close,
    cuda_error,
    current_context,
    defer_cleanup,
    detect,
    get_current_device,
    gpus,
    is_available,
    is_float16_supported,
    is_supported_version,
    list_devices,
    profile_start,
    profile_stop,
    profiling,
    require_context,
    select_device,
)  # fmt: skip
from vkcompute.compat.numba.cuda.dispatcher import jit
from vkcompute.compat.numba.cuda.driver import driver as runtime
from vkcompute.compat.numba.cuda.factories import device_array, device_array_like, to_device
from vkcompute.compat.numba.cuda.functions import brev, cbrt, clz, ffs, fma, popc, selp
from vkcompute.compat.numba.cuda.half import fp16
from vkcompute.compat.numba.cuda.host_arrays import (
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    pinned,
    pinned_array,
    pinned_array_like,
)  # fmt: skip
from vkcompute.compat.numba.cuda.ids import blockDim, blockIdx, grid, gridDim, gridsize, laneid, threadIdx, warpsize
from vkcompute.compat.numba.cuda.memory import const, local, shared
from vkcompute.compat.numba.cuda.reduction import Reduce, reduce
from vkcompute.compat.numba.cuda.streams import (
    Event,
    Stream,
    default_stream,
    event,
    event_elapsed_time,
    external_stream,
    legacy_default_stream,
    per_thread_default_stream,
    stream,
    synchronize,
)  # fmt: skip
from vkcompute.compat.numba.cuda.synchronization import (
    activemask,
    all_sync,
    any_sync,
    ballot_sync,
    cg,
    eq_sync,
    lanemask_lt,
    match_all_sync,
    match_any_sync,
    nanosleep,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    syncwarp,
    threadfence,
    threadfence_block,
    threadfence_system,
)  # fmt: skip
from vkcompute.compat.numba.cuda.vector_types import *  # noqa: F403
from vkcompute.compat.numba.cuda.vectorizers import guvectorize, vectorize
from vkcompute.compat.numba.types import *  # noqa: F403

__all__ = [
    "config",
    "DeviceNDArray", "Event", "In", "InOut", "Out", "Reduce", "Stream", "activemask", "all_sync", "any_sync",
    "as_cuda_array", "atomic", "ballot_sync", "blockDim", "blockIdx", "brev", "cbrt", "cg", "close", "clz",
    "const", "cudadrv", "devicearray",
    "cuda_error", "current_context", "default_stream", "defer_cleanup", "detect", "device_array",
    "device_array_like", "eq_sync", "event", "event_elapsed_time", "external_stream", "ffs", "fma", "fp16",
    "from_cuda_array_interface", "get_current_device", "gpus", "grid", "gridDim", "gridsize", "guvectorize",
    "is_available", "is_cuda_array", "is_float16_supported", "is_supported_version", "jit", "laneid", "lanemask_lt",
    "legacy_default_stream", "libdevice", "list_devices", "local", "managed_array", "mapped", "mapped_array",
    "mapped_array_like",
    "match_all_sync", "match_any_sync", "nanosleep", "per_thread_default_stream", "pinned", "pinned_array",
    "pinned_array_like", "popc", "profile_start", "profile_stop", "profiling", "reduce", "require_context", "runtime",
    "select_device", "selp", "shared", "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync", "stream",
    "synchronize", "syncthreads", "syncthreads_and", "syncthreads_count", "syncthreads_or", "syncwarp", "threadIdx",
    "threadfence", "threadfence_block", "threadfence_system", "to_device", "types", "vectorize", "warpsize",
    "HAS_NUMBA", "implementation",
    *types.__all__, *vector_types.__all__,
]  # fmt: skip

HAS_NUMBA = False
"""Numba itself is not used."""
implementation = "vkcompute"
_ABSENT = {
    **dict.fromkeys(
        "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device".split(),
        "kernels are SPIR-V, which vc.kernel's assembly() and `vkcompute compile` show",
    ),
    **dict.fromkeys(
        "declare_device CUSource PTXSource Cubin Fatbin Archive Object LTOIR LinkableCode".split(),
        "no code in C or PTX is linked; write the function in Python",
    ),
    **dict.fromkeys(
        "ldca ldcg ldcs ldlu ldcv stcg stcs stwb stwt".split(), "caches take no hints; write x[i] for the element"
    ),
    **dict.fromkeys(
        "set_memory_manager BaseCUDAMemoryManager HostOnlyCUDAMemoryManager GetIpcHandleMixin IpcHandle MemoryInfo "
        "MemoryPointer MappedMemory PinnedMemory open_ipc_array".split(),
        "memory is the device's pool, of one process",
    ),
    "bf16": "kernels have no bfloat16; use float16 or float32",
}
"""Names of Numba's that are not there -> the reason and the remedy."""


def __getattr__(name: str) -> NoReturn:
    reason = _ABSENT.get(name, "docs/numba.md lists what is there")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {reason}", name=name)
