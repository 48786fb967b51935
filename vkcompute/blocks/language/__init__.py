"""The block language: the functions, dtypes and hints that block programs use.

    from vkcompute.blocks import language as tl

Programs of the library are written with these names. `compat.triton.language` adds what only Triton's users need.
"""

from __future__ import annotations

import builtins

from vkcompute.blocks.compiler import types
from vkcompute.blocks.compiler.block_loops import LoopRange
from vkcompute.blocks.compiler.complex_blocks import conj as conj
from vkcompute.blocks.compiler.types import DTYPES
from vkcompute.blocks.language import math as math
from vkcompute.blocks.language.block_pointers import (
    advance,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store_tensor_descriptor,
)
from vkcompute.blocks.language.creation import (
    MOST_ELEMENTS,
    arange,
    full,
    num_programs,
    program_id,
    swizzle2d,
    to_tensor,
    zeros,
    zeros_like,
)
from vkcompute.blocks.language.elementwise import (
    PropagateNan,
    add,
    cast,
    clamp,
    expect_zero,
    fdiv,
    maximum,
    minimum,
    mul,
    sigmoid,
    sub,
    where,
)
from vkcompute.blocks.language.hints import (
    assume,
    condition,
    debug_barrier,
    device_assert,
    device_print,
    max_constancy,
    max_contiguous,
    multiple_of,
    static_assert,
    static_print,
)
from vkcompute.blocks.language.joining import cat, interleave, join, split
from vkcompute.blocks.language.mapping import map_elementwise
from vkcompute.blocks.language.math import (
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
from vkcompute.blocks.language.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_poll,
    atomic_store,
    atomic_xchg,
    atomic_xor,
    load,
    store,
)
from vkcompute.blocks.language.ordering import bitonic_merge, flip, gather, histogram, sort, topk
from vkcompute.blocks.language.products import dot
from vkcompute.blocks.language.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from vkcompute.blocks.language.reductions import (
    argmax,
    argmin,
    associative_scan,
    cumprod,
    cumsum,
    max,
    min,
    reduce,
    reduce_or,
    softmax,
    sum,
    xor_sum,
)
from vkcompute.blocks.language.scaled_products import dot_scaled
from vkcompute.blocks.language.shapes import (
    broadcast,
    broadcast_to,
    expand_dims,
    permute,
    ravel,
    reshape,
    squeeze,
    trans,
    unsqueeze,
    view,
)
from vkcompute.jit.frontend.values import Number

__all__ = [
    "PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "abs", "add", "advance", "arange", "argmax", "argmin",
    "associative_scan", "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_load", "atomic_max",
    "atomic_min", "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg", "atomic_xor", "bfloat16",
    "bitonic_merge", "block_type", "broadcast", "broadcast_to", "cast", "cat", "cdiv", "ceil", "clamp",
    "condition", "const", "constexpr", "constexpr_type", "cos", "cumprod", "cumsum", "debug_barrier",
    "device_assert", "device_print", "div_rn", "dot", "dot_scaled", "dtype", "erf", "exp", "exp2", "expand_dims",
    "expect_zero", "fdiv", "flip", "float16", "float32", "float64", "float8e4b15", "float8e4b8",
    "float8e4nv", "float8e5", "float8e5b16", "floor", "fma", "full", "gather", "histogram",
    "int1", "int16", "int32", "int64", "int8", "interleave", "join", "load",
    "load_tensor_descriptor", "log", "log2", "make_block_ptr", "make_tensor_descriptor", "map_elementwise",
    "max", "max_constancy", "max_contiguous", "maximum", "min", "minimum", "mul", "multiple_of", "num_programs",
    "pair_uniform_to_normal", "permute", "philox", "philox_impl", "pi32_t", "pointer_type", "program_id", "rand",
    "rand4x", "randint", "randint4x", "randn", "randn4x", "range", "ravel", "reduce", "reduce_or", "reshape",
    "rsqrt", "sigmoid", "sin", "slice", "softmax", "sort", "split", "sqrt", "sqrt_rn", "squeeze", "static_assert",
    "static_print", "static_range", "store", "store_tensor_descriptor", "sub", "sum", "swizzle2d",
    "tensor", "tensor_descriptor", "tensor_descriptor_type", "to_tensor", "topk", "trans", "tuple", "tuple_type",
    "uint16", "uint32", "uint64", "uint8", "uint_to_uniform_float", "umulhi", "unsqueeze", "view", "void", "where",
    "xor_sum", "zeros", "zeros_like",
]  # fmt: skip

constexpr, dtype, pointer_type = types.Constexpr, types.Dtype, types.PointerType
constexpr_type, tuple_type, tensor_descriptor_type = types.ConstexprType, types.TupleType, types.DescriptorType
range, static_range = LoopRange("range"), LoopRange("static_range")
int1, int8, int16, int32, int64 = (DTYPES[f"int{bits}"] for bits in (1, 8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64))
bfloat16 = DTYPES["bfloat16"]
complex64, complex128 = types.COMPLEX.values()  # not of Triton, so that no * imports them
float16, float32, float64 = (DTYPES[f"float{bits}"] for bits in (16, 32, 64))
float8e4b15, float8e4nv, float8e4b8, float8e5, float8e5b16 = (DTYPES[name] for name in types.FLOAT8)
pi32_t, block_type, tensor, tensor_descriptor = types.PointerType(int32), types.BlockType, Number, types.Descriptor
const, void, tuple, slice = types.Const, None, builtins.tuple, builtins.slice
TRITON_MAX_TENSOR_NUMEL = MOST_ELEMENTS
