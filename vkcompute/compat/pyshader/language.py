"""PyShader's language, which is that of `vc.kernel` without type promotion."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.compat.pyshader import stdlib, types
from vkcompute.compat.pyshader.types import CONSTRUCTORS, SCALARS, TYPES, Matrix, Scalar, ShaderType
from vkcompute.compiled.captured import Table
from vkcompute.frontend.control_flow import Location
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.expressions import attribute, name
from vkcompute.frontend.language import Iterations
from vkcompute.frontend.source import is_internal
from vkcompute.frontend.statements import STATEMENTS
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, Value
from vkcompute.jit.frontend.compiler import KERNEL_EXPRESSIONS, Compiler
from vkcompute.jit.frontend.other_words import in_kernels
from vkcompute.jit.frontend.ranges import Range
from vkcompute.jit.frontend.tuples import compared_in_order, contains
from vkcompute.jit.frontend.type_rules import KernelTypes, kind_of
from vkcompute.jit.frontend.values import ArrayValue, Kind, Number, Vector, describe, fits, is_python, like
from vkcompute.jit.library.element_functions import in_floats
from vkcompute.jit.library.private import listed
from vkcompute.operations import row_of

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
_RULES = KernelTypes(FLOAT32)
_BUILT_IN = (*_OPCODES, *_INLINED, *CONSTRUCTORS.values())


@dataclass(frozen=True, slots=True, eq=False)
class Buffer(ArrayValue):
    """A storage buffer whose elements have `n` contiguous numbers each."""

    n: int = 1


class ListLiteral(tuple[Any, ...]):
    """A list literal: values of one type."""

    __slots__ = ()


class Buffers:
    """Elements of storage buffers, which may be vectors.

    Args:
        kernels: load and store numbers.
    """

    def __init__(self, kernels: Compiler) -> None:
        self._kernels = kernels

    def item(self, array: Buffer, index: Any) -> Any:
        """Returns an element."""
        return self._load(array, self._kernels.arrays.offset(array, index))

    def assign(self, array: Buffer, index: Any, value: Any) -> None:
        """Stores an element, which must have the type of the buffer's elements."""
        self._store(array, self._kernels.arrays.offset(array, index), value)

    def update(self, array: Buffer, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element what `change` makes of it."""
        offset = self._kernels.arrays.offset(array, index)
        self._store(array, offset, change(self._load(array, offset)))

    def _load(self, array: Buffer, offset: Value) -> Any:
        numbers = [self._kernels.arrays.load(array, at) for at in self._offsets(offset, array.n)]
        return numbers[0] if array.n == 1 else Vector(numbers)

    def _store(self, array: Buffer, offset: Value, value: Any) -> None:
        values = value if isinstance(value, Vector) else (value,)
        if len(values) != array.n or any(self._kernels.kind(number).type is not array.element for number in values):
            scalar = SCALARS[array.element]
            name = scalar if array.n == 1 else types.Vector(array.n, scalar)
            raise UnsupportedError(f"{array.name} holds {name}; got {type_of(value)}; write {name}(…)")
        for at, number in zip(self._offsets(offset, array.n), values, strict=True):
            self._kernels.arrays.store(array, at, number)

    def _offsets(self, offset: Value, n: int) -> list[Value]:
        """Returns the offsets of the `n` numbers of an element."""
        if n == 1:
            return [offset]
        b, kind = self._kernels.builder, offset.type
        first = b.compute("mul", offset, b.const(n, kind))  # type: ignore[arg-type]
        return [b.compute("add", first, b.const(k, kind)) for k in range(n)]  # type: ignore[arg-type]


class ShaderLanguage:
    """PyShader's language, for one shader.

    Attributes:
        kernels: the language of kernels, which computes what is left when types agree. Internal functions of `jit/`
            are written in it.
    """

    programs = "shaders"
    most_recursions = 0
    statements = STATEMENTS

    def __init__(self, function: ir.Function) -> None:
        self.function, self.builder = function, ir.Builder(function)
        self.expressions, self.special_forms = {**KERNEL_EXPRESSIONS, **_NODES}, {print: _print}
        self.evaluator = Evaluator(self, self.builder)
        self.kernels = Compiler(function, _RULES, self.evaluator)
        self._buffers = Buffers(self.kernels)

    # -- types --------------------------------------------------------------------------------------------------------

    def kind(self, value: Any) -> Kind:
        """Returns the type of a number; that of a Python int is i32."""
        if isinstance(value, (Vector, ListLiteral)):
            example = "v.x" if isinstance(value, Vector) else "a[0]"
            raise UnsupportedError(f"this takes one number; got {type_of(value)}; name an element, as {example}")
        kind = self.kernels.kind(value)
        if type(value) is int and kind.type is not INT32:
            raise UnsupportedError(f"{value} does not fit i32; write i64({value})")
        return kind

    def kind_of_variable(self, value: Any) -> Any:
        """Returns the type of a variable with this value."""
        return self.kernels.kind_of_variable(value)

    def kind_at_loop(self, kind: Any) -> Any:
        """Returns the type of a variable that has this one before a loop that assigns to it."""
        return self.kernels.kind_at_loop(kind)

    def joined(self, one: Any, other: Any) -> Any:
        """Returns the type of a variable with values from two predecessors, which must agree."""
        if type(one) is type(other) and isinstance(one, tuple) and len(one) == len(other):
            return like(one, map(self.joined, one, other))
        names = type_of(one), type_of(other)
        if names[0] != names[1]:
            raise UnsupportedError(f"{names[0]} on one path and {names[1]} on another; convert, as {names[0]}(x)")
        return self.kernels.joined(one, other)

    def mismatch(self, name: str, why: str) -> str:
        """Returns the text of an error for a value whose types differ, depending on the path taken."""
        return why

    def packed(self, value: Any, kind: Any) -> list[Value]:
        """Returns the device values of a value of this type; constants have none."""
        return self.kernels.packed(value, kind)

    def unpacked(self, kind: Any, values: Iterator[Value]) -> Any:
        """Returns a value of this type, made of the next device values."""
        return self.kernels.unpacked(kind, values)

    def filler(self, kind: Any) -> list[Value]:
        """Returns zeros."""
        return self.kernels.filler(kind)

    def is_same(self, one: Any, other: Any) -> bool:
        """True if both values are one constant."""
        return self.kernels.is_same(one, other)

    def state(self) -> Any:
        """Returns what is noted of the shader so far."""
        return self.kernels.state()

    def restore(self, state: Any) -> None:
        """Forgets what was noted since `state`."""
        self.kernels.restore(state)

    def _common_type(self, user: str, *values: Any) -> ir.Scalar:
        """Returns the one type of several numbers; `user` takes them, for the error message."""
        kinds = [self.kind(value).type for value in values]
        if any(kind is not kinds[0] for kind in kinds):
            names = [type_of(value) for value in values]
            raise UnsupportedError(
                f"{user} takes numbers of one type; got {' and '.join(names)}; convert, as {names[0]}(x)"
            )
        return kinds[0]

    def truth(self, value: Any) -> Value | bool:
        """Returns a value as a condition; it must be a boolean."""
        if not isinstance(value, Vector) and self.kind(value).type is not BOOL:
            raise UnsupportedError(f"a condition is boolean; got {type_of(value)}; compare, as x != 0")
        return self.kernels.truth(value)

    def assigned(self, name: str, value: Any) -> Any:
        """Returns the value that a variable takes: a number of i32, f32 or boolean for one of Python."""
        frames = self.evaluator.frames
        code = frames[0].function.__code__
        if len(frames) == 1 and name in code.co_varnames[: code.co_argcount]:
            raise UnsupportedError(f"{name} is a parameter; assign to its elements, or to a variable of another name")
        return self._concrete(value)

    def _concrete(self, value: Any) -> Any:
        """Converts Python numbers to i32, f32 or booleans, as values of variables."""
        if isinstance(value, tuple) and not isinstance(value, ListLiteral):
            return like(value, map(self._concrete, value))
        return self.kernels.converted(value, self.kind(value).type) if is_python(value) else value

    # -- operators ----------------------------------------------------------------------------------------------------

    def elementwise(self, work: Callable[..., Any], *values: Any) -> Vector:
        """Applies a function of numbers to vectors, elementwise."""
        vectors = [value for value in values if isinstance(value, Vector)]
        if len({len(vector) for vector in vectors}) > 1:
            raise UnsupportedError(
                f"vectors in one expression have one length; got {' and '.join(map(type_of, vectors))}; write v.xy"
            )
        return self.kernels.elementwise(work, *values)

    def binary(self, sign: str, one: Any, other: Any) -> Any:
        """Compiles `one sign other`."""
        vectors = isinstance(one, Vector), isinstance(other, Vector)
        if sign == "@" and not all(vectors):
            raise UnsupportedError(f"@ takes two vectors; got {type_of(one)} and {type_of(other)}")
        if sign == "@":
            self._common_type(sign, *one, *other)
            return self.kernels.binary(sign, one, other)
        if any(vectors):
            return self.elementwise(partial(self.binary, sign), one, other)
        if sign == "**" or (is_python(one) and is_python(other)):
            return self.kernels.binary(sign, one, other)
        kind = self._common_type(sign, one, other)
        if (sign == "/" and kind.kind != "f") or (sign == "//" and kind.kind not in "iu"):
            remedy = "x // y, or convert with f32(x)" if sign == "/" else "x / y, or convert with i32(x)"
            raise UnsupportedError(f"{sign} does not divide {SCALARS[kind]}; write {remedy}")
        if sign == "//":
            operands = [self.kernels.cast(operand, kind) for operand in (one, other)]
            return Number(self.builder.compute("div", *operands), Kind(kind))
        return self.kernels.binary(sign, one, other)

    def accumulated(self, sign: str, one: Any, other: Any) -> Any:
        """Compiles the value of `one` after `one sign= other`."""
        return self.binary(sign, one, other)

    def unary(self, sign: str, value: Any) -> Any:
        """Compiles `sign value`."""
        if isinstance(value, Vector) and sign != "not":
            return self.elementwise(partial(self.unary, sign), value)
        if sign == "not":
            self.truth(value)
        else:
            self.kind(value)
        return self.kernels.unary(sign, value)

    def compare(self, sign: str, one: Any, other: Any) -> Any:
        """Compiles a comparison; the result is a boolean."""
        if sign in ("in", "not in"):
            return contains(self, one, other, is_in=sign == "in")
        if isinstance(one, Vector) or isinstance(other, Vector):
            return self.elementwise(partial(self.compare, sign), one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return compared_in_order(self, sign, one, other)
        if not (is_python(one) and is_python(other)) and sign not in ("is", "is not"):
            self._common_type(sign, one, other)
        return self.kernels.compare(sign, one, other)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed; they have one type."""
        self.joined(kind_of(one, _RULES), kind_of(other, _RULES))
        return self.kernels.where(condition, one, other)

    def connected(self, is_and: bool, first: Any, second: Callable[[], Any], where: Location, *, is_cheap: bool) -> Any:
        """Builds `first and second()` or `first or second()`; a second one that is not cheap is in a branch."""
        truth = self.truth(first)
        if isinstance(truth, bool):
            return self.known(first, second() if truth == is_and else first)
        if not is_cheap:
            sides = (second, lambda: first) if is_and else (lambda: first, second)
            return self.evaluator.flow.choose(truth, *sides, where)
        other = second()
        if self.kind(first) == self.kind(other) == Kind(BOOL):
            return self.kernels.binary("&" if is_and else "|", first, other)
        return self.where(first, *((other, first) if is_and else (first, other)))

    def known(self, condition: Any, value: Any) -> Any:
        """Returns the side of a conditional expression that a condition known at compile time takes."""
        return self.kernels.known(condition, value)

    def selected(self, truth: Value, one: Any, other: Any) -> Any:
        """Selects one of two values that have both been computed."""
        return self.where(Number(truth, Kind(BOOL)), one, other)

    # -- elements -----------------------------------------------------------------------------------------------------

    def items(self, value: Any) -> Any:
        """Returns the elements of a value as a tuple, where that is possible; other values unchanged."""
        return self.kernels.items(value)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an element."""
        if not isinstance(base, tuple) or isinstance(index, Number):
            self._demand_index(index)
        return self._buffers.item(base, index) if isinstance(base, Buffer) else self.kernels.item(base, index)

    def assign(self, base: Any, index: Any, value: Any) -> None:
        """Stores an element."""
        self._demand_index(index)
        assign = self._buffers.assign if isinstance(base, Buffer) else self.kernels.assign
        assign(base, index, self._numbers(value))

    def update(self, base: Any, index: Any, change: Callable[[Any], Any]) -> None:
        """Assigns an element what `change` makes of it."""
        self._demand_index(index)
        update = self._buffers.update if isinstance(base, Buffer) else self.kernels.update
        update(base, index, lambda old: self._numbers(change(old)))

    def demand_assignable(self, base: Any, text: Callable[[], str]) -> None:
        """Refuses vectors and lists."""
        self.kernels.demand_assignable(base, text)

    def _numbers(self, value: Any) -> Any:
        """Returns a number or a vector. Raises UnsupportedError for another value."""
        for number in value if isinstance(value, Vector) else (value,):
            self.kind(number)
        return value

    def _demand_index(self, index: Any) -> None:
        """Raises UnsupportedError unless an index is an integer, or several."""
        for number in index if isinstance(index, tuple) else (index,):
            if isinstance(number, (Number, float)) and self.kind(number).type.kind not in "iu":
                raise UnsupportedError(f"an index is an integer; got {type_of(number)}; write i32(x)")

    def _list(self, node: ast.List) -> ListLiteral:
        values = ListLiteral([self._concrete(self.evaluator.value(element)) for element in node.elts])
        names = {type_of(value): None for value in values}
        if len(names) != 1:
            raise UnsupportedError(f"a list holds values of one type; got {' and '.join(names) or 'none'}")
        return values

    # -- names and calls ----------------------------------------------------------------------------------------------

    def attribute(self, base: Any, name: str) -> Any:
        """Returns an attribute of a value: an element or several of a vector."""
        if not isinstance(base, Vector):
            return self.kernels.attribute(base, name)
        indices = [_SWIZZLES.get(letter, 9) for letter in name]
        if len(indices) > 4 or max(indices) >= len(base):
            raise UnsupportedError(f"{type_of(base)} has no elements {name}; it has {', '.join('xyzw'[: len(base)])}")
        return base[indices[0]] if len(indices) == 1 else Vector([base[k] for k in indices])

    def annotated(self, node: ast.AnnAssign, kind: Any, value: Any) -> Any:
        """Converts a value to the type of its annotation."""
        return self.kernels.annotated(node, kind, value)

    def table(self, table: Table, name: str) -> ArrayValue:
        """Returns a constant table."""
        return self.kernels.table(table, name)

    def apply(self, function: Any, args: list[Any], named: dict[str, Any], node: ast.Call) -> Any:
        """Returns the value of a call."""
        is_built_in = isinstance(function, ShaderType) or function in _BUILT_IN
        if not is_built_in or named:
            return self.kernels.apply(function, args, named, node)
        if isinstance(function, ShaderType):
            return self._constructed(function, args)
        if function in _OPCODES:
            return self._elementwise(partial(self._operation, _OPCODES[function]), args)
        if function not in _INLINED:
            return function(*args)
        if function is pow:
            return self._elementwise(partial(self.binary, "**"), args)
        if function in (math.radians, math.degrees):
            return self._elementwise(partial(in_floats, row_of(function.__name__).name, self.kernels), args)

        def inline(*numbers: Any) -> Any:
            return self.inline(function, list(map(self._concrete, numbers)), {}, node)

        return inline(*args) if _INLINED[function] else self._elementwise(inline, args)

    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Builds the body of a function in the place of a call; internal ones are in the language of kernels."""
        language = self.kernels if is_internal(function) else self
        return self.evaluator.inline(function, args, named, node, language)

    def define(self, definition: ast.FunctionDef, node: ast.AST) -> FunctionType:
        """Returns a nested function."""
        return self.kernels.define(definition, node)

    def iterations(self, node: ast.expr) -> Iterations:
        """Evaluates the range of a for loop."""
        args = self.kernels.range_arguments(node)
        for argument in args:
            self.kind(argument)
        return Range(self.kernels.numbers, args)

    def _elementwise(self, work: Callable[..., Any], args: list[Any]) -> Any:
        return self.elementwise(work, *args) if any(isinstance(x, Vector) for x in args) else work(*args)

    def _constructed(self, kind: ShaderType, args: list[Any]) -> Any:
        """Compiles `vec3(…)`: converts the numbers given alone and in vectors; their count must fit."""
        scalar, n = (kind.subtype, kind.length) if isinstance(kind, types.Vector) else (kind, 1)
        if not isinstance(scalar, Scalar):
            what = "matrices; multiply and add vectors" if isinstance(kind, Matrix) else f"{kind} in expressions"
            raise UnsupportedError(f"not supported in shaders: {what}")
        numbers = [number for arg in args for number in (arg if isinstance(arg, tuple) else (arg,))]
        if len(numbers) != n:
            raise UnsupportedError(f"{kind} takes {n} number{'s' * (n > 1)}; got {len(numbers)}")
        converted = Vector([self._constructed_number(number, scalar.number) for number in numbers])
        return converted if isinstance(kind, types.Vector) else converted[0]

    def _constructed_number(self, value: Any, kind: ir.Scalar) -> Number:
        if type(value) is int and kind.kind in "iu" and fits(value, kind):
            return Number(self.builder.const(value, kind), Kind(kind))
        return self.kernels.converted(value, kind)

    def _operation(self, code: str, *args: Any) -> Number:
        """Compiles a function that is one operation."""
        arity = _ARITIES[code]
        if len(args) != arity:
            raise UnsupportedError(f"{code} takes {arity} number{'s' * (arity - 1)}; got {len(args)}")
        kind = self._common_type(code, *args)
        if kind.kind not in ("fiu" if code in _ON_INTEGERS else "f"):
            raise UnsupportedError(f"{code} takes floats; got {type_of(args[0])}; write f32(x)")
        return Number(self.builder.compute(code, *[self.kernels.cast(arg, kind) for arg in args]), Kind(kind))

    # -- errors -------------------------------------------------------------------------------------------------------

    def unsupported(self, node: ast.AST) -> str:
        """Describes syntax that shaders lack, with a remedy."""
        return self.kernels.unsupported(node)

    def describe(self, value: Any) -> str:
        """Describes a value or its type."""
        return describe(value)

    def suggestion(self, name: str) -> str:
        """Returns "; write …" with our word for another system's, or nothing."""
        return in_kernels(name)


def type_of(value: Any) -> str:
    """Returns PyShader's name of a type, given the type or a value."""
    if isinstance(value, ListLiteral):
        return f"Array({len(value)},{type_of(value[0])})"
    if isinstance(value, Vector):
        return str(types.Vector(len(value), TYPES[type_of(value[0])]))  # type: ignore[arg-type]
    kind = kind_of(value, _RULES) if isinstance(value, (Number, int, float)) else value
    return str(SCALARS[kind.type]) if isinstance(kind, Kind) else describe(value)


def _name(e: Evaluator, node: ast.Name) -> Any:
    is_variable = node.id in e.flow.env or node.id in e.frames[-1].locals
    return name(e, node) if is_variable or node.id not in NAMES else NAMES[node.id]


def _attribute(e: Evaluator, node: ast.Attribute) -> Any:
    base = e.value(node.value)
    return _FUNCTIONS[node.attr] if base is math and node.attr in _FUNCTIONS else attribute(e, base, node)


def _list(e: Evaluator, node: ast.List) -> ListLiteral:
    assert isinstance(e.language, ShaderLanguage), "internal functions have no lists"
    return e.language._list(node)


def _operation(e: Evaluator, node: ast.BinOp) -> Any:
    """Evaluates an operation; `[…] * n` is a list of the language of kernels."""
    assert isinstance(e.language, ShaderLanguage), "internal functions have the operations of kernels"
    return listed(e.language.kernels, e, node)


def _print(e: Evaluator, node: ast.Call) -> Any:
    """Raises: no host reads reports."""
    raise UnsupportedError("shaders report nothing to the host; write values to an array")


_NODES: dict[type[ast.AST], Callable[[Evaluator, Any], Any]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.List: _list,
    ast.BinOp: _operation,
}
