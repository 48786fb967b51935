"""Lazy arrays: expressions, computed by one kernel when somebody needs the memory.

An expression has operands: arrays, which may be lazy themselves, and NumPy scalars. When it is computed, the steps of
its lazy operands become steps of the same kernel. A lazy operand that other expressions read, too, is computed first if
computing it again would cost more than loading it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from vkcompute.errors import OutOfDeviceMemory
from vkcompute.jit.elementwise.element_launcher import ElementLauncher
from vkcompute.jit.elementwise.expression import Expression, Step
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.runtime.graphs.graph import temporary
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context

MOST_STEPS = 48
MOST_ARRAYS = 8
MOST_SCALARS = 8
MOST_DEPTH = 8  # each nested reduction takes a part of Python's stack when it is computed
_MOST_READERS = 32
_MOST_COST = 8  # of a step that is computed twice rather than loaded
_ELEMENTARY = 24
_CHEAP = {
    "add", "subtract", "multiply", "negative", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "invert", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not", "isfinite", "isinf", "isnan", "signbit", "where", "astype", "absolute", "floor",
    "ceil", "trunc", "rint", "square", "sign", "complex", "real", "imag", "conjugate",
}  # fmt: skip
_launchers: BoundedCache[tuple[Step, ...], ElementLauncher] = BoundedCache(1024)


fuses = os.environ.get("VKCOMPUTE_FUSE", "1") != "0"
"""False to compute every operation at once, for debugging"""


class Lazy:
    """An operation whose result is computed later.

    Attributes:
        operation, dtype: as of `Step`.
        operands: arrays and NumPy scalars.
        n_steps, n_arrays, n_scalars: of the kernel, at most.
        cost: of computing an element, compared with an addition.
        depth: the number of reductions that are nested in it.
        readers: weak references to the lazy arrays that have the result as an operand, once per operand.
    """

    __slots__ = ("cost", "depth", "dtype", "n_arrays", "n_scalars", "n_steps", "operands", "operation", "readers")
    cost: int
    depth: int
    n_arrays: int
    n_scalars: int
    n_steps: int

    def __init__(self, operation: str, dtype: str, operands: Sequence[Any]) -> None:
        self.operation, self.dtype, self.operands = operation, dtype, operands
        self.readers: list[Any] = []
        n_steps, n_arrays, n_scalars, cost = 1, 0, 0, 1 if operation in _CHEAP else _ELEMENTARY
        self.depth = 0
        for each in operands:
            if type(each) is Array:
                expression: Any = each._expression
                if type(expression) is Lazy:
                    n_steps, n_arrays = n_steps + expression.n_steps, n_arrays + expression.n_arrays
                    n_scalars, cost = n_scalars + expression.n_scalars, cost + expression.cost
                else:
                    n_arrays += 1
                if expression is not None and expression.depth > self.depth:
                    self.depth = expression.depth
            else:
                n_scalars += 1
        self.n_steps, self.n_arrays, self.n_scalars, self.cost = n_steps, n_arrays, n_scalars, cost

    @property
    def is_too_large(self) -> bool:
        """True if a kernel should not compute all of it."""
        return self.n_steps > MOST_STEPS or self.n_arrays > MOST_ARRAYS or self.n_scalars > MOST_SCALARS

    def compute(self, array: Array) -> Array:
        """Computes the elements of `array`, in one launch."""
        out = temporary(array.runtime, array.shape, array.dtype)
        compute_into(array, out)
        return out


def make(
    operation: str, dtype: str, operands: Sequence[Any], shape: tuple[int, ...], result: np.dtype[Any], context: Context
) -> Array:
    """Makes the lazy result of an operation; computes some of its operands if the kernel would be too large."""
    expression = Lazy(operation, dtype, operands)
    if expression.is_too_large:
        expression = _reduced(expression)
    return pending(Array.lazy(context, shape, result, expression), operands)


def pending(array: Array, operands: Sequence[Any]) -> Array:
    """Registers a lazy array with its operands, which may not change before it is computed, and returns it."""
    key = id(array)
    reference = array.runtime.pending[key]
    for each in operands:
        if type(each) is Array:
            expression: Any = each._expression
            if expression is not None and len(expression.readers) >= _MOST_READERS:
                each.compute()  # else it could be computed with each of any number of readers
                expression = None
            if expression is not None:
                expression.readers.append(reference)
            if each._expression is None:  # also if another thread has computed it meanwhile
                (each._buffer or each.buffer).add_reader(key, reference)
    if not fuses:
        array.compute()
    return array


def _reduced(expression: Lazy) -> Lazy:
    """Computes the largest lazy operands until the kernel of an expression is small enough."""
    lazy = [each for each in expression.operands if type(each) is Array and type(each._expression) is Lazy]
    for each in sorted(lazy, key=lambda each: -each._expression.n_steps):  # type: ignore[union-attr]
        each.compute()
        expression = Lazy(expression.operation, expression.dtype, expression.operands)
        if not expression.is_too_large:
            break
    return expression


def compute_into(array: Array, out: Array) -> None:
    """Computes the elements of a lazy array into `out`, of the same shape and dtype."""
    steps, args = flattened_to_fit(array, out)
    parts: Any = (out.real, out.imag) if out.dtype.kind == "c" else out
    launcher(steps, len(args))(tuple(args), {}, parts)


def flattened_to_fit(root: Array, out: Array) -> tuple[tuple[Step, ...], list[Any]]:
    """Returns what `flattened` does; computes operands first if device memory does not hold all parameters together."""
    steps, parameters = flattened(root)
    scheduler = root.runtime.scheduler
    if not scheduler.moves:
        return steps, parameters
    operands = root._expression.operands  # type: ignore[union-attr]
    lazy = [each for each in operands if type(each) is Array and type(each._expression) is Lazy]
    try:
        with scheduler.device.lock:
            scheduler.restore([each.buffer for each in (*parameters, out) if type(each) is Array])
    except OutOfDeviceMemory:
        del parameters
        for each in lazy:
            each.compute()
        return flattened(root)
    return steps, parameters


def launcher(steps: tuple[Step, ...], n: int) -> ElementLauncher:
    """Returns the launcher of an expression with `n` parameters, made on first use."""
    found = _launchers.get(steps)
    if found is None:
        found = _launchers[steps] = ElementLauncher(Expression(n, steps))
    return found


def flattened(root: Array) -> tuple[tuple[Step, ...], list[Any]]:
    """Returns the steps of a lazy array, and their parameters: arrays in memory, and NumPy scalars."""
    order = _ordered(root)
    if any(len(each._expression.readers) > 1 for each in order[:-1]):  # type: ignore[union-attr]
        for each in _shared(order):
            each.compute()
        order = _ordered(root)
    steps: list[Step] = []
    parameters: list[Any] = []
    places: dict[Any, int] = {}
    for array in order:
        expression: Any = array._expression
        operands = []
        for each in expression.operands:
            key = id(each) if type(each) is Array else (each.dtype.char, each.tobytes())
            at = places.get(key)
            if at is None:
                at = places[key] = len(parameters)
                if each.dtype.kind == "c":
                    parameters += [each.real, each.imag]
                    steps.append(Step("complex", "", (at, at + 1)))
                    at = places[key] = -len(steps)
                else:
                    parameters.append(each)
            operands.append(at)
        steps.append(Step(expression.operation, expression.dtype, tuple(operands)))
        places[id(array)] = -len(steps)
    return tuple(steps), parameters


def _ordered(root: Array) -> list[Array]:
    """Returns the lazy arrays from which one is computed, itself last, each after its operands."""
    found: dict[int, Array] = {}
    _add(root, found)
    return list(found.values())


def _add(array: Array, found: dict[int, Array]) -> None:
    """Adds a lazy array after its operands. No closure does it, as a cycle would keep the arrays alive."""
    expression: Any = array._expression
    for each in expression.operands:
        if type(each) is Array and type(each._expression) is Lazy and id(each) not in found:
            _add(each, found)
    found[id(array)] = array


def _shared(order: Sequence[Array]) -> list[Array]:
    """Returns the lazy arrays that other expressions read, too, and that cost more to compute than to load."""
    uses: dict[int, int] = {}
    for array in order:
        for each in array._expression.operands:  # type: ignore[union-attr]
            uses[id(each)] = uses.get(id(each), 0) + 1
    found = []
    for array in order[:-1]:
        expression: Any = array._expression
        if expression.cost > _MOST_COST and len(expression.readers) > uses[id(array)]:
            found.append(array)
    return found
