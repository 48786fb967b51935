"""`vc.reduce`: a function of two numbers, applied until one is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from vkcompute.jit.reduce_launch import ReduceLauncher


class Reduction:
    """Made by `vc.reduce`; called, it launches."""

    def __init__(self, given: Any, initial: Any, each: Any) -> None:
        from vkcompute.jit.formula import function_of  # here, because it loads the compiler

        rule = "an expression of a reduction has a and b, the two to be combined; for others write a function"
        combine = function_of(given, "the function", "a, b" if isinstance(given, str) else None, rule)
        n = combine.function.__code__.co_argcount
        if n != 2:
            raise TypeError(f"vc.reduce takes a function of two numbers; {combine.function.__name__} takes {n}")
        if not isinstance(initial, (bool, int, float, np.number, np.bool_)) or np.iscomplexobj(initial):
            raise TypeError(f"the initial value is a number; got {type(initial).__name__}")
        self._given = given, initial, each
        self.written = combine, initial, None if each is None else function_of(each, "map")
        self.__name__, self.__doc__ = combine.function.__name__, combine.function.__doc__

    @cached_property
    def _launch(self) -> ReduceLauncher:
        from vkcompute.jit.reduce_launch import ReduceLauncher  # here, because it loads the driver

        return ReduceLauncher(*self.written)

    def __call__(
        self,
        *args: Any,
        axis: int | tuple[int, ...] | None = None,
        out: Any = None,
        keepdims: bool = False,
        dtype: npt.DTypeLike | None = None,
        **named: Any,
    ) -> Any:
        """Reduces along an axis, several, or all; returns at once.

        Args:
            args, named: a tensor; or the arguments of `map`, tensors and numbers, whose shapes broadcast as numpy's.
            axis: the axis that goes, or several; None for all of them.
            out: a tensor for the result, of the shape that is left.
            keepdims: whether axes that go are left with length 1.
            dtype: the type in which elements are combined, and that of the result.

        Returns:
            The result, on the device: `out`, or else a new tensor, which has no axes if all went. Of tensors of a group
            of devices, it is divided as they are, or where axis 0 goes, which waits, on the group's first device.

        Raises:
            KernelError: kernels cannot do what the function does with these types.
            TypeError: there is no tensor, an argument is something else, or `out` holds another kind of number.
            ValueError: shapes do not fit; there is no such axis; a tensor is not contiguous; or there are 2**31
                elements, or more bytes than the device binds, and an axis is left or some tensors are repeated.
        """
        return self._launch(args, named, axis, out, keepdims, dtype)

    def __repr__(self) -> str:
        return f"<reduction {self.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduction, self._given  # pickled as what it was made of


def reduce(
    function: Callable[[Any, Any], Any] | str, initial: Any, *, map: Callable[..., Any] | str | None = None
) -> Reduction:
    """Makes a reduction of tensors from a function of two numbers, which may be a lambda, or an expression of a and b.

        total = vc.reduce(lambda a, b: a + b, 0)
        largest = vc.reduce(max_of_two, -math.inf)
        dot = vc.reduce("a + b", 0, map="x * y")      # of what a function or an expression gives for each element

        total(x)                                      # a tensor without axes, on the device: total(x).item()
        total(x, axis=0, out=sums)
        dot(x, y)

    The result is what `functools.reduce(function, elements, initial)` gives for a function that is associative; it need
    not be commutative. Elements stay in order (row-major where all axes go) and are combined in groups: 64 from the
    left, or 64 times 16 and these two by two, then what they gave in the same way, and at last `initial` from the left.
    Which groups depends on shape and axis, and on whether the device is a CPU: there the result is the same each time,
    to the last bit. Of nothing it is `initial`.

    The types of the elements, the initial value and what the function gives promote as in kernels, and in that type
    elements are combined: int8 with an initial 0 is int8, and wraps; with `vc.int64(0)`, or `dtype=np.int64` where it
    is called, it is int64. An int of a bool is int32.

    Raises:
        TypeError: the function does not take two numbers, or the initial value is no number.
        KernelError: there is no source, or a string is no expression.
    """
    return Reduction(function, initial, map)
