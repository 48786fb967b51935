"""Plans of lazy arrays: the same expression of arrays of the same layouts is its allocations and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vkcompute.compiled import call_plans
from vkcompute.compiled.call_plans import CallPlans, UnknownKeyError, sharing, traced
from vkcompute.compiled.call_steps import CallBuffers, SlotArray, Step
from vkcompute.compiled.call_trace import CallTrace
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.memory.context import Reader
from vkcompute.runtime.runtime import Runtime, runtime_of

_MOST_NODES = 48


class Call(Protocol):
    """A plan that makes lazy arrays of the same structure, which read arrays of the same layouts."""

    def operands(self, origin: LazyOrigin) -> Sequence[Any]:
        """Makes the operands of such an array's expression."""


class LazyOrigin:
    """The call of a plan whose only result is a lazy array. The operands of its expression are made when needed.

    Args:
        leaves: the arrays in memory that it reads.

    Attributes:
        reader: the reference to the array that the buffers of the leaves have.
        made: the operands once somebody has asked for them, under 0. Before, no array between the leaves and the result
            is computed.
    """

    __slots__ = ("call", "leaves", "made", "reader", "runtime")
    reader: Reader

    def __init__(self, call: Call, runtime: Runtime, leaves: Sequence[Array]) -> None:
        self.call, self.runtime, self.leaves = call, runtime, leaves
        self.made: dict[int, Sequence[Any]] = {}

    def operands(self) -> Sequence[Any]:
        """Returns the operands, the same to all threads."""
        return self.made.get(0) or self.made.setdefault(0, self.call.operands(self))


class ComputePlan:
    """Repeats the computation of a lazy array.

    Args:
        views: the memory of each lazy array, in the order of the key: None for one that stays lazy. The first one is
            the array that is computed.
        of_first: the steps that keep the first one's memory alone.
        order: the number of each of its arrays in memory among those of an origin; None for the key's own order.
    """

    __slots__ = ("_n_slots", "_of_first", "_order", "_steps", "_views")

    def __init__(
        self,
        steps: Sequence[Step],
        n_slots: int,
        views: Sequence[SlotArray | None],
        of_first: Sequence[Step],
        order: Sequence[int] | None = None,
    ) -> None:
        self._steps, self._n_slots, self._views = steps, n_slots, views
        self._of_first, self._order = of_first, order

    def of_leaves(self, order: Sequence[int] | None) -> ComputePlan:
        """Returns the plan for the leaves of an origin, which has no other lazy arrays."""
        return ComputePlan(self._of_first, self._n_slots, self._views[:1], self._of_first, order)

    def run(self, runtime: Runtime, leaves: Sequence[Array], nodes: Sequence[Array]) -> Array:
        """Runs the steps, and returns the memory of the first node; gives others theirs. Requires the device's lock."""
        if self._order is not None:
            leaves = [leaves[at] for at in self._order]
        memory = CallBuffers(runtime, leaves, self._n_slots - len(leaves), is_locked=True)
        for step in self._steps:
            step.run(memory)
        first, *others = self._views
        for node, view in zip(nodes[1:], others, strict=True):
            expression = node._expression
            if view is not None and expression is not None and expression.reader is not None:  # no inner one
                made = view.array(memory)
                node._take(expression, made.buffer, made.launch_key, made.span)
        assert first is not None
        return first.array(memory)


_plans = CallPlans(ComputePlan)


def computed(array: Array, compute: Callable[[Array], Array]) -> Array:
    """Returns memory with the elements of a lazy array: by its plan, else by `compute`. Requires the device's lock."""
    if not (call_plans.are_used and _plans.are_useful):
        return compute(array)
    expression: Any = array._expression
    origin: LazyOrigin | None = expression.origin
    if origin is None or origin.made or origin.runtime.scheduler.tracers:
        return _computed(array, compute)
    key = origin.call, len(expression.readers) > 1
    plan = _plans.get(origin.runtime, key)
    return _computed(array, compute, key) if plan is None else plan.run(origin.runtime, origin.leaves, (array,))


def _computed(array: Array, compute: Callable[[Array], Array], of_origin: tuple[Any, ...] | None = None) -> Array:
    """Returns the same by a plan for the whole expression.

    Args:
        of_origin: the key of its origin, to keep the plan under that, too.
    """
    leaves: list[Array] = []
    nodes: list[Array] = []
    key: list[Any] = [_plans]
    try:
        _add(key, array, leaves, nodes, {})
    except (UnknownKeyError, TypeError):  # a closed array has no key
        return compute(array)
    owners = [id(leaf._buffer) for leaf in leaves]
    if len({*owners}) < len(owners):
        key.append(sharing(leaves, owners))
    runtime, known = runtime_of(array), tuple(key)
    if runtime.scheduler.tracers and (tracer := runtime.scheduler.tracer()) is not None:
        for node in nodes:
            tracer.fused(node)
    plan = _plans.get(runtime, known)
    if plan is not None:
        if of_origin is not None:
            runtime.plans[of_origin] = plan.of_leaves(_numbers(array, leaves))
        return plan.run(runtime, leaves, nodes)
    if not _plans.is_to_trace(runtime, known):
        return compute(array)
    result, trace = traced(runtime, leaves, nodes, lambda: compute(array))
    _plans.keep(runtime, known, _plan_of(trace, result, nodes))
    return result


def _numbers(array: Array, leaves: Sequence[Array]) -> list[int] | None:
    """Returns the numbers of arrays among the leaves of the origin of a lazy array; None if they are these."""
    expression: Any = array._expression
    numbers = {id(leaf): at for at, leaf in enumerate(expression.origin.leaves)}
    order = [numbers[id(leaf)] for leaf in leaves]
    return None if order == [*range(len(numbers))] else order


def _plan_of(trace: CallTrace, result: Array, nodes: Sequence[Array]) -> ComputePlan | None:
    """Returns the plan of a traced computation; None if it cannot be repeated."""
    memory = [result, *[None if node.is_pending else node for node in nodes[1:]]]
    views = [None if array is None else trace.view(array) for array in memory]
    if trace.reason or any(array is not None and view is None for array, view in zip(memory, views, strict=True)):
        return None
    return ComputePlan(trace.series(views), trace.n_slots, views, trace.series(views[:1]))


def _add(key: list[Any], array: Array, leaves: list[Array], nodes: list[Array], seen: dict[int, int]) -> None:
    """Adds a lazy array and its operands to a key, to the nodes and to the leaves.

    Args:
        seen: ids of these arrays -> their number.
    """
    expression: Any = array._expression
    seen[id(array)] = len(seen)
    nodes.append(array)
    if len(nodes) > _MOST_NODES:
        raise UnknownKeyError
    key += (expression.signature, array._shape, len(expression.readers) > 1, expression.reader is None)
    for operand in expression.operands:
        if type(operand) is not Array:
            key += (type(operand), operand.tobytes())
        elif (at := seen.get(id(operand))) is not None:
            key.append(at)
        elif (inner := operand._expression) is None:
            seen[id(operand)] = len(seen)
            leaves.append(operand)
            address, *layout = operand.launch_key
            key += (*layout, address & operand.runtime.alignment - 1)
        elif hasattr(inner, "signature"):
            _add(key, operand, leaves, nodes, seen)
        else:
            raise UnknownKeyError
