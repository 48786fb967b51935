"""`vc.elementwise` and `vc.vectorize`: a function of numbers, applied to arrays element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from vkcompute.errors import hides_calls, shorten_traceback
from vkcompute.frontend.pickling import portable

if TYPE_CHECKING:
    import numpy as np

    from vkcompute.jit.elementwise.element_launcher import ElementLauncher
    from vkcompute.runtime.memory.array import Array

__tracebackhide__ = hides_calls


class Elementwise:
    """A function of arrays, made by `vc.elementwise` or `vc.vectorize`; in kernels, a function of numbers.

    Attributes:
        definition: the function of numbers, and its source.
    """

    __name__: str
    __qualname__: str

    def __init__(self, given: Any, arguments: str | None = None) -> None:
        from vkcompute.jit.elementwise.formula import function_of  # not at import: it loads the compiler

        self.definition = function_of(given, "the function", arguments)
        self._given = given, arguments
        functools.update_wrapper(self, self.definition.function)

    @cached_property
    def _launch(self) -> ElementLauncher:
        from vkcompute.jit.elementwise.element_launcher import ElementLauncher  # not at import: it loads the driver

        return ElementLauncher(self.definition)

    @overload
    def __call__(self, *args: Array | float | np.number[Any] | np.bool_, out: Array | None = None) -> Array: ...

    @overload
    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any: ...

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Applies the function to each element; returns immediately.

        Args:
            args, named: arrays, at least one, and numbers; shapes broadcast as in numpy. Arrays of a group of devices
                give one that is sharded by rows in the same way.
            out: an array of the broadcast shape for the result, possibly one of the arguments; a tuple of arrays for a
                function that returns a tuple.

        Returns:
            `out`, or a new array of the type of the function's result; a tuple of arrays for a function that returns
            a tuple, which type checkers do not know.

        Raises:
            KernelError: the function does something that kernels do not support for these types.
            TypeError: no argument is an array, one is neither an array nor a number, or `out` cannot hold the dtype.
            ValueError: the shapes do not broadcast, or `out` is a view made by `broadcast_to`.
            OverflowError: an int does not fit the type of its other operand.
        """
        try:
            return self._launch(args, named, out)
        except Exception as error:
            shorten_traceback(error)
            raise

    def __repr__(self) -> str:
        return f"<elementwise {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles an expression by its text, a decorated function by its name, or in the main module by its value."""
        given, arguments = self._given
        if isinstance(given, str) or portable(given) is not given:
            return _unpickled, (portable(given), arguments)
        return self.__qualname__


def elementwise(expression: str, arguments: str | None = None) -> Elementwise:
    """Makes a function of arrays from an expression of numbers.

        axpy = vc.elementwise("a * x + y")
        z = axpy(2.0, x, y)                     # a new array, on the device
        axpy(2.0, x, y, out=y)
        norm = vc.elementwise("sqrt(x**2 + y**2) if x > 0 else 0", "y, x")

    Names are arguments, in order of appearance or as `arguments` lists them. Functions and types that kernels support
    are none: Python's, math's and numpy's (numpy's where they differ, as `round`), also as `math.pi`, `np.exp`. Types
    promote as in kernels. Several expressions, separated by commas, return several results. The string is compiled as a
    kernel, never run by Python.

    Raises:
        KernelError: the string is not an expression, or calls an unknown function; the message has the place.
    """
    if not isinstance(expression, str):
        raise TypeError(f"vc.elementwise takes an expression; got {type(expression).__name__}; use vc.vectorize")
    return Elementwise(expression, arguments)


def vectorize(function: Callable[..., Any]) -> Elementwise:
    """Makes a function of arrays from a Python function of numbers; a decorator.

        @vc.vectorize
        def clipped(x, low, high):
            if x < low:
                return low
            return min(x, high)

        z = clipped(x, 0.0, y)

    The function returns a number or a tuple of numbers. It is compiled for the types of its arguments, as a kernel;
    `clipped.__wrapped__` is the Python function. The result of a call is that of a function made by `vc.elementwise`.

    Raises:
        KernelError: there is no source; or, at the first call, the function does something that kernels do not support.
    """
    return Elementwise(function)


@functools.lru_cache(maxsize=256)
def _unpickled(given: Any, arguments: str | None) -> Elementwise:
    """Makes a function of the main module of another process, or of an expression, once."""
    return Elementwise(given, arguments)
