"""Functions of `vkcompute.numpy` in tables, by the module that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkcompute.arrays.functions import (
    assembly,
    calculus,
    files,
    histograms,
    logic,
    nans,
    number_parts,
    placement,
    polynomials,
    reductions,
    sequences,
    sets,
    standard,
    statistics,
    variance,
)

_NAMES = {
    assembly: "append array_split atleast_1d atleast_2d atleast_3d block column_stack delete dsplit dstack fliplr "
    "flipud hsplit hstack insert pad resize rollaxis rot90 split trim_zeros vsplit vstack",
    calculus: "convolve correlate ediff1d gradient interp trapezoid unwrap",
    files: "array2string array_repr array_str load loadtxt save savetxt savez savez_compressed",
    histograms: "bincount digitize histogram histogram2d histogram_bin_edges histogramdd",
    logic: "allclose array_equal array_equiv isclose iscomplex iscomplexobj isfortran isneginf isposinf isreal "
    "isrealobj isscalar iterable nan_to_num ndim real_if_close shape size",
    nans: "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    number_parts: "angle divmod fix float_power frexp ldexp modf",
    placement: "apply_along_axis apply_over_axes choose compress copyto diag diag_indices diag_indices_from diagflat "
    "extract fill_diagonal flatnonzero indices ix_ mask_indices piecewise place put put_along_axis putmask "
    "ravel_multi_index select tri tril_indices tril_indices_from triu_indices triu_indices_from unravel_index",
    polynomials: "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander",
    reductions: "all any argmax argmin count_nonzero max mean min prod ptp sum",
    sequences: "bartlett blackman frombuffer fromfunction fromiter geomspace hamming hanning kaiser logspace",
    sets: "in1d intersect1d isin setdiff1d setxor1d union1d",
    standard: "argpartition lexsort partition sort_complex topk",
    statistics: "average corrcoef cov median nanmedian nanpercentile nanquantile percentile quantile",
    variance: "std var",
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name) for module, names in _NAMES.items() for name in names.split()
}
"""Name -> function."""
