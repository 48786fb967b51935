"""The array multiply: c = a * b for every dtype that the device has, on device arrays, a group's and the host's.

Operands of one shape and dtype, and scalars, have a shader. Others are multiplied as by `vkcompute.numpy.multiply`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.arrays.expressions.promotion import common, kind_of
from vkcompute.arrays.expressions.ufunc import apply, assign
from vkcompute.arrays.functions.operands import on_device
from vkcompute.compiled.blocks import block_of
from vkcompute.core.buffer_view import TEXEL_BYTES
from vkcompute.core.quirks import quirks_of
from vkcompute.pipelines.npy_file import NpyFile
from vkcompute.pipelines.product_stream import Operand, Progress, Target, product_shape, stream, stream_broadcast
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.groups.group import GroupArray
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.memory.host_data import refuse_mask
from vkcompute.runtime.runtime import Runtime, current_runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter
from vkcompute.runtime.streams.stream import CHUNK_BYTES, clash

HostArray = npt.NDArray[Any]
_Number = complex | np.generic

_LOCAL_SIZE = 256
_WINDOW_ALIGN = 4096
_IN_SHADERS = "iuf"  # kinds of dtypes
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


class Multiplier:
    """Multiplies arrays of one dtype on one runtime, by the variant of shaders/multiply.comp for its device.

    Results equal numpy's bit for bit, except for NaN payloads and flushed subnormals. SwiftShader flushes those of
    float32, lavapipe of Mesa 26 those of float32 and float64.
    """

    def __init__(self, runtime: Runtime, dtype: npt.DTypeLike) -> None:
        self.runtime, self.dtype = runtime, dtypes.lookup(dtype, in_kernels=True).numpy
        device = runtime.device
        limits = device.physical.limits
        texels = quirks_of(device.physical).texel_loads and "shaderInt64" in device.features  # both used by the variant
        unsigned = self.dtype.name.replace("uint", "int").replace("int", "uint")  # products of integers wrap alike
        self._name = f"multiply_{unsigned}"
        if texels:
            self._name += "_texels64" if block_of(runtime, [4]).word == "uint64" else "_texels32"
        self._item_bytes = 2 * TEXEL_BYTES if texels else 16
        self._local_size = min(_LOCAL_SIZE, limits["maxComputeWorkGroupInvocations"])
        largest = device.max_binding_bytes
        if texels:
            largest = min(largest, limits["maxTexelBufferElements"] * TEXEL_BYTES)
        self._window_bytes = largest // _WINDOW_ALIGN * _WINDOW_ALIGN
        self._align = runtime.device.memory.align
        self._groups = limits["maxComputeWorkGroupCount"]
        self._kernels: dict[bool, Kernel] = {}

    def __call__(self, a: Array, b: Array | np.generic, out: Array) -> Future:
        """Launches out = a * b. `b` is an array of a's shape, or a numpy scalar of its dtype. `out` may be `a` or `b`.

        Arrays larger than the device's largest binding are launched in windows. Views that cannot be bound, because
        of their alignment or strides, are copied on the device.
        """
        array_b = isinstance(b, Array)
        word = bytes(16) if isinstance(b, Array) else (b.tobytes() * 16)[:16]
        scalar = np.frombuffer(word, np.uint32)
        inputs = [self._bindable(array) for array in (a, b if isinstance(b, Array) else a)]
        direct = self._fits(out) and not any(_overlaps_shifted(array, out) for array in inputs)
        target = out if direct else self.runtime.empty(out.shape, out.dtype)
        arrays = [*inputs, target]
        if self.runtime.scheduler.recordings and (graph := recording_graph(self.runtime.scheduler)) is not None:
            for array in inputs:
                graph.require_apart(array, target, unless_same=True)
        if out.nbytes <= self._window_bytes:
            future = self._launch(arrays, scalar, array_b)
        else:
            flat = [array.reshape(-1).view(np.uint8) for array in arrays]
            scheduler = self.runtime.scheduler  # all windows on one queue: the last future covers all
            queue = None if scheduler.recording() is not None else scheduler.placement.compute[0].index
            for start in range(0, out.nbytes, self._window_bytes):
                window = slice(start, min(start + self._window_bytes, out.nbytes))
                future = self._launch([array[window] for array in flat], scalar, array_b, queue)
        return future if target is out else out.copy_from(target)

    def _bindable(self, array: Array) -> Array:
        return array if self._fits(array) else array.copy()

    def _fits(self, array: Array) -> bool:
        """True if the kernels can bind the array: contiguous, aligned, and ending with a whole item or its buffer."""
        start, stop = array.offset, array.offset + array.nbytes
        ends_whole = array.nbytes % self._item_bytes == 0 or stop == array.buffer.used_bytes
        return array.contiguous and start % self._align == 0 and ends_whole

    def _launch(
        self, arrays: list[Array], scalar: npt.NDArray[np.uint32], array_b: bool, queue: int | None = None
    ) -> Future:
        n_items = -(-arrays[2].nbytes // self._item_bytes)
        n_groups = -(-n_items // self._local_size)
        x = min(n_groups, self._groups[0])
        kernel = self._kernels.get(array_b)
        if kernel is None:
            constants: dict[int | str, Any] = {0: self._local_size, 1: not array_b}
            kernel = self._kernels[array_b] = self.runtime.kernel(
                self._name, name=f"multiply {self.dtype}", constants=constants, check_types=False
            )
        return kernel(*arrays, n_items, *scalar.tolist(), grid=(x, -(-n_groups // max(x, 1)), 1), queue=queue)


def _overlaps_shifted(array: Array, out: Array) -> bool:
    """True if `out` overlaps the input, but is not the same view: the kernel would read overwritten elements."""
    return array.overlaps(out) and (array.offset, array.strides) != (out.offset, out.strides)


@overload
def multiply(a: GroupArray, b: Any, out: GroupArray | None = None) -> GroupArray: ...


@overload
def multiply(a: Array, b: Array | _Number, out: Array | None = None) -> Array: ...


@overload
def multiply(a: _Number, b: Array, out: Array | None = None) -> Array: ...


@overload
def multiply(
    a: HostArray | _Number | Sequence[Any],
    b: HostArray | _Number | Sequence[Any],
    out: HostArray | None = None,
    *,
    runtime: Runtime | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> HostArray: ...


def multiply(
    a: npt.ArrayLike | Array | GroupArray,
    b: npt.ArrayLike | Array | GroupArray,
    out: HostArray | Array | GroupArray | None = None,
    *,
    runtime: Runtime | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Any:
    """Multiplies element by element on the device.

    If `a` or `b` is a device array, so is the result, and the launch is asynchronous. A NumPy array beside it is copied
    to the device, with a `HostCopyWarning`. Dask arrays are multiplied chunk by chunk, when Dask computes the result.
    Arrays of a group are multiplied on all of its devices at the same time. NumPy arrays of any size are streamed
    through the device in chunks; their product is a NumPy array.

    Args:
        a, b: operands whose shapes broadcast, with NumPy 2's promotion of dtypes. Operands of one shape and dtype,
            and scalars, are fastest. An input of a graph cannot be a scalar operand, since a scalar is fixed when
            recorded.
        out: the destination, of the result's shape and dtype. It may overlap the inputs.
        runtime: for NumPy arrays; None means the current one. Device arrays are multiplied on their own runtime.
        chunk_bytes: bytes of one array per chunk.
        progress: called after each chunk.

    Raises:
        ValueError: shapes do not broadcast, or a Python int does not fit the dtype.
        TypeError: a dtype is not supported by arrays, or an array of a group meets one that is not.
        MissingFeature: the device lacks the dtype.
    """
    for operand in (a, b):
        if operand is None or isinstance(operand, (str, os.PathLike)):
            remedy = "" if operand is None else "; for .npy files use multiply_files(a, b, out)"
            raise TypeError(f"arrays and numbers are multiplied; got {operand!r}{remedy}")
        refuse_mask(operand)
    if any(hasattr(operand, "__dask_graph__") for operand in (a, b, out)):
        return _multiply_collections(a, b, out, runtime)
    if any(isinstance(operand, GroupArray) for operand in (a, b, out)):
        if runtime is not None:
            raise ValueError("a group's arrays are multiplied on its devices; omit `runtime`")
        return _multiply_shards(a, b, out)
    if isinstance(a, Array) or isinstance(b, Array):
        if runtime not in (None, *(operand.runtime for operand in (a, b) if isinstance(operand, Array))):
            raise ValueError("device arrays are multiplied on their own runtime; omit `runtime`, or pass NumPy arrays")
        left, right = (factor if isinstance(factor, Array) or np.size(factor) == 1 else None for factor in (a, b))
        if left is None or right is None:  # host data, which is copied to the device
            left, right = on_device("multiply", [a, b])
        return _multiply_arrays(left, right, out)
    if runtime is not None and not isinstance(runtime, Runtime):
        raise TypeError(f"NumPy arrays are multiplied on one Runtime; got {type(runtime).__name__}")
    runtime = runtime or current_runtime()
    if not has_shader(a, b):
        return _multiply_any(runtime, a, b, out, chunk_bytes, progress)
    left, right, scalar = operands(a, b)
    result = _result(left.shape, left.dtype, out)
    sources = [left] if scalar is not None else [left, right]

    def multiply(target: HostArray) -> None:
        stream_product(runtime, sources, scalar, target, chunk_bytes, progress)

    return _apart(result, sources, multiply)


def _apart(result: HostArray, sources: Sequence[HostArray], fill: Callable[[HostArray], None]) -> HostArray:
    """Fills the result, by a copy if its chunks would overwrite the input of a later chunk."""
    if not any(clash(result, source) for source in sources):
        fill(result)
        return result
    target = np.empty_like(result)
    fill(target)
    result[...] = target
    return result


def has_shader(a: Any, b: Any) -> bool:
    """True for two arrays or files of one shape and dtype that kernels have, or one and a number of its kind."""
    left, right = (factor if isinstance(factor, NpyFile) else np.asanyarray(factor) for factor in (a, b))
    if left.dtype.kind not in _IN_SHADERS or right.dtype.kind not in _IN_SHADERS:
        return False
    if _has_dtype(a) == _has_dtype(b):
        return bool(left.dtype == right.dtype) and (left.shape == right.shape or left.size == 1 or right.size == 1)
    array, number = (left, right) if _has_dtype(a) else (right, left)
    return number.size == 1 and not _is_higher(number.dtype, array.dtype)


def _multiply_any(runtime: Runtime, a: Any, b: Any, out: Any, chunk_bytes: int, progress: Progress | None) -> HostArray:
    """Streams NumPy arrays of any shapes that broadcast, and of any dtypes."""
    given = [factor if type(factor) in (bool, int, float, complex) else np.asanyarray(factor) for factor in (a, b)]
    kinds = [operand.dtype if isinstance(operand, np.ndarray) else kind_of(operand) for operand in given]
    for kind in kinds:
        if isinstance(kind, np.dtype):
            dtypes.lookup(kind)
    arrays = [operand for operand in given if isinstance(operand, np.ndarray)]
    result = _result(product_shape(*given), common(runtime, kinds), out)
    return _apart(result, arrays, lambda target: stream_broadcast(runtime, given, target, chunk_bytes, progress))


def stream_product(
    runtime: Runtime,
    sources: Sequence[Operand],
    scalar: np.generic | None,
    result: Target,
    chunk_bytes: int,
    progress: Progress | None,
) -> None:
    """Streams the product of one source and `scalar`, or of two sources, into `result`, which overlaps neither."""
    if not result.size:
        return
    if not _has_native(runtime, result.dtype):
        factors = sources if scalar is None else [*sources, scalar]
        stream_broadcast(runtime, factors, result, chunk_bytes, progress)
        return
    product = multiplier(runtime, result.dtype)

    def work(first: Array, *others: Array) -> None:
        product(first, others[0] if scalar is None else scalar, others[-1])

    stream(runtime, sources, work, result, chunk_bytes, progress)


def _has_native(runtime: Runtime, dtype: np.dtype[Any]) -> bool:
    """True if shaders support the dtype: unlike kernels in Python, they do not compute it in 32 bits."""
    if isinstance(dtype, dtypes.SmallFloat):
        return False
    return runtime.device.features.issuperset(dtypes.lookup(dtype).native)


def multiplier(runtime: Runtime, dtype: np.dtype[Any]) -> Multiplier:
    """The runtime's multiplier for a dtype, created once."""
    return cached(runtime, (Multiplier, dtype), lambda: Multiplier(runtime, dtype))


