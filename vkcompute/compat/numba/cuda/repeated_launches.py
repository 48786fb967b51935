"""Launches that repeat: the steps from the arguments of a kernel to those of its launcher, without a look at them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vkcompute.compat.numba.cuda.arrays import DeviceNDArray
from vkcompute.compat.numba.cuda.factories import to_device
from vkcompute.errors import KernelError
from vkcompute.jit.launcher import Launcher
from vkcompute.runtime.launching.launch_config import LaunchConfig
from vkcompute.runtime.memory.array import Array

MOST_KEPT = 256
"""Of the repeated launches of a kernel, and of its configurations."""
Step = Callable[[Any], Any]


class Repeated:
    """The launch of a kernel with arguments of the same layouts and types as before: arrays and numbers.

    Args:
        steps: for each argument, the function that makes the compiler's of it.
    """

    def __init__(self, launcher: Launcher, launch_config: LaunchConfig, steps: Sequence[Step]) -> None:
        self._launcher, self._config, self._steps = launcher, launch_config, steps
        self._hosts = [at for at, step in enumerate(steps) if step is _copied]

    def __call__(self, args: Sequence[Any]) -> bool:
        """Launches the kernel; returns False if a number is out of range, or the kernel is to be built anew.

        Arrays of the host are copied to the device before, and back after it.
        """
        try:
            given = tuple([step(arg) for step, arg in zip(self._steps, args, strict=True)])
            self._launcher(self._config, given, {})
        except (OverflowError, ValueError, KernelError):
            return False
        for at in self._hosts:
            if args[at].flags.writeable:
                given[at].read(args[at])
        return True


_array_of = operator.attrgetter("array")


def _copied(host: np.ndarray[Any, Any]) -> Array:
    """Returns a copy of an array of the host."""
    return to_device(host).array


def key_of(arg: Any) -> Any:
    """Returns what the steps of an argument depend on."""
    if type(arg) is DeviceNDArray:
        return arg.array.launch_key
    return (arg.dtype, arg.ndim, arg.flags.writeable) if type(arg) is np.ndarray else type(arg)


def steps_of(args: Sequence[Any], given: Sequence[Any], *, is_typed: bool) -> list[Step] | None:
    """Returns the functions that make the launcher's arguments of those of a kernel; None if there are none.

    Args:
        is_typed: True if a signature gives the types of numbers.
    """
    steps = [_step(arg, value, is_typed) for arg, value in zip(args, given, strict=True)]
    return None if None in steps else steps  # type: ignore[return-value]


def _step(arg: Any, value: Any, is_typed: bool) -> Step | None:
    """Returns the function that makes `value` of an argument; None if no function of the type does."""
    if type(arg) is DeviceNDArray:
        return _array_of if value is arg.array else None
    if type(arg) is np.ndarray:
        return None if is_typed else _copied
    is_large = isinstance(arg, int) and type(value) is np.uint64 and not is_typed  # a smaller one is an int64
    is_number = isinstance(value, np.generic) and isinstance(arg, (int, float, np.number))
    return type(value) if is_number and not is_large else None
