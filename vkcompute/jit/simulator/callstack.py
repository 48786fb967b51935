"""The call stack of a simulated kernel: its locations in the source, from Python's own frames."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import NamedTuple

from vkcompute.errors import KernelError
from vkcompute.frontend.source import Source, is_internal

Call = tuple[CodeType, int, int]
"""Code of a function of the kernel, and the current line and instruction in it."""
Calls = tuple[Call, ...]
"""The calls that led to a place, the innermost first."""


class Code(NamedTuple):
    """A function that is run, with the first and last lines of its loops, outer loops first."""

    function: FunctionType
    source: Source
    loops: list[tuple[int, int]]


class CallStack:
    """Finds the calls of the kernel's functions on Python's stack."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, Code] = {}

    def add(self, code: CodeType, function: FunctionType, source: Source) -> None:
        """Registers the code of a function of the kernel."""
        loops = [
            (node.lineno + source.above, (node.body[-1].end_lineno or 0) + source.above)
            for node in ast.walk(source.tree)
            if isinstance(node, (ast.For, ast.While))
        ]
        self._codes[code] = Code(function, source, sorted(loops))

    def calls(self, most: int = 1000) -> Calls:
        """Returns the current calls, at most so many; none where a debugger evaluates an expression."""
        calls: list[Call] = []
        frame = sys._getframe(1)
        while frame.f_back is not None and len(calls) < most:
            code = self._codes.get(frame.f_code)
            if code is not None:
                if not is_internal(code.function):
                    calls.append((frame.f_code, frame.f_lineno, frame.f_lasti))
            elif frame.f_code.co_name == "<module>" and not calls:
                return ()
            frame = frame.f_back
        return tuple(calls)

    def progress(self, iterations: Mapping[tuple[int, int], int]) -> tuple[tuple[int, ...], ...]:
        """Returns the progress of an invocation, as a key that orders it among others.

        It has, call by call, the loops around the current line with their iterations, and the line.

        Args:
            iterations: (depth of the call, first line of the loop) -> number of iterations so far.
        """
        key = list[tuple[int, ...]]()
        for depth, (code, line, instruction) in enumerate(reversed(self.calls()), 1):
            for start, end in self._codes[code].loops:
                if start <= line <= end and (depth, start) in iterations:
                    key.append((start, 0, iterations[depth, start]))
            key.append((line, 1, instruction))
        return tuple(key)

    def error(self, message: str, calls: Calls) -> KernelError:
        """Returns an error with the source locations of these calls."""
        text, inner = message, ""
        for code, line, instruction in calls:
            function, source, _ = self._codes[code]
            positions = getattr(code, "co_positions", None)  # since Python 3.11
            column = list(positions())[instruction // 2][2] if positions else None
            node = ast.Pass(lineno=line - source.above, col_offset=column or 0)
            called = source.error(node, f"in this call of {inner}" if inner else text)
            text, inner = f"{text}\n{called}" if inner else str(called), function.__name__
        return KernelError(text)


def line_of(call: Call) -> str:
    """Returns file and line of a call."""
    return f"{call[0].co_filename}:{call[1]}"
