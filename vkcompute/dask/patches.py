"""Functions of Dask without a dispatch, wrapped: they call others that take NumPy arrays only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.array import core, linalg, random, reductions, routines, utils
from dask.array.backends import NumpyBackendEntrypoint
from dask.array.slicing import shuffle_slice

import vkcompute.numpy as vnp
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of


def _on_host(value: Any) -> Any:
    return value.numpy() if type(value) is Array else value


def _computed_by_host(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the caller of SciPy's matrix functions: the host computes, as it does for most of `vnp.linalg`."""

    @wraps(call)
    def wrapper(name: str, *args: Any, **named: Any) -> Any:
        runtime = next((runtime_of(arg) for arg in args if type(arg) is Array), None)
        result = call(name, *map(_on_host, args), **named)
        if runtime is None:
            return result
        return tuple(map(runtime.array, result)) if isinstance(result, tuple) else runtime.array(result)

    return wrapper


def _through_host(decompose: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that makes tasks of SciPy's functions: they compute with NumPy chunks."""

    @wraps(decompose)
    def wrapper(a: Any) -> Any:
        if type(a._meta) is not Array:
            return decompose(a)
        factors = decompose(a.map_blocks(_on_host, meta=np.empty((0,) * a.ndim, a.dtype)))
        return tuple([factor.map_blocks(vnp.asarray, factor.dtype, meta=a._meta) for factor in factors])

    return wrapper


def _inverted(invert: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the inversion of matrices, which makes an identity matrix of NumPy's float64 chunks."""

    @wraps(invert)
    def wrapper(a: Any) -> Any:
        if type(a._meta) is not Array:
            return invert(a)
        eye = core.from_array(np.eye(a.shape[0], dtype=a.dtype), chunks=a.chunks)
        return linalg.solve(a, eye.map_blocks(vnp.asarray, meta=a._meta))

    return wrapper


def _of_each_chunk(to_backend: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the conversion to NumPy chunks: Dask takes the chunks of some results for NumPy's, as those of masks."""

    @wraps(to_backend)
    def wrapper(data: Any, **named: Any) -> Any:
        converted = to_backend(data, **named)
        return data.map_blocks(_on_host, meta=data._meta, **named) if converted is data else converted

    return wrapper


def _planned_by_host(permute: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the permutation of collections: Dask plans its slices by dozens of steps on the places."""

    @wraps(permute)
    def wrapper(self: Any, x: Any) -> Any:
        if self._backend_name != "vkcompute":
            return permute(self, x)
        collection = da.arange(x, chunks="auto") if np.ndim(x) == 0 else x
        return shuffle_slice(collection, self._bit_generator.permutation(len(collection)).numpy())

    return wrapper


def _stored_from_host(store: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function that writes a chunk to a file or an array of the host."""

    @wraps(store)
    def wrapper(x: Any, *args: Any, **named: Any) -> Any:
        return store(_on_host(x), *args, **named)

    return wrapper


def _merged_by_host(merge: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the merging of percentiles: dozens of steps on a few numbers, in float64, which not every device has."""

    @wraps(merge)
    def wrapper(final: Any, qs: Any, values: Any, *args: Any, **named: Any) -> Any:
        given = list(values)
        parts = [pair[0] for pair in given if isinstance(pair, tuple) and type(pair[0]) is Array]
        if not parts:
            return merge(final, qs, given, *args, **named)
        on_host = [(_on_host(values), n) for values, n in given]
        quantiles = merge(_on_host(final), [_on_host(q) for q in qs], on_host, *args, **named)
        return runtime_of(parts[0]).array(
            quantiles.astype(parts[0].dtype) if quantiles.dtype == np.float64 else quantiles
        )

    return wrapper


def _of_real_type(aggregate: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """Wraps the last steps of variances: Dask makes floats of a sample of the result, complex for complex chunks.

    Args:
        defaults: of its arguments, in place of Dask's.
    """

    @wraps(aggregate)
    def wrapper(pairs: Any, *args: Any, computing_meta: bool = False, **named: Any) -> Any:
        moments = aggregate(pairs, *args, computing_meta=computing_meta, **{**defaults, **named})
        return moments.real if computing_meta and type(moments) is Array else moments

    return wrapper


def _unique_of_host(unique: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function for distinct elements, whose tasks put them with their indices and numbers into records."""

    @wraps(unique)
    def wrapper(ar: Any, *args: Any, **named: Any) -> Any:
        if type(getattr(ar, "_meta", None)) is not Array or not (any(args) or any(named.values())):
            return unique(ar, *args, **named)
        with config.set({"array.backend": "numpy"}):  # of the indices and numbers that it makes
            results = unique(ar.map_blocks(_on_host, meta=np.empty((0,) * ar.ndim, ar.dtype)), *args, **named)
        return tuple([result.map_blocks(vnp.asarray, meta=vnp.asarray(result._meta)) for result in results])

    return wrapper


def register() -> None:
    """Wraps the functions."""
    da.unique = routines.unique = _unique_of_host(routines.unique)
    percentile: Any = import_module("dask.array.percentile")  # dask.array has a function of this name
    percentile.merge_percentiles = _merged_by_host(percentile.merge_percentiles)
    # Quotients are of the type of totals and numbers, not of float64, which not every device has.
    reductions.moment_combine = _of_real_type(reductions.moment_combine, dtype=None)
    reductions.moment_agg = _of_real_type(reductions.moment_agg)
    linalg.inv = _inverted(linalg.inv)
    linalg.lu = _through_host(linalg.lu)
    random.Generator.permutation = _planned_by_host(random.Generator.permutation)
    NumpyBackendEntrypoint.to_backend = staticmethod(_of_each_chunk(NumpyBackendEntrypoint.to_backend))
    utils.scipy_linalg_safe = _computed_by_host(utils.scipy_linalg_safe)
    core.load_store_chunk = _stored_from_host(core.load_store_chunk)
