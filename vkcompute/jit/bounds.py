"""Checked indices: `vc.kernel(check_bounds=True)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkcompute.ir import INT32, SCALARS, Constant, Scalar, Value
from vkcompute.ir.types import element_of
from vkcompute.jit.report import report

if TYPE_CHECKING:
    from vkcompute.jit.expressions import Expressions
    from vkcompute.jit.values import Array


def checked(c: Expressions, array: Array, indices: Sequence[Any]) -> Value:
    """Where the element lies that these indices name, for `access`; if there is none, that is reported."""
    b, inside = c.builder, None
    shape = [c.extent(array, axis) for axis in range(array.ndim)]
    for index, length in zip(indices, shape, strict=True):
        at = c.index(index)
        unsigned = SCALARS[f"uint{element_of(at.type).bits}"]
        fits = b.binary("lt", b.bitcast(at, unsigned), c.cast(length, unsigned))  # nor is it negative
        inside = fits if inside is None else b.binary("and", inside, fits)
    place = c.offset(array, indices)
    if inside is None or isinstance(inside, Constant):  # constant indices of shared arrays, which have been looked at
        return place
    branch = b.if_(b.unary("not", inside))
    with branch.then:
        n, one = array.ndim, "," * (array.ndim == 1)
        index = f"({', '.join(f'{{{k}}}' for k in range(n))})" if n > 1 else "{0}"
        lengths = ", ".join(f"{{{n + k}}}" for k in range(n))
        text = f"index {index} is outside of {array.name}, whose shape is ({lengths}{one})"
        report(c, text, [*indices, *[c.converted(each, INT32) for each in shape]], fails=True)
    place = b.select(inside, place, b.const(0, element_of(place.type)))  # a value of its own, by which it is known
    c.inside[place] = inside
    return place


def access(c: Expressions, place: Value, use: Callable[[], Value | None], kind: Scalar | None = None) -> Any:
    """What `use` gives, which it builds where there is an element at the place; else zero of this type."""
    if place not in c.inside:
        return use()
    branch = c.builder.if_(c.inside[place])
    with branch.then:
        found = use()
        c.builder.yield_(*[] if found is None else [found])
    with branch.otherwise:
        c.builder.yield_(*[] if kind is None else [c.builder.const(0, kind)])
    return branch.results[0] if kind is not None else None
