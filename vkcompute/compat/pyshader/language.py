"""PyShader's language: that of `vc.kernel`, without promotion."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from vkcompute import ir
from vkcompute.compat.pyshader import stdlib, types
from vkcompute.compat.pyshader.types import MAKERS, SCALARS, TYPES, Matrix, Scalar, ShaderType
from vkcompute.ir import BOOL, FLOAT32, INT32, Value
from vkcompute.jit import library
from vkcompute.jit.expressions import SIGNS
from vkcompute.jit.source import Refused
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Array, Kind, Number, Vector, describe, fits, is_python, like

_SWIZZLES = {letter: place for letters in ("xyzw", "rgba", "stpq") for place, letter in enumerate(letters)}
_FUNCTIONS = {name: getattr(stdlib, name) for name in stdlib.__all__}
NAMES: dict[str, Any] = {**TYPES, **MAKERS, **_FUNCTIONS, "math": math, "stdlib": stdlib, "range": range}
"""What a name means in a shader wherever it is no variable, imported or not"""
_OF_TWO, _OF_INTEGERS = ("atan2", "min", "max"), ("abs", "sign", "min", "max")
_CODES = {function: name for name, function in _FUNCTIONS.items() if name in (*ir.rules.UNARY, *_OF_TWO)}
_CODES[stdlib.round_even] = "round"
"""What is one operation each; by object, so that `math.floor` is found as well as `floor`"""
_INLINED = {function: name in stdlib.GEOMETRIC for name, function in _FUNCTIONS.items() if function not in _CODES}
_CALLED = (*_CODES, *_INLINED, *MAKERS.values())


@dataclass(frozen=True, slots=True, eq=False)
class Buffer(Array):
    """A storage buffer; its elements have `n` numbers each, side by side."""

    n: int = 1


class Listed(tuple[Any, ...]):
    """A list that a shader writes out, of values of one type."""

    __slots__ = ()


class Language(Statements):
    """Compiles a shader. Of the functions of `jit/library.py`, which it calls, it leaves the rules as they are."""

    def __init__(self, function: ir.Function) -> None:
        super().__init__(function, FLOAT32, folded=False)

    @property
    def _own(self) -> bool:
        """Whether PyShader's rules hold at the present place."""
        return self.frames[-1].function.__module__ != library.__name__

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        work = _NODES.get(type(node)) if self._own else None
        return super().value(node) if work is None else self.located(partial(work, self), node)

    # -- types --------------------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> Kind:
        """The type of a number; a Python int is an i32."""
        if isinstance(value, Vector):
            raise Refused(f"this takes one number; got {self.type_of(value)}; name an element, as v.x")
        found = super().kind(value)
        if type(value) is int and found.type is not INT32 and self._own:
            raise Refused(f"{value} does not fit i32; write i64({value})")
        return found

    def type_of(self, value: Any) -> str:
        """The name of a value's type, or of the type itself."""
        if isinstance(value, Vector):
            return str(types.Vector(len(value), TYPES[self.type_of(value[0])]))  # type: ignore[arg-type]
        kind = self.kind(value) if isinstance(value, (Number, int, float)) else value
        return str(SCALARS[kind.type]) if isinstance(kind, Kind) else describe(value)

    def _alike(self, what: str, *values: Any) -> ir.Scalar:
        """The type of numbers that have to have the same."""
        kinds = [self.kind(each).type for each in values]
        if any(each is not kinds[0] for each in kinds):
            names = [self.type_of(each) for each in values]
            raise Refused(f"{what} takes numbers of one type; got {' and '.join(names)}; convert, as {names[0]}(x)")
        return kinds[0]

    def joined(self, one: Any, other: Any) -> Any:
        """The type of what is of one type or the other, depending on the way taken; they have to be the same."""
        if type(one) is type(other) and isinstance(one, tuple) and len(one) == len(other):
            return like(one, map(self.joined, one, other))
        names = self.type_of(one), self.type_of(other)
        if self._own and names[0] != names[1]:
            raise Refused(f"{names[0]} on one way and {names[1]} on another; convert, as {names[0]}(x)")
        return super().joined(one, other)

    def truth(self, value: Any) -> Value | bool:
        """Whether a value is true; it is a boolean."""
        if self._own and not isinstance(value, Vector) and self.kind(value).type is not BOOL:
            raise Refused(f"a condition is boolean; got {self.type_of(value)}; compare, as x != 0")
        return super().truth(value)

    def _store_at(self, value: Any, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return super()._store_at(value, target)
        if len(self.frames) == 1 and target.id in self.frames[0].function.__code__.co_varnames[: self._n_parameters]:
            raise Refused(f"{target.id} is a parameter; assign to its elements, or to a variable of another name")
        return super()._store_at(self._typed(value), target)

    @property
    def _n_parameters(self) -> int:
        return self.frames[0].function.__code__.co_argcount

    def _typed(self, value: Any) -> Any:
        """A variable's value: Python's numbers become i32, f32 and booleans."""
        if isinstance(value, tuple) and not isinstance(value, Listed):
            return like(value, map(self._typed, value))
        return self.converted(value, self.kind(value).type) if is_python(value) and self._own else value

    # -- operators ----------------------------------------------------------------------------------------------------

    def each(self, work: Callable[..., Any], *values: Any) -> Vector:
        """A function of numbers on each element of vectors."""
        vectors = [value for value in values if isinstance(value, Vector)]
        if len({len(vector) for vector in vectors}) > 1:
            raise Refused(f"vectors have one length here; got {' and '.join(map(self.type_of, vectors))}; write v.xy")
        return super().each(work, *values)

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """`one sign other`."""
        vectors = isinstance(one, Vector), isinstance(other, Vector)
        if sign == "@" and not all(vectors):
            raise Refused(f"@ takes two vectors; got {self.type_of(one)} and {self.type_of(other)}")
        if sign == "@":
            self._alike(sign, *one, *other)
        written = isinstance(self.node, (ast.BinOp, ast.AugAssign)) and SIGNS[type(self.node.op)] == sign and self._own
        if any(vectors) or not written or sign == "**" or (is_python(one) and is_python(other)):
            return super().binary(sign, one, other)
        kind = self._alike(sign, one, other)
        if (sign == "/" and kind.kind != "f") or (sign == "//" and kind.kind not in "iu"):
            remedy = "x // y, or convert with f32(x)" if sign == "/" else "x / y, or convert with i32(x)"
            raise Refused(f"{sign} does not divide {SCALARS[kind]}; write {remedy}")
        if sign == "//":
            return Number(self.builder.binary("div", self.cast(one, kind), self.cast(other, kind)), Kind(kind))
        return super().binary(sign, one, other)

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """`one sign other`, boolean."""
        plain = isinstance(one, tuple) or isinstance(other, tuple) or (is_python(one) and is_python(other))
        if self._own and isinstance(self.node, ast.Compare) and not plain:
            self._alike(sign, one, other)
        return super().compare(sign, one, other)

    # -- elements -----------------------------------------------------------------------------------------------------

    def index(self, value: Any) -> Value:
        """A number as an index."""
        if self._own and self.kind(value).type.kind not in "iu":
            raise Refused(f"an index is an integer; got {self.type_of(value)}; write i32(x)")
        return super().index(value)

    def extent(self, array: Array, axis: int) -> Any:
        """Lengths are not known."""
        raise Refused(f"the length of {array.name} is not known in a shader; count from the start, or pass it")

    def load(self, array: Array, place: Value) -> Any:
        """An element, a vector where the buffer has such."""
        n = getattr(array, "n", 1)
        found = [Statements.load(self, array, each) for each in self._places(place, n)]
        return found[0] if n == 1 else Vector(found)

    def store(self, array: Array, place: Value, value: Any) -> None:
        """Writes an element of the buffer's own type."""
        n = getattr(array, "n", 1)
        values = value if isinstance(value, Vector) else (value,)
        if len(values) != n or any(self.kind(each).type is not array.element for each in values):
            scalar = SCALARS[array.element]
            name = scalar if n == 1 else types.Vector(n, scalar)
            raise Refused(f"{array.name} holds {name}; got {self.type_of(value)}; write {name}(…)")
        for each, number in zip(self._places(place, n), values, strict=True):
            super().store(array, each, number)

    def _places(self, place: Value, n: int) -> list[Value]:
        """Where the numbers of an element lie."""
        if n == 1:
            return [place]
        b, kind = self.builder, place.type
        first = b.binary("mul", place, b.const(n, kind))  # type: ignore[arg-type]
        return [b.binary("add", first, b.const(k, kind)) for k in range(n)]  # type: ignore[arg-type]

    def _list(self, node: ast.List) -> Listed:
        found = Listed([self._typed(self.value(each)) for each in node.elts])
        names = {self.type_of(each): None for each in found}
        if len(names) != 1:
            raise Refused(f"a list is of values of one type; got {' and '.join(names) or 'none'}")
        return found

    def _subscripted(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        index = self.value(node.slice) if isinstance(base, Listed) else None
        if not isinstance(index, Number):
            return self._subscript(node)
        self.index(index)
        found = base[0]
        for n, each in enumerate(base[1:], 1):
            found = self.where(self.compare("==", index, n), each, found)
        return found

    # -- names and calls ----------------------------------------------------------------------------------------------

    def _named(self, node: ast.Name) -> Any:
        hidden = node.id in self.env or node.id in self.frames[-1].locals
        return self._name(node) if hidden or node.id not in NAMES else NAMES[node.id]

    def _attribute_of(self, node: ast.Attribute) -> Any:
        base, name = self.value(node.value), node.attr
        if base is math and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if not isinstance(base, Vector):
            return self._attribute(node)
        places = [_SWIZZLES.get(letter, 9) for letter in name]
        if len(places) > 4 or max(places) >= len(base):
            raise Refused(f"{self.type_of(base)} has no elements {name}; they are x, y, z, w, as far as it has them")
        return base[places[0]] if len(places) == 1 else Vector([base[place] for place in places])

    def _called(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        known = isinstance(function, ShaderType) or function in _CALLED
        if not known or node.keywords:
            return self._call(node)
        args = [self.value(each) for each in node.args]
        if isinstance(function, ShaderType):
            return self._constructed(function, args)
        if function in _CODES:
            return self._by_element(partial(self._operation, _CODES[function]), args)
        if function not in _INLINED:
            return function(*args)
        if function is pow:
            return self._by_element(partial(self.binary, "**"), args)
        if function in (math.radians, math.degrees):
            return self._by_element(partial(self.call, function.__name__), args)

        def inline(*numbers: Any) -> Any:
            return self.inline(function, list(map(self._typed, numbers)), {}, node)

        return inline(*args) if _INLINED[function] else self._by_element(inline, args)

    def _by_element(self, work: Callable[..., Any], args: list[Any]) -> Any:
        return self.each(work, *args) if any(isinstance(x, Vector) for x in args) else work(*args)

    def _constructed(self, kind: ShaderType, args: list[Any]) -> Any:
        """`vec3(…)`: as many numbers as it has, alone and in vectors, converted."""
        scalar, n = (kind.subtype, kind.length) if isinstance(kind, types.Vector) else (kind, 1)
        if not isinstance(scalar, Scalar):
            what = "matrices; multiply and add vectors" if isinstance(kind, Matrix) else f"{kind} in expressions"
            raise Refused(f"not supported in shaders here: {what}")
        numbers = [number for each in args for number in (each if isinstance(each, tuple) else (each,))]
        if len(numbers) != n:
            raise Refused(f"{kind} takes {n} number{'s' * (n > 1)}; got {len(numbers)}")
        made = Vector([self._made(each, scalar.number) for each in numbers])
        return made if isinstance(kind, types.Vector) else made[0]

    def _made(self, value: Any, kind: ir.Scalar) -> Number:
        if type(value) is int and kind.kind in "iu" and fits(value, kind):
            return Number(self.builder.const(value, kind), Kind(kind))
        return self.converted(value, kind)

    def _operation(self, code: str, *args: Any) -> Number:
        """One of the functions that the device has."""
        wanted = 2 if code in _OF_TWO else 1
        if len(args) != wanted:
            raise Refused(f"{code} takes {wanted} number{'s' * (wanted - 1)}; got {len(args)}")
        kind = self._alike(code, *args)
        if kind.kind not in ("fiu" if code in _OF_INTEGERS else "f"):
            raise Refused(f"{code} takes floats; got {self.type_of(args[0])}; write f32(x)")
        numbers = [self.cast(each, kind) for each in args]
        made = self.builder.unary(code, *numbers) if len(args) == 1 else self.builder.binary(code, *numbers)
        return Number(made, Kind(kind))


_NODES: dict[type[ast.AST], Callable[[Language, Any], Any]] = {
    ast.Name: Language._named,
    ast.Attribute: Language._attribute_of,
    ast.Subscript: Language._subscripted,
    ast.List: Language._list,
    ast.Call: Language._called,
}
