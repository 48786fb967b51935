"""The compiler of PyShader's language, which is that of `vc.kernel` without type promotion."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from vkcompute import ir
from vkcompute.compat.pyshader import stdlib, types
from vkcompute.compat.pyshader.types import CONSTRUCTORS, SCALARS, TYPES, Matrix, Scalar, ShaderType
from vkcompute.frontend.source import is_internal
from vkcompute.frontend.syntax import SIGNS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, Value
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, Vector, describe, fits, is_python, like
from vkcompute.jit.library import standard

_SWIZZLES = {letter: k for letters in ("xyzw", "rgba", "stpq") for k, letter in enumerate(letters)}
_FUNCTIONS = {name: getattr(stdlib, name) for name in stdlib.__all__}
NAMES: dict[str, Any] = {**TYPES, **CONSTRUCTORS, **_FUNCTIONS, "math": math, "stdlib": stdlib, "range": range}
"""Meaning of names that are not variables, imported or not"""
_ON_INTEGERS = ("abs", "sign", "min", "max")
_ARITIES = {row.name: row.arity for row in ir.OPERATIONS.values() if row.arity and row.name != "pow"}
_OPCODES = {function: name for name, function in _FUNCTIONS.items() if name in _ARITIES}
_OPCODES[stdlib.round_even] = "round"
"""Functions that are one operation; keyed by function, so that `math.floor` is found as well as `floor`"""
_INLINED = {function: name in stdlib.GEOMETRIC for name, function in _FUNCTIONS.items() if function not in _OPCODES}
"""Functions that are inlined -> True if they take whole vectors, False if they are elementwise"""
_BUILT_IN = (*_OPCODES, *_INLINED, *CONSTRUCTORS.values())


@dataclass(frozen=True, slots=True, eq=False)
class Buffer(ArrayValue):
    """A storage buffer whose elements have `n` contiguous numbers each."""

    n: int = 1


class ListLiteral(tuple[Any, ...]):
    """A list literal: values of one type."""

    __slots__ = ()


class ShaderCompiler(Compiler):
    """Compiles a shader. Internal functions of `jit/` that are inlined into it keep the rules of `vc.kernel`."""

    def __init__(self, function: ir.Function) -> None:
        super().__init__(function, FLOAT32)

    @property
    def _is_strict(self) -> bool:
        """True in code of the shader, False in an inlined function of the library."""
        return not is_internal(self.frames[-1].function)

    def value(self, node: ast.expr) -> Any:
        """Compiles an expression."""
        work = _NODES.get(type(node)) if self._is_strict else None
        return super().value(node) if work is None else self.located(partial(work, self), node)

    # -- types --------------------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> Kind:
        """Returns the type of a number; that of a Python int is i32."""
        if isinstance(value, (Vector, ListLiteral)):
            example = "v.x" if isinstance(value, Vector) else "a[0]"
            raise UnsupportedError(f"this takes one number; got {self.type_of(value)}; name an element, as {example}")
        found = super().kind(value)
        if type(value) is int and found.type is not INT32 and self._is_strict:
            raise UnsupportedError(f"{value} does not fit i32; write i64({value})")
        return found

    def type_of(self, value: Any) -> str:
        """Returns PyShader's name of a type, given the type or a value."""
        if isinstance(value, ListLiteral):
            return f"Array({len(value)},{self.type_of(value[0])})"
        if isinstance(value, Vector):
            return str(types.Vector(len(value), TYPES[self.type_of(value[0])]))  # type: ignore[arg-type]
        kind = self.kind(value) if isinstance(value, (Number, int, float)) else value
        return str(SCALARS[kind.type]) if isinstance(kind, Kind) else describe(value)

    def _common_type(self, user: str, *values: Any) -> ir.Scalar:
        """Returns the one type of several numbers; `user` takes them, for the error message."""
        kinds = [self.kind(each).type for each in values]
        if any(each is not kinds[0] for each in kinds):
            names = [self.type_of(each) for each in values]
            raise UnsupportedError(
                f"{user} takes numbers of one type; got {' and '.join(names)}; convert, as {names[0]}(x)"
            )
        return kinds[0]

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable with values from two predecessors, which must agree."""
        if type(one) is type(other) and isinstance(one, tuple) and len(one) == len(other):
            return like(one, map(self.joined, one, other))
        names = self.type_of(one), self.type_of(other)
        if self._is_strict and names[0] != names[1]:
            raise UnsupportedError(f"{names[0]} on one path and {names[1]} on another; convert, as {names[0]}(x)")
        return super().joined(one, other)

    def truth(self, value: Any) -> Value | bool:
        """Returns a value as a condition; it must be a boolean."""
        if self._is_strict and not isinstance(value, Vector) and self.kind(value).type is not BOOL:
            raise UnsupportedError(f"a condition is boolean; got {self.type_of(value)}; compare, as x != 0")
        return super().truth(value)

    def _store_at(self, value: Any, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return super()._store_at(value, target)
        code = self.frames[0].function.__code__
        if len(self.frames) == 1 and target.id in code.co_varnames[: code.co_argcount]:
            raise UnsupportedError(
                f"{target.id} is a parameter; assign to its elements, or to a variable of another name"
            )
        return super()._store_at(self._concrete(value), target)

    def _concrete(self, value: Any) -> Any:
        """Converts Python numbers to i32, f32 or booleans, as values of variables."""
        if isinstance(value, tuple) and not isinstance(value, ListLiteral):
            return like(value, map(self._concrete, value))
        return self.converted(value, self.kind(value).type) if is_python(value) and self._is_strict else value

    # -- operators ----------------------------------------------------------------------------------------------------

    def each(self, work: Callable[..., Any], *values: Any) -> Vector:
        """Applies a function of numbers to vectors, elementwise."""
        vectors = [value for value in values if isinstance(value, Vector)]
        if len({len(vector) for vector in vectors}) > 1:
            raise UnsupportedError(
                f"vectors in one expression have one length; got {' and '.join(map(self.type_of, vectors))}; write v.xy"
            )
        return super().each(work, *values)

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Compiles `one sign other`."""
        vectors = isinstance(one, Vector), isinstance(other, Vector)
        if sign == "@" and not all(vectors):
            raise UnsupportedError(f"@ takes two vectors; got {self.type_of(one)} and {self.type_of(other)}")
        if sign == "@":
            self._common_type(sign, *one, *other)
        written = (
            isinstance(self.node, (ast.BinOp, ast.AugAssign)) and SIGNS[type(self.node.op)] == sign and self._is_strict
        )
        if any(vectors) or not written or sign == "**" or (is_python(one) and is_python(other)):
            return super().binary(sign, one, other)
        kind = self._common_type(sign, one, other)
        if (sign == "/" and kind.kind != "f") or (sign == "//" and kind.kind not in "iu"):
            remedy = "x // y, or convert with f32(x)" if sign == "/" else "x / y, or convert with i32(x)"
            raise UnsupportedError(f"{sign} does not divide {SCALARS[kind]}; write {remedy}")
        if sign == "//":
            return Number(self.builder.compute("div", self.cast(one, kind), self.cast(other, kind)), Kind(kind))
        return super().binary(sign, one, other)

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Compiles a comparison; the result is a boolean."""
        plain = isinstance(one, tuple) or isinstance(other, tuple) or (is_python(one) and is_python(other))
        if self._is_strict and isinstance(self.node, ast.Compare) and not plain:
            self._common_type(sign, one, other)
        return super().compare(sign, one, other)

    # -- elements -----------------------------------------------------------------------------------------------------

    def index(self, value: Any) -> Value:
        """Converts a number to an index."""
        if self._is_strict and self.kind(value).type.kind not in "iu":
            raise UnsupportedError(f"an index is an integer; got {self.type_of(value)}; write i32(x)")
        return super().index(value)

    def extent(self, array: ArrayValue, axis: int) -> Any:
        """Raises: lengths of buffers are unknown."""
        raise UnsupportedError(f"the length of {array.name} is not known in a shader; count from the start, or pass it")

    def load(self, array: ArrayValue, offset: Value) -> Any:
        """Loads an element: a vector if the buffer holds vectors."""
        n = getattr(array, "n", 1)
        numbers = [Compiler.load(self, array, each) for each in self._offsets(offset, n)]
        return numbers[0] if n == 1 else Vector(numbers)

    def store(self, array: ArrayValue, offset: Value, value: Any) -> None:
        """Stores an element, which must have the type of the buffer's elements."""
        n = getattr(array, "n", 1)
        values = value if isinstance(value, Vector) else (value,)
        if len(values) != n or any(self.kind(each).type is not array.element for each in values):
            scalar = SCALARS[array.element]
            name = scalar if n == 1 else types.Vector(n, scalar)
            raise UnsupportedError(f"{array.name} holds {name}; got {self.type_of(value)}; write {name}(…)")
        for each, number in zip(self._offsets(offset, n), values, strict=True):
            super().store(array, each, number)

    def _offsets(self, offset: Value, n: int) -> list[Value]:
        """Returns the offsets of the `n` numbers of an element."""
        if n == 1:
            return [offset]
        b, kind = self.builder, offset.type
        first = b.compute("mul", offset, b.const(n, kind))  # type: ignore[arg-type]
        return [b.compute("add", first, b.const(k, kind)) for k in range(n)]  # type: ignore[arg-type]

    def _list(self, node: ast.List) -> ListLiteral:
        values = ListLiteral([self._concrete(self.value(each)) for each in node.elts])
        names = {self.type_of(each): None for each in values}
        if len(names) != 1:
            raise UnsupportedError(f"a list holds values of one type; got {' and '.join(names) or 'none'}")
        return values

    # -- names and calls ----------------------------------------------------------------------------------------------

    def _shader_name(self, node: ast.Name) -> Any:
        is_variable = node.id in self.flow.env or node.id in self.frames[-1].locals
        return self._name(node) if is_variable or node.id not in NAMES else NAMES[node.id]

    def _shader_attribute(self, node: ast.Attribute) -> Any:
        base, name = self.value(node.value), node.attr
        if base is math and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if not isinstance(base, Vector):
            return self._attribute(node)
        indices = [_SWIZZLES.get(letter, 9) for letter in name]
        if len(indices) > 4 or max(indices) >= len(base):
            raise UnsupportedError(
                f"{self.type_of(base)} has no elements {name}; it has {', '.join('xyzw'[: len(base)])}"
            )
        return base[indices[0]] if len(indices) == 1 else Vector([base[k] for k in indices])

    def _shader_call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        is_built_in = isinstance(function, ShaderType) or function in _BUILT_IN
        if not is_built_in or node.keywords:
            return self._call(node)
        args = [self.value(each) for each in node.args]
        if isinstance(function, ShaderType):
            return self._constructed(function, args)
        if function in _OPCODES:
            return self._elementwise(partial(self._operation, _OPCODES[function]), args)
        if function not in _INLINED:
            return function(*args)
        if function is pow:
            return self._elementwise(partial(self.binary, "**"), args)
        if function in (math.radians, math.degrees):
            return self._elementwise(partial(self.call, getattr(standard, function.__name__)), args)

        def inline(*numbers: Any) -> Any:
            return self.inline(function, list(map(self._concrete, numbers)), {}, node)

        return inline(*args) if _INLINED[function] else self._elementwise(inline, args)

    def _elementwise(self, work: Callable[..., Any], args: list[Any]) -> Any:
        return self.each(work, *args) if any(isinstance(x, Vector) for x in args) else work(*args)

    def _constructed(self, kind: ShaderType, args: list[Any]) -> Any:
        """Compiles `vec3(…)`: converts the numbers given alone and in vectors; their count must fit."""
        scalar, n = (kind.subtype, kind.length) if isinstance(kind, types.Vector) else (kind, 1)
        if not isinstance(scalar, Scalar):
            what = "matrices; multiply and add vectors" if isinstance(kind, Matrix) else f"{kind} in expressions"
            raise UnsupportedError(f"not supported in shaders: {what}")
        numbers = [number for each in args for number in (each if isinstance(each, tuple) else (each,))]
        if len(numbers) != n:
            raise UnsupportedError(f"{kind} takes {n} number{'s' * (n > 1)}; got {len(numbers)}")
        converted = Vector([self._constructed_number(each, scalar.number) for each in numbers])
        return converted if isinstance(kind, types.Vector) else converted[0]

    def _constructed_number(self, value: Any, kind: ir.Scalar) -> Number:
        if type(value) is int and kind.kind in "iu" and fits(value, kind):
            return Number(self.builder.const(value, kind), Kind(kind))
        return self.converted(value, kind)

    def _operation(self, code: str, *args: Any) -> Number:
        """Compiles a function that is one operation."""
        arity = _ARITIES[code]
        if len(args) != arity:
            raise UnsupportedError(f"{code} takes {arity} number{'s' * (arity - 1)}; got {len(args)}")
        kind = self._common_type(code, *args)
        if kind.kind not in ("fiu" if code in _ON_INTEGERS else "f"):
            raise UnsupportedError(f"{code} takes floats; got {self.type_of(args[0])}; write f32(x)")
        return Number(self.builder.compute(code, *[self.cast(each, kind) for each in args]), Kind(kind))


_NODES: dict[type[ast.AST], Callable[[ShaderCompiler, Any], Any]] = {
    ast.Name: ShaderCompiler._shader_name,
    ast.Attribute: ShaderCompiler._shader_attribute,
    ast.List: ShaderCompiler._list,
    ast.Call: ShaderCompiler._shader_call,
}
