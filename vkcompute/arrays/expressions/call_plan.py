"""Call plans: a function of arrays, called again with arguments of the same layouts, is its allocations and launches.

The first call is traced. Its plan repeats it on other arrays, wherever the function's work depends only on what the key
has: layouts of arrays, and other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.compute_plan import LazyOrigin
from vkcompute.compiled import call_plans
from vkcompute.compiled.call_plans import CallPlans, UnknownKeyError, sharing, traced
from vkcompute.compiled.call_steps import CallBuffers, ConstantStep, SlotArray, Step
from vkcompute.compiled.call_trace import CallTrace
from vkcompute.dtypes import process_float, scoped_float
from vkcompute.runtime.memory.array import Array, copied
from vkcompute.runtime.runtime import Runtime, current_runtime
from vkcompute.runtime.scheduling import current

_Class = TypeVar("_Class", bound=type)
_bits_of = Struct("dd").pack
_MOST_ITEMS = 32  # of a sequence
_by_value_types = {bool, int, str, type(None), type(Ellipsis), type, np.dtype, *[
    type(np.dtype(name)) for name in ("?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "F", "D")
]}  # fmt: skip
"""Types of arguments that are a part of the key as they are."""
CREATING = frozenset(
    "arange empty eye fftfreq full geomspace identity indices linspace logspace ones rfftfreq tri zeros".split()
)
"""Functions whose result depends on their arguments only: those that read files are not among them."""


class Node(NamedTuple):
    """A lazy array.

    Attributes:
        expression: with any operands.
        operands: indices of values, and constants, each in a tuple of one.
    """

    expression: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    operands: list[Any]


class CallPlan:
    """Repeats a call on other arrays of the same layouts.

    Args:
        values: arrays of which results are made, in order: an argument's index, a `SlotArray`, a constant or a `Node`.
        result: the index of a value, None, or (type, results) for a sequence.
        keeps_lazy: True if lazy arrays stay so, which have the same structures in each call.

    Attributes:
        makes_several: True if the result is no array, but None or a sequence.
    """

    __slots__ = (
        "_keeps_lazy", "_leaves", "_n_slots", "_only", "_picks", "_result", "_root", "_steps", "_uses_memory",
        "_values", "_view", "makes_several",
    )  # fmt: skip

    def __init__(
        self, steps: Sequence[Step], n_slots: int, values: Sequence[Any], result: Any, *, keeps_lazy: bool = False
    ) -> None:
        self._steps, self._n_slots, self._values, self._result = steps, n_slots, values, result
        self._keeps_lazy = keeps_lazy
        self._uses_memory = any(type(x) is not ConstantStep for x in steps) or any(
            type(value) is SlotArray for value in values
        )
        root = values[result] if type(result) is int else None
        self._view: SlotArray | None = root if type(root) is SlotArray and len(values) == 1 else None
        self._leaves = [value for value in values if type(value) is not Node]
        is_alone = len(self._leaves) == len(values) - 1 and not any(type(leaf) is SlotArray for leaf in self._leaves)
        is_quick = is_alone and type(root) is Node and type(root.expression) is lazy.Lazy  # known by its structure
        self._root: Node | None = root if type(root) is Node and not (is_quick or keeps_lazy) else None
        is_only = type(root) is Node and is_alone and (is_quick or keeps_lazy) and not self._uses_memory
        self._only: Node | None = root if is_only else None
        self._picks = [values[x] if type(x) is int else x[0] for x in self._only.operands] if self._only else []
        self.makes_several = type(result) is not int

    def run(self, runtime: Runtime, arrays: Sequence[Array]) -> Any:
        """Runs the steps, and returns the results."""
        if not self._keeps_lazy:
            for array in arrays:
                if array._expression is not None:
                    array.compute()
        if (only := self._only) is not None:  # a lazy array, of the arguments alone
            operands = tuple([arrays[x] if type(x) is int else x for x in self._picks])
            return lazy.pending(runtime, only.shape, only.dtype, only.expression.on(operands), operands)
        memory: Any = None
        if self._uses_memory:
            memory = CallBuffers(runtime, arrays, self._n_slots - len(arrays))
            for step in self._steps:
                step.run(memory)
            if self._view is not None:
                return self._view.array(memory)
        leaves = [
            arrays[leaf] if type(leaf) is int else leaf if type(leaf) is Array else leaf.array(memory)
            for leaf in self._leaves
        ]
        if self._root is not None and not runtime.scheduler.tracers:
            return self._lazy(runtime, self._root, leaves)
        values: list[Array] = []
        others = iter(leaves)
        for value in self._values:
            if type(value) is Node:
                operands = _operands(value, values)
                made = value.expression.on(operands)
                values.append(lazy.pending(runtime, value.shape, value.dtype, made, operands))
            else:
                values.append(next(others))
        return values[self._result] if type(self._result) is int else _made(self._result, values)

    def _lazy(self, runtime: Runtime, root: Node, leaves: Sequence[Array]) -> Array:
        """Makes the only result, a lazy array, without the others that only it needs."""
        origin = LazyOrigin(self, runtime, leaves)
        expression = root.expression.on(None, origin)
        array = Array.lazy(runtime, root.shape, root.dtype, expression)
        origin.reader = reader = expression.reader
        stays_lazy = lazy.fuses
        for leaf in leaves:
            if (leaf._buffer or leaf.buffer).add_reader(reader):
                stays_lazy = False
        if not stays_lazy:
            lazy.compute_now(array)
        return array

    def operands(self, origin: LazyOrigin) -> Sequence[Any]:
        """Makes the operands of the only result. What they read is registered with that, which alone computes them."""
        values: list[Array] = []
        operands: tuple[Any, ...] = ()
        leaves = iter(origin.leaves)
        for value in self._values:
            if type(value) is not Node:
                values.append(next(leaves))
                continue
            operands = _operands(value, values)
            for operand in operands:
                if type(operand) is Array and operand._expression is not None:
                    operand._expression.readers.append(origin.reader)
            if value is not self._root:
                values.append(lazy.inner(origin.runtime, value.shape, value.dtype, value.expression.on(operands)))
        return operands  # of the last one, the result


def _operands(node: Node, values: Sequence[Array]) -> tuple[Any, ...]:
    return tuple([values[x] if type(x) is int else x[0] for x in node.operands])


def _made(result: Any, values: Sequence[Array]) -> Any:
    if type(result) is int:
        return values[result]
    if result is None:
        return None
    kind, parts = result
    made = [_made(part, values) for part in parts]
    return kind._make(made) if hasattr(kind, "_make") else kind(made)


class _Results:
    """Describes the results of a traced call as values of a plan; raises UnknownKeyError where it cannot."""

    def __init__(self, trace: CallTrace, arrays: Sequence[Array]) -> None:
        self.values: list[Any] = []
        self._trace, self._arrays = trace, arrays
        self._indices: dict[int, int] = {}
        self._constants: dict[int, Array] = {}
        self._copied = set[int]()

    def of(self, result: Any) -> Any:
        """Returns a result by the values from which a call makes it."""
        if result is None:
            return None
        if type(result) is Array:
            return self._index(result, is_result=True)
        if isinstance(result, (tuple, list)):
            return type(result), [self.of(part) for part in result]
        raise UnknownKeyError

    def _index(self, array: Array, *, is_result: bool = False) -> int:
        at = self._indices.get(id(array))
        if at is None:
            value = self._value(array, is_result=is_result)
            at = self._indices[id(array)] = len(self.values)
            self.values.append(value)
        elif is_result and type(self.values[at]) is Array:  # a constant, which the caller may change
            raise UnknownKeyError
        return at

    def _constant(self, array: Array, view: SlotArray, *, is_result: bool) -> Any:
        """Returns a constant: itself as an operand, and a copy of all of it as a result, which the caller may change.

        One that is both, or that has several views, is refused.
        """
        before = self._constants.setdefault(view.slot, array)
        if before is not array and (is_result or view.slot in self._copied):
            raise UnknownKeyError
        if not is_result:
            return array
        if not array.contiguous or view.nbytes != array.buffer.used_bytes:
            raise UnknownKeyError
        self._copied.add(view.slot)
        return self._trace.copied(view, copied(array).buffer)

    def _value(self, array: Array, *, is_result: bool) -> Any:
        argument = next((at for at, x in enumerate(self._arrays) if x is array), None)
        if argument is not None:
            return argument
        expression: Any = array._expression
        if expression is None:
            view = self._trace.view(array)
            if view is not None and self._trace.is_constant(view.slot):
                return self._constant(array, view, is_result=is_result)
            if view is None or (is_result and not self._trace.is_own(view.slot)):
                raise UnknownKeyError
            return view
        if not hasattr(expression, "on"):
            raise UnknownKeyError
        operands = [self._index(x) if type(x) is Array else (x,) for x in expression.operands]
        made = expression.on(())
        if type(made) is lazy.Lazy and not self._trace.keeps_lazy:  # what the call computes, or gets, is in memory
            before = made.structure
            made.structure = lazy.structure_of(before.operation, before.dtype, before.result, expression.operands)
        return Node(made, array.shape, array.dtype, operands)


class Planned:
    """A function with plans of its calls.

    Args:
        function: computes the results from the arguments, by position and by name.
        creates: True if it makes arrays on the current runtime when no argument is an array.
    """

    def __init__(self, function: Callable[[tuple[Any, ...], dict[str, Any]], Any], *, creates: bool = False) -> None:
        self._function, self._creates = function, creates
        self._plans = CallPlans(CallPlan)

    def __call__(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Returns the result of a call."""
        if not (call_plans.are_used and self._plans.are_useful):
            return self._function(args, named)
        arrays: list[Array] = []
        try:
            key = self._key(args, named, arrays)
        except (UnknownKeyError, TypeError, AttributeError):  # a closed array has no key
            key = None
        if key is None:
            return self._function(args, named)
        runtime: Any = arrays[0].runtime if arrays else current_runtime()
        if current.leads_elsewhere(runtime):  # a function such as `zeros_like` makes its result there
            return self._function(args, named)
        plan = self._plans.get(runtime, key)
        if plan is not None:
            return plan.run(runtime, arrays)
        if not self._plans.is_to_trace(runtime, key):
            return self._function(args, named)
        result, trace = self._traced(runtime, arrays, args, named)
        self._plans.keep(runtime, key, None if trace is None else plan_of(trace, arrays, result))
        return result

    def _traced(
        self, runtime: Runtime, arrays: Sequence[Array], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, CallTrace | None]:
        """Returns the result of a call, and its trace; None where NumPy reports an overflow or the like.

        A plan would not repeat the report. Complex numbers have no trace, as a conversion may drop a part of them.
        """
        if arrays:
            return traced(runtime, arrays, (), lambda: self._function(args, named))
        if not any(isinstance(x, (complex, np.complexfloating)) for x in (*args, *named.values())):
            with suppress(FloatingPointError), np.errstate(all="raise"):
                return traced(runtime, arrays, (), lambda: self._function(args, named))
        return self._function(args, named), None

    def _key(self, args: tuple[Any, ...], named: Mapping[str, Any], arrays: list[Array]) -> tuple[Any, ...] | None:
        """Returns the key of a call, and appends its arrays; None if it has no plan, as with arrays of two runtimes."""
        key: list[Any] = [self, scoped_float.get(), process_float[0]]
        add_to_key(key, args, arrays)
        for name, value in named.items():
            key.append(name)
            add_to_key(key, (value,), arrays)
        if not (arrays or self._creates):
            return None
        if len(arrays) > 1:
            runtime = arrays[0].runtime
            for array in arrays:
                if array.runtime is not runtime:
                    return None
            owners = [id(x._buffer if x._expression is None else x) for x in arrays]
            if len({*owners}) < len(owners):
                key.append(sharing(arrays, owners))
        return tuple(key)


