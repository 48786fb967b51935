"""The array multiply: c = a * b for every dtype that a tensor holds, on the device, from host arrays, from files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vkcompute import dtypes
from vkcompute.core.quirks import quirks_of
from vkcompute.runtime.groups.group import GroupTensor
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.memory.context import kept
from vkcompute.runtime.memory.tensor import Tensor
from vkcompute.runtime.runtime import Runtime, default_runtime, runtime_of
from vkcompute.runtime.scheduling.future import Future
from vkcompute.runtime.scheduling.placeholders import Parameter
from vkcompute.runtime.streams.stream import CHUNK_BYTES, clash

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]
"""Called with (bytes of the result that are done, bytes of the result)."""

_LOCAL_SIZE = 256
_PLAIN_BYTES, _TEXEL_BYTES = 16, 32  # what one invocation multiplies
_WINDOW_ALIGN = 4096

# ELEMENT of shaders/multiply.comp for each dtype. Products wrap, so signed and unsigned integers share theirs.
_ELEMENTS = {"bool": 1, **{f"{kind}int{n}": n for kind in ("", "u") for n in (8, 16, 32, 64)}} | {
    f"float{n}": 100 + n for n in (16, 32, 64)
}


class Multiplier:
    """Multiplies tensors of one dtype on one runtime, by the variant that is fast on its device.

    Every dtype works on every device: elements of 8, 16 and 64 bits are computed in 32-bit words where the device has
    no such type, and float64 where the driver is known to flush its subnormals. Results equal numpy's bit for bit, but
    for NaN payloads, and for float32 subnormals on devices that flush them to zero (SwiftShader does, and
    lavapipe of Mesa 26).
    """

    def __init__(self, runtime: Runtime, dtype: npt.DTypeLike) -> None:
        self.runtime, self.dtype = runtime, dtypes.lookup(dtype).numpy
        device = runtime.device
        limits = device.physical.limits
        quirks = quirks_of(device.physical)
        double = "shaderFloat64" in device.features and not (quirks.flushes_float64 and self.dtype == np.float64)
        texel = quirks.texel_loads and double and "shaderInt64" in device.features  # what that variant needs
        self._name = "multiply_texels" if texel else "multiply_any"
        self._element: int | None = _ELEMENTS[self.dtype.name]
        if self.dtype == np.float64 and double and not texel:
            self._name, self._element = "multiply_f64", None
        self._item_bytes = _TEXEL_BYTES if texel else _PLAIN_BYTES
        self._local_size = min(_LOCAL_SIZE, limits["maxComputeWorkGroupInvocations"])
        largest = device.max_binding_bytes
        if texel:
            largest = min(largest, limits["maxTexelBufferElements"] * _PLAIN_BYTES)
        self._window_bytes = largest // _WINDOW_ALIGN * _WINDOW_ALIGN
        self._align = runtime.device.memory.align
        self._groups = limits["maxComputeWorkGroupCount"]
        self._kernels: dict[bool, Kernel] = {}

    def __call__(self, a: Tensor, b: Tensor | np.generic, out: Tensor) -> Future:
        """Launches out = a * b; `b` is a tensor of a's shape or a numpy scalar of its dtype. `out` may be `a` or `b`.

        Arrays larger than the device's largest binding are launched in windows. Views that do not start and end where
        the device can bind them are copied, on the device.
        """
        array_b = isinstance(b, Tensor)
        word = bytes(16) if isinstance(b, Tensor) else (b.tobytes() * 16)[:16]
        scalar = np.frombuffer(word, np.uint32)
        inputs = [self._bindable(tensor) for tensor in (a, b if isinstance(b, Tensor) else a)]
        straight = self._fits(out) and not any(_shifted(tensor, out) for tensor in inputs)
        whole = out if straight else self.runtime.empty(out.shape, out.dtype)
        tensors = [*inputs, whole]
        if out.nbytes <= self._window_bytes:
            future = self._launch(tensors, scalar, array_b)
        else:
            flat = [tensor.reshape(-1).view(np.uint8) for tensor in tensors]
            scheduler = self.runtime.scheduler  # one queue for all windows: the last one's future is the future
            lane = None if scheduler.recording() is not None else scheduler.placement.compute[0].index
            for start in range(0, out.nbytes, self._window_bytes):
                window = slice(start, min(start + self._window_bytes, out.nbytes))
                future = self._launch([tensor[window] for tensor in flat], scalar, array_b, lane)
        return future if whole is out else out.copy_from(whole)

    def _bindable(self, tensor: Tensor) -> Tensor:
        return tensor if self._fits(tensor) else tensor.copy()

    def _fits(self, tensor: Tensor) -> bool:
        """Whether the kernels can bind the tensor: whole items from an aligned start, padding at the end its own."""
        start, stop = tensor.offset, tensor.offset + tensor.nbytes
        whole = tensor.nbytes % self._item_bytes == 0 or stop == tensor.buffer.used_bytes
        return tensor.contiguous and start % self._align == 0 and whole

    def _launch(
        self, tensors: list[Tensor], scalar: npt.NDArray[np.uint32], array_b: bool, queue: int | None = None
    ) -> Future:
        n_items = -(-tensors[2].nbytes // self._item_bytes)
        n_groups = -(-n_items // self._local_size)
        x = min(n_groups, self._groups[0])
        kernel = self._kernels.get(array_b)
        if kernel is None:
            constants: dict[int | str, Any] = {0: self._local_size, 1: not array_b}
            if self._element is not None:
                constants[2] = self._element
            kernel = self._kernels[array_b] = self.runtime.kernel(
                self._name, name=f"multiply {self.dtype}", constants=constants, check_types=False
            )
        return kernel(*tensors, n_items, *scalar.tolist(), grid=(x, -(-n_groups // max(x, 1)), 1), queue=queue)


def _shifted(tensor: Tensor, out: Tensor) -> bool:
    """Whether `out` overlaps an input in another way than being the same elements."""
    return tensor.overlaps(out) and (tensor.offset, tensor.strides) != (out.offset, out.strides)


def multiply(
    a: npt.ArrayLike | Tensor,
    b: npt.ArrayLike | Tensor,
    out: Array | Tensor | None = None,
    *,
    runtime: Runtime | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Any:
    """a * b, element by element, on the GPU.

    Two tensors, or a tensor and a scalar, stay on the device: the result is a tensor, and the launch asynchronous.
    Host arrays stream through the device in chunks, so neither they nor the device's memory limit each other; the
    result is a numpy array.

    Args:
        a, b: of one shape and dtype, or one of them a scalar (a Python number, or an array of one element; no
            input of a graph: its value is fixed when it is recorded).
        out: where to write; its shape and dtype are those of the result. It may overlap the inputs.
        runtime: where; None takes that of the tensors, or the default one.
        chunk_bytes: bytes of one array per chunk.
        progress: called after each chunk.

    Raises:
        ValueError: shapes do not match.
        TypeError: dtypes differ, or no tensor holds them.
    """
    if any(isinstance(operand, GroupTensor) for operand in (a, b, out)):
        if runtime is not None:
            raise ValueError("a group's tensors are multiplied on its own devices; leave `runtime` out")
        return _multiply_shards(a, b, out)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        if runtime not in (None, *(operand.runtime for operand in (a, b) if isinstance(operand, Tensor))):
            raise ValueError("tensors are multiplied on their own runtime; leave `runtime` out, or pass arrays")
        return _multiply_tensors(a, b, out)
    if runtime is not None and not isinstance(runtime, Runtime):
        raise TypeError(f"arrays are multiplied on one Runtime; got {type(runtime).__name__}")
    left, right, scalar = _operands(a, b)
    result = _result(left, out)
    runtime = runtime or default_runtime()
    product = multiplier(runtime, left.dtype)
    sources = [left] if scalar is not None else [left, right]

    def work(first: Tensor, *others: Tensor) -> None:
        product(first, others[0] if scalar is None else scalar, others[-1])

    # A chunk of the result must not overwrite what a later chunk still reads.
    direct = not any(clash(result, source) for source in sources)
    target = result if direct else np.empty_like(result)
    if target.size:
        _stream(runtime, sources, work, target, chunk_bytes, progress)
    if not direct:
        result[...] = target
    return result


def _stream(
    runtime: Runtime,
    sources: list[Array],
    work: Callable[..., None],
    result: Array,
    chunk_bytes: int,
    progress: Progress | None,
) -> None:
    """Streams flat arrays where all lie alike in memory, else blocks of them."""

    def report(n_done: int, _total: int | None) -> None:
        if progress is not None:
            progress(n_done * result.itemsize, result.nbytes)

    arrays = (*sources, result)
    for turned in (arrays, tuple(array.T for array in arrays)):
        if all(array.flags.c_contiguous for array in turned):
            *flat, target = (array.reshape(-1) for array in turned)
            runtime.stream(tuple(flat), work, target, chunk_bytes=chunk_bytes, progress=report)
            return
    most = max(1, chunk_bytes // result.itemsize)
    chunks = (tuple([source[block].reshape(-1) for source in sources]) for block in _blocks(result.shape, most))
    targets = (result[block] for block in _blocks(result.shape, most))

    def put(_rows: slice, product: Array) -> None:
        target = next(targets)
        target[...] = product.reshape(target.shape)

    runtime.stream(chunks, work, put, progress=report)


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[tuple[int | slice, ...]]:
    """Indices that cut an array into blocks of at most `most` elements: rows, or parts of rows that are larger."""
    row = math.prod(shape[1:])
    if row <= most:
        n_blocks = -(-shape[0] // (most // row))
        step = -(-shape[0] // n_blocks)  # alike, so that tensors are used again
        for start in range(0, shape[0], step):
            yield (slice(start, start + step),)
    else:
        for i in range(shape[0]):
            for block in _blocks(shape[1:], most):
                yield (i, *block)


def multiplier(runtime: Runtime, dtype: np.dtype[Any]) -> Multiplier:
    """The runtime's multiplier of a dtype, made once."""
    return kept(runtime, (Multiplier, dtype), lambda: Multiplier(runtime, dtype))


