"""`vc.kernel`: kernels in Python. No driver is loaded before the first launch."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from vkcompute.errors import KernelError, hides_calls, shorten_traceback
from vkcompute.frontend.pickling import ByValue, in_main
from vkcompute.frontend.source import Definition, NoSourceError, definition_of, keep_text
from vkcompute.runtime.launching.launch_config import (
    DEFAULT,
    Launchable,
    LaunchConfig,
    checked_local_size,
    take_keywords,
)

if TYPE_CHECKING:
    from vkcompute.jit.compilation.build import Rules
    from vkcompute.jit.launcher import Launcher
    from vkcompute.runtime.launching.statistics import KernelStatistics

_Function = TypeVar("_Function", bound=Callable[..., object])
PRINT_LIMIT = 10_000
_MOST_PRINTS = 10_000_000
_SWITCHES = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(["", "0", "false", "no", "off"], False)

__tracebackhide__ = hides_calls


class PythonLaunchable(Launchable):
    """A Python function that is launched, on a device or by the simulator."""

    __name__: str
    __qualname__: str
    _signature: inspect.Signature
    _launch: Callable[..., Any]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launches the kernel; returns immediately.

        Args:
            args, named: arrays of one device, or of one group, numbers, and tuples and dataclasses of these; by
                position or by name. NumPy arrays are copied to the device, and back where the kernel writes them;
                then the call waits.
            grid: (keyword) workgroups along x, y and z. By default one invocation per element of the first array to
                which the kernel assigns.
            local_size: (keyword) invocations per workgroup along x, y and z.
            queue: (keyword) one of `runtime.device.queues`, by its index, or "compute".

        Returns:
            A `Future`; for arrays of a group, a future of the launches on all of its devices.

        Raises:
            KernelError: kernels do not support something that the function does with arguments of these types.
            TypeError, ValueError: the arguments do not fit the function, or the grid exceeds the device's limits.
            OverflowError: an int does not fit the type of its other operand.
        """
        try:
            return self._launch_with(DEFAULT, *args, **named) if named else self._launch(DEFAULT, args, named)
        except Exception as error:
            shorten_traceback(error)
            raise

    def _launch_with(self, config: LaunchConfig, *args: Any, **named: Any) -> Any:
        try:
            if named:
                config, named = take_keywords(config, named, self._signature.parameters)
            return self._launch(config, args, named)
        except Exception as error:
            shorten_traceback(error)
            raise


