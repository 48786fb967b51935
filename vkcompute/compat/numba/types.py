"""Numba's types: `float32`, `int64[:, :]`, `void(float32[:], int32)`, also as strings."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from vkcompute.compat.numba.errors import NumbaTypeError
from vkcompute.compiled.captured import NamedConstant
from vkcompute.dtypes import is_record
from vkcompute.frontend.syntax import parse_expression
from vkcompute.runtime.memory.holders import held

numpy_version = tuple([int(part) for part in np.__version__.split(".")[:2]])
"""NumPy's major and minor version; Numba's name in `np.numpy_support`."""

_LAYOUTS = {"C": "C", "F": "F", "A": "A"}


class Type(NamedConstant):
    """A type. Calling it with types makes a signature, with one value a NumPy scalar.

    Attributes:
        name: in errors and signatures.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        if len(args) == 1 and not isinstance(args[0], Type):
            return self.cast_python_value(args[0])
        return Signature(self, args)

    def cast_python_value(self, value: Any) -> Any:
        """Converts a value of Python. Raises NotImplementedError: only numbers have a conversion."""
        raise NotImplementedError(f"{self.name} converts no values of Python")

    def __getitem__(self, axes: Any) -> Array:
        ndim, layout = _axes_of(axes)
        return Array(self, ndim, layout)

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.name == getattr(other, "name", None))

    def __hash__(self) -> int:
        return hash(self.name)


class Opaque(Type):
    """A type without values in kernels."""


class Number(Type):
    """Base of the types of numbers.

    Attributes:
        dtype: NumPy's.
        bitwidth: of a number.
    """

    def __init__(self, name: str, dtype: Any) -> None:
        super().__init__(name)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.bitwidth = self.dtype.itemsize * 8

    def cast_python_value(self, value: Any) -> Any:
        """Returns a NumPy scalar of this type."""
        return self.dtype.type(value)


class Boolean(Number):
    """The type of bools."""

    def cast_python_value(self, value: Any) -> Any:
        """Returns a bool."""
        return bool(value)


class Integer(Number):
    """A type of integers.

    Attributes:
        signed: True for types with negative numbers.
    """

    def __init__(self, name: str, dtype: Any) -> None:
        super().__init__(name, dtype)
        self.signed = self.dtype.kind == "i"

    @property
    def minval(self) -> int:
        """The least number."""
        return int(np.iinfo(self.dtype).min)

    @property
    def maxval(self) -> int:
        """The largest number."""
        return int(np.iinfo(self.dtype).max)


class Float(Number):
    """A type of floats."""


class Complex(Number):
    """A type of complex numbers.

    Attributes:
        underlying_float: of the parts.
    """

    def __init__(self, name: str, dtype: Any, underlying_float: Float) -> None:
        super().__init__(name, dtype)
        self.underlying_float = underlying_float


