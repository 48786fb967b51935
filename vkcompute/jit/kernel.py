"""`vc.kernel`: a Python function, launched on tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute import dtypes
from vkcompute.jit.compile import SIZE, TRUTH, VALUE, Signature, Variant, compiled
from vkcompute.jit.source import read
from vkcompute.runtime.future import Future
from vkcompute.runtime.kernel import Kernel
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tensor import Tensor

Sizes = tuple[int, ...]
_MOST_ELEMENTS = 2**31 - 1  # ids are int32
_MOST_VARIANTS = 16  # of one signature, for different constants from outside


class PythonKernel:
    """Made by `vc.kernel`; called, it launches."""

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        self._function, self._source = function, read(function, 1)
        self._signature = inspect.signature(function)
        for parameter in self._signature.parameters.values():
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                raise self._source.error(self._source.tree, f"a kernel takes plain parameters; {parameter} is none")
        self._n_parameters = len(self._signature.parameters)
        self._variants: dict[Any, list[Variant]] = {}

    def __call__(self, *args: Any, **named: Any) -> Future:
        """Launches one invocation per element of the first tensor that the kernel writes; returns at once."""
        return self._launch(None, None, args, named)

    def __getitem__(self, grid: tuple[int | Sizes, int | Sizes]) -> Callable[..., Future]:
        """`kernel[groups, local_size](…)` launches so many workgroups of so many invocations along x, y and z.

        Raises:
            TypeError: that is no pair of ints, or of tuples of up to three.
        """
        if not isinstance(grid, tuple) or len(grid) != 2:
            raise TypeError(f"{self.__name__}[groups, local_size] takes two; got {grid!r}")
        groups, local = map(_sizes, grid)
        x, y, z = (*local, 1, 1)[:3]
        return partial(self._launch_on, groups, (x, y, z))

    def _launch_on(self, groups: Sizes, local: tuple[int, int, int], *args: Any, **named: Any) -> Future:
        return self._launch(groups, local, args, named)

    def _launch(
        self, groups: Sizes | None, local: tuple[int, int, int] | None, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Future:
        if named or len(args) != self._n_parameters:
            args = self._bound(args, named)
        signature = tuple([_kind(arg) for arg in args])
        variant = self._variant((signature, local, False))
        tensors = [arg for arg in args if type(arg) is Tensor]
        if not tensors:
            raise TypeError(f"{self.__name__} takes a tensor, on whose device it runs; got none")
        kernel, most = self._on(variant, tensors[0].runtime)
        grid, linear = groups, variant.linear
        if grid is None and (linear is None or args[linear].size > most * variant.local_size[0]):
            grid = self._grid(variant, args)  # else it is what the kernel would take itself
        if grid is not None and len(grid) == 1 and grid[0] > most:
            kernel, _ = self._on(self._variant((signature, local, True)), tensors[0].runtime)
            n_rows = -(-grid[0] // most)
            grid = -(-grid[0] // n_rows), n_rows
        pushes = [
            args[at] if what == VALUE else args[at].size if what == SIZE else _pushed(args[at], what)
            for at, what in variant.pushes
        ]
        return kernel(*tensors, *pushes, grid=grid)

    def _variant(self, key: tuple[Signature, tuple[int, int, int] | None, bool]) -> Variant:
        """What is compiled for a signature and a local size, folded or not."""
        found = self._variants.get(key) or []
        for variant in found:
            if not variant.reads or variant.current:
                return variant
        signature, local, folded = key
        variant = compiled(self._function, self._source, signature, local, folded=folded)
        self._variants[key] = [variant, *found[: _MOST_VARIANTS - 1]]
        return variant

    def _on(self, variant: Variant, runtime: Runtime) -> tuple[Kernel, int]:
        """The variant on a device, and the most groups that this launches along x."""
        try:
            return runtime.memo[variant]  # type: ignore[no-any-return]
        except KeyError:
            kernel = runtime.kernel(variant.spirv, name=self.__name__)
            most = runtime.device.physical.limits["maxComputeWorkGroupCount"][0]
            runtime.memo[variant] = kernel, most
            return kernel, most

    def _grid(self, variant: Variant, args: tuple[Any, ...]) -> Sizes:
        """One invocation per element of the first tensor that is written, its last axis along x."""
        if variant.first is None:
            raise ValueError(
                f"{self.__name__} writes no tensor: give the grid, as {self.__name__}[groups, local_size](…)"
            )
        shape = args[variant.first].shape
        if len(shape) > 3:
            raise ValueError(
                f"{self.__name__} writes a tensor of {len(shape)} axes, and a grid has three: give it, as "
                f"{self.__name__}[groups, local_size](…)"
            )
        return tuple([-(-n // size) for n, size in zip(shape[::-1], variant.local_size, strict=False)]) or (1,)

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{self.__name__}(): {error}") from None
        bound.apply_defaults()
        return bound.args

    def __repr__(self) -> str:
        return f"<Python kernel {self.__name__}>"


def kernel(function: Callable[..., object]) -> PythonKernel:
    """Compiles a Python function for the device; calling the result launches it.

        @vc.kernel
        def saxpy(x, y, out, a):
            i = vc.global_id(0)
            if i < out.size:
                out[i] = a * x[i] + y[i]

        saxpy(x, y, out, 2.0)                         # one invocation per element of the first tensor it writes
        saxpy[(n + 255) // 256, 256](x, y, out, 2.0)  # so many workgroups, of so many invocations

    It is compiled at the first launch with arguments of certain types, and again when a constant or a function from
    outside that it uses has changed. It launches on the runtime of its tensors, like any kernel.

    **The grid.** Without one, it covers the tensor, rounded up to whole workgroups: compare the id with the size. For
    two or three axes, `vc.global_id(0)` counts along the last, where neighbours lie side by side in memory, and
    `vc.global_id(1)` along the one before.

    **Arguments** are contiguous tensors of fewer than 2**31 elements, indexed by as many ints as they have axes; and
    numbers. A Python int is int32 (else the first of uint32, int64, uint64 that holds it), a Python float float32, or
    float64 if another argument is float64; both take the type of what they meet, as in NEP 50. Numpy's scalars keep
    their types. An index outside of the tensor is undefined; constants such as -1 count from the end.

    **Types** promote as numpy's; but a float64 that numpy makes of smaller operands (int32 / int32, int32 * float32) is
    float32, unless an argument is float64. Ids, lengths and ranges are int32 (a range of 64-bit ints is int64), so
    `uint32 + id` is int64: write `vc.uint32(id)`. A variable that has several types in a branch or a loop gets the one
    that they promote to. Integers wrap; `//` and `%` round as Python's, and are undefined by zero. `int(x)` of a float
    is int32. No device has the functions of float64, but for sqrt, roundings, min and max.

    **The language**: assignments, if, while, for over range(), break, continue, return, tuples, conditional
    expressions, and, or, not, chained comparisons; min, max, abs, round, pow, divmod, len, int, float, bool; numpy's
    scalar types; math's and numpy's functions of numbers; functions written in Python, which are inlined and may not
    call themselves; numbers, strings and tuples from outside, as they are at compile time.

    **Loops.** lavapipe ends the loops of an invocation after 65,535 iterations, all of its loops together, and reports
    nothing: give each invocation less to do.

    Raises:
        KernelError: there is no source, or (at the first launch) it does something else; the message has the place.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"vc.kernel takes a function written in Python; got {type(function).__name__}")
    return PythonKernel(function)