class PythonKernel(PythonLaunchable):
    """A kernel made by `vc.kernel`; a call launches it.

    Args:
        rules: type the numbers of another language; None for those of `vc.kernel`.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        check_bounds: bool | None = None,
        print_limit: int = PRINT_LIMIT,
        fast_math: bool = False,
        local_size: tuple[int, int, int] | None = None,
        source: str | None = None,
        rules: Rules | None = None,
    ) -> None:
        self._check_bounds, self._print_limit, self._fast_math = check_bounds, print_limit, fast_math
        self._local_size, self._given_rules = local_size, rules
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        try:
            self._definition = definition_of(function, program=source)
        except NoSourceError as error:
            raise KernelError(f"{error}, or give the text, as vc.kernel(source=text)") from None
        self._signature = self._definition.signature

    @cached_property
    def _launch(self) -> Callable[..., Any]:  # type: ignore[override]
        return self.simulate._launch if is_set("VKCOMPUTE_SIMULATE") else self._launcher

    @cached_property
    def _launcher(self) -> Launcher:
        from vkcompute.compiled.specialization import CompileOptions
        from vkcompute.jit.launcher import Launcher  # not at import: it loads the driver

        options = CompileOptions(
            self._local_size, self._local_size is not None, check_bounds=self._checked, fast_math=self._fast_math
        )
        return Launcher(self._definition, self._signature, options, self._print_limit, self._rules)

    @cached_property
    def simulate(self) -> Simulation:
        """The simulated kernel, run by Python: `kernel.simulate(…)`, `kernel.simulate[groups, local_size](…)`."""
        return Simulation(self._definition, self._signature, self._local_size, self._given_rules)

    def spirv(self) -> bytes:
        """Returns the SPIR-V for arguments of the annotated types, on the default local size. Needs no device.

        Numbers and shapes are push constants; beyond 128 bytes, a uniform buffer behind the arrays.

        Raises:
            KernelError: kernels do not support something that the function does with such arguments.
            TypeError: a parameter has no annotation of its type.
        """
        return self.variants()[1]

    def variants(self) -> tuple[tuple[str, ...], bytes, bytes]:
        """Returns the Vulkan features of its atomic operations on floats, SPIR-V with them, and SPIR-V without.

        The last one is empty if it needs no such feature. Raises as `spirv`.
        """
        from vkcompute.compiled.specialization import CompileOptions
        from vkcompute.jit.compilation.annotations import annotated_signature
        from vkcompute.jit.compilation.build import specialize

        signature = annotated_signature(self._definition.function)
        options = CompileOptions(
            self._local_size, self._local_size is not None, check_bounds=self._checked, fast_math=self._fast_math
        )
        native = specialize(self._definition, signature, options, self._rules)
        if native.has_phases:
            raise KernelError(
                f"{self.__name__} has grid barriers, at which its launch is divided; one module does not run it; "
                "launch it, or make the parts between the barriers kernels"
            )
        if not native.features:
            return (), native.spirv, b""
        emulated = specialize(self._definition, signature, options._replace(emulate_atomics=True), self._rules)
        return native.features, native.spirv, emulated.spirv

    @property
    def _rules(self) -> Rules:
        from vkcompute.jit.compilation.build import kernel_types

        return self._given_rules or kernel_types

    @property
    def _checked(self) -> bool:
        return is_set("VKCOMPUTE_CHECK_BOUNDS") if self._check_bounds is None else self._check_bounds

    def statistics(self, *args: Any, **named: Any) -> KernelStatistics:
        """Returns how the driver compiled the kernel for the arguments of a launch; see `Kernel.statistics`.

        It takes what a launch takes, `grid=` and `local_size=` included, and launches nothing.
        """
        return self._launcher.kernel(*take_keywords(DEFAULT, named, self._signature.parameters), args).statistics()

    def assembly(self, *args: Any, **named: Any) -> str:
        """Returns the kernel in the device's assembly language, for the arguments of a launch; see `Kernel.assembly`.

        It takes what a launch takes, `grid=` and `local_size=` included, and launches nothing.
        """
        return self._launcher.kernel(*take_keywords(DEFAULT, named, self._signature.parameters), args).assembly()

    def __repr__(self) -> str:
        return f"<Python kernel {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles a kernel by its name, as functions are; one of the main module by its value."""
        function = self._definition.function
        if not in_main(function):
            return self.__qualname__
        options = self._check_bounds, self._print_limit, self._fast_math, self._local_size, None
        return _unpickled, (*options, ByValue(function, self._definition.source.program), self._given_rules)

    def __copy__(self) -> PythonKernel:
        return self

    def __deepcopy__(self, memo: object) -> PythonKernel:
        return self


class Simulation(PythonLaunchable):
    """A kernel run by Python, on NumPy arrays (without a driver) or device arrays; launches are synchronous."""

    def __init__(
        self,
        definition: Definition,
        signature: inspect.Signature,
        local_size: tuple[int, int, int] | None,
        rules: Rules | None = None,
    ) -> None:
        from vkcompute.jit.simulator.launch import simulate  # not at import: seldom needed

        functools.update_wrapper(self, definition.function)
        self._definition, self._signature, self._local_size, self._rules = definition, signature, local_size, rules
        launch = simulate if rules is None else partial(simulate, rules=rules)
        self._launch = partial(launch, definition, signature, local_size)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if not in_main(self._definition.function):
            return f"{self.__qualname__}.simulate"
        by_value = ByValue(self._definition.function, self._definition.source.program)
        return _unpickled_simulation, (self._local_size, by_value, self._rules)