class Record(Type):
    """Records, which have fields.

    Attributes:
        dtype: NumPy's.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype((np.void, np.dtype(dtype)))
        super().__init__(f"Record({self.dtype})")


class Array(Type):
    """Arrays of a type, with a number of axes and a layout: "C", "F" or "A" for any."""

    def __init__(self, dtype: Type, ndim: int, layout: str, readonly: bool = False) -> None:
        self.dtype, self.ndim, self.layout, self.mutable = dtype, ndim, layout, not readonly
        super().__init__(f"array({dtype}, {ndim}d, {layout})")


class UniTuple(Type):
    """Tuples of values of one type."""

    def __init__(self, dtype: Type, count: int) -> None:
        self.dtype, self.count, self.types = dtype, count, (dtype,) * count
        super().__init__(f"UniTuple({dtype} x {count})")


class Tuple(Type):
    """Tuples of values of several types."""

    def __init__(self, types: Sequence[Type]) -> None:
        self.types, self.count = tuple(types), len(types)
        super().__init__(f"Tuple({', '.join(map(str, types))})")


class Signature:
    """The type of the result of a function, and those of its arguments."""

    def __init__(self, return_type: Type, args: Sequence[Type]) -> None:
        if not all(isinstance(arg, Type) for arg in args):
            wrong = next(arg for arg in args if not isinstance(arg, Type))
            raise NumbaTypeError(f"a signature has types; got {wrong!r}")
        self.return_type, self.args = return_type, tuple(args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and (self.return_type, self.args) == (other.return_type, other.args)

    def __hash__(self) -> int:
        return hash((self.return_type, self.args))

    def __repr__(self) -> str:
        return f"({', '.join(map(str, self.args))}) -> {self.return_type}"


def _axes_of(axes: Any) -> tuple[int, str]:
    """Returns the number of axes of `float32[:, ::1]`, and the layout."""
    given = axes if isinstance(axes, tuple) else (axes,)
    if not given or not all(isinstance(axis, slice) for axis in given):
        raise KeyError(f"an array type is float32[:] or float32[:, ::1]; got {axes!r}")
    layout = "C" if given[-1].step == 1 else "F" if len(given) > 1 and given[0].step == 1 else "A"
    return len(given), layout


none = Opaque("none")
void = none
boolean = bool_ = b1 = Boolean("bool", np.bool_)
int8 = i1 = char = Integer("int8", np.int8)
int16 = i2 = short = Integer("int16", np.int16)
int32 = i4 = intc = int_c = Integer("int32", np.int32)
int64 = i8 = intp = int_ = long_ = longlong = ssize_t = Integer("int64", np.int64)
uint8 = u1 = byte = uchar = Integer("uint8", np.uint8)
uint16 = u2 = ushort = Integer("uint16", np.uint16)
uint32 = u4 = uintc = Integer("uint32", np.uint32)
uint64 = u8 = uintp = uint = ulong = ulonglong = size_t = Integer("uint64", np.uint64)
float16 = f2 = Float("float16", np.float16)
float32 = f4 = float_ = Float("float32", np.float32)
float64 = f8 = double = Float("float64", np.float64)
complex64 = c8 = Complex("complex64", np.complex64, float32)
complex128 = c16 = Complex("complex128", np.complex128, float64)
NUMBERS = {
    kind.dtype: kind
    for kind in (
        boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, complex64,
        complex128,
    )
}  # fmt: skip
"""NumPy's dtype -> type."""
_NO_SCALARS = frozenset("eOmMgFDG")
"""Letters of NumPy's operands that are no numbers here, are complex, or have no loop in Numba, as float16."""


@cache
def ufunc_loop(function: np.ufunc, *operands: np.dtype[Any]) -> tuple[str, str] | None:
    """Returns NumPy's letters of the operands and results of the loop that Numba takes for operands of these types.

    It is the first whose operands are safe conversions; integers convert to all floats if an operand is a float.
    """
    kinds = {operand.kind for operand in operands}
    is_mixed = not kinds.isdisjoint("iu") and not kinds.isdisjoint("fc")
    for loop in function.types:
        taken, given = loop.split("->")
        if not _NO_SCALARS.isdisjoint(taken):
            continue
        if all(
            np.can_cast(one, np.dtype(other)) or (is_mixed and one.kind in "iu" and np.dtype(other).kind in "fc")
            for one, other in zip(operands, taken, strict=True)
        ):
            return taken, given
    return None


NAMES: dict[str, Any] = {name: kind for name, kind in list(globals().items()) if isinstance(kind, Type)}
"""Name of a type -> type."""
_BY_NAME = {kind.name: kind for kind in NAMES.values()}
"""Text of a type, in which a type has one name -> type."""


def from_dtype(dtype: Any) -> Type:
    """Returns the type of elements of a dtype of NumPy.

    Raises:
        NumbaTypeError: there is none.
    """
    wanted = np.dtype(dtype).newbyteorder("=")
    if is_record(wanted):
        return Record(wanted)
    if wanted.kind in "mM":
        raise NumbaTypeError(f"kernels take no {wanted}; pass the integers, as x.view(np.int64), of one unit")
    if wanted not in NUMBERS:
        raise NumbaTypeError(f"kernels take no elements of {dtype}; they have {', '.join(map(str, NUMBERS))}")
    return NUMBERS[wanted]


