"""Lazy arrays: expressions, computed by one kernel when somebody needs the memory.

An expression has operands: arrays, which may be lazy themselves, and NumPy scalars. When it is computed, the steps of
its lazy operands become steps of the same kernel. A lazy operand that other expressions read, too, or whose elements
are repeated, is computed first if computing it again would cost more than loading it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vkcompute.arrays.expressions.compute_plan import LazyOrigin, computed
from vkcompute.arrays.expressions.structure import MOST_STEPS, Structure, interned, launcher_of
from vkcompute.errors import OutOfDeviceMemory
from vkcompute.jit.elementwise.expression import Step
from vkcompute.runtime.graphs.graph import recording_graph
from vkcompute.runtime.graphs.results import new_result
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Context

MOST_DEPTH = 8  # each nested reduction takes a part of Python's stack when it is computed
_MOST_READERS = 32
_MOST_COST = 8  # of a step that is computed twice rather than loaded


_postponed = threading.local()
fuses = os.environ.get("VKCOMPUTE_FUSE", "1") != "0"
"""False to compute every operation at once, for debugging"""


class Lazy:
    """An operation whose result is computed later.

    Attributes:
        structure: what all expressions of the same operations on operands of the same kinds have in common.
        operands: arrays and NumPy scalars.
        reader: the weak reference to the lazy array, in `Context.pending`; None for an inner array of a plan, which
            only expressions have.
        readers: weak references to the lazy arrays that have the result as an operand, once per operand.
        origin: makes the operands of an array that a plan of calls has made, when they are needed; else None.
    """

    __slots__ = ("operands", "origin", "reader", "readers", "structure")

    def __init__(self, structure: Structure, operands: Sequence[Any] | None, origin: LazyOrigin | None = None) -> None:
        self.structure, self.origin = structure, origin
        self.reader: Any = None
        self.readers: list[Any] = []
        if operands is not None:
            self.operands = operands

    @property
    def depth(self) -> int:
        """The number of reductions that are nested in it."""
        return self.structure.depth

    @property
    def signature(self) -> tuple[Any, ...]:
        """Equal for the same operation."""
        return self.structure.signature

    def on(self, operands: Sequence[Any] | None, origin: LazyOrigin | None = None) -> Lazy:
        """Returns the same operation on other operands of the same kinds; None for those that `origin` makes."""
        return Lazy(self.structure, operands, origin)

    def __getattr__(self, name: str) -> Any:
        """Makes the operands that the origin has left out."""
        if name != "operands" or self.origin is None:
            raise AttributeError(f"an expression has no {name}", name=name, obj=self)
        self.operands = operands = self.origin.operands()
        return operands

    def compute(self, array: Array) -> Array:
        """Computes the elements of `array`, in one launch. Requires the device's lock."""
        structure, scheduler = self.structure, array.runtime.scheduler
        if structure.depth or self.origin is not None:
            return computed(array, _computed)
        if not (structure.has_complex or scheduler.recordings or scheduler.tracers or scheduler.moves):
            # The operands of a single step are in memory: what is computed does not become lazy again.
            parameters: Sequence[Any] = self.operands if structure.n_steps == 1 else self._parameters(array._shape)
            if parameters:
                keys = [*map(id, parameters)]
                pattern = tuple(map(keys.index, keys))
                pick, launcher = structure.launchers.get(pattern) or structure.launcher(pattern)
                return launcher.computed(pick(parameters), array)
        return _computed(array)

    def _parameters(self, shape: tuple[int, ...]) -> Sequence[Any]:
        """Returns the parameters of the structure's kernel, for an array of a shape; none if it needs another one.

        So it is if a lazy operand has other readers, has another shape, or has been computed meanwhile.
        """
        parameters: list[Any] = []
        return parameters if self._add_parameters(shape, parameters) == self.structure.n_steps else ()

    def _add_parameters(self, shape: tuple[int, ...], parameters: list[Any]) -> int:
        """Adds the parameters, and returns the number of steps; 0 or less if the structure's kernel does not suit."""
        n_steps = 1
        for operand in self.operands:
            if type(operand) is not Array or (inner := operand._expression) is None or type(inner) is not Lazy:
                parameters.append(operand)
            elif len(inner.readers) != 1 or operand._shape != shape:
                return -MOST_STEPS
            elif inner.structure.n_steps == 1:
                parameters += inner.operands
                n_steps += 1
            else:
                n_steps += inner._add_parameters(shape, parameters)
        return n_steps