_LARGE = {np.uint32: range(2**32), np.int64: range(-(2**63), 2**63), np.uint64: range(2**64)}


def _kind(arg: Any) -> Any:
    """What distinguishes an argument for the compiler."""
    kind = type(arg)
    if kind is Tensor:
        if arg.size > _MOST_ELEMENTS:
            raise ValueError(f"a tensor of {arg.size} elements; Python kernels count in int32: pass parts of it")
        return arg.dtype.char, len(arg.shape)
    if kind is float or kind is bool or (kind is int and -0x80000000 <= arg <= 0x7FFFFFFF):
        return kind
    if kind is int:
        for wider, limits in _LARGE.items():
            if arg in limits:
                return wider
        raise ValueError(f"an int argument has at most 64 bits; got {arg}")
    if isinstance(arg, np.generic) and arg.dtype in dtypes.BY_NUMPY:
        return kind
    remedy = "; make a tensor of it, with runtime.tensor(data)" if isinstance(arg, (np.ndarray, list)) else ""
    raise TypeError(f"a kernel takes tensors and numbers; got {kind.__name__}{remedy}")


def _pushed(arg: Any, what: int) -> Any:
    if what == VALUE:
        return arg
    return bool(arg) if what == TRUTH else arg.shape[what]


def _sizes(given: Any) -> Sizes:
    """Ints along x, y and z."""
    sizes = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise TypeError(f"groups and local size are ints, or tuples of one to three; got {given!r}")
    return tuple(map(int, sizes))
