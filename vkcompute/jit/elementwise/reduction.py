"""`vc.reduce`: reductions of arrays by a function of two numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from vkcompute.errors import hides_calls, shorten_traceback
from vkcompute.frontend.pickling import portable

if TYPE_CHECKING:
    import numpy.typing as npt

    from vkcompute.jit.elementwise.reduction_launcher import ReduceLauncher
    from vkcompute.runtime.memory.array import Array

__tracebackhide__ = hides_calls


class Reduction:
    """A reduction made by `vc.reduce`; a call launches it."""

    def __init__(self, given: Any, initial: Any, map_function: Any) -> None:
        from vkcompute.jit.elementwise.formula import function_of  # not at import: it loads the compiler

        rule = "an expression of a reduction has the arguments a and b; for other names write a function"
        combine = function_of(given, "the function", "a, b" if isinstance(given, str) else None, rule)
        n = combine.function.__code__.co_argcount
        if n != 2:
            raise TypeError(f"vc.reduce takes a function of two numbers; {combine.function.__name__} takes {n}")
        if not isinstance(initial, (bool, int, float, np.number, np.bool_)) or np.iscomplexobj(initial):
            raise TypeError(f"the initial value is a number; got {type(initial).__name__}")
        self._given = given, initial, map_function
        self.definition = combine, initial, None if map_function is None else function_of(map_function, "map")
        self.__name__, self.__doc__ = combine.function.__name__, combine.function.__doc__

    @cached_property
    def _launch(self) -> ReduceLauncher:
        from vkcompute.jit.elementwise.reduction_launcher import ReduceLauncher  # not at import: it loads the driver

        return ReduceLauncher(*self.definition)

    @overload
    def __call__(
        self,
        *args: Array | float | np.number[Any] | np.bool_,
        axis: int | tuple[int, ...] | None = None,
        out: Array | None = None,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
    ) -> Array: ...

    @overload
    def __call__(
        self,
        *args: Any,
        axis: int | tuple[int, ...] | None = None,
        out: Any = None,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
        **named: Any,
    ) -> Any: ...

    def __call__(
        self,
        *args: Any,
        axis: int | tuple[int, ...] | None = None,
        out: Any = None,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
        **named: Any,
    ) -> Any:
        """Reduces along one, several or all axes; returns immediately.

        Args:
            args, named: an array; or the arguments of `map`, arrays and numbers, whose shapes broadcast as in numpy.
            axis: the axis or axes to reduce; None for all.
            out: an array of the remaining shape for the result. Elements are combined in its dtype if that is wider.
            keepdims: True to keep reduced axes with length 1.
            dtype: the dtype in which elements are combined, and that of the result.

        Returns:
            `out`, or a new array on the device, without axes if all are reduced. For arrays of a group of devices, it
            is sharded in the same way; if axis 0 is reduced, the call waits, and the result is on the first device.

        Raises:
            KernelError: the function does something that kernels do not support for these types.
            TypeError: no argument is an array, one is neither an array nor a number, or `out` cannot hold the dtype.
            ValueError: the shapes do not broadcast, there is no such axis, or `out` is a view made by `broadcast_to`.
        """
        try:
            return self._launch(args, named, axis, out, keepdims, dtype)
        except Exception as error:
            shorten_traceback(error)
            raise

    def __repr__(self) -> str:
        return f"<reduction {self.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduction, tuple(map(portable, self._given))  # pickled by the arguments of vc.reduce


def reduce(
    function: Callable[[Any, Any], Any] | str, initial: Any, *, map: Callable[..., Any] | str | None = None
) -> Reduction:
    """Makes a reduction of arrays from a function of two numbers, a lambda, or an expression of a and b.

        total = vc.reduce(lambda a, b: a + b, 0)
        largest = vc.reduce(max_of_two, -math.inf)
        dot = vc.reduce("a + b", 0, map="x * y")      # of a function or an expression of each element

        total(x)                                      # an array without axes, on the device: total(x).item()
        total(x, axis=0, out=sums)
        dot(x, y)

    The result is that of `functools.reduce(function, elements, initial)` for an associative function, which need not be
    commutative. Elements stay in row-major order. They are combined in chunks: 16 or 64 from the left, or 64 times 16
    whose results are combined pairwise. The results of the chunks follow likewise, at last `initial` from the left. The
    chunks depend on the shape, the axis, and on whether the device is a CPU; results are reproducible to the last bit
    on CPUs. The result of no elements is `initial`.

    Elements are combined in the common type of the elements, the initial value and the function's results, by the rules
    of kernels. So int8 with an initial 0 is int32; with `vc.int8(0)`, or `dtype=np.int8` in the call, it is int8, and
    wraps. Bools count as int32.

    Raises:
        TypeError: the function does not take two numbers, or the initial value is not a number.
        KernelError: there is no source, or a string is not an expression.
    """
    return Reduction(function, initial, map)