def _multiply_arrays(left: Any, right: Any, out: Any) -> Array:
    if not isinstance(out, (Array, type(None))):
        raise TypeError(f"device arrays are multiplied into a device array; out is {type(out).__name__}")
    a: Array = left if isinstance(left, Array) else right
    b = _number(right if a is left else left, a.dtype)
    alike = b.shape == a.shape if isinstance(b, Array) else isinstance(b, np.generic)
    if not alike or b.dtype != a.dtype or a.dtype.kind not in _IN_SHADERS or not _has_native(runtime_of(a), a.dtype):
        product = apply("multiply", a, b)
        if out is None:
            product.compute()
            return product
        _require_alike(out, product.shape, product.dtype)
        return assign(out, product, fresh=True)
    target: Array = runtime_of(a).empty(a.shape, a.dtype) if out is None else out
    _require_alike(target, a.shape, a.dtype)
    if target.size:
        multiplier(runtime_of(a), a.dtype)(a, b, target)
    return target


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a device array as it is, a number of the kind of `dtype` in it, and other numbers as they are.

    Raises:
        as `_scalar`.
    """
    if isinstance(value, Array):
        return value
    number = np.asarray(value)
    if number.size == 1 and number.dtype != dtype and (_has_dtype(value) or _is_higher(number.dtype, dtype)):
        return number.reshape(-1)[0] if _has_dtype(value) else number.item()
    return _scalar(value, dtype)


def _is_higher(number: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """True if a Python number makes arrays of a dtype to others: a float those of integers, say."""
    return _ORDER[number.kind] > _ORDER[dtype.kind] if number.kind in _ORDER else False


def _multiply_collections(a: Any, b: Any, out: Any, runtime: Any) -> Any:
    """Returns the product of a Dask array and an array or a number, which the workers compute chunk by chunk.

    Raises:
        ValueError, TypeError: as of `multiply`; or `out` or `runtime` is given; or device chunks meet NumPy chunks.
    """
    import dask.array as da

    if out is not None or runtime is not None:
        raise ValueError("Dask arrays are multiplied where Dask computes, into new ones; omit `out` and `runtime`")
    factors = [factor if np.ndim(factor) == 0 else da.asarray(factor) for factor in (a, b)]
    np.broadcast_shapes(*[np.shape(factor) for factor in factors])
    metas = [getattr(factor, "_meta", factor) for factor in factors]
    on_device = [type(meta) is Array for meta in metas if np.ndim(meta)]
    if any(on_device) and not all(on_device):
        remedy = 'convert one with dask.array.asarray(x).to_backend("vkcompute")'
        raise TypeError(f"Dask arrays are multiplied with device chunks, or with NumPy chunks; got both; {remedy}")
    return da.map_blocks(multiply, *factors, meta=metas[0] * metas[1])


def _multiply_shards(a: Any, b: Any, out: Any) -> GroupArray:
    """Multiplies a group's arrays, on all devices at the same time.

    Raises:
        ValueError, TypeError: as of `GroupKernel` and `multiply`.
    """
    if not isinstance(out, (GroupArray, type(None))) or not any(isinstance(factor, GroupArray) for factor in (a, b)):
        raise TypeError(f"a group's arrays are multiplied into one of the group; got {a!r}, {b!r} and out={out!r}")
    a, b = (_in_group(factor, other) for factor, other in ((a, b), (b, a)))
    arrays = [operand for operand in (a, b) if isinstance(operand, GroupArray)]
    like = next((array for array in arrays if array.rows is not None), arrays[0])
    if out is None:
        shape = _shape_of_shards(like, arrays)
        kinds = [factor.dtype if hasattr(factor, "dtype") else kind_of(factor) for factor in (a, b)]
        dtype = common(runtime_of(like.shards[0]), kinds)
        lengths = [shape[:1]] * len(like.shards) if like.rows is None else [(len(rows),) for rows in like.rows]
        shards = [
            runtime_of(shard).empty((*n, *shape[1:]), dtype) for shard, n in zip(like.shards, lengths, strict=True)
        ]
        out = GroupArray(like.group, shards, like.rows)
    launch: Any = _multiply_arrays  # returns an array, not a future: the group's future is not used
    like.group.kernel(launch)(a, b, out)
    product: GroupArray = out
    return product


def _in_group(factor: Any, other: Any) -> Any:
    """Returns host data beside a group's array as one of the group: sharded, if it has the rows of the product."""
    if isinstance(factor, (Array, GroupArray, Parameter)) or np.size(factor) == 1:
        return factor
    host = np.asarray(factor)
    if not _has_dtype(factor) and np.can_cast(host.dtype, other.dtype, "same_kind"):  # lists have no dtype of their own
        host = host.astype(other.dtype)
    shape = np.broadcast_shapes(host.shape, other.shape)
    is_whole = other.rows is not None and host.ndim == len(shape) and host.shape[0] == shape[0] != 1
    return (other.group.array if is_whole else other.group.replicate)(host)


