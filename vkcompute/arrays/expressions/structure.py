"""Structures of lazy arrays: one object for all expressions of the same operations on operands of the same kinds.

A structure is found by the structures of the operands, without walking them. What depends on nothing else is computed
once: the steps of the kernel, and its launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from vkcompute.jit.elementwise.element_launcher import ElementLauncher
from vkcompute.jit.elementwise.expression import Expression, Step
from vkcompute.operations import FUNCTIONS
from vkcompute.runtime.bounded_cache import BoundedCache

MOST_STEPS = 48
MOST_ARRAYS = 8
MOST_SCALARS = 8
_COMPLEX = frozenset(["F", "D", np.complex64, np.complex128])
_COSTS = {name: row.cost for name, row in FUNCTIONS.items()}
_structures: BoundedCache[tuple[Any, ...], Structure] = BoundedCache(4096)
_launchers: BoundedCache[tuple[Step, ...], ElementLauncher] = BoundedCache(1024)


_Launcher = tuple[Callable[[Sequence[Any]], Sequence[Any]], ElementLauncher]


class Structure:
    """An operation on operands of certain kinds.

    Args:
        parts: by operand: the structure of a lazy operation; the character of an array's dtype, with the depth for a
            reduction; the type of a NumPy scalar.

    Attributes:
        operation, dtype: as of `Step`.
        result: the character of the result's dtype.
        n_steps, n_arrays, n_scalars: of the kernel, at most.
        cost: of computing an element, compared with an addition.
        depth: the number of reductions that are nested in it.
        has_complex: True if a parameter or the result is complex, which kernels take as two.
        is_too_large: True if a kernel should not compute all of it.
        launchers: of its kernels, by their parameters: see `launcher`.
        signature: equal for the same operation, whatever the kinds of the operands are.
    """

    def __init__(self, operation: str, dtype: str, result: str, parts: Sequence[Any]) -> None:
        self.operation, self.dtype, self.result, self.parts = operation, dtype, result, parts
        self.launchers: dict[tuple[int, ...], _Launcher] = {}
        self.signature = operation, dtype, len(parts)
        inner = [part for part in parts if type(part) is Structure]
        reductions = [part for part in parts if type(part) is tuple]
        scalars = [part for part in parts if type(part) is type]
        self.n_steps: int = 1 + sum([part.n_steps for part in inner])
        self.n_scalars: int = len(scalars) + sum([part.n_scalars for part in inner])
        self.n_arrays: int = len(parts) - len(inner) - len(scalars) + sum([part.n_arrays for part in inner])
        self.cost: int = _COSTS[operation] + sum([part.cost for part in inner])
        self.depth: int = max([part.depth for part in inner] + [depth for _, depth in reductions], default=0)
        kinds = [result, *[part[0] if type(part) is tuple else part for part in parts]]
        self.has_complex: bool = not _COMPLEX.isdisjoint(kinds) or any(part.has_complex for part in inner)
        self.is_too_large = self.n_steps > MOST_STEPS or self.n_arrays > MOST_ARRAYS or self.n_scalars > MOST_SCALARS

    def launcher(self, pattern: tuple[int, ...]) -> _Launcher:
        """Returns a function that picks the parameters of its kernel from the operands, and the launcher.

        Args:
            pattern: for each operand that is no structure, in order, the number of the first one that is the same.
        """
        launcher = self.launchers.get(pattern)
        if launcher is None:
            first = sorted({*pattern})
            steps: list[Step] = []
            self._add(steps, iter([first.index(number) for number in pattern]))
            pick = itemgetter(*first) if len(first) > 1 else itemgetter(slice(0, 1))
            launcher = self.launchers[pattern] = pick, launcher_of(tuple(steps), len(first))
        return launcher

    def _add(self, steps: list[Step], numbers: Iterator[int]) -> int:
        """Appends its steps after those of its operands, and returns its place."""
        operands = [part._add(steps, numbers) if type(part) is Structure else next(numbers) for part in self.parts]
        steps.append((self.operation, self.dtype, tuple(operands)))
        return -len(steps)


def interned(operation: str, dtype: str, result: str, parts: tuple[Any, ...]) -> Structure:
    """Returns the structure of an operation: the same for equal arguments, except for the oldest of many."""
    key = operation, dtype, result, *parts
    structure = _structures.get(key)
    if structure is None:
        structure = _structures[key] = Structure(operation, dtype, result, parts)
    return structure


def launcher_of(steps: tuple[Step, ...], n: int) -> ElementLauncher:
    """Returns the launcher of an expression with `n` parameters, made on first use."""
    launcher = _launchers.get(steps)
    if launcher is None:
        launcher = _launchers[steps] = ElementLauncher(Expression(n, steps))
    return launcher
