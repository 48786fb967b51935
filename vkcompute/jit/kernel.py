"""`vc.kernel`: a Python function, launched on tensors. Nothing here loads a driver before the first launch."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from vkcompute.errors import KernelError
from vkcompute.jit.annotations import parameters_of
from vkcompute.jit.arguments import Sizes, Where
from vkcompute.jit.source import Source, read

if TYPE_CHECKING:
    from vkcompute.runtime.scheduling.future import Future

_Function = TypeVar("_Function", bound=Callable[..., object])
PRINT_LIMIT = 10_000
_MOST_PRINTS = 10_000_000
_OWN = Where()


class Launchable:
    """What is launched by a call, on the grid that it finds itself, or on another that is given in brackets."""

    __name__: str
    __qualname__: str
    _launch: Callable[..., Future]

    def __call__(self, *args: Any, **named: Any) -> Future:
        """Launches one invocation per element of the first tensor to which the kernel assigns; returns at once."""
        return self._launch(_OWN, args, named)

    def __getitem__(self, given: tuple[Any, ...]) -> Callable[..., Future]:
        """`kernel[groups, local_size](…)` launches so many workgroups of so many invocations along x, y and z.

        `kernel[groups, local_size, queue](…)` does so on one of `runtime.device.queues`, by its index; where groups or
        local_size is None, the kernel finds it itself.

        Raises:
            TypeError: groups and local_size are no ints, or tuples of up to three; or the queue is no index.
        """
        if not isinstance(given, tuple) or not 2 <= len(given) <= 3:
            raise TypeError(f"{self.__name__}[groups, local_size] takes two, or three with a queue; got {given!r}")
        groups, local = [None if each is None else _sizes(each) for each in given[:2]]
        size = None
        if local is not None:
            x, y, z = (*local, 1, 1)[:3]
            size = x, y, z
        return partial(self._launch_on, Where(groups, size, _queue(given[2]) if len(given) == 3 else None))

    def _launch_on(self, where: Where, *args: Any, **named: Any) -> Future:
        return self._launch(where, args, named)


class PythonKernel(Launchable):
    """Made by `vc.kernel`; called, it launches."""

    def __init__(self, function: FunctionType, *, check_bounds: bool | None, print_limit: int, fast_math: bool) -> None:
        self._check_bounds, self._print_limit, self._fast_math = check_bounds, print_limit, fast_math
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        self._function, self._source = function, read(function)
        self._signature = parameters_of(function)
        for parameter in self._signature.parameters.values():
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                raise self._source.error(self._source.tree, f"a kernel takes plain parameters; {parameter} is none")

    @cached_property
    def _launch(self) -> Callable[..., Future]:  # type: ignore[override]
        if _is_set("VKCOMPUTE_SIMULATE"):
            return self.simulate._launch
        from vkcompute.jit.launch import Launcher  # here, because it loads the driver

        checked = _is_set("VKCOMPUTE_CHECK_BOUNDS") if self._check_bounds is None else self._check_bounds
        given, fast_math = (self._function, self._source, self._signature), self._fast_math
        return Launcher(*given, checked=checked, fast_math=fast_math, print_limit=self._print_limit)

    @cached_property
    def simulate(self) -> Simulation:
        """`kernel.simulate(…)` and `kernel.simulate[groups, local_size](…)`: the same, run by Python."""
        return Simulation(self._function, self._source, self._signature)

    def __repr__(self) -> str:
        return f"<Python kernel {self.__name__}>"

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled and copied by its name, as functions are


class Simulation(Launchable):
    """A kernel as Python runs it: on numpy's arrays, which need no driver, or tensors; it has ended when it returns."""

    def __init__(self, function: FunctionType, source: Source, signature: inspect.Signature) -> None:
        from vkcompute.jit.simulator.launch import simulate  # here, because few need it

        functools.update_wrapper(self, function)
        self._launch = partial(simulate, function, source, signature)

    def __reduce__(self) -> str:
        return f"{self.__qualname__}.simulate"


@overload
def kernel(function: Callable[..., object]) -> PythonKernel: ...


@overload
def kernel(
    *, check_bounds: bool | None = None, print_limit: int = PRINT_LIMIT, fast_math: bool = False
) -> Callable[[Callable[..., object]], PythonKernel]: ...


