"""Builds functions of elements: of typed scalars in kernels, and of blocks, by one set of definitions.

A definition is a Python function that is run once, with elements in place of numbers. Operators and functions of these
append operations to a builder:

    def sinc(f, x):
        y = f.where(x == 0, 1, x) * math.pi
        return f.where(x == 0, 1, f.sin(y) / y)

`f` is the emitter, whose attributes are the functions of the registry. Python's numbers take the type of the other
operand. A complex number is a pair of elements, its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeGuard

from vkcompute.errors import IrError
from vkcompute.ir.types import BOOL, FLOAT32, SCALARS, Scalar, Type, element_of
from vkcompute.operations.function import FUNCTIONS, ElementFunction, row_of


class Builder(Protocol):
    """Methods that the builders of kernels and of blocks have in common."""

    def compute(self, code: str, *args: Any) -> Any: ...
    def const(self, value: Any, kind: Scalar) -> Any: ...
    def cast(self, value: Any, kind: Type) -> Any: ...
    def bitcast(self, value: Any, kind: Type) -> Any: ...
    def select(self, condition: Any, one: Any, other: Any) -> Any: ...


class Operand:
    """Python's operators and NumPy's functions, as functions of the registry."""

    __slots__ = ()
    f: Emitter

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise TypeError(f"{function.__name__} of elements takes no options, and has no {method}")
        return self.f.apply(row_of(function.__name__).name, *operands)

    def __array_function__(self, function: Any, types: Any, operands: Any, options: Any) -> Any:
        if options:
            raise TypeError(f"{function.__name__} of elements takes no options")
        return self.f.apply(row_of(function.__name__).name, *operands)

    def __add__(self, other: Any) -> Any:
        return self.f.apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.f.apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.f.apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.f.apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.f.apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.f.apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.f.apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.f.apply("divide", other, self)

    def __and__(self, other: Any) -> Any:
        return self.f.apply("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return self.f.apply("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return self.f.apply("bitwise_xor", self, other)

    def __neg__(self) -> Any:
        return self.f.apply("negative", self)

    def __invert__(self) -> Any:
        return self.f.apply("invert", self)

    def __abs__(self) -> Any:
        return self.f.apply("absolute", self)

    def __eq__(self, other: object) -> Any:
        return self.f.apply("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return self.f.apply("not_equal", self, other)

    def __lt__(self, other: Any) -> Any:
        return self.f.apply("less", self, other)

    def __le__(self, other: Any) -> Any:
        return self.f.apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return self.f.apply("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return self.f.apply("greater_equal", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise IrError("an element has no truth value while its function is built; write f.where(condition, x, y)")


class Element(Operand):
    """A number or a block of numbers of one type.

    Attributes:
        value: in the function being built.
        kind: the type of the numbers.
    """

    __slots__ = ("f", "kind", "value")

    def __init__(self, f: Emitter, value: Any) -> None:
        self.f, self.value, self.kind = f, value, element_of(value.type)


class Pair(Operand, tuple):  # type: ignore[misc,type-arg]
    """A complex number: its real and its imaginary part."""

    __slots__ = ()

    @property
    def f(self) -> Emitter:  # type: ignore[override]
        emitter: Emitter = self[0].f
        return emitter

    @property
    def kind(self) -> Scalar:
        """The type of the parts."""
        kind: Scalar = self[0].kind
        return kind


def is_operand(value: Any) -> TypeGuard[Element | Pair]:
    """True for an element or a pair of them; False for a number of Python."""
    return isinstance(value, Operand)


class Emitter:
    """Builds functions of elements with a builder of scalars.

    Attributes:
        builder: appends the operations.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # -- for languages ------------------------------------------------------------------------------------------------

    def emit(self, row: ElementFunction, *values: Any) -> Any:
        """Builds a function of values; a complex one is a tuple of its parts."""
        if not any(type(value) is tuple for value in values):
            compute = row.computes.get(element_of(values[0].type).kind)
            if isinstance(compute, str):
                return self.builder.compute(compute, *values)
        return plain(self.built(row, *map(self.operand, values)))

    def operand(self, value: Any) -> Element | Pair:
        """Returns a value as an element, or a tuple of two as a pair."""
        return Pair(map(self.operand, value)) if type(value) is tuple else Element(self, value)

    def constant(self, number: Any, kind: Scalar) -> Any:
        """Returns the value of a number."""
        return self.builder.const(number, kind)

    def call(self, definition: Callable[..., Any], *operands: Any) -> Any:
        """Builds a definition in the kernel language, which has loops.

        Raises:
            IrError: this language has no loops for each element.
        """
        raise IrError(f"{definition.__name__} takes a loop per element, which blocks have not; compute it in a kernel")

    # -- for definitions ----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(name)
        return partial(self.apply, name)

    def apply(self, name: str, *operands: Any) -> Any:
        """Builds a function of the registry; Python's numbers take the type of the first element."""
        given = self.aligned(*operands[1:]) if name == "where" else self.aligned(*operands)
        return self.built(FUNCTIONS[name], *operands[: len(operands) - len(given)], *given)

    def aligned(self, *operands: Any) -> list[Any]:
        """Returns operands with constants in place of numbers; pairs, if one of them is complex."""
        model: Any = next(filter(is_operand, operands))
        given = [operand if is_operand(operand) else self.number(operand, model.kind) for operand in operands]
        if not any(isinstance(operand, Pair) for operand in given):
            return given
        return [
            operand if isinstance(operand, Pair) else Pair((operand, self.number(0, operand.kind))) for operand in given
        ]

    def built(self, row: ElementFunction, *operands: Any) -> Any:
        """Builds a row of elements.

        Raises:
            IrError: the function does not take numbers of this kind.
        """
        first = operands[0]
        kind = "c" if isinstance(first, Pair) else first.kind.kind
        compute = row.computes.get(kind)
        if compute is None:
            raise IrError(f"{row.name} takes numbers of kind {', '.join(row.computes)}; got {first.kind}")
        if isinstance(compute, str):
            return Element(self, self.builder.compute(compute, *[operand.value for operand in operands]))
        result = self.widened(compute, *operands) if row.wide else compute(self, *operands)
        return Pair(result) if type(result) is tuple else result

    def widened(self, definition: Callable[..., Any], *operands: Any) -> Any:
        """Builds a definition; floats of 16 bits are computed in float32, and rounded at the end."""
        kind = operands[0].kind
        if kind.kind != "f" or kind.bits > 16:
            return definition(self, *operands)
        result = definition(self, *[self.to(operand, FLOAT32) for operand in operands])
        return self.to(result, kind) if result.kind is FLOAT32 else result

    def number(self, value: Any, kind: Scalar) -> Element:
        """Returns a constant."""
        return Element(self, self.constant(value, kind))

    def op(self, code: str, *operands: Any) -> Element:
        """Builds an operation of `ir/`."""
        return Element(self, self.builder.compute(code, *[operand.value for operand in self.aligned(*operands)]))

    def choose(self, condition: Element, x: Element, y: Element) -> Element:
        """Returns `x` where a bool is true, else `y`."""
        return Element(self, self.builder.select(condition.value, x.value, y.value))

    def to(self, x: Element, kind: Scalar) -> Element:
        """Converts elements."""
        return Element(self, self.builder.cast(x.value, kind))

    def epsilon(self, x: Element) -> float:
        """Returns the distance from 1 to the next float of a type of at least 32 bits."""
        return 2.0**-52 if x.kind.bits == 64 else 2.0**-23

    def spread(self, x: Element) -> Element:
        """Returns a scalar in the shape of other operands."""
        return x

    def truth(self, x: Any) -> Element:
        """Returns True where a number is not 0."""
        return (x[0] != 0) | (x[1] != 0) if isinstance(x, Pair) else self.to(x, BOOL)

    def bits(self, x: Element, kind: str = "uint") -> Element:
        """Returns the bits of numbers, as integers of their size."""
        return Element(self, self.builder.bitcast(x.value, SCALARS[f"{kind}{x.kind.bits}"]))

    def from_bits(self, x: Element, kind: Scalar) -> Element:
        """Returns the floats of a type with these bits."""
        return Element(self, self.builder.bitcast(x.value, kind))


def plain(result: Any) -> Any:
    """Returns the values of an element, or the tuple of those of a pair."""
    return tuple(map(plain, result)) if isinstance(result, tuple) else result.value
