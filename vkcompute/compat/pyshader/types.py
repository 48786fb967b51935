"""PyShader's types, as they stand in a shader's parameters and are called in its body."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from vkcompute import ir


class ShaderType:
    """Base of all types."""

    __slots__ = ()


class Void(ShaderType):
    """Nothing."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(ShaderType):
    """One number.

    Attributes:
        number: the compiler's type.
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
        _demand(2 <= self.length <= 4, f"a vector has 2 to 4 elements; got {self.length}")
        _demand(isinstance(self.subtype, Scalar), f"a vector is of scalars, as Vector(3, f32); got {self.subtype!r}")

    def __str__(self) -> str:
        letter = {"f32": "", "i32": "i", "u32": "u", "boolean": "b"}.get(self.subtype.name)
        return f"Vector({self.length},{self.subtype})" if letter is None else f"{letter}vec{self.length}"


@dataclass(frozen=True, slots=True)
class Matrix(ShaderType):
    """`Matrix(columns, rows, f32)`; a shader that uses one is refused."""

    cols: int
    rows: int
    subtype: Scalar

    def __post_init__(self) -> None:
        fits = 2 <= self.cols <= 4 and 2 <= self.rows <= 4
        _demand(fits, f"a matrix has 2 to 4 columns and rows; got {self.cols}, {self.rows}")
        _demand(str(self.subtype)[0] == "f", f"a matrix is of floats; got {self.subtype!r}")


@dataclass(frozen=True, slots=True, init=False)
class Array(ShaderType):
    """`Array(f32)`, as long as what is bound, or `Array(100, f32)`.

    Attributes:
        length: 0 where it is not known.
    """

    length: int
    subtype: ShaderType

    def __init__(self, *args: Any) -> None:
        _demand(len(args) in (1, 2), f"Array(subtype) or Array(length, subtype); got {len(args)} arguments")
        length, subtype = args if len(args) == 2 else (0, args[0])
        fits = isinstance(subtype, ShaderType) and not isinstance(subtype, Void)
        _demand(fits, f"an array is of types; got {subtype!r}")
        _demand(len(args) == 1 or (isinstance(length, int) and length > 0), f"an array has elements; got {length!r}")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "subtype", subtype)

    def __str__(self) -> str:
        return f"Array({self.length},{self.subtype})" if self.length else f"Array({self.subtype})"


class Struct(ShaderType):
    """`Struct(a=f32, b=ivec4)`; a shader that uses one is refused."""

    __slots__ = ("fields",)

    def __init__(self, **fields: ShaderType) -> None:
        _demand(all(isinstance(each, ShaderType) for each in fields.values()), f"a struct is of types; got {fields}")
        self.fields = fields


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise TypeError(message)


void = Void()
SCALARS = {
    number: Scalar("boolean" if number is ir.BOOL else f"{number.kind}{number.bits}", number)
    for number in ir.SCALARS.values()
}
TYPES: dict[str, ShaderType] = {"void": void, **{each.name: each for each in SCALARS.values()}}
for _letter, _number in (("", ir.FLOAT32), ("i", ir.INT32), ("u", ir.UINT32), ("b", ir.BOOL)):
    TYPES |= {f"{_letter}vec{n}": Vector(n, SCALARS[_number]) for n in (2, 3, 4)}
for _columns in (2, 3, 4):
    for _rows in (2, 3, 4):
        TYPES[f"mat{_columns}x{_rows}"] = Matrix(_columns, _rows, SCALARS[ir.FLOAT32])
    TYPES[f"mat{_columns}"] = TYPES[f"mat{_columns}x{_columns}"]
MAKERS: dict[str, type[ShaderType]] = {"Vector": Vector, "Matrix": Matrix, "Array": Array, "Struct": Struct}
"""What makes a type when it is called"""


def type_named(text: str) -> ShaderType:
    """The type that this text stands for, as `"Array(vec2)"`.

    Raises:
        TypeError: it stands for none.
    """
    by_name = {name.lower(): found for name, found in {**TYPES, **MAKERS}.items()}

    def found(node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return by_name[node.id.lower()]
        if isinstance(node, ast.Call):
            named = {each.arg or "": found(each.value) for each in node.keywords}
            return found(node.func)(*map(found, node.args), **named)
        return ast.literal_eval(node)

    try:
        kind = found(ast.parse(text.strip(), mode="eval").body)
    except (KeyError, SyntaxError, ValueError):
        kind = None
    _demand(isinstance(kind, ShaderType), f"{text!r} is no type; write one as 'Array(f32)'")
    return kind  # type: ignore[no-any-return]
