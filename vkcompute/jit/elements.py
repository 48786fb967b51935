"""A function that is applied to each element becomes SPIR-V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.ir import BOOL, SCALARS, UINT8, UINT32, Scalar, Value
from vkcompute.jit import passes
from vkcompute.jit.accurate import optimized
from vkcompute.jit.broadcasting import Mask, places
from vkcompute.jit.compile import Passes, Signature, argument, check_barriers, passes_of, real_of, too_deep
from vkcompute.jit.expressions import Read
from vkcompute.jit.formula import known
from vkcompute.jit.functions import FUNCTIONS
from vkcompute.jit.ids import global_id
from vkcompute.jit.source import Refused, Written
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Array, Number, describe

LOCAL_SIZE = 64


class Built(NamedTuple):
    """What was compiled.

    Attributes:
        dtypes: of the results.
        single: whether the function gives a number, and no tuple of them.
        reads: what was found outside of the function.
        function, passes: what was lowered, and of its loops.
    """

    spirv: bytes
    dtypes: tuple[np.dtype[Any], ...]
    single: bool
    reads: tuple[Read, ...]
    function: ir.Function
    passes: Passes


class Body:
    """A function while it is compiled for arguments of these types.

    Args:
        signature: per argument what the compiler of kernels distinguishes; a tensor's axes are none of that.
        masks: of the tensors among them (broadcasting.py).
    """

    def __init__(self, written: Written, signature: Signature, masks: Sequence[Mask]) -> None:
        self.function, self.source = written.function, written.source
        self._signature, self._masks = signature, masks

    def compiler(self, local_size: int, real: Scalar, *, folded: bool = False) -> Statements:
        """A compiler that has nothing yet."""
        made = Statements(ir.Function(self.function.__name__, (local_size, 1, 1)), real, folded=folded)
        made.sources[self.function] = self.source
        return made

    def arguments(self, c: Statements) -> list[Any]:
        """The arguments as bindings and push constants, and after these the lengths of the axes but the first."""
        names = self.function.__code__.co_varnames
        found = [argument(c, names[n], n, each) for n, each in enumerate(self._signature)]
        self._lengths = [c.function.push("length", UINT32) for _ in self._masks[0][1:]]
        return found

    def at(self, c: Statements, arguments: list[Any], place: Value) -> Any:
        """What the function gives for the elements at a place of all arguments together."""
        found = iter(places(c.builder, place, self._lengths, self._masks))
        return self.called(c, *[c.load(each, next(found)) if isinstance(each, Array) else each for each in arguments])

    def called(self, c: Statements, *args: Any) -> Any:
        """What it gives for these.

        Raises:
            KernelError: kernels cannot do what it does.
        """
        try:
            return c.inline(self.function, list(args), {}, self.source.tree)
        except Refused as refusal:
            raise self._error(refusal) from None
        except RecursionError:
            raise too_deep(self.source) from None

    def number(self, c: Statements, value: Any) -> Scalar:
        """The type of a number that it gave."""
        try:
            return c.kind(value).type
        except Refused:
            got = "nothing" if value is None else describe(value)
            raise self._error(f"this is to give a number; it gives {got}") from None

    def typed(self, c: Statements, value: Any, kind: Scalar) -> Number:
        """A number that it gave or takes, in another type."""
        try:
            return c.converted(value, kind)
        except Refused as refusal:
            raise self._error(refusal) from None

    def _error(self, message: object) -> KernelError:
        return self.source.error(self.source.tree, message)


def elementwise(
    written: Written, signature: Signature, masks: tuple[Mask, ...], wanted: tuple[np.dtype[Any], ...], folded: bool
) -> Built:
    """The kernel that applies a function to each element.

    Its arguments are tensors in order, results, numbers in order, lengths of the axes but the first, and how many
    elements there are.

    Args:
        wanted: the dtypes of the results; none for those that the function gives.
    """
    body = Body(written, signature, masks)
    c = body.compiler(LOCAL_SIZE, real_of(signature), folded=folded)
    arguments = body.arguments(c)
    n = c.function.push("n", UINT32)
    place = c.cast(FUNCTIONS[global_id].emit(c), UINT32)
    with c.builder.if_(c.builder.binary("lt", place, n)).then:
        found = body.at(c, arguments, place)
        results = found if isinstance(found, tuple) else (found,)
        dtypes = wanted or tuple([body.number(c, each).numpy for each in results])
        for dtype, each in zip(dtypes, results, strict=True):
            c.store(result(c, dtype), place, body.typed(c, each, SCALARS[dtype.name]))
    return finished(c, dtypes, single=not isinstance(found, tuple))


def finished(c: Statements, dtypes: tuple[np.dtype[Any], ...], *, single: bool = True) -> Built:
    """What has been built, with these results."""
    check_barriers(c.function)
    own = id(vars(passes)), id(known())  # which do not change
    reads = tuple([read for (owner, *_), read in c.reads.items() if owner not in own])
    spirv = ir.lower(optimized(c.function))
    return Built(spirv, dtypes, single, reads, c.function, passes_of(c.function))


def result(c: Statements, dtype: np.dtype[Any]) -> Array:
    """The next binding, for a result."""
    element = SCALARS[dtype.name]
    return Array("out", -1, element, 1, c.function.buffer("out", UINT8 if element is BOOL else element))
