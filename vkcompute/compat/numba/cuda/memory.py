"""Arrays that kernels make: `cuda.shared.array`, `cuda.local.array`, `cuda.const.array_like`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vkcompute.compat.numba.kernel_names import in_kernels, refuse_outside_kernel
from vkcompute.compat.numba.language import NumbaKernels
from vkcompute.compat.numba.part_functions import retyped
from vkcompute.compat.numba.types import Number as NumberType
from vkcompute.compat.numba.types import Record
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.array_views import part
from vkcompute.jit.frontend.values import ArrayValue
from vkcompute.jit.library.private import _local
from vkcompute.jit.library.workgroup import _shared


def _dtype(dtype: Any) -> Any:
    """Returns NumPy's dtype of a type of Numba or of Python."""
    if isinstance(dtype, (NumberType, Record)):
        return dtype.dtype
    return np.dtype(dtype) if dtype in (int, float, bool, complex) else dtype


def _made_shared(c: NumbaKernels, shape: Any, dtype: Any, alignment: Any = None) -> ArrayValue:
    _check_alignment(alignment)
    kind = _named_dtype(dtype)
    if shape == 0 and isinstance(shape, int):
        return _sized_by_launch(c, np.dtype(kind))
    return _allocated(_of_block, "shared", c, shape, kind)


def _sized_by_launch(c: NumbaKernels, kind: np.dtype[Any]) -> ArrayValue:
    """Returns the shared memory whose size the launch gives, as elements of a type; all types share its bytes."""
    if c.dynamic is None:
        c.dynamic = kind, _of_block(c, -(-c.dynamic_bytes // kind.itemsize) or 1, kind)
    first, memory = c.dynamic
    array = memory if kind == first else retyped(c, memory, kind)
    is_whole = c.dynamic_bytes % math.lcm(first.itemsize, kind.itemsize) == 0
    return array if is_whole else part(c, array, (slice(c.dynamic_bytes // kind.itemsize),))


def _of_block(c: NumbaKernels, shape: Any, kind: Any) -> ArrayValue:
    """Makes a shared array of the block."""
    return _shared(c, shape, kind) if c.folded is None else c.folded.shared(c, _shared, shape, kind)


def _made_local(c: NumbaKernels, shape: Any, dtype: Any, alignment: Any = None) -> ArrayValue:
    _check_alignment(alignment)
    if c.evaluator.stacks:
        rule = "cuda.local.array is not for functions that call themselves, as all calls would share it"
        raise UnsupportedError(f"{rule}; make the array in the kernel, and pass it")
    return _allocated(_local, "local", c, shape, _named_dtype(dtype))


def _named_dtype(dtype: Any) -> Any:
    """Returns the dtype of an array to make.

    Raises:
        UnsupportedError: NumPy knows no such name.
    """
    try:
        return _dtype(np.dtype(dtype) if isinstance(dtype, str) else dtype)
    except TypeError:
        raise UnsupportedError(f"Invalid NumPy dtype specified: {dtype!r}") from None


def _allocated(make: Any, where: str, c: NumbaKernels, shape: Any, kind: Any) -> ArrayValue:
    """Makes an array; an error begins as Numba's does."""
    try:
        array: ArrayValue = make(c, shape, kind)
    except UnsupportedError as error:
        rule = f"No implementation of function Function(<function {where}.array>) for these arguments"
        raise UnsupportedError(f"{rule}: {error}") from None
    return array


def _check_alignment(alignment: Any) -> None:
    if alignment is None:
        return
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise UnsupportedError(f"Alignment must be a positive power of two, known at compile time; got {alignment}")


def _constant(c: NumbaKernels, array: Any) -> ArrayValue:
    if not isinstance(array, ArrayValue) or not array.constant:
        raise UnsupportedError(f"const.array_like takes an array from outside of the kernel; got {c.describe(array)}")
    return array


class shared:  # noqa: N801
    """Arrays that the threads of a block share."""

    @staticmethod
    @in_kernels(_made_shared)
    def array(shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        """Makes an array of a shape and a type, known at compile time; 0 takes the size from the launch."""
        refuse_outside_kernel("cuda.shared.array")


class local:  # noqa: N801
    """Arrays of a thread."""

    @staticmethod
    @in_kernels(_made_local)
    def array(shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        """Makes an array of a shape and a type, known at compile time."""
        refuse_outside_kernel("cuda.local.array")


class const:  # noqa: N801
    """Arrays of constants."""

    @staticmethod
    @in_kernels(_constant)
    def array_like(ndarray: Any) -> Any:
        """Makes a constant array of an array of the host, as it is when the kernel is compiled."""
        refuse_outside_kernel("cuda.const.array_like")
