"""The names of `vkcompute.numpy`, which imports this module on first use: it loads the compiler and the driver."""

from __future__ import annotations

import math

import numpy as _np

from vkcompute.arrays.expressions.launches import info as info
from vkcompute.arrays.expressions.promotion import set_default_dtype as set_default_dtype
from vkcompute.arrays.expressions.ufunc import clip as clip
from vkcompute.arrays.expressions.ufunc import round as round
from vkcompute.arrays.function_table import FUNCTIONS as _FUNCTIONS
from vkcompute.arrays.functions import reductions as _reductions
from vkcompute.arrays.functions.bits import packbits as packbits
from vkcompute.arrays.functions.bits import unpackbits as unpackbits
from vkcompute.arrays.functions.creation import arange as arange
from vkcompute.arrays.functions.creation import array as array
from vkcompute.arrays.functions.creation import asanyarray as asanyarray
from vkcompute.arrays.functions.creation import asarray as asarray
from vkcompute.arrays.functions.creation import ascontiguousarray as ascontiguousarray
from vkcompute.arrays.functions.creation import asfortranarray as asfortranarray
from vkcompute.arrays.functions.creation import astype as astype
from vkcompute.arrays.functions.creation import copy as copy
from vkcompute.arrays.functions.creation import empty as empty
from vkcompute.arrays.functions.creation import empty_like as empty_like
from vkcompute.arrays.functions.creation import eye as eye
from vkcompute.arrays.functions.creation import from_dlpack as from_dlpack
from vkcompute.arrays.functions.creation import full as full
from vkcompute.arrays.functions.creation import full_like as full_like
from vkcompute.arrays.functions.creation import identity as identity
from vkcompute.arrays.functions.creation import linspace as linspace
from vkcompute.arrays.functions.creation import meshgrid as meshgrid
from vkcompute.arrays.functions.creation import ones as ones
from vkcompute.arrays.functions.creation import ones_like as ones_like
from vkcompute.arrays.functions.creation import tril as tril
from vkcompute.arrays.functions.creation import triu as triu
from vkcompute.arrays.functions.creation import zeros as zeros
from vkcompute.arrays.functions.creation import zeros_like as zeros_like
from vkcompute.arrays.functions.einsum import einsum as einsum
from vkcompute.arrays.functions.grids import c_ as c_
from vkcompute.arrays.functions.grids import mgrid as mgrid
from vkcompute.arrays.functions.grids import ogrid as ogrid
from vkcompute.arrays.functions.grids import r_ as r_
from vkcompute.arrays.functions.host_polynomials import poly1d as poly1d
from vkcompute.arrays.functions.inspection import can_cast as can_cast
from vkcompute.arrays.functions.inspection import common_type as common_type
from vkcompute.arrays.functions.inspection import finfo as finfo
from vkcompute.arrays.functions.inspection import iinfo as iinfo
from vkcompute.arrays.functions.inspection import isdtype as isdtype
from vkcompute.arrays.functions.inspection import may_share_memory as may_share_memory
from vkcompute.arrays.functions.inspection import min_scalar_type as min_scalar_type
from vkcompute.arrays.functions.inspection import namespace_info as namespace_info
from vkcompute.arrays.functions.inspection import promote_types as promote_types
from vkcompute.arrays.functions.inspection import shares_memory as shares_memory
from vkcompute.arrays.functions.manipulation import broadcast_arrays as broadcast_arrays
from vkcompute.arrays.functions.manipulation import broadcast_shapes as broadcast_shapes
from vkcompute.arrays.functions.manipulation import broadcast_to as broadcast_to
from vkcompute.arrays.functions.manipulation import concat as concat
from vkcompute.arrays.functions.manipulation import expand_dims as expand_dims
from vkcompute.arrays.functions.manipulation import flip as flip
from vkcompute.arrays.functions.manipulation import matrix_transpose as matrix_transpose
from vkcompute.arrays.functions.manipulation import moveaxis as moveaxis
from vkcompute.arrays.functions.manipulation import permute_dims as permute_dims
from vkcompute.arrays.functions.manipulation import ravel as ravel
from vkcompute.arrays.functions.manipulation import reshape as reshape
from vkcompute.arrays.functions.manipulation import result_type as result_type
from vkcompute.arrays.functions.manipulation import roll as roll
from vkcompute.arrays.functions.manipulation import sliding_window_view as sliding_window_view
from vkcompute.arrays.functions.manipulation import squeeze as squeeze
from vkcompute.arrays.functions.manipulation import stack as stack
from vkcompute.arrays.functions.manipulation import swapaxes as swapaxes
from vkcompute.arrays.functions.manipulation import tile as tile
from vkcompute.arrays.functions.manipulation import unstack as unstack
from vkcompute.arrays.functions.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.functions.products import cross as cross
from vkcompute.arrays.functions.products import diagonal as diagonal
from vkcompute.arrays.functions.products import dot as dot
from vkcompute.arrays.functions.products import inner as inner
from vkcompute.arrays.functions.products import kron as kron
from vkcompute.arrays.functions.products import matmul as matmul
from vkcompute.arrays.functions.products import matvec as matvec
from vkcompute.arrays.functions.products import outer as outer
from vkcompute.arrays.functions.products import tensordot as tensordot
from vkcompute.arrays.functions.products import trace as trace
from vkcompute.arrays.functions.products import vdot as vdot
from vkcompute.arrays.functions.products import vecdot as vecdot
from vkcompute.arrays.functions.products import vecmat as vecmat
from vkcompute.arrays.functions.standard import argsort as argsort
from vkcompute.arrays.functions.standard import argwhere as argwhere
from vkcompute.arrays.functions.standard import cumprod as cumprod
from vkcompute.arrays.functions.standard import cumsum as cumsum
from vkcompute.arrays.functions.standard import cumulative_prod as cumulative_prod
from vkcompute.arrays.functions.standard import cumulative_sum as cumulative_sum
from vkcompute.arrays.functions.standard import diff as diff
from vkcompute.arrays.functions.standard import nonzero as nonzero
from vkcompute.arrays.functions.standard import repeat as repeat
from vkcompute.arrays.functions.standard import searchsorted as searchsorted
from vkcompute.arrays.functions.standard import sort as sort
from vkcompute.arrays.functions.standard import take as take
from vkcompute.arrays.functions.standard import take_along_axis as take_along_axis
from vkcompute.arrays.functions.standard import unique as unique
from vkcompute.arrays.functions.standard import unique_all as unique_all
from vkcompute.arrays.functions.standard import unique_counts as unique_counts
from vkcompute.arrays.functions.standard import unique_inverse as unique_inverse
from vkcompute.arrays.functions.standard import unique_values as unique_values
from vkcompute.arrays.functions.standard import where as where
from vkcompute.arrays.functions.ufunc_methods import function_of_elements as _function_of_elements
from vkcompute.jit.elementwise.elementwise import vectorize as vectorize
from vkcompute.operations import public as _public
from vkcompute.runtime.memory.array import Array as Array
from vkcompute.runtime.runtime import current_runtime as current_runtime
from vkcompute.runtime.runtime import default_runtime as default_runtime