def kernel(
    function: Callable[..., object] | None = None,
    *,
    check_bounds: bool | None = None,
    print_limit: int = PRINT_LIMIT,
    fast_math: bool = False,
) -> PythonKernel | Callable[[Callable[..., object]], PythonKernel]:
    """Compiles a Python function for the device; calling the result launches it.

        @vc.kernel
        def saxpy(x, y, out, a):
            i = vc.global_id(0)
            if i < out.size:
                out[i] = a * x[i] + y[i]

        saxpy(x, y, out, 2.0)                         # one invocation per element of the first tensor it writes
        saxpy[(n + 255) // 256, 256](x, y, out, 2.0)  # so many workgroups, of so many invocations
        saxpy[None, None, 1](x, y, out, 2.0)          # on that queue of the device

    It is compiled at the first launch with arguments of certain types, and again when a constant or a function from
    outside that it uses has changed: what changes often is better an argument. It launches on the runtime of its
    tensors, like any kernel.

    **The grid.** Without one, it covers the tensor, rounded up to whole workgroups: compare the id with the size. For
    two or three axes, `vc.global_id(0)` counts along the last, where neighbours lie side by side in memory, and
    `vc.global_id(1)` along the one before.

    **Arguments** are contiguous tensors of fewer than 2**31 elements, indexed by as many ints as they have axes; and
    numbers. A Python int is int32 (else the first of uint32, int64, uint64 that holds it), a Python float float32, or
    float64 if another argument is float64; both take the type of what they meet, as in NEP 50. Numpy's scalars keep
    their types. An index outside of the tensor is undefined, unless it is checked; constants such as -1 count from the
    end.

    Annotations say what arguments are: `x: vc.float32[:]`, `[:, :]` and so on tensors, `vc.float32`, int, float or
    bool numbers, which are converted; what does not fit is refused.

    **Types** promote as numpy's; but a float64 that numpy makes of smaller operands (int32 / int32, int32 * float32) is
    float32, unless an argument is float64. Ids, lengths and ranges are int32 (a range of 64-bit ints is int64), so
    `uint32 + id` is int64: write `vc.uint32(id)`. A variable that has several types in a branch or a loop gets the one
    that they promote to. Integers wrap; `//` and `%` round as Python's, and are undefined by zero and where the
    quotient overflows; of floats they are exact, as numpy's. Integers compare by value, whatever their types, with
    floats as floats; one to a negative power that is not known before is 0. Devices may take no float for NaN or
    infinite in `min`, `max`, `x - x` and `0 * x`; np.minimum and np.maximum keep NaN. `int(x)` of a float is int32.

    **Functions of floats** are right to 2 ulp (erfc, gamma, lgamma to 8), of float64 too (docs/kernels.md). With
    `@vc.kernel(fast_math=True)` those of float16 and float32 are the device's own: up to four times as fast, and wrong
    by up to 2**-11 in sin and cos, more for large arguments.

    **Vectors** of 2 to 4 float16, float32, float64, int32 or uint32: `v = vc.float32x3(x, y, 0)`. Operators and
    functions work on each element, a number meets all of them; `v.x`, `v.zy` (of xyzw or rgba), `v[0]`, `v[i]` and
    `v[1:3]` take parts; there are `a @ b`, `vc.dot`, `vc.cross`, `vc.length`, `vc.normalize`, sum, min, max, any and
    all. A vector does not change. It is loaded from and stored to the last axis of a tensor, which is as long, by
    `vc.float32x3(x[i])` and `x[i] = v`, `x[i] += v`.

    **Workgroups.** `tile = vc.shared((16, 16), vc.float32)` is an array that the invocations of a workgroup share,
    `vc.barrier()` waits for all of them, and `vc.atomic_add(array, index, value)`, min, max, and, or, xor, exchange and
    `vc.atomic_compare_exchange(array, index, expected, new)` change an integer of a tensor or shared array in one step
    and give the old one; add, min, max and exchange a float, too. All invocations must come to a barrier: where that is
    not proved, it is refused.

    **Subgroups** are the parts of a workgroup that run side by side, `vc.subgroup_size()` lanes each. They compute
    together by `vc.subgroup_add(x)` and mul, min, max, and, or, xor; scans, as `vc.subgroup_inclusive_add(x)`; votes;
    broadcasts and shuffles (jit/subgroup.py), among those lanes that come there; what another one has is undefined.

    **The language**: assignments, if, while, for over range(), tuples, tensors, enumerate() and zip(), break, continue,
    return, tuples, conditional expressions, and, or, not, chained comparisons; min, max, abs, round, pow, divmod, len,
    int, float, bool; numpy's scalar types; most of math's and numpy's functions of numbers; functions and lambdas in
    Python, which are inlined and may not call themselves (`vc.function` marks them, if you like); numbers, strings,
    tuples, named tuples and enums from outside, by attributes of objects and keys of dicts too, as they are at compile
    time.

    **Invocations** run in no order, side by side: what one writes, another may neither read nor write (`out[0] += x`
    loses sums), but for atomics, and for those of a workgroup with a barrier between.

    **Simulation.** `saxpy.simulate(x, y, out, 2.0)`, or `saxpy.simulate[groups, local_size](…)`, runs the function by
    Python itself, on numpy's arrays (or tensors), with no Vulkan: so do all launches where VKCOMPUTE_SIMULATE=1 is set.
    Types and numbers are those of a device; `print`, `breakpoint()` and debuggers work. An error shows who does what
    is undefined: an index out of bounds, a barrier to which not all come, a read of what was never written, two
    invocations that race (even to write the same), a division of integers by zero, a float cast to an integer that
    does not hold it. Workgroups and invocations go one after the other; subgroups have 16 lanes; `math.sin` and the
    like are as exact as numpy's; NaN and infinity are as numpy has them. vc.elementwise and its like need a device.

    **Prints**, as `print(i, x[i])` and `print(f"{i}: {x[i]:.3f}")`, come when the launch is first seen to be finished,
    by a result, a download or a wait: in the order of the grid, those of an invocation in that of the program, with
    numbers as numpy prints its scalars. `sep` and `end` are constants. At least 10,000 prints of a launch find room, or
    what `@vc.kernel(print_limit=…)` says; a warning tells how many were lost.

    **Checked indices.** With `@vc.kernel(check_bounds=True)`, or VKCOMPUTE_CHECK_BOUNDS=1 in the environment for all
    kernels that do not say, each index is compared with the shape. Outside of it nothing is written and zero is read,
    and the launch fails: its future, whoever reads what it wrote or what came of that, and `runtime.wait()` raise a
    KernelError with the place in the source, the index, the shape and the first invocation in the order of the grid.
    All else goes on.

    **Loops.** lavapipe before Mesa 25 cuts an invocation's loops after 65,535 iterations, all of its loops together.
    There, a launch that is certain to reach the limit raises a KernelError. One that may reach it is watched: if a loop
    is cut, its future and everything that reads its results raise the error, which names the loop.

    Raises:
        KernelError: there is no source, or (at the first launch) it does something else; the message has the place.
    """
    made = partial(_made, check_bounds, print_limit, bool(fast_math))
    return made if function is None else made(function)


