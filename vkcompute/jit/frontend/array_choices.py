"""Variables that are one of several arrays, depending on the path taken: each access branches on a number.

So a kernel swaps its buffers, as in `old, new = new, old`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import INT32, Builder, Value
from vkcompute.jit.frontend.array_views import View
from vkcompute.jit.frontend.number_conversion import NumberConversion
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.type_rules import TypeRules
from vkcompute.jit.frontend.values import ArrayValue, Complex, Kind, Number, Vector, describe, like


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
        builder, rules, host: as of `NumberConversion`.

    Attributes:
        numbers: convert numbers, and have the other kinds.
    """

    def __init__(self, builder: Builder, rules: TypeRules, host: Operators) -> None:
        self.numbers = NumberConversion(builder, rules, host)

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the kind of a variable with this value."""
        if isinstance(value, ArrayChoice):
            return ChoiceKind(value.arrays)
        if is_plain(value):
            return like(value, map(self.kind_of_variable, value))
        return self.numbers.kind_of_variable(value)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the kind of a variable that has either kind, depending on the path taken."""
        if is_plain(one) and is_plain(other) and len(one) == len(other):
            model = one if type(one) is type(other) else ()
            return like(model, [self.joined(*pair) for pair in zip(one, other, strict=True)])
        if isinstance(one, ChoiceKind) and one == other:
            return one
        try:
            return self.numbers.joined(one, other)
        except UnsupportedError:
            arrays = tuple(dict.fromkeys([*_arrays_of(one), *_arrays_of(other)]))
            forms = {(array.element, array.ndim) for array in arrays}
            if not _arrays_of(one) or not _arrays_of(other) or len(forms) > 1:
                text = f"{_described(one)} on one path and {_described(other)} on another"
                if isinstance(one, ChoiceKind) or isinstance(other, ChoiceKind):
                    raise UnsupportedError(f"{text}; index the arrays where one is chosen") from None
                raise
            return ChoiceKind(arrays)

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this kind: of a choice, the index of the array."""
        if is_plain(kind):
            return [part for pair in zip(value, kind, strict=True) for part in self.packed(*pair)]
        if not isinstance(kind, ChoiceKind):
            return self.numbers.packed(value, kind)
        b = self.numbers.builder
        if not isinstance(value, ArrayChoice):
            return [b.const(kind.arrays.index(value), INT32)]
        at, indices = value.at.value, [b.const(kind.arrays.index(array), INT32) for array in value.arrays]
        result: Value = indices[-1]
        for n, index in reversed([*enumerate(indices)][:-1]):
            result = b.select(b.compute("eq", at, b.const(n, INT32)), index, result)
        return [result]

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this kind, made of the next device values."""
        if is_plain(kind):
            return like(kind, [self.unpacked(part, values) for part in kind])
        if isinstance(kind, ChoiceKind):
            return ArrayChoice(kind.arrays, Number(next(values), Kind(INT32)))
        return self.numbers.unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns any device values of a kind."""
        if is_plain(kind):
            return [value for part in kind for value in self.filler(part)]
        is_choice = isinstance(kind, ChoiceKind) and bool(_arrays_of(kind))
        return [self.numbers.builder.const(0, INT32)] if is_choice else self.numbers.filler(kind)

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return not _has_choice(one) and self.numbers.is_same(one, other)


def is_plain(value: Any) -> bool:
    """True for a tuple of values or kinds, which is no single number."""
    return isinstance(value, tuple) and not isinstance(value, (Vector, Complex))


def has_array(value: Any) -> bool:
    """True for an array, a choice, and a tuple with one of these."""
    return any(map(has_array, value)) if is_plain(value) else isinstance(value, (ArrayValue, ArrayChoice))


def _described(kind: Any) -> str:
    return " or ".join(map(describe, kind.arrays)) if isinstance(kind, ChoiceKind) else describe(kind)


def _has_choice(value: Any) -> bool:
    return any(map(_has_choice, value)) if is_plain(value) else isinstance(value, ArrayChoice)


def _arrays_of(kind: Any) -> Sequence[ArrayValue]:
    """Returns the arrays of a kind; none of another kind, of lists, and of views, which belong to their branch."""
    if isinstance(kind, ChoiceKind):
        return kind.arrays if all(map(_arrays_of, kind.arrays)) else ()
    is_whole = isinstance(kind, ArrayValue) and not isinstance(kind, View)
    return (kind,) if is_whole and kind.item is None else ()


def chosen(c: Any, choice: ArrayChoice, build: Callable[[ArrayValue], Any]) -> Any:
    """Returns what `build` returns for the array that is chosen; a number, or nothing."""
    e, arrays = c.evaluator, choice.arrays

    def side(n: int) -> Any:
        if n == len(arrays) - 1:
            return build(arrays[n])
        is_this = c.builder.compute("eq", choice.at.value, c.builder.const(n, INT32))
        return e.flow.choose(is_this, partial(build, arrays[n]), partial(side, n + 1), e.here(e.node))

    return side(0)
