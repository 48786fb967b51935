"""The types of the block language: dtypes, compile-time constants and pointers."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from enum import Enum
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, SCALARS, Memory, Scalar
from vkcompute.ir.types import FLOAT8_E4B15, SmallFloat
from vkcompute.jit.frontend.values import PARTS, ArrayValue
from vkcompute.tile import Block

_NAMES = {
    "int1": "bool",
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bfloat16",
}
_TESTED = {
    "bool", "bf16", "fp16", "fp32", "fp64", "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "fp8", "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16",
}  # fmt: skip
FLOAT8 = {
    "float8e4b15": FLOAT8_E4B15,
    "float8e4nv": SCALARS["float8_e4m3fn"],
    "float8e4b8": SCALARS["float8_e4m3fnuz"],
    "float8e5": SCALARS["float8_e5m2"],
    "float8e5b16": SCALARS["float8_e5m2fnuz"],
}
"""Floats of 8 bits, which are loaded, stored, converted and multiplied as matrices, and not computed with."""
_TYPES = {**{name: SCALARS[scalar] for name, scalar in _NAMES.items()}, **FLOAT8} | {kind.name: kind for kind in PARTS}
_SHORT = {name: name.replace("float", "fp") for name in (*_NAMES, *FLOAT8)} | {"bfloat16": "bf16"}
_LONG = {short: name for name, short in _SHORT.items()}


class DtypeKind(Enum):
    """The kinds of dtypes, in the order of conversions."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2
    COMPLEX = 3


class _Name(NamedTuple):
    """The name of a dtype."""

    name: str


class Dtype(_Name):
    """The type of the elements of a block or array.

    Attributes:
        name: Triton's, as "fp32" and "int1". The constructor also takes the one of the language, as "float32".
    """

    __slots__ = ()
    KIND = DtypeKind
    SINT_TYPES = "int8", "int16", "int32", "int64"
    UINT_TYPES = "int1", "uint8", "uint16", "uint32", "uint64"
    STANDARD_FP_TYPES = "fp16", "bf16", "fp32", "fp64"
    FP_TYPES = *(name.replace("float", "fp") for name in FLOAT8), *STANDARD_FP_TYPES

    def __new__(cls, name: str) -> Dtype:
        """Returns the dtype of a name."""
        return super().__new__(cls, _SHORT.get(name, name))

    @property
    def long_name(self) -> str:
        """The name of the language, as "float32"."""
        return _LONG.get(self.name, self.name)

    @property
    def scalar_type(self) -> Scalar:
        """The type in `ir/`."""
        return _TYPES[self.long_name]

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of a number, 1 for int1."""
        return 1 if self.scalar_type is BOOL else self.scalar_type.bits

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.scalar_type.bits // 8

    @property
    def int_bitwidth(self) -> int:
        """Bits of an integer."""
        return self.primitive_bitwidth

    @property
    def scalar(self) -> Dtype:
        """The dtype itself."""
        return self

    def is_floating(self) -> bool:
        """True for floats."""
        return self.scalar_type.kind == "f"

    @property
    def fp_mantissa_width(self) -> int:
        """Bits of a float's fraction."""
        kind = self.scalar_type
        return kind.format.mantissa if isinstance(kind, SmallFloat) else int(np.finfo(kind.name).nmant)

    @property
    def exponent_bias(self) -> int:
        """The bias of a float's exponent."""
        kind = self.scalar_type
        return 1 - (kind.format.least if isinstance(kind, SmallFloat) else int(np.finfo(kind.name).minexp))

    def is_fp8(self) -> bool:
        """True for floats of 8 bits."""
        return self.long_name in FLOAT8

    def is_standard_floating(self) -> bool:
        """True for floats of 16 bits and more."""
        return self.is_floating() and not self.is_fp8()

    def is_int(self) -> bool:
        """True for integers, int1 included."""
        return self.scalar_type.kind in "iub"

    def is_int_signed(self) -> bool:
        """True for signed integers."""
        return self.scalar_type.kind == "i"

    def is_int_unsigned(self) -> bool:
        """True for unsigned integers, int1 included."""
        return self.scalar_type.kind in "ub"

    def is_ptr(self) -> bool:
        """False."""
        return False

    is_block = is_ptr

    def kind(self) -> DtypeKind:
        """Returns the kind, `dtype.KIND.INTEGRAL` for instance."""
        kinds = {"b": DtypeKind.BOOLEAN, "f": DtypeKind.FLOATING, "c": DtypeKind.COMPLEX}
        return kinds.get(self.scalar_type.kind, DtypeKind.INTEGRAL)

    def is_(self, name: str) -> bool:
        """True for the dtype of a short name, as "fp32", "bf16", "int1" or "bool"."""
        return self.name == {"bool": "int1"}.get(name, name) or (name == "fp8" and self.is_fp8())

    def __getattr__(self, name: str) -> Any:
        """Returns `is_fp32` and the like."""
        if name.startswith("is_") and name[3:] in _TESTED:
            return MethodType(lambda dtype: dtype.is_(name[3:]), self)
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"triton.language.{self.long_name}"

    def __str__(self) -> str:
        return self.name