def _shape_of_shards(like: GroupArray, arrays: Sequence[GroupArray]) -> tuple[int, ...]:
    """Returns the broadcast shape, whose rows are those of the sharded arrays.

    Raises:
        ValueError: shapes do not broadcast, or a replicated array has the rows of all devices.
    """
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    for array in arrays:
        whole = len(array.shape) == len(shape) and array.shape[0] != 1
        if like.rows is not None and whole != (array.rows is not None) and shape[:1] != (1,):
            raise ValueError(
                f"the rows of a sharded array are those of the product, of shape {shape}; got a "
                f"{'replicated' if array.rows is None else 'sharded'} array of shape {array.shape}"
            )
    return shape


def operands(a: Any, b: Any) -> tuple[Any, Any, np.generic | None]:
    """Both operands as NumPy arrays or files; a scalar's value in the other's dtype, else None."""
    left, right = (factor if isinstance(factor, NpyFile) else np.asanyarray(factor) for factor in (a, b))
    if left.size == 1 and (left.ndim, False, _has_dtype(a)) < (right.ndim, right.size != 1, _has_dtype(b)):
        left, right, b = right, left, a
    dtypes.lookup(left.dtype, in_kernels=True)
    if right.size == 1 and right.ndim <= left.ndim and (right.shape != left.shape or not _has_dtype(b)):
        return left, right, _scalar(b, left.dtype)
    return left, right, None


