"""The function that a language builds, and the evaluator that drives it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.frontend.captured import Captured
from vkcompute.frontend.evaluator import Evaluator
from vkcompute.frontend.source import Source


class CompilerContext:
    """A function of `ir/` that is being built.

    Attributes:
        function: the function.
        evaluator: has the functions that are being inlined, and the current place in the source.
        builder: appends operations to the function.
        ids: the values of ids of invocations and workgroups that it has read.
    """

    def __init__(self, function: ir.Function, evaluator: Evaluator) -> None:
        self.function, self.evaluator, self.builder = function, evaluator, evaluator.flow.builder
        self.ids: set[ir.Value] = set()

    @property
    def captured(self) -> Captured:
        """The globals found outside of the program."""
        return self.evaluator.captured

    def run(self, function: FunctionType, source: Source, args: dict[str, Any]) -> None:
        """Builds the body of the program itself."""
        self.evaluator.run(function, source, args)

    @property
    def at_top(self) -> bool:
        """True outside of all branches and loops."""
        return self.builder.checkpoint()[0] is self.function.body

    def mismatch(self, name: str, why: str) -> str:
        """Returns the text of an error for a value whose types differ, depending on the path taken."""
        return why

    def error(self, message: object) -> KernelError:
        """Returns an error at the current place in the source."""
        return self.evaluator.error(self.evaluator.node, message)
