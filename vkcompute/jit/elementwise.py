"""`vc.elementwise` and `vc.vectorize`: a function of numbers, applied to tensors element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vkcompute.jit.element_launch import ElementLauncher


class Elementwise:
    """Made by `vc.elementwise` and `vc.vectorize`; called, it launches, and in kernels it is a function of numbers.

    Attributes:
        written: the function, and where it is written.
    """

    __name__: str
    __qualname__: str

    def __init__(self, given: Any, arguments: str | None = None) -> None:
        from vkcompute.jit.formula import function_of  # here, because it loads the compiler

        self.written = function_of(given, "the function", arguments)
        self._given = given, arguments
        functools.update_wrapper(self, self.written.function)

    @cached_property
    def _launch(self) -> ElementLauncher:
        from vkcompute.jit.element_launch import ElementLauncher  # here, because it loads the driver

        return ElementLauncher(self.written)

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Applies the function to each element; returns at once.

        Args:
            args, named: tensors, at least one, and numbers, by position or name; shapes broadcast as numpy's. Tensors
                of a group of devices give such a one, divided by rows as they are.
            out: a tensor for the result, of the shape that all have together. It may be one of the arguments. For a
                function that gives a tuple, a tuple.

        Returns:
            The result: `out`, or else a new tensor of the type that the function gives. A tuple of them, if the
            function gives a tuple.

        Raises:
            KernelError: kernels cannot do what the function does with these types.
            TypeError: there is no tensor, an argument is something else, or `out` holds another kind of number.
            ValueError: shapes do not fit; a tensor is not contiguous; or there are 2**31 elements, or more bytes than
                the device binds, and not all tensors of more than one element have the result's shape.
        """
        return self._launch(args, named, out)

    def __repr__(self) -> str:
        return f"<elementwise {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """As an expression, or by the name of the function that `vc.vectorize` decorates."""
        return (Elementwise, self._given) if isinstance(self._given[0], str) else self.__qualname__


def elementwise(expression: str, arguments: str | None = None) -> Elementwise:
    """Makes a function of tensors from an expression of numbers.

        axpy = vc.elementwise("a * x + y")
        z = axpy(2.0, x, y)                     # a new tensor, on the device
        axpy(2.0, x, y, out=y)
        norm = vc.elementwise("sqrt(x**2 + y**2) if x > 0 else 0", "y, x")

    Names in the expression are arguments, in the order in which they appear, or as `arguments` says. Other than those
    of functions and types: Python's, math's and numpy's that kernels have (numpy's where they differ, as `floor`), also
    written as `math.pi` and `np.exp`. Types promote as in kernels, and the result has that of the expression; several
    expressions with commas between give several results. Python does not run the string: it is compiled as kernels are.

    Raises:
        KernelError: the string is no expression, or calls what kernels do not know; the message has the place.
    """
    if not isinstance(expression, str):
        raise TypeError(f"vc.elementwise takes an expression; got {type(expression).__name__}; use vc.vectorize")
    return Elementwise(expression, arguments)


def vectorize(function: Callable[..., Any]) -> Elementwise:
    """Makes a function of tensors from a Python function of numbers; a decorator.

        @vc.vectorize
        def clipped(x, low, high):
            if x < low:
                return low
            return min(x, high)

        z = clipped(x, 0.0, y)

    The function is compiled as `vc.kernel` would compile it, for the types of its arguments, and gives a number or a
    tuple of numbers. See `vc.elementwise` for what the result is like; `clipped.__wrapped__` is the Python function.

    Raises:
        KernelError: there is no source, or (at the first call) kernels cannot do what it does.
    """
    return Elementwise(function)