def part_of(operand: Any) -> Any:
    """Returns what a structure has of an operand."""
    if type(operand) is not Array:
        return type(operand)
    expression: Any = operand._expression
    if expression is None:
        return operand._dtype.char
    return expression.structure if type(expression) is Lazy else (operand._dtype.char, expression.depth)


def structure_of(operation: str, dtype: str, result: str, operands: Sequence[Any]) -> Structure:
    """Returns the structure of an operation on operands, with results of the dtype that has this character."""
    return interned(operation, dtype, result, tuple([part_of(x) for x in operands]))


def _computed(array: Array) -> Array:
    """Computes the elements of a lazy array, in one launch after those that compute operands."""
    out, scheduler = new_result(array.runtime, array.shape, array.dtype), array.runtime.scheduler
    flat = flattened_to_fit(array, out)
    assert flat is not None, "nobody else computes it while this thread has the lock"
    reduction = None if scheduler.moves else reduction_of(array, flat.parameters)
    if reduction is None:
        flat.launch(out)
    else:
        reduction.launch(array, out, *flat.after(reduction))
    return out


def reduction_of(array: Array, parameters: Iterable[Any]) -> Any:
    """Returns the lazy reduction whose last kernel computes an array, too; None if there is none.

    It is the only one among the parameters, and nobody else has its results.
    """
    arrays = [parameter for parameter in parameters if type(parameter) is Array]
    if len(arrays) != 1 or array._dtype.kind not in "iuf":
        return None
    (inner,) = arrays
    reduction: Any = inner._expression
    if reduction is None or reduction.reader is not None or inner._shape != array._shape:
        return None
    return reduction if len(reduction.readers) == 1 and reduction.takes_more else None


def make(
    operation: str, dtype: str, operands: Sequence[Any], shape: tuple[int, ...], result: np.dtype[Any], context: Context
) -> Array:
    """Makes the lazy result of an operation; computes some of its operands if the kernel would be too large."""
    expression = Lazy(structure_of(operation, dtype, result.char, operands), operands)
    if expression.structure.is_too_large:
        expression = _reduced(expression)
    return pending(context, shape, result, expression, operands)


