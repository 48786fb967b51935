"""Words of CUDA, Numba, CuPy, OpenCL, GLSL and Triton, with ours: remedies for names that do not exist here."""

from __future__ import annotations

import re

_IDS = {
    "vc.global_id(axis)": "grid get_global_id gl_GlobalInvocationID",
    "vc.local_id(axis)": "threadIdx thread_id thread_idx get_local_id gl_LocalInvocationID",
    "vc.group_id(axis)": "blockIdx block_id block_idx program_id get_group_id gl_WorkGroupID",
    "vc.local_size(axis)": "blockDim block_dim get_local_size gl_WorkGroupSize",
    "vc.num_groups(axis)": "gridDim grid_dim num_programs get_num_groups gl_NumWorkGroups",
    "vc.num_groups(axis) * vc.local_size(axis)": "gridsize get_global_size",
}
_IN_KERNELS = {
    **_IDS,
    "vc.barrier()": "syncthreads sync_threads debug_barrier group_barrier workgroupBarrier threadgroup_barrier",
    "vc.grid_barrier()": "grid_sync sync_grid this_grid cooperative_groups",
    "vc.barrier_count(condition)": "syncthreads_count",
    "vc.barrier_all(condition)": "syncthreads_and",
    "vc.barrier_any(condition)": "syncthreads_or",
    "vc.warp.barrier()": "syncwarp sync_warp",
    "vc.memory_fence()": "threadfence threadfence_block threadfence_system mem_fence memoryBarrier",
    "vc.shared(shape, dtype)": "shared_array sharedMemory",
    "vc.local(shape, dtype)": "local_array",
    "vc.warp.size()": "warpsize warpSize warp_size",
    "vc.warp.local_id()": "laneid lane_id",
    "vc.warp.id()": "warpid warp_id",
    "vc.warp.shuffle(value, lane)": "shfl",
    "vc.warp.shuffle_down(value, delta)": "shfl_down",
    "vc.warp.shuffle_up(value, delta)": "shfl_up",
    "vc.warp.shuffle_xor(value, mask)": "shfl_xor",
    "vc.warp.ballot(condition)": "ballot vote_ballot",
    "vc.warp.active_mask()": "activemask",
    "vc.warp.match_any(value)": "match_any",
    "vc.warp.match_all(value)": "match_all",
    "vc.warp.all(condition)": "all vote_all",
    "vc.warp.any(condition)": "any vote_any",
    "vc.atomic.add(array, index, value)": "atomicAdd",
    "vc.atomic.add(array, index, -value)": "atomicSub atomic_sub",
    "vc.atomic.add(array, index, 1)": "atomicInc atomic_inc",
    "vc.atomic.min(array, index, value)": "atomicMin",
    "vc.atomic.max(array, index, value)": "atomicMax",
    "vc.atomic.and_(array, index, value)": "atomicAnd atomic_and",
    "vc.atomic.or_(array, index, value)": "atomicOr atomic_or",
    "vc.atomic.xor(array, index, value)": "atomicXor",
    "vc.atomic.exchange(array, index, value)": "atomicExch atomic_xchg exch xchg",
    "vc.atomic.compare_exchange(array, index, expected, new)": "atomicCAS atomic_cas cas compare_and_swap",
    "vc.popcount(x)": "popc popcll",
    "vc.ctz(x) + 1": "ffs ffsll",
    "vc.clz(x)": "clzll",
    "vc.bit_reverse(x)": "brev brevll",
    "1 / math.sqrt(x)": "rsqrt rsqrtf",
    "-(-a // b)": "cdiv",
    "range(n)": "prange ndrange",
    "vc.global_id(axis), vc.barrier() and other functions of vkcompute": "cuda",
}
_ON_HOST = {
    "x.numpy()": "asnumpy to_numpy",
    "vkcompute.numpy, which has NumPy's functions": "get_array_module xp cupy",
    "vkcompute.numpy.{name}, or {name} of a runtime": "array zeros empty full",
    "vkcompute.numpy.{name}": "ones arange asarray linspace",
    "vkcompute.numpy.asarray(data), or array(data) of a runtime": "to_device device_put",
    "vkcompute.numpy.empty(shape, dtype)": "device_array",
    "wait() of a runtime": "synchronize",
    "vc.elementwise(expression), or vc.vectorize": "ElementwiseKernel",
    "vc.reduce(function, initial)": "ReductionKernel",
    "vc.kernel, or kernel(vc.glsl(text)) of a runtime": "RawKernel RawModule SourceModule",
    "vc.kernel or vc.vectorize": "njit cuda fuse",
    "-(-a // b)": "cdiv",
}
_INVERTED = {word: ours for ours, words in _IN_KERNELS.items() for word in words.split()}
_HOST_INVERTED = {word: ours for ours, words in _ON_HOST.items() for word in words.split()}
_SYNTAX = (
    (r"\?", "write 'a if condition else b'"),
    (r"&&|\|\|", "write 'and' and 'or'"),
    (r"!(?!=)", "write 'not x'"),
    (r"^\s*\w+\s*[-+*/]?=(?!=)|;", "give the value alone, as 'x + y'; a call returns the result, or stores it in out="),
    (r"\breturn\b", "give the value alone, without return"),
    (r"\d[fFuUlL]\b", "numbers have no suffix"),
    (r"\((float|double|int|unsigned|half|bool|char|long|short)\)", "write a conversion as a call, float32(x)"),
)
"""Pattern of an expression that is none in Python -> remedy."""


def in_kernels(name: str) -> str:
    """Returns "; write …" with our word for another system's in a kernel, or nothing."""
    plain = name.removeprefix("__").removesuffix("_sync")
    return f"; write {_INVERTED[plain]}" if plain in _INVERTED else ""


def on_host(name: str) -> str:
    """Returns "; write …" with our word for another system's outside of kernels, or nothing."""
    if name in _HOST_INVERTED:
        return f"; write {_HOST_INVERTED[name].format(name=name)}"
    word = in_kernels(name)
    return f"{word} in a kernel" if word else ""


def in_syntax(text: str) -> str:
    """Returns "; " and the remedy for an expression of C or an assignment, or nothing."""
    return next((f"; {remedy}" for pattern, remedy in _SYNTAX if re.search(pattern, text)), "")