_OF_NUMPY = (
    "base_repr", "binary_repr", "complexfloating", "dtype", "errstate", "floating", "format_float_positional",
    "format_float_scientific", "generic", "inexact", "integer", "mintypecode", "number", "signedinteger", "typename",
    "unsignedinteger", "get_printoptions", "geterr", "index_exp", "issubdtype", "ndindex", "printoptions",
    "s_", "set_printoptions", "seterr", "byte", "cdouble", "csingle", "double", "half", "int_", "intc",
    "intp", "longlong", "short", "single", "ubyte", "uint", "uintc", "uintp", "ulonglong", "ushort",
)  # fmt: skip
"""Names of NumPy as they are. Devices raise no floating-point errors, so that errstate has no effect."""
_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip

for _function in _public("numpy"):
    for _name in (_function.name, *_function.aliases):
        globals()[_name] = _function_of_elements(_name, _function.name)
globals().update(_FUNCTIONS)
for _name in _OF_NUMPY:
    globals()[_name] = getattr(_np, _name)
for _name in _DTYPES:
    globals()[_name] = _np.dtype(_name).type


def real(val: Array) -> Array:
    """Returns the view of the real parts; `val` itself if it is not complex."""
    return val.real


def imag(val: Array) -> Array:
    """Returns the view of the imaginary parts; zeros for an array that is not complex."""
    return val.imag


around = round
amax, amin, concatenate, transpose = _reductions.max, _reductions.min, concat, permute_dims
bool_, ndarray = _np.bool_, Array
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
euler_gamma, True_, False_ = _np.euler_gamma, _np.True_, _np.False_
__array_api_version__, __array_namespace_info__ = "2025.12", namespace_info
_accept_host_data(globals())