@overload
def kernel(function: Callable[..., object], *, source: str | None = None) -> PythonKernel: ...


@overload
def kernel(
    *,
    check_bounds: bool | None = None,
    print_limit: int = PRINT_LIMIT,
    fast_math: bool = False,
    local_size: int | tuple[int, ...] | None = None,
    source: str | None = None,
) -> Callable[[Callable[..., object]], PythonKernel]: ...


def kernel(
    function: Callable[..., object] | None = None,
    *,
    check_bounds: bool | None = None,
    print_limit: int = PRINT_LIMIT,
    fast_math: bool = False,
    local_size: int | tuple[int, ...] | None = None,
    source: str | None = None,
) -> PythonKernel | Callable[[Callable[..., object]], PythonKernel]:
    """Compiles a Python function for the device; calling the result launches it.

        @vc.kernel
        def saxpy(x, y, out, a):
            i = vc.global_id(0)
            if i < out.size:
                out[i] = a * x[i] + y[i]

        saxpy(x, y, out, 2.0)                         # one invocation per element of the first array it writes
        saxpy[(n + 255) // 256, 256](x, y, out, 2.0)  # 256 invocations in each of (n + 255) // 256 workgroups
        saxpy(x, y, out, 2.0, queue=1)                # on queue 1 of the device; also grid=, local_size=

    The first launch with arguments of certain types compiles the kernel, on the runtime of its arrays. A changed
    global constant or function that it uses compiles it again: pass values that change often as arguments. Details and
    examples: docs/kernels.md.

    **Grid.** The default grid covers the first array to which the kernel assigns, rounded up to whole workgroups:
    compare the ID with the size. For two or three axes, `vc.global_id(0)` counts along the last, which is contiguous,
    and `vc.global_id(1)` along the one before. A kernel that reads ids along fewer axes, as one invocation per row
    does, needs an explicit grid. A given grid has all axes along which the kernel reads ids. `local_size=(16, 16)`
    declares the local size of all launches, for which shared arrays are made.

    **Arguments** are numbers, and arrays and views of fewer than 2**31 elements, indexed by one int per axis; a view
    spans at most 2**32. Slices of arrays are views, to be read; `x.sum()` and its like reduce arrays and slices. There
    may be any number of arguments, and arrays larger than a binding of the device. A negative constant index counts
    from the end. An index out of bounds is undefined unless checked. A Python int is int32, or the first of uint32,
    int64, uint64 that holds it. A Python float is float32, or float64 if another argument is float64. Both are weak, as
    in NEP 50; an int that does not fit the type of its other operand is an OverflowError. numpy's scalars keep their
    types. Annotated arguments are converted or rejected: `x: vc.float32[:]`, `[:, :]` and so on for arrays;
    `vc.float32`, int, float or bool for numbers. None leaves an argument out, and is compared with `is`. Tuples, named
    tuples and dataclasses of arguments are arguments; fields have their names.

    **Types** promote as numpy's, except that a float64 result of smaller operands (int32 / int32, int32 * float32) is
    float32 unless an argument is float64. IDs, lengths and ranges are int32 (int64 for ranges of 64-bit ints), so
    `uint32 + id` is int64: write `vc.uint32(id)`. A variable with several types in a branch or a loop gets their
    common type. A Python int that the kernel computes is int32 next to other integers. Integers wrap. `//` and `%`
    round as Python's; for integers they are undefined for a divisor of 0 and on overflow. Integers of different types
    compare by value. An integer to a negative power that is not a constant is 0. Devices may assume no NaN or infinity
    in `min`, `max` and `0 * x`; np.minimum and np.maximum propagate NaN. `int(x)` of a float64 is int64, of other
    floats int32. A float that does not fit its integer type becomes the nearest number, and NaN 0.

    **Arithmetic of floats** is neither contracted nor reassociated. Quotients and square roots of float16 and float32
    are rounded to the nearest. `vc.fma(x, y, z)` is x * y + z, rounded once where the device can; `fast_math=True`
    leaves all of it to the driver.

    **Functions of floats** are accurate to 2 ulp (erfc, lgamma: 5, gamma: 8), for float64, too. `fast_math=True`
    selects the device's own for float16 and float32: up to four times as fast, with errors up to 2**-11 in sin and
    cos, and larger ones for large arguments.

    **Records** are elements of arrays with fields: `a[i].x += 1`, `a[i] = b[j]`, `a.x`. `x.view(vc.int32)` is the same
    memory as another type.

    **Vectors** have 2 to 4 elements of float16, float32, float64, int32 or uint32: `v = vc.float32x3(x, y, 0)`.
    Operators and functions apply to each element, and numbers are repeated. Parts are `v.x`, `v.zy` (of xyzw or rgba),
    `v[0]`, `v[i]`, `v[1:3]`. Further: `a @ b`, sum, min, max, any, all, and dot, cross, length and normalize in
    `vc.vector`. A vector is immutable. `vc.float32x3(x[i])` loads one from the last axis of an array; `x[i] = v` and
    `x[i] += v` store one.

    **Workgroups.** `tile = vc.shared((16, 16), vc.float32)` is an array shared by a workgroup, `vc.barrier()` waits for
    all of its invocations. `vc.atomic.add(array, index, value)`, min, max, and, or, xor, exchange and
    `vc.atomic.compare_exchange(array, index, expected, new)` return the old element; add, min, max and exchange take
    floats, too. Invocations that have returned take part in later barriers, and do nothing else. A barrier in a branch
    on ids is an error; one in a branch on memory is checked at run time. `vc.barrier_count(condition)`, barrier_all and
    barrier_any are barriers that vote. `vc.memory_fence()` orders an invocation's writes for other workgroups, which
    learn of them by an atomic operation. `vc.grid_barrier()` waits for all workgroups, where the launch is divided.

    **Warps** are 32 invocations on every device: `vc.warp` has CUDA's shuffles, votes, ballots and matches.

    **Subgroups** are the parts of a workgroup that run in lockstep, `vc.subgroup.size()` lanes each:
    `vc.subgroup.add(x)` and mul, min, max, and, or, xor; scans, as `vc.subgroup.inclusive_add(x)`; votes, broadcasts
    and shuffles. They operate on the active lanes.

    **Source.** A kernel is compiled from its text: of a file, a notebook, `python -c`, or a program that is redirected
    to standard input. For other functions, made by exec(), `source=text` gives a text that defines the function and
    those that it calls; an entry in `linecache` does, too.

    **Processes.** A kernel is pickled by its name, as a function; one of a main module or a notebook by value, with the
    functions and constants that it uses. Workers of multiprocessing, joblib and Dask load both.

    **Language.** Assignments; if, while, break, continue, return; for over range(), tuples, arrays, enumerate() and
    zip(). Tuples, conditional expressions, and, or, not, chained comparisons. The functions min, max, abs, round, pow,
    divmod, len, int, float and bool, numpy's scalar types, and most functions of numbers of math and numpy.
    vc.popcount, clz, ctz, bit_reverse, bitcast, and random numbers in vc.random. Python functions and lambdas, which
    are inlined and not recursive. Numbers, strings, tuples, named tuples, enums and NumPy arrays from outside are
    constants, also as attributes of objects and entries of dicts. A variable indexes tuples of up to 4,096 elements.

    **Invocations** run in parallel and in no order. One must not access an element that another writes (`out[0] += x`
    loses sums), except by atomic operations, or within a workgroup with a barrier in between.

    **Simulation.** `saxpy.simulate(x, y, out, 2.0)` and `saxpy.simulate[groups, local_size](…)` run the function in
    Python, on NumPy or device arrays, without Vulkan; VKCOMPUTE_SIMULATE=1 simulates all launches. Types and numbers
    are those of a device; `print`, `breakpoint()` and debuggers work. Undefined behaviour raises an error: an index out
    of bounds, a divergent barrier, a read of uninitialized memory, a race, an integer division by zero, a float cast
    that overflows. Workgroups and invocations run one after the other; subgroups have 16 lanes. vc.elementwise,
    vc.vectorize and vc.reduce need a device.

    **Prints**, as `print(f"{i}: {x[i]:.3f}")`, appear once the launch is known to have completed: on a result, a
    download or a wait. They are in grid order; those of one invocation are in program order. `sep` and `end` are
    constants. At least `print_limit` prints per launch are kept (10,000 by default); a warning gives the number of lost
    ones.

    **Checked indices.** `check_bounds=True`, or VKCOMPUTE_CHECK_BOUNDS=1 for all kernels that do not specify it,
    compares each index with the shape. Out of bounds, stores are skipped and loads return zero, and the launch fails.
    Its future, `runtime.wait()`, and reads of its results and of data computed from them raise a KernelError. The error
    has the source location, the index, the shape and the first such invocation in grid order.

    **Loops.** lavapipe before Mesa 25 cuts an invocation's loops after 65,535 iterations, all of its loops together.
    There, a launch that is certain to reach the limit raises a KernelError. One that may reach it is watched: if a loop
    is cut, its future and everything that reads its results raise the error, which names the loop.

    Raises:
        KernelError: there is no source; or, at the first launch, the function does something that kernels do not
            support. The message has the source location.
    """
    make = partial(_python_kernel, check_bounds, print_limit, bool(fast_math), local_size, source)
    return make if function is None else make(function)


