"""Attributes and slices of vectors and tuples."""

from __future__ import annotations

from typing import Any

from vkcompute.jit.frontend.source import UnsupportedError
from vkcompute.jit.frontend.values import Vector, describe

_LETTERS = ("xyzw", "rgba")


def swizzled(vector: Vector, name: str) -> Any:
    """Returns the element or the vector of two to four elements named by `name`, as in `v.x` and `v.zy`."""
    for letters in _LETTERS:
        if len(name) <= 4 and set(name) <= set(letters[: len(vector)]):
            picked = [vector[letters.index(each)] for each in name]
            return Vector(picked) if len(picked) > 1 else picked[0]
    letters = " or ".join(letters[: len(vector)] for letters in _LETTERS)
    raise UnsupportedError(
        f"{describe(vector)} has no attribute {name}; it has up to four letters of {letters}, as v.{letters[:2]}"
    )


def sliced(values: tuple[Any, ...], bounds: slice) -> Any:
    """Returns a slice of a tuple or a vector. The bounds are constants; a slice of a vector has at least 2 elements."""
    if not all(each is None or type(each) is int for each in (bounds.start, bounds.stop, bounds.step)):
        raise UnsupportedError("the bounds of a slice are constants")
    if bounds.step == 0:
        raise UnsupportedError("the step of a slice is not 0")
    part = values[bounds]
    if not isinstance(values, Vector):
        return part
    if len(part) < 2:
        raise UnsupportedError(f"a vector has 2 to 4 elements; this slice has {len(part)}; write v[i] for one")
    return Vector(part)
