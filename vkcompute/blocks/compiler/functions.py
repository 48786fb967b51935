"""Functions of the block language: each is expanded by the compiler where a program calls it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from vkcompute.compiled.arguments import bind
from vkcompute.errors import IrError, KernelError
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.jit.frontend.values import Number, is_complex

METHODS: dict[str, BlockFunction] = {}
"""Functions that are also methods of blocks, by name."""
STATEMENTS: dict[str, BlockFunction] = {}
"""Functions in place of Python's `print`, `assert`, `max` and `min`."""
OWN: dict[Any, BlockFunction] = {}
"""Functions of elements of the library, such as `vc.sigmoid`, and those that block programs call in their place."""
DESCRIPTOR_METHODS: dict[str, BlockFunction] = {}
"""Methods of tensor descriptors, by name."""
PACKAGES = ["vkcompute.blocks.language"]
"""Packages whose modules hold functions of the block language. A package that gives them other names adds its own."""

REMEDIES: dict[str, str] = {
    "all": "tl.min(x, axis) of bools",
    "any": "tl.max(x, axis) of bools",
    "concatenate": "tl.cat(x, y)",
    "logical_and": "x & y",
    "logical_or": "x | y",
    "matmul": "tl.dot(x, y)",
    "mean": "tl.sum(x, axis) / n",
    "ones": "tl.full(shape, 1, dtype)",
    "prod": "tl.reduce(x, axis, product) with a function of two numbers",
    "stack": "tl.join(x, y)",
    "transpose": "tl.permute(x, order)",
}
"""Replacements for names of NumPy and PyTorch, and for names of the language in another module of it."""


class BlockFunction:
    """A function of the block language.

    Attributes:
        emit: builds the call, given the compiler and the arguments.
        emit_complex: builds it if one of the arguments is complex; None for functions of real numbers only.
        options: names of parameters whose default is a bool or an int, which are constants.
    """

    __name__: str
    emit_complex: Callable[..., Any] | None = None

    def __init__(self, emit: Callable[..., Any]) -> None:
        functools.update_wrapper(self, emit)
        parameters = list(inspect.signature(emit).parameters.values())[1:]  # without the compiler
        self.__signature__ = inspect.Signature(parameters)
        self.options = [parameter.name for parameter in parameters if isinstance(parameter.default, int)]
        self.emit = emit

    def expand(self, compiler: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """Builds a call.

        Raises:
            UnsupportedError: the arguments do not fit.
        """
        try:
            bound = bind(self.__signature__, args, named)
        except TypeError as error:
            raise UnsupportedError(f"tl.{self.__name__}: {error}") from None
        self._check_options(bound.arguments)
        emit: Callable[..., Any] | None = self.emit
        if any(map(_has_complex, (*bound.args, *bound.kwargs.values()))):
            emit = self.emit_complex
        if emit is None:
            raise UnsupportedError(f"tl.{self.__name__} takes no complex numbers; take the parts, z.real and z.imag")
        try:
            return emit(compiler, *bound.args, **bound.kwargs)
        except IrError as error:
            raise UnsupportedError(f"tl.{self.__name__}: {error}") from None

    def _check_options(self, given: Mapping[str, Any]) -> None:
        """Raises UnsupportedError for an option that is known on the device only, which all would take for true."""
        for name in self.options:
            if isinstance(given.get(name), Number):
                raise UnsupportedError(
                    f"{name} of tl.{self.__name__} is known at compile time; got a number of the device; annotate its "
                    "parameter as tl.constexpr, or branch on it"
                )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Raises the error for a call outside of a program."""
        raise KernelError(
            f"tl.{self.__name__} has a value in a function that triton.jit compiles; it was called outside of one"
        )

    def __repr__(self) -> str:
        return f"<function tl.{self.__name__}>"


def _has_complex(value: Any) -> bool:
    """True for a complex number, and for a tuple that has one."""
    return is_complex(value) or (isinstance(value, tuple) and any(map(_has_complex, value)))


def block_function(emit: Callable[..., Any]) -> BlockFunction:
    """Makes a function of the block language from one that builds its calls."""
    return BlockFunction(emit)


def method(function: BlockFunction) -> BlockFunction:
    """Makes a function also a method of blocks."""
    METHODS[function.__name__] = function
    return function


class ConstexprFunction:
    """A function that Python computes: programs call it on constants, at compile time.

    Attributes:
        fn: the function.
        wrap: makes what programs pass to it of a number or text: tl.constexpr, for a function that this decorates.
    """

    __name__: str

    def __init__(self, fn: Callable[..., Any], wrap: Callable[[Any], Any] | None = None) -> None:
        functools.update_wrapper(self, fn)
        self.fn, self.wrap = fn, wrap

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the function."""
        return self.fn(*args, **named)

    def called_with(self, args: list[Any], named: dict[str, Any]) -> Any:
        """Returns the value of a call in a program.

        Raises:
            UnsupportedError: the function raises an error.
        """
        wrapped = {name: self._passed(arg) for name, arg in named.items()}
        try:
            return self.fn(*map(self._passed, args), **wrapped)
        except Exception as error:  # of users, so it may be any
            raise UnsupportedError(f"{self.__name__}: {error}") from error

    def _passed(self, value: Any) -> Any:
        """Returns what the function gets for a constant."""
        return value if self.wrap is None or not isinstance(value, (int, float, str)) else self.wrap(value)

    def __repr__(self) -> str:
        return f"<constexpr function {self.__name__}>"


def constexpr_function(function: Callable[..., Any]) -> ConstexprFunction:
    """Makes a function one that Python computes where programs call it, on constants."""
    return ConstexprFunction(function)
