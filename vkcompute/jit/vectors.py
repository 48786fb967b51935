"""Vectors: their types, which are names for kernels, and what is particular to them in the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkcompute.ir import SCALARS
from vkcompute.jit.ids import outside
from vkcompute.jit.source import Refused
from vkcompute.jit.values import Kind, Number, Row, Vector, describe, kind_of, like

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions

_LETTERS = ("xyzw", "rgba")


class VectorType:
    """A type of vectors; in a kernel, `vc.float32x3(x, y, z)` makes one of numbers.

    It takes as many numbers as it has elements, some of them as vectors or tuples: `vc.float32x4(v.xy, 0, 1)`; one
    number stands for all: `vc.float32x3(0)`. Numbers are converted as by `vc.float32(x)`.
    """

    def __init__(self, element: str, n: int) -> None:
        self.element, self.n, self.__name__ = element, n, f"{element}x{n}"

    def __call__(self, *parts: Any) -> Any:
        outside(f"{self.__name__}(…)")

    def __repr__(self) -> str:
        return f"vkcompute.{self.__name__}"


float16x2, float16x3, float16x4 = (VectorType("float16", n) for n in (2, 3, 4))
float32x2, float32x3, float32x4 = (VectorType("float32", n) for n in (2, 3, 4))
float64x2, float64x3, float64x4 = (VectorType("float64", n) for n in (2, 3, 4))
int32x2, int32x3, int32x4 = (VectorType("int32", n) for n in (2, 3, 4))
uint32x2, uint32x3, uint32x4 = (VectorType("uint32", n) for n in (2, 3, 4))
TYPES = {name: kind for name, kind in globals().items() if isinstance(kind, VectorType)}


def made(kind: VectorType, c: Expressions, *parts: Any) -> Vector:
    """A call of the type."""
    rows = [part for part in parts if isinstance(part, Row)]
    if rows:  # what is left for it is its length
        n = kind.n - sum(len(part) if isinstance(part, tuple) else not isinstance(part, Row) for part in parts)
        if len(rows) > 1 or n < 1:
            raise Refused(f"{kind.__name__} takes one row, and numbers for {kind.n} in all; make vectors of the others")
        parts = tuple([c.loaded(part, n) if isinstance(part, Row) else part for part in parts])
    numbers = [x for part in parts for x in (part if isinstance(part, tuple) else (part,))]
    if len(numbers) == 1 and not isinstance(parts[0], tuple):
        numbers *= kind.n
    if len(numbers) != kind.n:
        got = ", ".join(map(describe, parts))
        raise Refused(f"{kind.__name__} takes {kind.n} numbers, or one for all; got {len(numbers)} ({got})")
    return Vector([c.converted(x, SCALARS[kind.element]) for x in numbers])


def swizzled(vector: Vector, name: str) -> Any:
    """`vector.x` and the like: an element, or a vector of up to four."""
    for letters in _LETTERS:
        if len(name) <= 4 and set(name) <= set(letters[: len(vector)]):
            picked = [vector[letters.index(each)] for each in name]
            return Vector(picked) if len(picked) > 1 else picked[0]
    letters = " or ".join(letters[: len(vector)] for letters in _LETTERS)
    raise Refused(
        f"{describe(vector)} has no attribute {name}; it has up to four letters of {letters}, as v.{letters[:2]}"
    )


def sliced(values: tuple[Any, ...], bounds: slice) -> Any:
    """A part of a tuple or a vector, by constants; of a vector two elements at least."""
    if not all(each is None or type(each) is int for each in (bounds.start, bounds.stop, bounds.step)):
        raise Refused("the bounds of a slice are constants")
    if bounds.step == 0:
        raise Refused("the step of a slice is not 0")
    part = values[bounds]
    if not isinstance(values, Vector):
        return part
    if len(part) < 2:
        raise Refused(f"a vector has 2 to 4 elements; this slice has {len(part)}; write v[i] for one")
    return Vector(part)


def element(c: Expressions, values: tuple[Any, ...], index: Any) -> Any:
    """An element of a tuple, or of a vector; of numbers, or tuples that are alike, the index need not be a constant."""
    if isinstance(index, Number) and _are_rows(values):
        return like(values[0], [element(c, column, index) for column in zip(*values, strict=True)])
    if isinstance(index, Number) and values and all(isinstance(kind_of(each, c.real), Kind) for each in values):
        c.index(index)
        found = values[0]
        for k, each in enumerate(values[1:], 1):
            found = c.where(c.compare("==", index, k), each, found)
        return found
    if type(index) is not int or not -len(values) <= index < len(values):
        got = index if type(index) is int else describe(index)
        what = describe(values) if isinstance(values, Vector) else f"a tuple of {len(values)}"
        raise Refused(f"{what} is indexed by a constant in range; got {got}")
    return values[index]


def _are_rows(values: tuple[Any, ...]) -> bool:
    """Whether all are tuples of one type and length."""
    return all(isinstance(each, tuple) for each in values) and len({(type(each), len(each)) for each in values}) == 1
