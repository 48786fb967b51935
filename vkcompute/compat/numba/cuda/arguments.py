"""Arguments of kernels: their types, their parts, and their way to the device and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np

from vkcompute.compat.numba import simulation, types
from vkcompute.compat.numba.cuda.arrays import DeviceNDArray, as_device_array, from_record_like, is_cuda_array
from vkcompute.compat.numba.cuda.factories import to_device
from vkcompute.compat.numba.cuda.host_arrays import MappedNDArray
from vkcompute.compat.numba.errors import TypingError
from vkcompute.compat.numba.types import Type
from vkcompute.compiled.spilling_kernel import AnyKernel
from vkcompute.runtime.memory.array import Array


class Transfer:
    """An argument of the host with the directions in which it is copied."""

    to_device, to_host = True, True

    def __init__(self, value: Any) -> None:
        self.value = value


def wrap_arg(value: Any, default: Any = None) -> Any:
    """Returns an argument with the directions in which it is copied, by default both."""
    return value if isinstance(value, Transfer) else (default or InOut)(value)


class In(Transfer):
    """An array that is copied to the device only."""

    to_host = False


class Out(Transfer):
    """An array that is copied to the host only."""

    to_device = False


class InOut(Transfer):
    """An array that is copied to the device and back."""


def compiled_kind(given: Type) -> Any:
    """Returns the part of the compiler's signature for a type; None for types that a launch decides."""
    if isinstance(given, types.Record):
        return given.dtype, -1
    if isinstance(given, types.Array) and isinstance(given.dtype, (types.Number, types.Record)):
        dtype = given.dtype.dtype
        return dtype if isinstance(given.dtype, types.Record) else dtype.char, given.ndim
    return given.dtype.type if isinstance(given, types.Number) else None


def argument(arg: Any, kind: Type | None, back: list[tuple[Any, Any]], frozen: list[Any]) -> Any:
    """Returns an argument as the compiler takes it.

    Args:
        back: gets arrays of the host that are copied back, with their copies before them.
        frozen: gets copies of read-only arrays, which a kernel may not write.
    """
    transfer = arg if isinstance(arg, Transfer) else None
    value = transfer.value if transfer is not None else arg
    if isinstance(value, DeviceNDArray):
        return _viewed(value.array, kind)
    if isinstance(value, Array):
        return _viewed(value, kind)
    if isinstance(value, np.void):
        record = from_record_like(value)
        record.copy_to_device(value)
        back.append((record, value))
        return record.array
    if isinstance(value, MappedNDArray) and is_cuda_array(value):
        back.append((value, value))  # the host may read and write it after the launch
        return _viewed(as_device_array(value).array, kind)
    if isinstance(value, np.ndarray):
        device = to_device(value, copy=transfer is None or transfer.to_device)
        array = _viewed(device.array, kind)
        if (transfer is None or transfer.to_host) and value.flags.writeable:
            back.append((device, value))
        elif not value.flags.writeable:
            frozen.append(array)
        return array
    if is_cuda_array(value):
        return _viewed(as_device_array(value).array, kind)
    return _number(value, kind)


def check_writes(kernel: AnyKernel, args: Sequence[Any], frozen: Sequence[Any]) -> None:
    """Raises TypingError if a kernel writes one of the copies of read-only arrays."""
    arrays = [arg for arg in args if isinstance(arg, Array)]
    written = [arrays[at] for at in kernel.writes if at < len(arrays)]  # behind them is the buffer for reports
    if any(array is other for array in written for other in frozen):
        raise TypingError(f"Cannot modify readonly array: {kernel.name} writes one; pass a copy of it")


@contextmanager
def on_host(args: Sequence[Any]) -> Iterator[list[Any]]:
    """Gives arguments with arrays of the host for those of the device, which take the elements at the end."""
    from vkcompute.jit.simulator.launch import on_host as on_memory  # seldom needed

    given = [arg.value if isinstance(arg, Transfer) else arg for arg in args]
    given = [as_device_array(arg).array if is_cuda_array(arg) else arg for arg in given]
    hosts = on_memory(given, Array)
    yield [simulation.fielded(host) if isinstance(host, np.ndarray) else host for host in hosts]
    for device, host in zip(given, hosts, strict=True):
        if device is not host and host.flags.writeable:
            device.write(host)


def _number(value: Any, kind: Type | None) -> Any:
    """Returns a number as NumPy's scalar of its type in kernels."""
    value = value.value if isinstance(value, Enum) else value
    if isinstance(kind, types.Number):
        return np.asarray(value).astype(kind.dtype)[()]
    if isinstance(value, (bool, np.bool_)):
        return np.bool_(value)
    if isinstance(value, np.generic) or value is None:
        return value
    if isinstance(value, int):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    if isinstance(value, (float, complex)):
        return np.float64(value) if isinstance(value, float) else np.complex128(value)
    raise TypingError(f"kernels take arrays and numbers; got {type(value).__name__}")


def type_of_argument(value: Any) -> Type:
    return types.typeof(value.value if isinstance(value, Transfer) else value)


def is_same(kind: Type, given: Type) -> bool:
    """True for the type that a signature declares; any layout is taken for "A"."""
    if isinstance(kind, types.Array) and isinstance(given, types.Array):
        return (given.dtype, given.ndim) == (kind.dtype, kind.ndim) and kind.layout in ("A", given.layout)
    return kind == given


def is_safe(kind: Type, given: Type) -> bool:
    """True for that type, and for numbers that it holds."""
    if isinstance(kind, types.Number) and isinstance(given, types.Number):
        return bool(np.can_cast(given.dtype, kind.dtype, "safe"))
    return is_same(kind, given)


def is_like(kind: Type, given: Type) -> bool:
    """True for what a kernel with one signature takes: other numbers, and arrays whose elements have the same size.

    Numba takes the bytes of these arrays for elements of the declared type.
    """
    if isinstance(kind, types.Array) and isinstance(given, types.Array):
        return given.ndim == kind.ndim and _width(given.dtype) == _width(kind.dtype)
    if isinstance(kind, types.Number) and isinstance(given, types.Number):
        return bool(kind.dtype.kind == "c" or given.dtype.kind != "c")
    return kind == given


def _width(kind: Type) -> int:
    return kind.bitwidth if isinstance(kind, types.Number) else 0


def _viewed(array: Array, kind: Type | None) -> Array:
    """Returns an array with elements of the type that a signature declares."""
    dtype = getattr(getattr(kind, "dtype", None), "dtype", None)
    return array if dtype is None or dtype == array.dtype else array.view(dtype)