def function(given: _Function) -> _Function:
    """Marks a Python function as one that kernels call; it stays what it is.

        @vc.function
        def clamped(v, low, high):
            return min(max(v, low), high)

    Kernels call others as well. Of a marked one, it is said where it is made that it cannot be compiled at all.

    Raises:
        TypeError: it is not written in Python.
        KernelError: its source is not found.
    """
    if not isinstance(given, FunctionType):
        raise TypeError(f"vc.function takes a function written in Python; got {type(given).__name__}")
    read(given)
    return given


def _is_set(switch: str) -> bool:
    return os.environ.get(switch, "0") not in ("", "0")


def _made(
    check_bounds: bool | None, print_limit: int, fast_math: bool, function: Callable[..., object]
) -> PythonKernel:
    if not isinstance(function, FunctionType):
        raise TypeError(f"vc.kernel takes a function written in Python; got {type(function).__name__}")
    if function.__name__ == "<lambda>":
        raise KernelError("a lambda stores nothing; write the kernel with def, or use vc.vectorize")
    if type(print_limit) is not int or not 1 <= print_limit <= _MOST_PRINTS:
        raise ValueError(f"print_limit is an int from 1 to {_MOST_PRINTS}; got {print_limit!r}")
    return PythonKernel(function, check_bounds=check_bounds, print_limit=print_limit, fast_math=fast_math)


def _sizes(given: Any) -> Sizes:
    """Ints along x, y and z."""
    if type(given) is int and 0 <= given < 1 << 32:
        return (given,)
    sizes = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise TypeError(f"groups and local size are ints, or tuples of one to three; got {given!r}")
    if not all(0 <= n < 1 << 32 for n in sizes):
        raise ValueError(f"groups and local size are not negative, and less than 2**32; got {given!r}")
    return tuple(map(int, sizes))


def _queue(given: Any) -> int | str | None:
    """An index or a role; whether the device has it is seen where it launches."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"a queue is one of runtime.device.queues, by its index; got {given!r}")
    return int(given)
