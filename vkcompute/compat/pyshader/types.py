"""PyShader's types: of a shader's parameters, and as constructors in its body."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from vkcompute import ir
from vkcompute.frontend.syntax import parse_expression
from vkcompute.ir.types import SmallFloat


class ShaderType:
    """Base class of all types."""

    __slots__ = ()


class Void(ShaderType):
    """The type without values."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(ShaderType):
    """A number.

    Attributes:
        number: the compiler's type of it.
    """

    name: str
    number: ir.Scalar

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Vector(ShaderType):
    """`Vector(3, f32)`: 2 to 4 numbers."""

    length: int
    subtype: Scalar

    def __post_init__(self) -> None:
        _require(2 <= self.length <= 4, f"a vector has 2 to 4 elements; got {self.length}")
        _require(isinstance(self.subtype, Scalar), f"a vector is of scalars, as Vector(3, f32); got {self.subtype!r}")

    def __str__(self) -> str:
        letter = {"f32": "", "i32": "i", "u32": "u", "boolean": "b"}.get(self.subtype.name)
        return f"Vector({self.length},{self.subtype})" if letter is None else f"{letter}vec{self.length}"


@dataclass(frozen=True, slots=True)
class Matrix(ShaderType):
    """`Matrix(columns, rows, f32)`; not supported in shaders."""

    cols: int
    rows: int
    subtype: Scalar

    def __post_init__(self) -> None:
        fits = 2 <= self.cols <= 4 and 2 <= self.rows <= 4
        _require(fits, f"a matrix has 2 to 4 columns and rows; got {self.cols}, {self.rows}")
        _require(str(self.subtype)[0] == "f", f"a matrix is of floats; got {self.subtype!r}")


@dataclass(frozen=True, slots=True, init=False)
class Array(ShaderType):
    """`Array(f32)`, with the length of the bound device array, or `Array(100, f32)`.

    Attributes:
        length: number of elements; 0 if unknown.
    """

    length: int
    subtype: ShaderType

    def __init__(self, *args: Any) -> None:
        _require(len(args) in (1, 2), f"Array(subtype) or Array(length, subtype); got {len(args)} arguments")
        length, subtype = args if len(args) == 2 else (0, args[0])
        fits = isinstance(subtype, ShaderType) and not isinstance(subtype, Void)
        _require(fits, f"an array is of types; got {subtype!r}")
        _require(len(args) == 1 or (isinstance(length, int) and length > 0), f"an array has elements; got {length!r}")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "subtype", subtype)

    def __str__(self) -> str:
        return f"Array({self.length},{self.subtype})" if self.length else f"Array({self.subtype})"


class Struct(ShaderType):
    """`Struct(a=f32, b=ivec4)`; not supported in shaders."""

    __slots__ = ("fields",)

    def __init__(self, **fields: ShaderType) -> None:
        _require(all(isinstance(field, ShaderType) for field in fields.values()), f"a struct is of types; got {fields}")
        self.fields = fields


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise TypeError(message)


void = Void()
SCALARS = {
    number: Scalar("boolean" if number is ir.BOOL else f"{number.kind}{number.bits}", number)
    for number in ir.SCALARS.values()
    if not isinstance(number, SmallFloat)
}
TYPES: dict[str, ShaderType] = {"void": void, **{scalar.name: scalar for scalar in SCALARS.values()}}
for _letter, _number in (("", ir.FLOAT32), ("i", ir.INT32), ("u", ir.UINT32), ("b", ir.BOOL)):
    TYPES |= {f"{_letter}vec{n}": Vector(n, SCALARS[_number]) for n in (2, 3, 4)}
for _columns in (2, 3, 4):
    for _rows in (2, 3, 4):
        TYPES[f"mat{_columns}x{_rows}"] = Matrix(_columns, _rows, SCALARS[ir.FLOAT32])
    TYPES[f"mat{_columns}"] = TYPES[f"mat{_columns}x{_columns}"]
CONSTRUCTORS: dict[str, type[ShaderType]] = {"Vector": Vector, "Matrix": Matrix, "Array": Array, "Struct": Struct}
"""Names -> classes that make types"""


def parse_type(text: str) -> ShaderType:
    """Parses a type such as `"Array(vec2)"`; upper and lower case are equal.

    Raises:
        TypeError: the text is not a type.
    """
    by_name = {name.lower(): value for name, value in {**TYPES, **CONSTRUCTORS}.items()}

    def evaluate(node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return by_name[node.id.lower()]
        if isinstance(node, ast.Call):
            named = {keyword.arg or "": evaluate(keyword.value) for keyword in node.keywords}
            return evaluate(node.func)(*map(evaluate, node.args), **named)
        return ast.literal_eval(node)

    try:
        kind = evaluate(parse_expression(text.strip()))
    except (KeyError, SyntaxError, ValueError):
        kind = None
    _require(isinstance(kind, ShaderType), f"{text!r} is not a type; write one as 'Array(f32)'")
    return kind  # type: ignore[no-any-return]
