"""Plans of operators: one that is called again with tensors of the same layouts is its allocations and launches.

The kernel of an operator computes its first call, whose work on arrays is traced. A plan repeats that on the arrays of
other tensors: it makes the tensors that the operator returns, and replaces the arrays of those that it writes to. The
key has what a kernel may ask of a tensor, which tensors share a memory, and all other arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.call_plan import CallPlan, add_to_key, by_value, plan_of
from vkcompute.compiled import call_plans
from vkcompute.compiled.call_plans import CallPlans, UnknownKeyError, traced
from vkcompute.compiled.call_trace import CallTrace
from vkcompute.dtypes import process_float, scoped_float
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.scheduling import current
from vkcompute.torch.kernels import Kernel, operator
from vkcompute.torch.storage import Memory, memory_of, runtime, tensor_of

_MOST_ITEMS = 32  # of a sequence
_WITHOUT = {
    "scaled_dot_product_attention",
    "_fused_sdp_choice",
    "resize_",
    "record_stream",
    "_local_scalar_dense",
    "equal",
}
"""Operators that call others with their gradients, wait for elements, or compute nothing."""
for _kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
    by_value(_kind)


def planned(name: str, kernel: Kernel) -> Kernel:
    """Returns a kernel with plans of its calls; itself if it returns views, or takes no tensors."""
    schema = operator(name)._schema
    aliases = [value.alias_info for value in schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return Planned(kernel) if takes_tensors and not is_view and name not in _WITHOUT else kernel


class New(NamedTuple):
    """A tensor that an operator makes.

    Attributes:
        at: the number of its array among those that the operator makes; None for one without elements.
    """

    at: int | None
    nbytes: int
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, arrays: Sequence[Array]) -> Any:
        """Returns the tensor of a repeated call."""
        at, nbytes, dtype, shape, strides = self
        return tensor_of(Memory(nbytes, None if at is None else arrays[at]), dtype, shape, strides)


class OperatorPlan:
    """Repeats a call on tensors of the same layouts.

    Args:
        call: makes the arrays.
        result: a `New`, the number of a tensor among the arguments, None, or a list or a tuple of such.
        replaced: pairs: the number of a memory among those of the arguments, and that of its array.
    """

    __slots__ = ("_call", "_replaced", "_result")

    def __init__(self, call: CallPlan, result: Any, replaced: Sequence[tuple[int, int]]) -> None:
        self._call, self._result, self._replaced = call, result, replaced

    def run(self, device: Runtime, operands: Operands) -> Any:
        """Runs the steps, and returns the results."""
        arrays = self._call.run(device, operands.arrays)
        arrays = arrays if type(arrays) is list else [arrays]
        for memory, at in self._replaced:
            operands.memories[memory].replace(arrays[at])
        result = self._result
        return result.tensor(arrays) if type(result) is New else _made(result, arrays, operands.tensors)


def _made(result: Any, arrays: Sequence[Array], tensors: Sequence[Any]) -> Any:
    kind = type(result)
    if kind is New:
        return result.tensor(arrays)
    if kind is int:
        return tensors[result]
    return result if result is None else kind([_made(part, arrays, tensors) for part in result])


class Operands:
    """The tensors of a call, and its key.

    Args:
        key: the beginning of the key.

    Attributes:
        tensors: in the order of the arguments.
        memories: of the tensors, once each.
        arrays: of the memories that have one.

    Raises:
        UnknownKeyError: an argument is of another kind.
        AttributeError: a tensor is of the host, or its storage has been made by PyTorch.
    """

    __slots__ = ("arrays", "key", "memories", "tensors")

    def __init__(self, key: list[Any], args: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.tensors: list[Any] = []
        self.memories: list[Memory] = []
        self.arrays: list[Array] = []
        self.key = key
        self._add(args)
        for name, value in named.items():
            key.append(name)
            self._add((value,))

    def _add(self, args: Sequence[Any]) -> None:
        for x in args:
            kind = type(x)
            if isinstance(x, torch.Tensor):
                self._add_tensor(x)
            elif kind in (list, tuple) and len(x) <= _MOST_ITEMS:
                self.key += (kind, len(x))
                self._add(x)
            else:
                add_to_key(self.key, (x,), self.arrays)

    def _add_tensor(self, x: Any) -> None:
        memory = x.untyped_storage()._vk
        if memory in self.memories:
            same = [at for at, tensor in enumerate(self.tensors) if tensor is x]
            self.key += (self.memories.index(memory), *same)
        else:
            self._add_memory(memory)
        self.key += (x.dtype, x.shape, x.stride(), x.storage_offset(), x.is_neg(), x.is_conj())
        self.tensors.append(x)

    def _add_memory(self, memory: Memory) -> None:
        whole, is_shared = memory.whole, bool(memory.is_shared)
        if memory.visible_nbytes < memory.nbytes or (is_shared and any(other.is_shared for other in self.memories)):
            raise UnknownKeyError  # two that are shared may have the same bytes
        self.memories.append(memory)
        self.key += (memory.nbytes, is_shared)
        if whole is None:
            self.key.append(None)
            return
        self.arrays.append(whole)
        if whole._expression is None:
            address, *layout = whole.launch_key
            self.key += (*layout, address & whole.runtime.alignment - 1)
        else:
            self.key += (whole._shape, lazy.part_of(whole))

    def state(self) -> list[Any]:
        """Returns what a call that is planned does not change."""
        sizes = [(x.shape, x.stride(), x.storage_offset(), memory_of(x).address) for x in self.tensors]
        return [sizes, [(memory.visible_nbytes, memory.is_shared) for memory in self.memories]]


class Planned:
    """A kernel with plans of its calls."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._plans = kernel, CallPlans(OperatorPlan)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Returns the result of a call."""
        if not (call_plans.are_used and self._plans.are_useful):
            return self._kernel(*args, **named)
        key = [self, torch.get_default_dtype(), scoped_float.get(), process_float[0]]
        try:
            operands = Operands(key, args, named)
        except (UnknownKeyError, AttributeError, TypeError, RuntimeError):  # a closed array has no key
            return self._kernel(*args, **named)
        device, known = runtime(), tuple(key)
        if current.leads_elsewhere(device):
            return self._kernel(*args, **named)
        plan = self._plans.get(device, known)
        if plan is not None:
            return plan.run(device, operands)
        if not self._plans.is_to_trace(device, known):
            return self._kernel(*args, **named)
        return self._traced(operands, known, args, named)

    def _traced(self, operands: Operands, key: tuple[Any, ...], args: Any, named: Any) -> Any:
        state, before = operands.state(), [memory.whole for memory in operands.memories]
        result, trace = traced(runtime(), operands.arrays, (), lambda: self._kernel(*args, **named), knows_lazy=True)
        plan = _plan_of(trace, operands, before, result) if operands.state() == state else None
        self._plans.keep(runtime(), key, plan)
        return result


