"""Numbers of a program: their conversion, their common types, and the kinds of variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vkcompute import ir
from vkcompute.compiled.captured import same
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar, Value
from vkcompute.jit.frontend.tuples import Operators
from vkcompute.jit.frontend.type_rules import (
    TypeRules,
    is_typed_integer,
    joined,
    kind_of,
    number_kind,
    started,
    stored,
)
from vkcompute.jit.frontend.values import (
    Complex,
    Kind,
    Number,
    describe,
    includes,
    is_python,
    is_static,
    parts_of,
    unpacked,
)


class NumberConversion:
    """Converts numbers, by the rules of a language.

    Attributes:
        builder: appends operations to the function.
        rules: type numbers.
        host: the language whose operators compute with parts of operands.
        limits: (index of a push constant, dtype) for each int argument that takes a narrower type, which it must fit.
    """

    def __init__(self, builder: ir.Builder, rules: TypeRules, host: Operators) -> None:
        self.builder, self.rules, self.host = builder, rules, host
        self.limits: set[tuple[int, str]] = set()

    def kind(self, value: Any) -> Kind:
        """Returns the type of a number."""
        return value.kind if isinstance(value, Number) else number_kind(value, self.rules)

    def cast(self, value: Any, target: Scalar) -> Value:
        """Converts a number as numpy's astype does; a Python int by the rules of the language."""
        if isinstance(value, Number):
            return self.builder.cast(value.value, target)
        self.kind(value)
        if is_python(value) and not isinstance(value, float) and target.kind in "iu":
            value = self.rules.fitted(value, target)
        return self.builder.const(value, target)

    def converted(self, value: Any, target: Scalar) -> Number:
        """Converts a number, and returns it with its type."""
        return Number(self.host.cast(value, target), Kind(target))

    def common_type(self, *values: Any) -> Kind:
        """Returns the common type of operands, which restricts int arguments."""
        self.restrict(values)
        return self.rules.common(*values)

    def restrict(self, operands: Sequence[Any]) -> None:
        """Notes the int arguments that take a narrower type of other operands."""
        arguments = [x.kind for x in operands if isinstance(x, Number) and x.kind.argument is not None]
        if arguments and any(is_typed_integer(self.kind(x)) for x in operands):
            common = self.rules.common(*operands).type
            narrowed = [kind for kind in arguments if common.kind != "f" and not includes(common, kind.type)]
            self.limits |= {(kind.argument, common.name) for kind in narrowed if kind.argument is not None}

    def to_common_type(self, *values: Any) -> tuple[Kind, list[Value]]:
        """Converts numbers to their common type."""
        kind = self.host.common_type(*values)
        return kind, [self.host.cast(value, kind.type) for value in values]

    def widened(self, value: Any) -> Any:
        """Converts integers narrower than `int(x)` to its type; returns other values unchanged."""
        kind = kind_of(value, self.rules)
        narrow = isinstance(kind, Kind) and kind.type.kind in "iu" and kind.type.bits < self.rules.integer.bits
        return self.converted(value, self.rules.integer) if narrow else value

    def index(self, value: Any) -> Value:
        """Converts a number to an index."""
        kind = self.rules.index(self.kind(value).type)
        if kind is None:
            raise UnsupportedError(f"an index is an integer; got {describe(value)}; write // for /, or int(…)")
        return self.host.cast(value, kind)

    # -- kinds of variables -------------------------------------------------------------------------------------------

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the type of a variable with this value."""
        return stored(kind_of(value, self.rules), self.rules)

    def kind_at_loop(self, kind: Any) -> Any:
        """Returns the type of a variable that has this one before a loop that assigns to it."""
        return started(kind, self.rules)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable that has either type, depending on the path taken."""
        return joined(one, other, self.rules)

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this type; constants have none."""
        if isinstance(kind, Kind):
            return [self.host.cast(value, kind.type)]
        if isinstance(kind, Complex):
            value = parts_of(value)
        return (
            [x for v, k in zip(value, kind, strict=True) for x in self.packed(v, k)] if isinstance(kind, tuple) else []
        )

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this type, made of the next device values."""
        return unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns zeros."""
        if isinstance(kind, Kind):
            return self.packed(0, kind)
        return [value for part in kind for value in self.filler(part)] if isinstance(kind, tuple) else []

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return is_static(one) and same(one, other)

    def state(self) -> set[tuple[int, str]]:
        """Returns the limits of arguments, so far."""
        return {*self.limits}

    def restore(self, state: set[tuple[int, str]]) -> None:
        """Forgets the limits of arguments that were noted since `state`."""
        self.limits = {*state}