def by_value(kind: _Class) -> _Class:
    """Makes objects of a class parts of keys as they are, equal by identity; a decorator."""
    _by_value_types.add(kind)
    return kind


def planned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with plans of its calls; a decorator."""
    call = Planned(lambda args, named: function(*args, **named), creates=function.__name__ in CREATING)

    @wraps(function)
    def with_plans(*args: Any, **named: Any) -> Any:
        return call(args, named)

    return with_plans


def plan_of(trace: CallTrace, arrays: Sequence[Array], result: Any) -> CallPlan | None:
    """Returns the plan of a traced call; None if it cannot be repeated, or makes nothing."""
    results = _Results(trace, arrays)
    try:
        made = None if trace.reason else results.of(result)
    except UnknownKeyError:
        return None
    if trace.reason or not (trace.steps or any(type(value) is Node for value in results.values)):
        return None
    views = [value for value in results.values if type(value) is SlotArray]
    if views and trace.keeps_lazy:
        return None
    return CallPlan(trace.series(views), trace.n_slots, results.values, made, keeps_lazy=trace.keeps_lazy)


def add_to_key(key: list[Any], args: Sequence[Any], arrays: list[Array]) -> None:
    """Adds arguments to the key of a call, and arrays to a list; raises UnknownKeyError for one of another kind."""
    for x in args:
        kind = type(x)
        if kind is Array:
            if x._expression is None:
                address, *layout = x.launch_key
                key += (*layout, address & x.runtime.alignment - 1)
            else:
                key += (x._shape, x._dtype.char, kind)
            arrays.append(x)
        elif kind in _by_value_types:
            key += (kind, x)
        elif kind is float or kind is complex:
            key += (kind, _bits_of(x.real, x.imag))  # 0.0 equals -0.0, and NaN may have a sign
        elif isinstance(x, np.generic):
            key += (kind, x.dtype, x.tobytes())
        elif kind is slice:
            key.append(kind)
            add_to_key(key, (x.start, x.stop, x.step), arrays)
        elif kind in (tuple, list) and len(x) <= _MOST_ITEMS:
            key += (kind, len(x))
            add_to_key(key, x, arrays)
        else:
            raise UnknownKeyError
