"""Programs: kernels that apply functions of numbers to the elements of arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, Protocol

from vkcompute import ir
from vkcompute.compiled.block_access import BlockAccess, ElementBlock
from vkcompute.compiled.specialization import Specialization, iterations_of
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError, MissingFeature, hides_calls
from vkcompute.frontend.source import Source
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import SCALARS, UINT32, Scalar, Value
from vkcompute.ir.function import walk
from vkcompute.jit.compilation.build import Signature, argument, optimized
from vkcompute.jit.compilation.fingerprint import PythonOrigin
from vkcompute.jit.elementwise.broadcasting import Layout, Mask, Run, offsets
from vkcompute.jit.elementwise.formula import known
from vkcompute.jit.frontend import complex_values
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.type_rules import KernelTypes, kind_of
from vkcompute.jit.frontend.values import (
    ELEMENTS,
    PARTS,
    ArrayValue,
    Complex,
    Kind,
    Number,
    describe,
    whole_of,
)
from vkcompute.operations import ELEMENTARY

MOST_COST = 100
"""Cost of a function beyond which a device computes longer than it loads and stores."""
_COSTS = {"loop": math.inf, "barrier": math.inf}

__tracebackhide__ = hides_calls


class UnoptimizedKernel(NamedTuple):
    """A kernel before it is optimized.

    Attributes:
        dtypes: names of the dtypes of the results.
        single: True if the function returns a number, False for a tuple of numbers.
        block: the number of elements that an invocation computes.
        strided: as of `Specialization`.
    """

    compiler: Compiler
    dtypes: tuple[str, ...]
    single: bool = True
    block: int = 1
    strided: tuple[tuple[int, int], ...] = ()


class ProgramSource:
    """Programs of a function of elements or of a reduction; a `Source`.

    Its keys are the arguments of `build`, and `CompileOptions`.

    Attributes:
        name: for messages and profiles.
        origin: the functions from which the programs are made.
    """

    def __init__(self, name: str, build: Callable[..., UnoptimizedKernel], functions: Sequence[FunctionType]) -> None:
        self.name, self._build, self.origin = name, build, PythonOrigin(functions)

    def function(self, *key: Any) -> ir.Function:
        """Returns the optimized function that a program is lowered from."""
        return optimized(self._build(*key[:-1]).compiler.function, key[-1])

    def explained(self, missing: MissingFeature, *key: Any) -> MissingFeature:
        """Returns the error: the types of a function of elements are those of its arguments."""
        return missing

    def specialize(self, *key: Any) -> Specialization:
        """Compiles a program."""
        program, options = self._build(*key[:-1]), key[-1]
        function = optimized(program.compiler.function, options)
        captured = program.compiler.captured.all(without=known())  # the namespace of expressions does not change
        iterations, described = iterations_of(function), program._asdict()
        limits = tuple(sorted(described.pop("compiler").numbers.limits))
        in_words = ir.in_words(function, options.target)
        described |= {"limits": limits, "array_bindings": function.array_bindings, "in_words": in_words}
        described["grid_wrapped"] = options.grid_wrapped
        return Specialization(ir.lower(function, options.target), captured, iterations, **described)


class Formula(Protocol):
    """A function of numbers: a `Definition`, or an expression of arrays."""

    @property
    def name(self) -> str:
        """The name, for kernels and errors."""

    @property
    def parameters(self) -> Sequence[str]:
        """The names of the parameters."""

    @property
    def signature(self) -> inspect.Signature:
        """The parameters with their defaults."""

    @property
    def functions(self) -> Sequence[FunctionType]:
        """The functions of Python from which the formula is made."""

    @property
    def text(self) -> str:
        """Everything else on which its kernels depend."""

    @property
    def sources(self) -> Mapping[FunctionType, Source]:
        """The sources of the functions."""

    def call(self, c: Compiler, args: Sequence[Any]) -> Any:
        """Builds a call, and returns its value."""

    def error(self, message: object) -> KernelError:
        """Returns an error at the function."""

    def too_deep(self) -> KernelError:
        """Returns the error of a function that is nested too deeply."""


class BlockArgument:
    """An argument of a formula for blocks of elements.

    Args:
        source: a `BlockAccess`, an array that is repeated along the last axis, or a number.
        mask: the broadcast mask of an array; None for a number.
        size: elements of a block.
        axis: as of `Body.block_arguments`.

    Attributes:
        lengths: lengths of the axes except the first.
        run: the elements of the block, if it may cross the ends of rows.
        layout: of a view.
    """

    def __init__(self, c: Compiler, source: Any, mask: Mask | None, size: int, axis: int | None) -> None:
        self._c, self._source, self._mask, self._size, self._axis = c, source, mask, size, axis
        self.lengths: list[Value] = []
        self.run: Run | None = None
        self.layout: Layout | None = None

    def first(self, number: Value) -> Sequence[Any]:
        """Returns the elements of a block, from which `next` counts."""
        b, mask = self._c.builder, self._mask
        if mask is None:
            return [self._source] * self._size
        if self.run is not None and not isinstance(self._source, BlockAccess):
            return [self._c.arrays.load(self._source, offset) for offset in self.run.offsets(mask, self.layout)]
        if all(mask):
            return self._block(number)
        offset = b.compute("mul", number, b.const(self._size, UINT32))
        self._start = offsets(b, offset, self.lengths, [mask])[0]
        self._elements = self._at(self._start)
        return self._elements

    def next(self, number: Value, steps: Value) -> Sequence[Any]:
        """Returns the elements of a block that is so many elements behind the first one along the axis."""
        b, mask, axis = self._c.builder, self._mask, self._axis
        if mask is None or all(mask) or axis is None:
            return self.first(number)
        if not mask[axis]:
            return self._elements
        for length, varies in zip(self.lengths[axis:], mask[axis + 1 :], strict=True):
            steps = b.compute("mul", steps, length) if varies else steps
        return self._at(b.compute("add", self._start, steps))

    def _at(self, offset: Value) -> Sequence[Any]:
        """Loads the elements for a block from an offset in the array."""
        if isinstance(self._source, BlockAccess):
            b = self._c.builder
            return self._block(b.compute("div", offset, b.const(self._size, UINT32)))
        return [self._c.arrays.load(self._source, offset)] * self._size

    def _block(self, number: Value) -> Sequence[Any]:
        loaded = self._source.load(self._c.builder, number)
        return [Number(value, Kind(self._source.element)) for value in loaded]


class Body:
    """A formula that is compiled into a program.

    Args:
        signature: types of the arguments; arrays count as one-dimensional.
        masks: broadcast masks of the arrays among them (broadcasting.py).
        more: types of numbers that the program takes behind the arguments.

    Attributes:
        strided: as of `Specialization`.
        numbers: those of `more`.
        lengths: lengths of the axes except the first.
    """

    def __init__(self, formula: Formula, signature: Signature, masks: Sequence[Mask], more: Signature = ()) -> None:
        self.formula = formula
        self._signature, self._masks, self._more = signature, masks, more
        self.strided: list[tuple[int, int]] = []
        self.numbers: list[Any] = []
        self.lengths: list[Value] = []

    def compiler(self, local_size: int, real: Scalar) -> Compiler:
        """Returns a compiler for a new kernel."""
        function = ir.Function(self.formula.name, (local_size, 1, 1))
        made = Compiler(function, KernelTypes(real))
        made.evaluator.sources |= self.formula.sources
        return made

    def arguments(self, c: Compiler) -> list[Any]:
        """Declares bindings and push constants for the arguments, the lengths of the axes except the first, layouts."""
        names = self.formula.parameters
        plain = [kind[:2] if type(kind) is tuple else kind for kind in self._signature]
        arguments = [argument(c, names[n], n, kind) for n, kind in enumerate(plain)]
        self._push_layouts(c)
        return arguments

    def _push_layouts(self, c: Compiler) -> None:
        """Declares push constants: more numbers, the lengths of the axes except the first, and layouts of views."""
        self.numbers = [argument(c, "number", len(self._signature) + n, kind) for n, kind in enumerate(self._more)]
        self.lengths = [c.function.push("length", UINT32) for _ in self._masks[0][1:]]
        views = [len(kind) > 2 for kind in self._signature if type(kind) is tuple]
        self._layouts = {at: self.layout(c, at) for at, view in enumerate(views) if view}

    def layout(self, c: Compiler, at: int) -> list[Value]:
        """Declares push constants for the layout of the array or result at this index."""
        self.strided.append((at, len(c.function.pushes)))
        return [c.function.push("layout", UINT32) for _ in range(1 + len(self._masks[0]))]

    def results(self, c: Compiler, views: Sequence[bool]) -> list[list[Value] | None]:
        """Declares push constants for the layouts of the results that are views."""
        return [self.layout(c, len(self._masks) + at) if view else None for at, view in enumerate(views)]

    def block_arguments(self, c: Compiler, block: ElementBlock, axis: int | None = None) -> list[BlockArgument]:
        """Declares bindings and push constants, and returns the arguments.

        If an array is repeated along some axes, and none is accessed singly, the block lies within the last one.
        An array that is repeated along that, like a number, has one element for the whole block.

        Args:
            axis: the one along which `BlockArgument.next` steps, if an array is repeated along some axes.
        """
        names, arguments, arrays = self.formula.parameters, list[BlockArgument](), list[BlockArgument]()
        for at, kind in enumerate(self._signature):
            mask = self._masks[len(arrays)] if type(kind) is tuple else None
            within = mask is not None and (len(arrays) not in block.singly if block.singly else all(mask[-1:]))
            source: Any = (
                BlockAccess(c.function, names[at], SCALARS[as_dtype(kind[0]).name], block)
                if within
                else argument(c, names[at], at, kind[:2] if type(kind) is tuple else kind)
            )
            arguments.append(BlockArgument(c, source, mask, block.size, axis))
            arrays += arguments[-1:] if mask is not None else []
        self._push_layouts(c)
        for at, made in enumerate(arrays):
            made.lengths, made.layout = self.lengths, self._layouts.get(at)
        return arguments

    def at(self, c: Compiler, arguments: list[Any], offset: Value) -> Any:
        """Calls the function on the elements at an offset in the broadcast shape."""
        indices = iter(offsets(c.builder, offset, self.lengths, self._masks, self._layouts))
        load = c.arrays.load
        return self.call(c, *[load(arg, next(indices)) if isinstance(arg, ArrayValue) else arg for arg in arguments])

    def place(self, c: Compiler, offset: Value, layout: Sequence[Value] | None) -> Value:
        """Returns the offset in a result, with a layout if it is a view, of the element at an offset in the shape."""
        if layout is None:
            return offset
        return offsets(c.builder, offset, self.lengths, self._masks[:1], {0: layout})[0]

    def call(self, c: Compiler, *args: Any) -> Any:
        """Calls the function.

        Raises:
            KernelError: it does something that kernels do not support.
        """
        try:
            return self.formula.call(c, args)
        except UnsupportedError as error:
            raise self._error(error) from None
        except RecursionError:
            raise self.formula.too_deep() from None

    def number(self, c: Compiler, value: Any) -> Scalar:
        """Returns the type of a result, which must be a number."""
        if isinstance(value, Complex):
            return whole_of(kind_of(value, c.rules))
        try:
            return c.kind(value).type
        except UnsupportedError:
            got = "nothing" if value is None else describe(value)
            raise self._error(f"this must return a number; it returns {got}") from None

    def typed(self, c: Compiler, value: Any, kind: Scalar) -> Any:
        """Converts a number, with errors at the function."""
        try:
            if kind in PARTS:
                return complex_values.converted(c, value, PARTS[kind])
            return c.converted(value, kind)
        except UnsupportedError as error:
            raise self._error(error) from None

    def _error(self, message: object) -> KernelError:
        return self.formula.error(message)


def result(c: Compiler, dtype: str) -> ArrayValue:
    """Declares the next binding, for a result."""
    element = ELEMENTS[dtype]
    return ArrayValue("out", -1, element, 1, c.function.buffer("out", PARTS.get(element, element)))


def cost(function: ir.Function) -> float:
    """Returns about how many instructions a function executes; infinity if it has loops."""
    return sum(_COSTS.get(op.code, ELEMENTARY if op.operation.elementary else 1) for op in walk(function.body))
