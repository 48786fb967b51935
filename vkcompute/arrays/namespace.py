"""The names of `vkcompute.numpy`, which imports this module on first use: it loads the compiler and the driver."""

from __future__ import annotations

import math

import numpy as _np

from vkcompute.arrays import assembly as _assembly
from vkcompute.arrays import calculus as _calculus
from vkcompute.arrays import files as _files
from vkcompute.arrays import histograms as _histograms
from vkcompute.arrays import logic as _logic
from vkcompute.arrays import nans as _nans
from vkcompute.arrays import number_parts as _number_parts
from vkcompute.arrays import operators as _operators
from vkcompute.arrays import placement as _placement
from vkcompute.arrays import polynomials as _polynomials
from vkcompute.arrays import reductions as _reductions
from vkcompute.arrays import sequences as _sequences
from vkcompute.arrays import sets as _sets
from vkcompute.arrays import standard as _standard
from vkcompute.arrays import statistics as _statistics
from vkcompute.arrays import variance as _variance
from vkcompute.arrays.bits import byteswapped as _byteswapped
from vkcompute.arrays.bits import packbits as packbits
from vkcompute.arrays.bits import unpackbits as unpackbits
from vkcompute.arrays.creation import arange as arange
from vkcompute.arrays.creation import array as array
from vkcompute.arrays.creation import asanyarray as asanyarray
from vkcompute.arrays.creation import asarray as asarray
from vkcompute.arrays.creation import ascontiguousarray as ascontiguousarray
from vkcompute.arrays.creation import asfortranarray as asfortranarray
from vkcompute.arrays.creation import astype as astype
from vkcompute.arrays.creation import copy as copy
from vkcompute.arrays.creation import empty as empty
from vkcompute.arrays.creation import empty_like as empty_like
from vkcompute.arrays.creation import eye as eye
from vkcompute.arrays.creation import from_dlpack as from_dlpack
from vkcompute.arrays.creation import full as full
from vkcompute.arrays.creation import full_like as full_like
from vkcompute.arrays.creation import identity as identity
from vkcompute.arrays.creation import linspace as linspace
from vkcompute.arrays.creation import meshgrid as meshgrid
from vkcompute.arrays.creation import ones as ones
from vkcompute.arrays.creation import ones_like as ones_like
from vkcompute.arrays.creation import tril as tril
from vkcompute.arrays.creation import triu as triu
from vkcompute.arrays.creation import zeros as zeros
from vkcompute.arrays.creation import zeros_like as zeros_like
from vkcompute.arrays.einsum import einsum as einsum
from vkcompute.arrays.grids import c_ as c_
from vkcompute.arrays.grids import mgrid as mgrid
from vkcompute.arrays.grids import ogrid as ogrid
from vkcompute.arrays.grids import r_ as r_
from vkcompute.arrays.host_polynomials import poly1d as poly1d
from vkcompute.arrays.inspection import can_cast as can_cast
from vkcompute.arrays.inspection import common_type as common_type
from vkcompute.arrays.inspection import finfo as finfo
from vkcompute.arrays.inspection import iinfo as iinfo
from vkcompute.arrays.inspection import isdtype as isdtype
from vkcompute.arrays.inspection import may_share_memory as may_share_memory
from vkcompute.arrays.inspection import min_scalar_type as min_scalar_type
from vkcompute.arrays.inspection import namespace_info as namespace_info
from vkcompute.arrays.inspection import shares_memory as shares_memory
from vkcompute.arrays.launches import info as info
from vkcompute.arrays.lines import copy_into as copy_into
from vkcompute.arrays.manipulation import broadcast_arrays as broadcast_arrays
from vkcompute.arrays.manipulation import broadcast_shapes as broadcast_shapes
from vkcompute.arrays.manipulation import broadcast_to as broadcast_to
from vkcompute.arrays.manipulation import concat as concat
from vkcompute.arrays.manipulation import expand_dims as expand_dims
from vkcompute.arrays.manipulation import flip as flip
from vkcompute.arrays.manipulation import matrix_transpose as matrix_transpose
from vkcompute.arrays.manipulation import moveaxis as moveaxis
from vkcompute.arrays.manipulation import permute_dims as permute_dims
from vkcompute.arrays.manipulation import ravel as ravel
from vkcompute.arrays.manipulation import reshape as reshape
from vkcompute.arrays.manipulation import result_type as result_type
from vkcompute.arrays.manipulation import roll as roll
from vkcompute.arrays.manipulation import sliding_window_view as sliding_window_view
from vkcompute.arrays.manipulation import squeeze as squeeze
from vkcompute.arrays.manipulation import stack as stack
from vkcompute.arrays.manipulation import swapaxes as swapaxes
from vkcompute.arrays.manipulation import tile as tile
from vkcompute.arrays.manipulation import unstack as unstack
from vkcompute.arrays.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.products import cross as cross
from vkcompute.arrays.products import diagonal as diagonal
from vkcompute.arrays.products import dot as dot
from vkcompute.arrays.products import inner as inner
from vkcompute.arrays.products import kron as kron
from vkcompute.arrays.products import matmul as matmul
from vkcompute.arrays.products import matvec as matvec
from vkcompute.arrays.products import outer as outer
from vkcompute.arrays.products import tensordot as tensordot
from vkcompute.arrays.products import trace as trace
from vkcompute.arrays.products import vdot as vdot
from vkcompute.arrays.products import vecdot as vecdot
from vkcompute.arrays.products import vecmat as vecmat
from vkcompute.arrays.promotion import set_default_dtype as set_default_dtype
from vkcompute.arrays.protocols import array_function as array_function
from vkcompute.arrays.protocols import array_ufunc as array_ufunc
from vkcompute.arrays.standard import argsort as argsort
from vkcompute.arrays.standard import argwhere as argwhere
from vkcompute.arrays.standard import cumprod as cumprod
from vkcompute.arrays.standard import cumsum as cumsum
from vkcompute.arrays.standard import cumulative_prod as cumulative_prod
from vkcompute.arrays.standard import cumulative_sum as cumulative_sum
from vkcompute.arrays.standard import diff as diff
from vkcompute.arrays.standard import nonzero as nonzero
from vkcompute.arrays.standard import repeat as repeat
from vkcompute.arrays.standard import searchsorted as searchsorted
from vkcompute.arrays.standard import sort as sort
from vkcompute.arrays.standard import take as take
from vkcompute.arrays.standard import take_along_axis as take_along_axis
from vkcompute.arrays.standard import unique as unique
from vkcompute.arrays.standard import unique_all as unique_all
from vkcompute.arrays.standard import unique_counts as unique_counts
from vkcompute.arrays.standard import unique_inverse as unique_inverse
from vkcompute.arrays.standard import unique_values as unique_values
from vkcompute.arrays.standard import where as where
from vkcompute.arrays.ufunc import clip as clip
from vkcompute.arrays.ufunc import round as round
from vkcompute.arrays.ufunc_methods import function_of_elements as _function_of_elements
from vkcompute.jit.elementwise.elementwise import vectorize as vectorize
from vkcompute.operations import public as _public
from vkcompute.runtime.memory.array import Array as Array
from vkcompute.runtime.runtime import current_runtime as current_runtime
from vkcompute.runtime.runtime import default_runtime as default_runtime

