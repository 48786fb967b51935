"""Vector types, and functions of vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import SCALARS
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.intrinsics import register
from vkcompute.jit.frontend.values import Row, Vector, describe
from vkcompute.jit.library.ids import refuse_outside_kernel

__all__ = ["cross", "dot", "length", "normalize"]


class VectorType:
    """A vector type; in a kernel, `vc.float32x3(x, y, z)` makes a vector.

    It takes as many numbers as it has elements, some of them as vectors or tuples: `vc.float32x4(v.xy, 0, 1)`. A single
    number is repeated: `vc.float32x3(0)`. Numbers are converted as by `vc.float32(x)`.
    """

    def __init__(self, element: str, n: int) -> None:
        self.element, self.n, self.__name__ = element, n, f"{element}x{n}"

    def __call__(self, *parts: Any) -> Any:
        refuse_outside_kernel(f"{self.__name__}(…)")

    def __repr__(self) -> str:
        return f"vkcompute.{self.__name__}"

    def __reduce__(self) -> str:
        return self.__name__


float16x2, float16x3, float16x4 = (VectorType("float16", n) for n in (2, 3, 4))
float32x2, float32x3, float32x4 = (VectorType("float32", n) for n in (2, 3, 4))
float64x2, float64x3, float64x4 = (VectorType("float64", n) for n in (2, 3, 4))
int32x2, int32x3, int32x4 = (VectorType("int32", n) for n in (2, 3, 4))
uint32x2, uint32x3, uint32x4 = (VectorType("uint32", n) for n in (2, 3, 4))


def dot(a: Any, b: Any) -> Any:
    """Dot product of two vectors."""
    return a @ b


def length(v: Any) -> Any:
    """Euclidean length of a vector."""
    return np.sqrt(v @ v)


def normalize(v: Any) -> Any:
    """Unit vector in the direction of `v`; NaNs for a vector of zeros."""
    return v / np.sqrt(v @ v)


def cross(a: Any, b: Any) -> Any:
    """Cross product of two vectors of three elements."""
    return a.yzx * b.zxy - a.zxy * b.yzx


def _vector(kind: VectorType, c: Compiler, *parts: Any) -> Vector:
    """Expands a call of a vector type."""
    rows = [part for part in parts if isinstance(part, Row)]
    if rows:  # its length is the number of elements that the other arguments leave
        n = kind.n - sum(len(part) if isinstance(part, tuple) else not isinstance(part, Row) for part in parts)
        if len(rows) > 1 or n < 1:
            rule = f"{kind.__name__} takes one row, and numbers for {kind.n} elements in all"
            raise UnsupportedError(f"{rule}; make vectors of the other rows")
        parts = tuple([c.loaded(part, n) if isinstance(part, Row) else part for part in parts])
    numbers = [x for part in parts for x in (part if isinstance(part, tuple) else (part,))]
    if len(numbers) == 1 and not isinstance(parts[0], tuple):
        numbers *= kind.n
    if len(numbers) != kind.n:
        got = ", ".join(map(describe, parts))
        raise UnsupportedError(f"{kind.__name__} takes {kind.n} numbers, or one for all; got {len(numbers)} ({got})")
    return Vector([c.converted(x, SCALARS[kind.element]) for x in numbers])


def _of_vectors(name: str, definition: Any, c: Compiler, *args: Any) -> Any:
    """Inlines a function of vectors; one of two arguments may be a row, which takes the other's length."""
    n = next((len(arg) for arg in args if isinstance(arg, Vector)), 0)
    if not n or not all(isinstance(arg, (Vector, Row)) for arg in args):
        got = " and ".join(map(describe, args))
        remedy = "make vectors, as vc.float32x3(x, y, z), or add products of elements in a loop"
        raise UnsupportedError(f"{name} takes vectors; got {got}; {remedy}")
    return c.call(definition, *[c.loaded(arg, n) if isinstance(arg, Row) else arg for arg in args])


for _type in [value for value in globals().values() if isinstance(value, VectorType)]:
    register([_type], partial(_vector, _type), (1, None))
for _definition, _twin, _n in (
    (dot, np.dot, 2),
    (length, np.linalg.norm, 1),
    (normalize, None, 1),
    (cross, np.cross, 2),
):
    for _function in (_definition, _twin) if _twin else (_definition,):
        register([_function], partial(_of_vectors, _function.__name__, _definition), _n, keywords=_definition)


def __dir__() -> list[str]:
    return __all__
