"""The limits of bindings: on a device with few and small ones, a launch reaches less memory than arrays may have.

A launch binds some buffers of some bytes each: 4 of 128 MiB on the poorest device, whole arrays on most others.
Kernels that access elements in order take windows (`jit/elementwise/dispatch.py`). Functions that access elements
anywhere halve an axis until the launches reach all of both halves, and combine the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.compiled.target import target_of
from vkcompute.jit.elementwise.dispatch import N_RESERVED
from vkcompute.runtime.launching.arguments import MAX_BINDING_SLACK
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import runtime_of


def exceeds_bindings(*arrays: Array) -> bool:
    """True if a launch with these arrays takes more bindings than the device has."""
    return bytes_exceed_bindings(arrays[0], *[array.nbytes for array in arrays])


def bytes_exceed_bindings(x: Array, *nbytes: int) -> bool:
    """True if a launch with arrays of so many bytes, on the device of `x`, takes more bindings than it has.

    If there are more arrays than bindings, all must fit one binding, which some of them share.
    """
    runtime = runtime_of(x)
    n_bound = target_of(runtime).max_storage_buffers
    if n_bound is None:
        return False
    step = 1 << runtime.device.max_binding_bytes.bit_length() - 1  # as `spilling_kernel.splits_of` divides arrays
    if len(nbytes) + N_RESERVED > n_bound:
        return sum(nbytes) + len(nbytes) * MAX_BINDING_SLACK > step
    counts = [-(-(n + MAX_BINDING_SLACK) // step) for n in nbytes]
    return max(counts) > 1 and sum(counts) + N_RESERVED > n_bound


def elements_within_bindings(arrays: Sequence[Array], *others: Array) -> int:
    """Returns how many elements of each of these arrays of one axis a launch reaches, beside all of others."""
    n = max([array.size for array in arrays])
    whole = [array.nbytes for array in others]
    while n > 1 and bytes_exceed_bindings(arrays[0], *whole, *[_nbytes_of_first(array, n) for array in arrays]):
        n = -(-n // 2)
    return n


def _nbytes_of_first(array: Array, n: int) -> int:
    """Returns the bytes that the first elements of an array of one axis span; a repeated number has those of one."""
    return array.dtype.itemsize + (min(n, array.size) - 1) * abs(array.strides[0])
