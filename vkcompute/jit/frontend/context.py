"""The function being compiled: its builder, the calls that are being inlined, and the current place in the source."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.errors import IrError, KernelError
from vkcompute.frontend.captured import Captured, Table
from vkcompute.frontend.control_flow import ControlFlow, Scope
from vkcompute.frontend.source import Source, is_internal
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import Scalar, Value
from vkcompute.jit.frontend.other_words import in_kernels
from vkcompute.jit.frontend.report import Reports
from vkcompute.jit.frontend.values import ArrayValue

_MOST_NODES = 100_000  # compiled in about 1 s; drivers take up to 20 s


@dataclass(slots=True)
class Frame:
    """A function whose body is being compiled.

    Attributes:
        locals: names that it assigns to.
        scope: its variables and loops.
        outer: of a nested function, the function in which it is defined.
        call: the call at which it is inlined; None for the kernel itself.
    """

    function: FunctionType
    source: Source
    locals: set[str]
    call: ast.AST | None = None
    scope: Scope = field(default_factory=partial(Scope, inlined=True))
    outer: Frame | None = None


class Here:
    """The location of a node in a function that is being compiled."""

    __slots__ = ("_context", "node")

    def __init__(self, context: Context, node: ast.AST) -> None:
        self._context, self.node = context, node

    @property
    def line(self) -> int:
        """The number of its line."""
        return self._context.frames[-1].source.location(self.node)[0]

    def error(self, message: object) -> KernelError:
        """Returns an error at the node."""
        return self._context.error(self.node, message)


class Context(ABC):
    """State of the compiler. Arithmetic, MemoryAccess, ControlFlow and Compiler each add a layer of methods.

    Attributes:
        function: the function being built.
        builder: appends operations to it.
        real: the type of Python floats.
        frames: the kernel and the functions being inlined, the innermost last.
        node: the syntax node being compiled.
        flow: the variables and the control flow.
        sources: sources of the functions that have been inlined.
        nested: nested functions, and the frames in which they are defined.
        captured: globals found outside of the kernel.
        check_bounds: True if indices are compared with the shape.
        reports: the kernel's reports; None where no host reads them.
        written: position of an array argument that is written -> True if its elements are assigned to, False if they
            are only changed by atomic operations.
        limits: (index of a push constant, dtype) for each int argument that takes a narrower type, which it must fit.
        extents: push constants for lengths, offsets and strides, by (position of the array, source).
        tables: the constant tables, in the order of their buffers.
        in_bounds: checked offset -> the condition under which the element exists.
        ids: those of the invocation that the kernel reads.
        n_nodes: expressions and statements compiled so far.
    """

    def __init__(self, function: ir.Function, real: Scalar) -> None:
        self.function, self.builder = function, ir.Builder(function)
        self.real = real
        self.frames: list[Frame] = []
        self.node: ast.AST = ast.Pass()
        self.flow = ControlFlow(self.builder, self)  # type: ignore[arg-type]
        self.sources: dict[FunctionType, Source] = {}
        self.nested: dict[FunctionType, Frame] = {}
        self.captured = Captured(in_kernels)
        self.check_bounds = False
        self.reports: Reports | None = None
        self.written: dict[int, bool] = {}
        self.limits: set[tuple[int, str]] = set()
        self.extents: dict[tuple[int, int], Value] = {}
        self.tables: dict[Table, ArrayValue] = {}
        self.in_bounds: dict[Value, Value] = {}
        self.ids: set[Value] = set()
        self.n_nodes = 0

    @property
    def id_axes(self) -> ir.IdAxes:
        """The axes along which the kernel reads ids, so far."""
        return ir.id_axes(self.function, self.ids)

    def here(self, node: ast.AST) -> Here:
        """Returns the location of a node in the innermost frame."""
        return Here(self, node)

    @abstractmethod
    def inline(self, function: FunctionType, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Compiles the body of a Python function in the place of a call, and returns its value."""

    def call(self, function: Any, *args: Any) -> Any:
        """Inlines a function of this package that is written in the kernel language."""
        return self.inline(function, list(args), {}, self.node)

    @property
    def first_assigned(self) -> int | None:
        """Position of the first array argument whose elements are assigned to, so far."""
        return min((n for n, assigned in self.written.items() if assigned), default=None)

    @property
    def at_top(self) -> bool:
        """True outside of all branches and loops."""
        return self.builder.checkpoint()[0] is self.function.body

    def located(self, work: Callable[[Any], Any], node: ast.AST) -> Any:
        """Returns `work(node)`; unsupported operations raise a KernelError at this node."""
        self.n_nodes += 1
        if self.n_nodes > _MOST_NODES:
            raise self.error(
                node,
                f"a kernel has at most {_MOST_NODES:,} expressions and statements, those of a function once per call; "
                "this one exceeds the limit; call the function in a loop, or divide the kernel",
            )
        outer, self.node = self.node, node
        try:
            return work(node)
        except (UnsupportedError, IrError) as error:
            raise self.error(node, error) from None
        finally:
            self.node = outer

    def error(self, node: ast.AST, message: object) -> KernelError:
        """Returns an error at a node with the calls that led there; internal functions appear as their call."""
        frames = list(self.frames)
        while len(frames) > 1 and is_internal(frames[-1].function):
            node = frames.pop().call or node
        frames = [frame for frame in frames if not is_internal(frame.function)] or frames
        text = str(frames[-1].source.error(node, message))
        for outer, inner in zip(frames[-2::-1], frames[:0:-1], strict=True):
            text += f"\n{outer.source.error(inner.call or node, f'in this call of {inner.function.__name__}')}"
        return KernelError(text)