def pending(
    context: Context, shape: tuple[int, ...], dtype: np.dtype[Any], expression: Any, operands: Sequence[Any]
) -> Array:
    """Makes a lazy array, and registers it with its operands, which may not change before it is computed.

    Raises:
        ValueError: an operand is made by a recording of another thread.
    """
    scheduler = context.scheduler
    if scheduler.recordings:
        for operand in operands:
            if type(operand) is Array:
                compute_unrecorded(operand)
    array = Array.lazy(context, shape, dtype, expression)
    if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
        tracer.made(array)
    reader, stays_lazy = expression.reader, fuses
    for operand in operands:
        if type(operand) is not Array:
            continue
        if (inner := operand._expression) is not None:
            if len(inner.readers) < _MOST_READERS:
                inner.readers.append(reader)
            else:
                operand.compute()  # else it could be computed with each of any number of readers
            if operand._expression is not None:
                continue
        # in memory, also if another thread has computed it meanwhile
        if (operand._buffer or operand.buffer).add_reader(reader):
            stays_lazy = False
    if not stays_lazy:
        compute_now(array)
    return array


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Lets arrays of memory that the host may write stay lazy, until the block ends; it writes some to other memory.

    So these are computed where they are written, without a copy.
    """
    before, arrays = getattr(_postponed, "arrays", None), list[Any]()
    _postponed.arrays = arrays
    try:
        yield
    finally:
        _postponed.arrays = before
        for reader in arrays:
            if (array := reader()) is not None:
                compute_now(array)


def compute_now(array: Array) -> None:
    """Computes a new array that is not to stay lazy, as that of memory which the host may write to next."""
    arrays, expression = getattr(_postponed, "arrays", None), array._expression
    if arrays is not None and expression is not None and fuses:
        arrays.append(expression.reader)
        return
    array.compute()
    scheduler = array.runtime.scheduler
    if scheduler.is_ahead:  # another thread that lends the memory may have computed it, without waiting yet
        scheduler.unlocked()


def inner(context: Context, shape: tuple[int, ...], dtype: np.dtype[Any], expression: Any) -> Array:
    """Makes a lazy array that nobody has but the expression of another one, which alone is registered."""
    array = Array.lazy(None, shape, dtype, expression)
    array.runtime = context
    return array


def compute_unrecorded(array: Array) -> None:
    """Computes a lazy array that this thread's recording has not made: its elements are those of now, not of each run.

    Raises:
        ValueError: it is made by a recording of another thread.
    """
    scheduler = array.runtime.scheduler
    if scheduler.recordings and scheduler.recorder_of(array) is not scheduler.recording():
        array.compute()


def _reduced(expression: Lazy) -> Lazy:
    """Computes the largest lazy operands until the kernel of an expression is small enough."""
    arrays = [operand for operand in expression.operands if type(operand) is Array]
    lazy = [(inner.structure.n_steps, array) for array in arrays if type(inner := array._expression) is Lazy]
    for _, array in sorted(lazy, key=lambda pair: -pair[0]):
        array.compute()
        before, operands = expression.structure, expression.operands
        expression = Lazy(structure_of(before.operation, before.dtype, before.result, operands), operands)
        if not expression.structure.is_too_large:
            break
    return expression


def compute_into(array: Array, out: Array) -> bool:
    """Computes the elements of a lazy array into `out`, of the same shape, dtype and runtime.

    Returns:
        False if the array is in memory, as another thread has computed it.
    """
    device = array.runtime.scheduler.device
    while (flat := flattened_to_fit(array, out)) is not None:
        with device.lock:
            if flat.is_current():
                flat.launch(out)
                return True
    return False


def flattened_to_fit(root: Array, out: Array) -> Flat | None:
    """Returns what `flattened` does; computes operands first if device memory does not hold all parameters together."""
    flat = flattened(root)
    if flat is None:
        return None
    scheduler = root.runtime.scheduler
    if scheduler.tracers and (tracer := scheduler.tracer()) is not None:
        for array, _ in flat.fused:
            tracer.fused(array)
    if scheduler.recordings and (graph := recording_graph(scheduler)) is not None and graph.arrays:
        for array, expression in ordered(root):
            graph.require_unchanged(array, expression.operands)
    if not scheduler.moves:
        return flat
    _, expression = flat.fused[-1]
    lazy = [operand for operand in expression.operands if type(operand) is Array and type(operand._expression) is Lazy]
    try:
        with scheduler.device.lock:
            scheduler.restore([array.buffer for array in (*flat.parameters, out) if type(array) is Array])
    except OutOfDeviceMemory:
        del flat
        for array in lazy:
            array.compute()
        return flattened(root)
    return flat


def flattened(root: Array) -> Flat | None:
    """Returns the kernel of a lazy array; None for one in memory."""
    flat = Flat.of(root)
    if flat is not None and flat.has_repetitions:
        for array in (first := shared(ordered(root))):
            array.compute()
        if first:
            return Flat.of(root)
    return flat


class Flat:
    """The steps of a lazy array and of its lazy operands, as those of one kernel.

    Another thread may compute any of them meanwhile. So each expression is read once, and a launch holds the device's
    lock from `is_current` on.

    Attributes:
        parameters: arrays in memory, and NumPy scalars.
        indices: of arrays and scalars among the operands of steps, by their ids.
        fused: the lazy arrays whose steps these are, with their expressions; the root is the last one.
        has_repetitions: True if an operand has several readers, or another shape than the result.
    """

    __slots__ = ("fused", "has_repetitions", "indices", "parameters", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.parameters: list[Any] = []
        self.indices: dict[int, int] = {}
        self.fused: list[tuple[Array, Lazy]] = []
        self.has_repetitions = False

    @classmethod
    def of(cls, root: Array) -> Flat | None:
        """Returns the steps of a lazy array; None for one in memory."""
        expression = root._expression
        if type(expression) is not Lazy:
            return None
        flat = cls()
        flat._add(root, expression)
        return flat

    def is_current(self) -> bool:
        """True if none of the arrays has been computed since: what the kernel reads is as it was then.

        What overwrites an operand computes its readers first. Requires the device's lock.
        """
        for array, expression in self.fused:  # noqa: SIM110 - faster than `all`
            if array._expression is not expression:
                return False
        return True

    def launch(self, out: Array) -> None:
        """Launches the kernel, which writes to `out`."""
        parts: Any = (out.real, out.imag) if out.dtype.kind == "c" else out
        launcher_of(tuple(self.steps), len(self.parameters))(tuple(self.parameters), {}, parts)

    def after(self, reduction: Any) -> tuple[tuple[Step, ...], tuple[Any, ...]]:
        """Returns the steps with the results of a reduction as the first parameter, and the other parameters."""
        is_result = [type(x) is Array and x._expression is reduction for x in self.parameters]
        order = sorted(range(len(is_result)), key=lambda at: not is_result[at])
        steps = [(name, dtype, tuple([order.index(x) if x >= 0 else x for x in at])) for name, dtype, at in self.steps]
        return tuple(steps), tuple([self.parameters[at] for at in order[1:]])

    def _add(self, array: Array, expression: Lazy) -> int:
        """Adds the steps of a lazy array after those of its operands, and returns its index."""
        indices, parameters, operands = self.indices, self.parameters, []
        for operand in expression.operands:
            if type(operand) is Array and type(inner := operand._expression) is Lazy:
                if len(inner.readers) == 1 and operand._shape == array._shape:
                    operands.append(self._add(operand, inner))
                    continue
                self.has_repetitions = True
            else:
                inner = None
            at = indices.get(id(operand))
            if at is None:
                if type(inner) is Lazy:
                    at = self._add(operand, inner)
                elif operand.dtype.kind == "c":
                    at = self._complex(operand)
                else:
                    at = len(parameters)
                    parameters.append(operand)
                indices[id(operand)] = at
            operands.append(at)
        self.steps.append((expression.structure.operation, expression.structure.dtype, tuple(operands)))
        self.fused.append((array, expression))
        return -len(self.steps)

    def _complex(self, given: Any) -> int:
        """Adds both parts of a complex parameter, and the step that joins them."""
        n = len(self.parameters)
        self.parameters += [given.real, given.imag]
        self.steps.append(("complex", "", (n, n + 1)))
        return -len(self.steps)


def ordered(root: Array, computed: Collection[int] = ()) -> list[tuple[Array, Lazy]]:
    """Returns the lazy arrays from which one is computed, itself last, each after its operands, and their expressions.

    Args:
        computed: ids of lazy arrays that count as computed.
    """
    expressions: dict[int, tuple[Array, Lazy]] = {}
    if type(expression := root._expression) is Lazy:
        _add(root, expression, expressions, computed)
    return list(expressions.values())


def _add(array: Array, expression: Lazy, expressions: dict[int, tuple[Array, Lazy]], computed: Collection[int]) -> None:
    """Adds a lazy array after its operands. No closure does it, as a cycle would keep the arrays alive."""
    for operand in expression.operands:
        inner = operand._expression if type(operand) is Array else None
        if type(inner) is Lazy and id(operand) not in expressions and id(operand) not in computed:
            _add(operand, inner, expressions, computed)
    expressions[id(array)] = array, expression


def shared(order: Sequence[tuple[Array, Lazy]]) -> list[Array]:
    """Returns the lazy arrays to compute first: computing them again costs more than loading them.

    Other expressions read them, too, or their elements are repeated.

    Args:
        order: as by `ordered`.
    """
    uses: dict[int, int] = {}
    repeated = set()
    for array, expression in order:
        for operand in expression.operands:
            uses[id(operand)] = uses.get(id(operand), 0) + 1
            if type(operand) is Array and operand.shape != array.shape:
                repeated.add(id(operand))
    arrays = []
    for array, expression in order[:-1]:
        again = id(array) in repeated or len(expression.readers) > uses[id(array)]
        if again and expression.structure.cost > _MOST_COST:
            arrays.append(array)
    return arrays