def _has_dtype(value: Any) -> bool:
    """False for Python numbers and lists, which are converted."""
    return isinstance(value, (np.ndarray, np.generic, NpyFile))


def _scalar(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """Converts a scalar operand to `dtype`. Python numbers are converted; numpy scalars must already have it.

    Raises:
        TypeError: a float for an integer array, another numpy dtype, or more than one element.
        ValueError: an integer outside the dtype's range.
    """
    if isinstance(value, Parameter):
        raise TypeError(f"a scalar is fixed when recorded; pass {value} to a kernel of your own, or use a device array")
    array = np.asarray(value)
    if array.size != 1:
        raise TypeError(f"a scalar has one element; got host data of shape {array.shape}; copy it to the device before")
    typed = _has_dtype(value)
    if typed and array.dtype != dtype:
        raise TypeError(f"the scalar is {array.dtype} and the array {dtype}; convert one with NumPy's astype")
    if (
        not typed
        and not np.can_cast(array.dtype, dtype, "same_kind")
        and not (array.dtype.kind == "i" and dtype.kind in "iuf")
    ):
        raise TypeError(
            f"the scalar {value!r} is not of {dtype}; give one of it, or convert the array with NumPy's astype"
        )
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= int(array.item()) <= np.iinfo(dtype).max:
        limits = np.iinfo(dtype)
        raise ValueError(f"the scalar {value!r} does not fit {dtype}, which holds {limits.min} to {limits.max}")
    element: np.generic = array.astype(dtype).reshape(-1)[0]
    return element


def _result(shape: tuple[int, ...], dtype: np.dtype[Any], out: Any) -> HostArray:
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"NumPy arrays are multiplied into a NumPy array; out is {type(out).__name__}")
    _require_alike(out, shape, dtype)
    if not out.flags.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    return out


def _require_alike(out: HostArray | Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out has shape {out.shape} and dtype {out.dtype}; the result has {shape} and {dtype}")