_FUNCTIONS = {
    _assembly: "append array_split atleast_1d atleast_2d atleast_3d block column_stack delete dsplit dstack fliplr "
    "flipud hsplit hstack insert pad resize rollaxis rot90 split trim_zeros vsplit vstack",
    _calculus: "convolve correlate ediff1d gradient interp trapezoid unwrap",
    _files: "array2string array_repr array_str load loadtxt save savetxt savez savez_compressed",
    _histograms: "bincount digitize histogram histogram2d histogram_bin_edges histogramdd",
    _logic: "allclose array_equal array_equiv isclose iscomplex iscomplexobj isfortran isneginf isposinf isreal "
    "isrealobj isscalar iterable nan_to_num ndim real_if_close shape size",
    _nans: "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    _number_parts: "angle divmod fix float_power frexp i0 ldexp modf",
    _placement: "apply_along_axis apply_over_axes choose compress copyto diag diag_indices diag_indices_from diagflat "
    "extract fill_diagonal flatnonzero indices ix_ mask_indices piecewise place put put_along_axis putmask "
    "ravel_multi_index select tri tril_indices tril_indices_from triu_indices triu_indices_from unravel_index",
    _polynomials: "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander",
    _reductions: "all any argmax argmin count_nonzero max mean min prod ptp sum",
    _sequences: "bartlett blackman frombuffer fromfunction fromiter geomspace hamming hanning kaiser logspace",
    _sets: "in1d intersect1d isin setdiff1d setxor1d union1d",
    _standard: "argpartition lexsort partition sort_complex topk",
    _statistics: "average corrcoef cov median nanmedian nanpercentile nanquantile percentile quantile",
    _variance: "std var",
}
_OF_NUMPY = (
    "base_repr", "binary_repr", "complexfloating", "dtype", "errstate", "floating", "format_float_positional",
    "format_float_scientific", "generic", "inexact", "integer", "mintypecode", "number", "signedinteger", "typename",
    "unsignedinteger", "get_printoptions", "geterr", "index_exp", "issubdtype", "ndindex", "printoptions",
    "promote_types", "s_", "set_printoptions", "seterr", "byte", "cdouble", "csingle", "double", "half", "int_", "intc",
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
for _module, _names in _FUNCTIONS.items():
    for _name in _names.split():
        globals()[_name] = getattr(_module, _name)
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
get_item, operate, set_item = _operators.get_item, _operators.operate, _operators.set_item
copied = _operators.copied
byteswapped = _byteswapped