class ConstexprType(Dtype):
    """The type of a compile-time constant. It equals the dtype that the constant has beside blocks.

    Attributes:
        value: the constant, a number or a tuple of constants.
    """

    value: Any

    def __new__(cls, value: Any) -> ConstexprType:
        """Returns the type of a constant."""
        constant = value.value if isinstance(value, Constexpr) else value
        made = tuple.__new__(cls, (_name_of(constant),))
        made.value = constant
        return made

    def __eq__(self, other: object) -> bool:
        """True for the type of an equal constant, and for the dtype."""
        if isinstance(other, ConstexprType):
            return type(self.value) is type(other.value) and bool(self.value == other.value)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()


def _name_of(constant: Any) -> str:
    """Returns the name of the dtype of a constant beside blocks of no type; "void" for a tuple."""
    if isinstance(constant, bool):
        return "int1"
    if isinstance(constant, int):
        fitting = ("int32", "int64", "uint64")
        return next((name for name in fitting if np.iinfo(name).min <= constant <= np.iinfo(name).max), "int64")
    return "fp32" if isinstance(constant, float) else "void"


class TupleType(NamedTuple):
    """The type of a tuple, by those of its items."""

    types: tuple[Any, ...]


class DescriptorType(NamedTuple):
    """The type of a tensor descriptor, by that of its blocks and those of its shape and strides."""

    block_type: Any
    shape_type: TupleType
    strides_type: TupleType

    def __str__(self) -> str:
        return f"tensor_descriptor<{self.block_type}>"


DTYPES = {name: Dtype(name) for name in (*_NAMES, *FLOAT8)}
"""The dtypes by name."""
COMPLEX = {kind.name: Dtype(kind.name) for kind in PARTS}
"""The dtypes of complex numbers by name. Only programs of the library's own language have them."""
_OF_NAME = {str(dtype.scalar_type): dtype for dtype in DTYPES.values()}
OF_SCALAR = {dtype.scalar_type: dtype for dtype in (*DTYPES.values(), *COMPLEX.values())}


def dtype_of(dtype: Any) -> Dtype | None:
    """Returns the dtype for one of NumPy, ml_dtypes or PyTorch; None if the language lacks it."""
    return dtype if isinstance(dtype, Dtype) else _OF_NAME.get(str(dtype).removeprefix("torch."))


class PointerType(NamedTuple):
    """The type of a pointer, of which programs ask `element_ty`; `const` if nothing is written through it."""

    element_ty: Dtype
    address_space: int = 1
    const: bool = False

    @property
    def scalar(self) -> PointerType:
        """The type itself."""
        return self

    def is_ptr(self) -> bool:
        """True."""
        return True

    def is_block(self) -> bool:
        """False."""
        return False

    def __str__(self) -> str:
        return f"pointer<{self.element_ty}>"


class BlockType(NamedTuple):
    """The type of a block of numbers or of pointers, of which programs ask `element_ty` and `shape`."""

    element_ty: Dtype | PointerType
    shape: tuple[int, ...]

    @property
    def scalar(self) -> Dtype | PointerType:
        """The type of the elements."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def get_block_shapes(self) -> tuple[int, ...]:
        """Returns the shape."""
        return self.shape

    def is_block(self) -> bool:
        """True."""
        return True

    def is_ptr(self) -> bool:
        """False, also for a block of pointers, whose `scalar` is a pointer."""
        return False

    def __str__(self) -> str:
        return f"<[{', '.join(map(str, self.shape))}], {self.element_ty}>"


class Const:
    """The annotation of a pointer through which nothing is written."""


class Constexpr:
    """A compile-time constant: the annotation of a parameter, or a global that programs may use.

    Attributes:
        value: the constant.
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, Constexpr) else value

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index.value if isinstance(index, Constexpr) else index]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.value(*args, **named)


