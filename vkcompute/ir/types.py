"""The types of values: numpy's bool, int, uint and float scalars, short vectors of them, and cooperative matrices."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vkcompute import dtypes
from vkcompute.float_formats import FloatFormat


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A number; each type is a single object.

    Attributes:
        name: numpy's name.
        kind: "b" bool, "i" int, "u" uint or "f" float.
        bits: width; 8 for a bool, as in memory.
    """

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """Numpy's dtype."""
        return np.dtype(self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Two to four numbers; `vector` makes each type a single object."""

    element: Scalar
    n: int

    @property
    def bits(self) -> int:
        """Width of all elements together."""
        return self.n * self.element.bits

    def __str__(self) -> str:
        return f"{self.element}x{self.n}"


@dataclass(frozen=True, slots=True, eq=False)
class Matrix(Vector):
    """A cooperative matrix, held by a subgroup's invocations together; `matrix` makes each type a single object.

    Attributes:
        shape: rows and columns.
        use: its place in a product: "left", "right" or "sums".
    """

    shape: tuple[int, int]
    use: str

    def __str__(self) -> str:
        return f"{self.element} {self.use} {self.shape[0]}x{self.shape[1]}"


@dataclass(frozen=True, slots=True, eq=False)
class SmallFloat(Scalar):
    """The type of floats that numpy lacks, and holds as float32: bfloat16 and those of 8 bits.

    Devices have them as operands of cooperative matrices only.
    """

    format: FloatFormat

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """Numpy's dtype of a number."""
        return np.dtype(np.float32)


Type = Scalar | Vector
SCALARS: dict[str, Scalar] = {
    row.name: Scalar(row.name, row.numpy.kind, 8 * row.numpy.itemsize)
    for row in dtypes.TABLE
    if row.numpy.kind in "biuf"
} | {
    row.name: SmallFloat(row.name, "f", 8 * row.numpy.itemsize, row.numpy.format)  # type: ignore[attr-defined]
    for row in dtypes.SMALL_FLOATS
}
BOOL = SCALARS["bool"]
INT8, INT16, INT32, INT64 = (SCALARS[f"int{bits}"] for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (SCALARS[f"uint{bits}"] for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (SCALARS[f"float{bits}"] for bits in (16, 32, 64))
BFLOAT16 = SCALARS["bfloat16"]
FLOAT8_E4B15 = SmallFloat("float8_e4b15", "f", 8, FloatFormat(8, 3, -14, 0x7F, away=True))
"""Triton's type of 8 bits with a bias of 15. No array has it as a dtype."""


@functools.cache
def vector(element: Scalar, n: int) -> Vector:
    """The type of a vector of `n` elements, 2 to 4."""
    if not 2 <= n <= 4:
        raise ValueError(f"a vector has 2 to 4 elements; got {n}")
    return Vector(element, n)


@functools.cache
def matrix(element: Scalar, shape: tuple[int, int], use: str) -> Matrix:
    """The type of a cooperative matrix."""
    return Matrix(element, shape[0] * shape[1], shape, use)


def element_of(kind: Type) -> Scalar:
    """The type of a vector's elements; a scalar type itself."""
    return kind.element if isinstance(kind, Vector) else kind