def _multiply_tensors(left: Any, right: Any, out: Any) -> Tensor:
    a: Tensor = left if isinstance(left, Tensor) else right
    b = right if a is left else left
    if not isinstance(b, Tensor):
        b = _scalar(b, a.dtype)
    elif b.shape != a.shape or b.dtype != a.dtype:
        _refuse(a, b)
    if out is None:
        out = runtime_of(a).empty(a.shape, a.dtype)
    elif not isinstance(out, Tensor):
        raise TypeError(f"tensors are multiplied into a tensor; out is {type(out).__name__}")
    _require_alike(out, a)
    target: Tensor = out
    if target.size:
        multiplier(runtime_of(a), a.dtype)(a, b, target)
    return target


def _multiply_shards(a: Any, b: Any, out: Any) -> GroupTensor:
    """Multiplies tensors of a group, the shards on all devices at the same time.

    Raises:
        ValueError, TypeError: as of `GroupKernel` and `multiply`.
    """
    tensors = [operand for operand in (a, b) if isinstance(operand, GroupTensor)]
    if not tensors or not isinstance(out, (GroupTensor, type(None))):
        raise TypeError(f"a group's tensors are multiplied into one of the group; got {a!r}, {b!r} and out={out!r}")
    like = next((tensor for tensor in tensors if tensor.rows is not None), tensors[0])
    if out is None:
        shards = [runtime_of(shard).empty(shard.shape, shard.dtype) for shard in like.parts]
        out = GroupTensor(like.group, shards, like.rows)
    launch: Any = _multiply_tensors  # on each device; gives a tensor, not the future that nobody asks for here
    like.group.kernel(launch)(a, b, out)
    product: GroupTensor = out
    return product


