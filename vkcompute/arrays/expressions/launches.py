"""The launches that would compute a lazy array: kernels, the bytes that they move, and why there are several."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.lazy_reduction import LazyReduction
from vkcompute.runtime.memory.array import Array


class Launch(NamedTuple):
    """A kernel that would be launched.

    Attributes:
        operations: their names, in order.
        nbytes_read, nbytes_written: bytes of the arrays that it loads, each once, and of its result.
        reason: why it stores its result instead of being fused with the next kernel; "" for the last one.
    """

    operations: tuple[str, ...]
    nbytes_read: int
    nbytes_written: int
    reason: str = ""

    def __str__(self) -> str:
        """Returns one line."""
        text = f"{', '.join(self.operations)}: reads {self.nbytes_read:,} bytes, writes {self.nbytes_written:,}"
        return f"{text}; {self.reason}" if self.reason else text


class Launches(tuple[Launch, ...]):
    """Launches in their order; `print` shows one per line."""

    __slots__ = ()

    @property
    def nbytes_read(self) -> int:
        """Bytes that all of them read."""
        return sum([launch.nbytes_read for launch in self])

    @property
    def nbytes_written(self) -> int:
        """Bytes that all of them write."""
        return sum([launch.nbytes_written for launch in self])

    def __repr__(self) -> str:
        if not self:
            return "no launches: the array is in memory"
        return "\n".join([f"{at}. {launch}" for at, launch in enumerate(self, 1)])


def info(array: Any) -> Launches:
    """Returns the launches that compute an array, without launching them.

    Launches of arrays that exceed a binding are divided further.

    Raises:
        TypeError: it is not a device array.
    """
    if type(array) is not Array:
        raise TypeError(f"info takes a device array; got {type(array).__name__}; help(function) explains functions")
    launches: list[Launch] = []
    with array.runtime.scheduler.device.lock:
        _add(array, "", set(), launches)
    return Launches(launches)


def _add(array: Array, reason: str, computed: set[int], launches: list[Launch]) -> None:
    """Adds the launches of an array behind those of its operands; `computed` has the ids of arrays that are known."""
    expression: Any = array._expression
    if expression is None or id(array) in computed:
        return
    root = expression.array if type(expression) is LazyReduction else array
    operations: list[str] = []
    inputs: dict[int, Array] = {id(root): root}
    if type(root._expression) is lazy.Lazy and id(root) not in computed:
        for operand in lazy.shared(lazy.ordered(root, computed)):
            _add(operand, "it is read several times, and takes longer to compute than to load", computed, launches)
        inputs = {}
        _collect(root, computed, set(), operations, inputs)
    if root is array and lazy.reduction_of(array, inputs.values()) is not None:
        (inner,) = inputs.values()
        _add(inner, reason, computed, launches)
        last = launches[-1]
        launches[-1] = last._replace(operations=(*last.operations, *operations), nbytes_written=array.nbytes)
        computed.add(id(array))
        return
    for operand in inputs.values():
        _add(operand, "its elements are complete only after the reduction", computed, launches)
    nbytes = sum([_nbytes(operand) for operand in inputs.values()])
    if type(expression) is LazyReduction:
        launches += _reduced(array, expression, operations, nbytes, reason)
    else:
        launches.append(Launch(tuple(operations), nbytes, array.nbytes, reason))
    computed.add(id(array))


def _collect(array: Array, computed: set[int], seen: set[int], operations: list[str], inputs: dict[int, Array]) -> None:
    """Collects the operations of a kernel, and the arrays that it loads."""
    expression: Any = array._expression
    for operand in expression.operands:
        if type(operand) is not Array or id(operand) in seen:
            continue
        seen.add(id(operand))
        if type(operand._expression) is lazy.Lazy and id(operand) not in computed:
            _collect(operand, computed, seen, operations, inputs)
        else:
            inputs[id(operand)] = operand
    operations.append(expression.structure.operation)


def _reduced(array: Array, expression: LazyReduction, operations: list[str], nbytes: int, reason: str) -> list[Launch]:
    """Returns the stages of a reduction."""
    stages = expression.stages()
    launches = []
    for at, stage in enumerate(stages):
        last = at == len(stages) - 1
        written = array.nbytes if last else stage.pushes[0] * array.dtype.itemsize
        why = reason if last else f"a kernel combines at most {stage.chunk} elements"
        launches.append(Launch((*operations, f"{expression.row}.reduce"), nbytes, written, why))
        operations, nbytes = [], written
    return launches


def _nbytes(array: Array) -> int:
    """Returns the bytes of the distinct elements: a view by `broadcast_to` repeats some."""
    lengths = [n for n, step in zip(array.shape, array.strides, strict=True) if step or not n]
    return math.prod(lengths) * array.dtype.itemsize