def as_dtype(kind: Type) -> np.dtype[Any]:
    """Returns NumPy's dtype of a type of numbers or records."""
    if not isinstance(kind, (Number, Record)):
        raise NumbaTypeError(f"NumPy has no dtype for {kind}")
    return kind.dtype


def typeof(value: Any) -> Type:
    """Returns the type of a value of the host, as an argument of a kernel.

    Raises:
        NumbaTypeError: kernels take no such value.
    """
    if isinstance(value, (bool, np.bool_)):
        return boolean
    if isinstance(value, np.generic):
        return from_dtype(value.dtype)
    if isinstance(value, int):
        return int64 if -(2**63) <= value < 2**63 else uint64
    if isinstance(value, (float, complex)):
        return float64 if isinstance(value, float) else complex128
    if value is None:
        return none
    if isinstance(value, tuple):
        kinds = [typeof(part) for part in value]
        alike = kinds and all(kind == kinds[0] for kind in kinds)
        return UniTuple(kinds[0], len(kinds)) if alike else Tuple(kinds)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        value = held(value)
        return Array(from_dtype(value.dtype), len(value.shape), layout_of(value))
    if (described := getattr(value, "__cuda_array_interface__", None)) is not None:
        layout = "C" if described.get("strides") is None else "A"
        return Array(from_dtype(described["typestr"]), len(described["shape"]), layout)
    raise NumbaTypeError(f"kernels take arrays, numbers and tuples of these; got {type(value).__name__}")


def layout_of(array: Any) -> str:
    """Returns "C", "F" or "A" for the strides of an array."""
    flags = array.flags
    return "C" if flags["C_CONTIGUOUS"] else "F" if flags["F_CONTIGUOUS"] else "A"


def signature(return_type: Type, *args: Type) -> Signature:
    """Returns a signature."""
    return Signature(return_type, args)


def own(value: Any) -> Any:
    """Returns this package's object for a type, a signature or a function of an installed Numba; others as they are."""
    if not type(value).__module__.startswith("numba.core."):
        return value
    if hasattr(value, "py_func"):
        return value.py_func
    if hasattr(value, "return_type"):
        return Signature(own(value.return_type), tuple(map(own, value.args)))
    if hasattr(value, "layout"):
        return Array(own(value.dtype), value.ndim, value.layout)
    return _BY_NAME.get(str(value), value)


def signature_of(given: Any) -> Signature:
    """Returns the signature in a string, a tuple of types or a signature.

    Raises:
        NumbaTypeError: it is none.
    """
    given = tuple(map(own, given)) if isinstance(given, (tuple, list)) else own(given)
    if isinstance(given, str):
        given = _parsed(given)
    if isinstance(given, Signature):
        return given
    if isinstance(given, (tuple, list)) and all(isinstance(kind, (Type, str)) for kind in given):
        return Signature(none, [_parsed(kind) if isinstance(kind, str) else kind for kind in given])
    raise NumbaTypeError(f"a signature is void(float32[:], int32), such a string, or a tuple of types; got {given!r}")


def _parsed(text: str) -> Any:
    """Returns the type, the signature or the tuple of types in a string."""
    try:
        return _evaluated(parse_expression(text.strip()))
    except (SyntaxError, KeyError) as error:
        raise NumbaTypeError(f"{text!r} is no signature: {error}") from None


def _evaluated(node: ast.expr) -> Any:
    match node:
        case ast.Name():
            return NAMES[node.id]
        case ast.Attribute():
            return NAMES[node.attr]
        case ast.Subscript():
            axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            steps = [slice(None, None, 1 if isinstance(axis, ast.Slice) and axis.step else None) for axis in axes]
            return _evaluated(node.value)[tuple(steps)]
        case ast.Call():
            return _evaluated(node.func)(*map(_evaluated, node.args))
        case ast.Tuple():
            return tuple(map(_evaluated, node.elts))
    raise KeyError(ast.unparse(node))


__all__ = [*NAMES]