def _operands(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Array, Array, np.generic | None]:
    """Arrays (a larger one first) and, where the second is a scalar, its value in the first one's dtype."""
    left, right = np.asanyarray(a), np.asanyarray(b)
    if left.size == 1 and right.ndim > left.ndim:
        left, right, b = right, left, a
    dtypes.lookup(left.dtype)
    if right.size == 1 and right.ndim <= left.ndim and right.shape != left.shape:
        return left, right, _scalar(b, left.dtype)
    if left.shape != right.shape or left.dtype != right.dtype:
        _refuse(left, right)
    return left, right, None


def _scalar(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """A scalar operand in `dtype`; a Python number takes it on, a numpy one must have it.

    Raises:
        TypeError: a float for an integer array, another numpy dtype, more than one element.
        ValueError: an integer beyond the dtype's range.
    """
    if isinstance(value, Parameter):
        raise TypeError(f"a scalar is fixed when it is recorded; {value} goes to a kernel of your own, or as a tensor")
    array = np.asarray(value)
    if array.size != 1:
        raise TypeError(f"a tensor is multiplied by a tensor or a scalar; got an array of shape {array.shape}")
    typed = isinstance(value, (np.ndarray, np.generic))
    if typed and array.dtype != dtype:
        raise TypeError(f"the scalar is {array.dtype} and the array {dtype}; convert one with .astype()")
    if (
        not typed
        and not np.can_cast(array.dtype, dtype, "same_kind")
        and not (array.dtype.kind == "i" and dtype.kind in "iuf")
    ):
        raise TypeError(f"the scalar {value!r} is no {dtype}; convert the array, or pass one that is")
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= int(array.item()) <= np.iinfo(dtype).max:
        limits = np.iinfo(dtype)
        raise ValueError(f"the scalar {value!r} does not fit {dtype}, which holds {limits.min} to {limits.max}")
    element: np.generic = array.astype(dtype).reshape(-1)[0]
    return element


def _refuse(a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise ValueError(f"a and b have the same shape, or one is a scalar; got {a.shape} and {b.shape}")
    raise TypeError(f"a and b have the same dtype; got {a.dtype} and {b.dtype}; convert one with .astype()")


def _result(like: Array, out: Array | Tensor | None) -> Array:
    if out is None:
        return np.empty(like.shape, like.dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"arrays are multiplied into an array; out is {type(out).__name__}")
    _require_alike(out, like)
    if not out.flags.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    return out


def _require_alike(out: Array | Tensor, like: Array | Tensor) -> None:
    if out.shape != like.shape or out.dtype != like.dtype:
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}; the result has {like.shape} and {like.dtype}"
        )