def function(given: _Function) -> _Function:
    """Marks a Python function as one that kernels call, and returns it unchanged.

        @vc.function
        def clamped(v, low, high):
            return min(max(v, low), high)

    The mark is optional: kernels may call any Python function. A marked one is checked where it is defined.

    Raises:
        TypeError: the function is not written in Python.
        KernelError: its source is not found.
    """
    if not isinstance(given, FunctionType):
        raise TypeError(f"vc.function takes a function written in Python; got {type(given).__name__}")
    keep_text(given)
    return given


def is_set(switch: str) -> bool:
    """The state of a switch in the environment. Raises ValueError for other words than those of `_SWITCHES`."""
    text = os.environ.get(switch, "")
    state = _SWITCHES.get(text.lower())
    if state is None:
        raise ValueError(f"{switch} is 1 or 0 (or true, false, yes, no, on, off); got {text!r}")
    return state


def _python_kernel(
    check_bounds: bool | None,
    print_limit: int,
    fast_math: bool,
    local_size: Any,
    source: str | None,
    function: Callable[..., object],
    rules: Rules | None = None,
) -> PythonKernel:
    if not isinstance(function, FunctionType):
        raise TypeError(f"vc.kernel takes a function written in Python; got {type(function).__name__}")
    if function.__name__ == "<lambda>":
        raise KernelError("a lambda stores nothing; write the kernel with def, or use vc.vectorize")
    if type(print_limit) is not int or not 1 <= print_limit <= _MOST_PRINTS:
        raise ValueError(f"print_limit is an int from 1 to {_MOST_PRINTS}; got {print_limit!r}")
    if not isinstance(source, (str, type(None))):
        raise TypeError(f"source is the text of a program that defines the function; got {type(source).__name__}")
    return PythonKernel(
        function,
        check_bounds=check_bounds,
        print_limit=print_limit,
        fast_math=fast_math,
        local_size=checked_local_size(local_size),
        source=source,
        rules=rules,
    )


@functools.lru_cache(maxsize=256)
def _unpickled(*given: Any) -> PythonKernel:
    """Makes a kernel of the main module of another process, once."""
    return _python_kernel(*given)


def _unpickled_simulation(
    local_size: tuple[int, int, int] | None, function: FunctionType, rules: Rules | None
) -> Simulation:
    return PythonKernel(function, local_size=local_size, rules=rules).simulate
