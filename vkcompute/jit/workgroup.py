"""What the invocations of a workgroup have in common, and atomic operations: names for kernels, as those in ids.py."""

from __future__ import annotations

from typing import Any

from vkcompute.jit.ids import outside


def shared(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array that the workgroup's invocations share, row-major, indexed as a tensor; it holds anything at first.

        tile = vc.shared((16, 16), vc.float32)

    Shape and dtype are known at compile time. It stands at the top level of the kernel: not in a branch, a loop or a
    function that the kernel calls.
    """
    outside("shared(shape, dtype)")


def barrier() -> None:
    """Waits for all invocations of the workgroup; what they wrote before, to shared arrays and tensors, is seen after.

    All of them must come to it: in branches and loops only where the conditions are proved to be the same for all of a
    workgroup, and not after a return that only some take. Around it, put loads and stores in branches of their own.
    """
    outside("barrier()")


def atomic_add(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """`array[index] += value` in one step; gives what was there.

    Here as in the others, the array is a tensor or shared, of int32, uint32, or (where the device has it) int64 or
    uint64; this, min, max and exchange take float32 and float64, too. The value becomes the array's type; no float
    becomes an integer. No order among other accesses follows: that takes a barrier or another launch. In which order
    floats are added, nobody knows. A device without atomic operations on floats tries again until nobody came between.
    """
    outside("atomic_add(array, index, value)")


def atomic_min(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """The smaller of element and value, in one step; gives what was there."""
    outside("atomic_min(array, index, value)")


def atomic_max(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """The larger of element and value, in one step; gives what was there."""
    outside("atomic_max(array, index, value)")


def atomic_and(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """`array[index] &= value` in one step; gives what was there."""
    outside("atomic_and(array, index, value)")


def atomic_or(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """`array[index] |= value` in one step; gives what was there."""
    outside("atomic_or(array, index, value)")


def atomic_xor(array: Any, index: int | tuple[int, ...], value: int) -> int:
    """`array[index] ^= value` in one step; gives what was there."""
    outside("atomic_xor(array, index, value)")


def atomic_exchange(array: Any, index: int | tuple[int, ...], value: Any) -> Any:
    """`array[index] = value` in one step; gives what was there."""
    outside("atomic_exchange(array, index, value)")


def atomic_compare_exchange(array: Any, index: int | tuple[int, ...], expected: int, new: int) -> int:
    """Makes the element `new` if it is `expected`, in one step; gives what was there, `expected` if it was replaced."""
    outside("atomic_compare_exchange(array, index, expected, new)")
