"""Triton's language, `import vkcompute.compat.triton.language as tl`."""

from __future__ import annotations

from vkcompute.compat.triton import math, types
from vkcompute.compat.triton.block_pointers import (
    advance,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
)
from vkcompute.compat.triton.compiler import StaticRange
from vkcompute.compat.triton.creation import arange, full, num_programs, program_id, zeros, zeros_like
from vkcompute.compat.triton.elementwise import PropagateNan, cast, clamp, maximum, minimum, sigmoid, where
from vkcompute.compat.triton.hints import (
    assume,
    debug_barrier,
    max_constancy,
    max_contiguous,
    multiple_of,
    static_assert,
    static_print,
)
from vkcompute.compat.triton.joining import cat, interleave, join, split
from vkcompute.compat.triton.math import (
    abs,
    cdiv,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from vkcompute.compat.triton.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    load,
    store,
)
from vkcompute.compat.triton.ordering import bitonic_merge, flip, gather, histogram, sort, topk
from vkcompute.compat.triton.products import dot
from vkcompute.compat.triton.random import rand, rand4x, randint, randint4x, randn, randn4x
from vkcompute.compat.triton.reductions import (
    argmax,
    argmin,
    associative_scan,
    cumprod,
    cumsum,
    max,
    min,
    reduce,
    softmax,
    sum,
    xor_sum,
)
from vkcompute.compat.triton.shapes import broadcast, broadcast_to, expand_dims, permute, ravel, reshape, trans, view
from vkcompute.compat.triton.types import DTYPES

__all__ = [
    "PropagateNan", "abs", "advance", "arange", "argmax", "argmin", "associative_scan", "assume", "atomic_add",
    "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "bfloat16",
    "bitonic_merge", "broadcast", "broadcast_to", "cast", "cat", "cdiv", "ceil", "clamp", "constexpr", "cos",
    "cumprod", "cumsum", "debug_barrier", "div_rn", "dot", "dtype", "erf", "exp", "exp2", "expand_dims", "flip",
    "float16", "float32", "float64", "floor", "fma", "full", "gather", "histogram", "int1", "int16", "int32",
    "int64", "int8", "interleave", "join", "load", "load_tensor_descriptor", "log", "log2", "make_block_ptr",
    "make_tensor_descriptor", "math", "max", "max_constancy", "max_contiguous", "maximum", "min", "minimum",
    "multiple_of", "num_programs", "permute", "pointer_type", "program_id", "rand", "rand4x", "randint",
    "randint4x", "randn", "randn4x", "range", "ravel", "reduce", "reshape", "rsqrt", "sigmoid", "sin", "softmax",
    "sort", "split", "sqrt", "sqrt_rn", "static_assert", "static_print", "static_range", "store",
    "store_tensor_descriptor", "sum", "topk", "trans", "uint16", "uint32", "uint64", "uint8", "umulhi", "view",
    "where", "xor_sum", "zeros", "zeros_like",
]  # fmt: skip

constexpr, dtype, pointer_type = types.Constexpr, types.Dtype, types.PointerType
range, static_range = StaticRange("range"), StaticRange("static_range")
int1, int8, int16, int32, int64 = (DTYPES[f"int{bits}"] for bits in (1, 8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64))
bfloat16 = DTYPES["bfloat16"]
float16, float32, float64 = (DTYPES[f"float{bits}"] for bits in (16, 32, 64))