def _host_operator(name: str, *, is_reflected: bool) -> None:
    """Gives constants an operator of Python, whose result is a constant."""
    compute = getattr(operator, name)

    def apply(self: Constexpr, *others: Any) -> Constexpr:
        values = [self.value, *[other.value if isinstance(other, Constexpr) else other for other in others]]
        return Constexpr(compute(*(reversed(values) if is_reflected else values)))

    plain = name.rstrip("_")
    setattr(Constexpr, f"__r{plain}__" if is_reflected else f"__{plain}__", apply)


_BINARY = "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", *_BINARY):
    _host_operator(_name, is_reflected=False)
for _name in _BINARY:
    _host_operator(_name, is_reflected=True)


@dataclass(frozen=True, slots=True, eq=False)
class WindowsValue(ArrayValue):
    """The arrays of a table of pointers.

    Attributes:
        windows: the buffers that contain them, each bound from the first array in a block of memory to the last.
    """

    windows: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceValue(WindowsValue):
    """Arguments of one type, of which the path taken decides to which one a pointer is.

    Attributes:
        sources: the arguments, whose memories are the windows.
    """

    sources: tuple[ArrayValue, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NullValue(ArrayValue):
    """The array at address 0, which has no elements."""


def parts_of(array: ArrayValue) -> int:
    """Returns the elements of memory that an element of an array has. Offsets of its pointers count those.

    An address of a table is one element, which `tl.load` takes from a row of the table.
    """
    return 1 if isinstance(array, TableValue) else max(1, array.element.bits // array.memory.element.bits)


@dataclass(frozen=True, slots=True, eq=False)
class TableValue(ArrayValue):
    """A table of pointers. Its buffer has a row of int32 per array: first element, number of elements, window.

    Attributes:
        target: the arrays.
        unit: the number of elements in which first elements are counted, a power of two.
    """

    target: Any = None
    unit: int = 1


class Entry(NamedTuple):
    """An array of a table of pointers, or one of several arguments, of which only the window is known.

    Attributes:
        number: its index in the table.
        start: index of its first element in its window.
        length: the number of its elements.
        window: index of the window; None if there is one only.
    """

    number: Any
    start: Any
    length: Any
    window: Any


class Pointer(NamedTuple):
    """Places in an array: the scalar `base` plus, for a block of pointers, the block `offset`.

    The parts are kept apart, as most loops advance the scalar only.

    Attributes:
        entry: the entry of an array in a table; offsets then count from its first element.
    """

    array: ArrayValue
    base: Any
    offset: Any = None
    entry: Entry | None = None


class Address(NamedTuple):
    """An element of a table of pointers, before its conversion to a pointer."""

    pointer: Pointer


class BlockPointer(NamedTuple):
    """A block of a strided array, by the first index along each axis.

    Attributes:
        base: the offset of the first element of the array.
        block: the type of the block.
        entry: as of a pointer.
    """

    array: ArrayValue
    base: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block: Block
    entry: Entry | None = None


class Descriptor(NamedTuple):
    """A strided array of which blocks are loaded and stored.

    Attributes:
        base: the offset of the first element.
        block: the type of the blocks.
        padding: "zero" or "nan", for elements out of bounds.
        entry: as of a pointer.
    """

    array: ArrayValue
    base: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block: Block
    padding: str
    entry: Entry | None = None


TYPES = Dtype, PointerType, BlockType, TupleType, DescriptorType
"""The types of the language, which are named tuples here only: a program sees no tuple."""
POINTERS = Pointer, BlockPointer, Descriptor, Address
"""The pointers of all kinds, which are named tuples here only."""


def scalar_of(dtype: Any) -> Scalar:
    """Returns the type in `ir/` of a dtype that a program names.

    Raises:
        UnsupportedError: it is none.
    """
    dtype = dtype.element_ty if isinstance(dtype, BlockType) else dtype
    if isinstance(dtype, Dtype) and dtype not in COMPLEX.values():
        return dtype.scalar_type
    if isinstance(dtype, PointerType):
        raise UnsupportedError(
            "an integer is no pointer here: a program reaches the arrays that are its arguments only; pass "
            "triton.PointerTable(arrays), and load their addresses from it"
        )
    raise UnsupportedError(f"this takes a dtype of real numbers, as tl.float32; got {dtype!r}")
