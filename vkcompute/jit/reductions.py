"""A function that combines two becomes the SPIR-V of a reduction's passes."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any, NamedTuple, cast

import numpy as np

from vkcompute.ir import INT32, SCALARS, UINT32, Scalar
from vkcompute.jit import passes
from vkcompute.jit.broadcasting import Mask
from vkcompute.jit.compile import Signature
from vkcompute.jit.elements import Body, Built, finished, result
from vkcompute.jit.functions import Function
from vkcompute.jit.source import Written, read
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Kind, Number, joined

_ALONE, _TOGETHER, _ITSELF = (cast(FunctionType, each) for each in (passes.alone, passes.together, passes.itself))
_SOURCES = {each: read(each) for each in (_ALONE, _TOGETHER, _ITSELF)}
ITSELF = Written(_ITSELF, _SOURCES[_ITSELF])


class Stage(NamedTuple):
    """One pass: (n_rows, n, n_columns) elements become (n_rows, n_chunks, n_columns).

    Attributes:
        together: whether workgroups do it, else single invocations.
    """

    together: bool
    n_rows: int
    n: int
    n_columns: int

    @property
    def chunk(self) -> int:
        """Elements that are reduced to one."""
        return passes.WIDTH * passes.EACH if self.together else passes.CHUNK

    @property
    def pushes(self) -> tuple[int, int, int, int]:
        """The kernel's numbers: n_results, n, n_chunks, n_columns."""
        n_chunks = -(-self.n // self.chunk)
        return self.n_rows * n_chunks * self.n_columns, self.n, n_chunks, self.n_columns

    @property
    def n_groups(self) -> int:
        """Workgroups to launch."""
        return -(-self.pushes[0] // (1 if self.together else passes.WIDTH))


def stages(n_rows: int, n: int, n_columns: int, *, groups: bool) -> list[Stage]:
    """The passes that reduce (n_rows, n, n_columns) elements, n > 0, to (n_rows, n_columns).

    Args:
        groups: whether workgroups reduce what is long and lies side by side.
    """
    found: list[Stage] = []
    while not found or n > 1:
        found.append(Stage(groups and n_columns == 1 and n > passes.CHUNK, n_rows, n, n_columns))
        n = found[-1].pushes[2]
    return found


def reduction(
    combine: Written,
    initial: Any,
    each: Written,
    real: Scalar,
    dtype: np.dtype[Any] | None,
    signature: Signature,
    masks: tuple[Mask, ...],
    stage: tuple[bool, bool],
    wanted: np.dtype[Any] | None,
    folded: bool,
) -> Built:
    """The kernel of a pass.

    Its arguments are tensors in order, the result, numbers in order, lengths of the axes but the first, and n_results,
    n, n_chunks and n_columns of the stage.

    Args:
        each: what is applied to the elements before.
        real: the type of Python's floats.
        dtype: in which elements are combined, if that is given.
        stage: whether workgroups do it, and whether it is the last pass.
        wanted: the dtype of the result, if it is not that in which elements are combined.
    """
    body, pair, (together, last) = Body(each, signature, masks), Body(combine, (), ()), stage
    kind = SCALARS[dtype.name] if dtype else _kind(body, pair, initial, real)
    c = body.compiler(passes.WIDTH, real, folded=folded)
    c.sources |= _SOURCES | {combine.function: combine.source}
    arguments = body.arguments(c)
    out = result(c, wanted or kind.numpy)

    def element(c: Statements, place: Any) -> Number:
        return body.typed(c, body.at(c, arguments, c.cast(place, UINT32)), kind)

    def combined(c: Statements, one: Number, other: Number) -> Number:
        return pair.typed(c, pair.called(c, one, other), kind)

    def store(c: Statements, place: Any, value: Number) -> None:
        value = combined(c, pair.typed(c, initial, kind), value) if last else value
        c.store(out, c.index(place), value)

    numbers = [
        Number(c.function.push(name, INT32), Kind(INT32)) for name in ("n_results", "n", "n_chunks", "n_columns")
    ]
    emitted = [Function(each, 0, None) for each in (element, combined, store)]
    c.inline(_TOGETHER if together else _ALONE, [*emitted, kind.numpy.type, *numbers], {}, ast.Pass())
    return finished(c, (wanted or kind.numpy,))


def _kind(body: Body, pair: Body, initial: Any, real: Scalar) -> Scalar:
    """The type in which elements are combined: that of the elements, the initial value and what two of it give."""
    c = body.compiler(1, real)
    c.sources[pair.function] = pair.source
    some = c.builder.builtin("global_id")
    first = body.at(c, body.arguments(c), some)
    body.number(c, first)
    kind = joined(c.kind(first), c.kind(initial), real)
    while True:
        found = pair.called(c, *[Number(c.builder.cast(some, kind.type), Kind(kind.type)) for _ in range(2)])
        pair.number(c, found)
        wider = joined(Kind(kind.type), c.kind(found), real)
        if wider.type is kind.type:
            return wider.type  # type: ignore[no-any-return]
        kind = wider