def _plan_of(trace: CallTrace, operands: Operands, before: Sequence[Array | None], result: Any) -> OperatorPlan | None:
    """Returns the plan of a traced call; None if it cannot be repeated."""
    outputs: list[Array] = []
    replaced = []
    for at, (memory, array) in enumerate(zip(operands.memories, before, strict=True)):
        if memory.whole is not array:
            replaced.append((at, len(outputs)))
            outputs.append(memory.whole)  # type: ignore[arg-type]
    try:
        described = _described(result, operands, outputs)
    except UnknownKeyError:
        return None
    if not _are_own(outputs, operands.arrays):
        return None
    call = plan_of(trace, operands.arrays, outputs[0] if len(outputs) == 1 else outputs)
    return None if call is None else OperatorPlan(call, described, replaced)


def _described(result: Any, operands: Operands, outputs: list[Array]) -> Any:
    """Returns the results as those of a plan, and adds the arrays of new tensors to the outputs.

    Raises:
        UnknownKeyError: a result is neither an argument nor a tensor with a memory of its own.
    """
    if isinstance(result, (list, tuple)):
        described = [_described(part, operands, outputs) for part in result]
        return described if isinstance(result, list) else tuple(described)
    if result is None:
        return None
    if not isinstance(result, torch.Tensor):
        raise UnknownKeyError
    given = [at for at, tensor in enumerate(operands.tensors) if tensor is result]
    if given:
        return given[0]
    memory = getattr(result.untyped_storage(), "_vk", None)  # a tensor of the host has none
    if memory is None or memory in operands.memories or result.storage_offset() or result.is_neg() or result.is_conj():
        raise UnknownKeyError
    at = None if memory.whole is None else len(outputs)
    if memory.whole is not None:
        outputs.append(memory.whole)
    return New(at, memory.nbytes, result.dtype, tuple(result.shape), result.stride())


def _are_own(outputs: Sequence[Array], arrays: Sequence[Array]) -> bool:
    """True if each array is lazy, or all of memory that nobody else has."""
    keys = [id(x) if x.is_pending else id(x.buffer) for x in (*outputs, *arrays)]
    parts = [x for x in outputs if not x.is_pending and (not x.contiguous or x.offset or x._base is not None)]
    return (
        not parts
        and len({*keys[: len(outputs)]}) == len(outputs)
        and {*keys[: len(outputs)]}.isdisjoint(keys[len(outputs) :])
    )
