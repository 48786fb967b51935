"""Variables that are one of several arrays, depending on the path taken: each access branches on a number.

So a kernel swaps its buffers, as in `old, new = new, old`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Value
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number


@dataclass(frozen=True, eq=False, slots=True)
class ArrayChoice:
    """One of several arrays with elements of one type and as many axes.

    Attributes:
        arrays: the arrays.
        at: the index of the one.
    """

    arrays: tuple[ArrayValue, ...]
    at: Number


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """The kind of a variable that is one of these arrays."""

    arrays: tuple[ArrayValue, ...]


class ArrayChoices:
    """Kinds of variables with those of choices; the others are those of numbers.

    Args:
        numbers: has the kinds of other values.
    """

    def __init__(self, numbers: NumberConversion) -> None:
        self._numbers = numbers

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the kind of a variable with this value."""
        return ChoiceKind(value.arrays) if isinstance(value, ArrayChoice) else self._numbers.kind_of_variable(value)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the kind of a variable that has either kind, depending on the path taken."""
        try:
            return self._numbers.joined(one, other)
        except UnsupportedError:
            arrays = tuple(dict.fromkeys([*_arrays_of(one), *_arrays_of(other)]))
            forms = {(array.element, array.ndim) for array in arrays}
            if not _arrays_of(one) or not _arrays_of(other) or len(forms) > 1:
                raise
            return ChoiceKind(arrays)

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this kind: the index of the array."""
        if not isinstance(kind, ChoiceKind):
            return self._numbers.packed(value, kind)
        b = self._numbers.builder
        if not isinstance(value, ArrayChoice):
            return [b.const(kind.arrays.index(value), INT32)]
        at, indices = value.at.value, [b.const(kind.arrays.index(array), INT32) for array in value.arrays]
        result: Value = indices[-1]
        for n, index in reversed([*enumerate(indices)][:-1]):
            result = b.select(b.compute("eq", at, b.const(n, INT32)), index, result)
        return [result]

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this kind, made of the next device values."""
        if isinstance(kind, ChoiceKind):
            return ArrayChoice(kind.arrays, Number(next(values), Kind(INT32)))
        return self._numbers.unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns any device values of a kind."""
        return self._numbers.filler(kind)


def _arrays_of(kind: Any) -> Sequence[ArrayValue]:
    """Returns the arrays of a kind; none of another kind, and of views, which belong to their branch."""
    if isinstance(kind, ChoiceKind):
        return kind.arrays
    return (kind,) if isinstance(kind, ArrayValue) and not isinstance(kind, View) else ()


def chosen(c: Any, choice: ArrayChoice, build: Callable[[ArrayValue], Any]) -> Any:
    """Returns what `build` returns for the array that is chosen; a number, or nothing."""
    e, arrays = c.evaluator, choice.arrays

    def side(n: int) -> Any:
        if n == len(arrays) - 1:
            return build(arrays[n])
        is_this = c.builder.compute("eq", choice.at.value, c.builder.const(n, INT32))
        return e.flow.choose(is_this, partial(build, arrays[n]), partial(side, n + 1), e.here(e.node))

    return side(0)
