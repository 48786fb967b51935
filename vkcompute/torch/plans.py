"""Plans of operators: one that is called again with tensors of the same layouts is its allocations and launches.

The kernel of an operator computes its first call, whose work on arrays is traced. A plan repeats that on the arrays of
other tensors: it makes the tensors that the operator returns, and replaces the arrays of those that it writes to. The
key has what a kernel may ask of a tensor, which tensors share a memory, and all other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, get_default_dtype

from vkcompute.arrays.expressions import lazy
from vkcompute.arrays.expressions.call_plan import CallPlan, add_to_key, plan_of
from vkcompute.compiled import call_plans
from vkcompute.compiled.call_plans import CallPlans, UnknownKeyError, traced
from vkcompute.compiled.call_trace import CallTrace
from vkcompute.dtypes import process_float, scoped_float
from vkcompute.runtime.memory.array import Array
from vkcompute.runtime.runtime import Runtime, default_runtime
from vkcompute.runtime.scheduling.current import leads_elsewhere
from vkcompute.torch.fallback import after_error, guarded
from vkcompute.torch.kernels import Kernel, operator
from vkcompute.torch.made import Layout
from vkcompute.torch.storage import Memory, layout_of, memory_of, tensor_of, tensor_on

_MOST_ITEMS = 32  # of a sequence
_WITHOUT = {
    "scaled_dot_product_attention",
    "_fused_sdp_choice",
    "resize_",
    "record_stream",
    "_local_scalar_dense",
    "equal",
    "_fused_adam_",
    "_fused_adamw_",
    "_fused_sgd_",
    "_fused_adagrad_",
}
"""Operators that call others with their gradients, have plans of parts, wait for elements, or compute nothing."""
_OF_NUMBERS = {"scalar_tensor"}
"""Operators that take no tensor, but compute one from numbers, which programs repeat."""
_VALUES = {bool, int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
"""Types of arguments that are a part of the key as they are."""
_UNPLANNED = UnknownKeyError, AttributeError, TypeError, RuntimeError
_FLAGS = "Conjugate", "Negative"
"""PyTorch resolves these before it calls a kernel, unless the operator has kernels of its own for these keys."""


def planned(name: str, kernel: Kernel) -> Kernel:
    """Returns a guarded kernel with plans of its calls; without them if it returns views, or takes no tensors."""
    schema = operator(name)._schema
    aliases = [value.alias_info for value in schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    takes_tensors = name in _OF_NUMBERS or any("Tensor" in str(argument.type) for argument in schema.arguments)
    if is_view or not takes_tensors or name in _WITHOUT:
        return kernel if type(kernel) is partial else guarded(name, kernel)  # PyTorch's own raises its errors
    has_flags = any(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key) for key in _FLAGS)
    return _with_plans(name, kernel, CallPlans(OperatorPlan), has_flags=has_flags)


def repeated(name: str, function: Kernel) -> Kernel:
    """Returns a function of tensors, arrays and numbers with plans of its calls; the name is that of its operator."""
    return _with_plans(name, function, CallPlans(OperatorPlan), has_flags=False)


def _with_plans(name: str, kernel: Kernel, plans: CallPlans[OperatorPlan], *, has_flags: bool) -> Kernel:
    """Returns a guarded kernel with plans of its calls.

    Args:
        has_flags: True if PyTorch passes it tensors with a pending conjugation or negation, which it resolves for most.
    """

    def run(*args: Any, **named: Any) -> Any:
        try:
            if not (call_plans.are_used and plans.are_useful):
                return kernel(*args, **named)
            device = default_runtime()
            operands: Operands = [], [], []
            key = [plans, get_default_dtype(), scoped_float.get(), process_float[0]]
            try:
                _add(device, key, args, operands, has_flags)
                for item in named.items():
                    _add(device, key, item, operands, has_flags)
                known = tuple(key)
            except _UNPLANNED:
                known = None
            if known is None or leads_elsewhere(device):
                return kernel(*args, **named)
            plan = plans.get(device, known)
            if plan is not None:
                return plan.run(device, operands)
            if not plans.is_to_trace(device, known):
                return kernel(*args, **named)
            result, plan = _traced(device, operands, partial(kernel, *args, **named))
            plans.keep(device, known, plan)
            return result
        except BaseException as error:
            return after_error(name, error, args, named)

    return run


Operands = tuple[list[Any], list[Memory], list[Array]]
"""The tensors of a call in the order of its arguments, their memories once each, and the arrays of these."""


class New(NamedTuple):
    """A tensor that an operator makes.

    Attributes:
        at: the number of its array among those that the operator makes; None for one without elements.
        layout: of the tensor; None if its storage has another size, or DLPack makes no such tensors.
    """

    at: int | None
    nbytes: int
    layout: Layout | None
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, arrays: Sequence[Array]) -> Any:
        """Returns the tensor of a repeated call."""
        at, nbytes, layout, *others = self
        memory = Memory(nbytes, None if at is None else arrays[at])
        return tensor_of(memory, *others) if layout is None else tensor_on(memory, layout)


class Number(NamedTuple):
    """A number that an operator returns, which depends on layouts alone."""

    value: int


class OperatorPlan:
    """Repeats a call on tensors of the same layouts.

    Args:
        call: makes the arrays.
        result: a `New`, a `Number`, the index of a tensor among the arguments, None, or a list or a tuple of such.
        replaced: pairs: the number of a memory among those of the arguments, and that of its array.
    """

    __slots__ = ("_call", "_layout", "_nbytes", "_replaced", "_result")

    def __init__(self, call: CallPlan, result: Any, replaced: Sequence[tuple[int, int]]) -> None:
        self._call, self._result, self._replaced = call, result, replaced
        is_one = type(result) is New and result.at == 0 and not replaced and not call.makes_several
        self._layout: Layout | None = result.layout if is_one else None
        self._nbytes: int = result.nbytes if is_one else 0

    def run(self, device: Runtime, operands: Operands) -> Any:
        """Runs the steps, and returns the results."""
        tensors, memories, given = operands
        arrays = self._call.run(device, given)
        if self._layout is not None:  # most operators: they make one tensor
            return tensor_on(Memory(self._nbytes, arrays), self._layout)
        arrays = arrays if type(arrays) is list else [arrays]
        for memory, at in self._replaced:
            memories[memory].replace(arrays[at])
        return _made(self._result, arrays, tensors)


def _made(result: Any, arrays: Sequence[Array], tensors: Sequence[Any]) -> Any:
    kind = type(result)
    if kind is New:
        return result.tensor(arrays)
    if kind is int:
        return tensors[result]
    if kind is Number:
        return result.value
    return result if result is None else kind([_made(part, arrays, tensors) for part in result])


def _add(device: Runtime, key: list[Any], args: Sequence[Any], operands: Operands, has_flags: bool) -> None:
    """Adds arguments to the key of a call, and tensors to the operands.

    Raises:
        UnknownKeyError: an argument is of another kind, or a tensor of another device or runtime.
        AttributeError: a tensor is of the host, or its storage has been made by PyTorch.
        TypeError: its memory is closed.
    """
    tensors, memories, arrays = operands
    for x in args:
        kind = type(x)
        if kind is not Tensor and not isinstance(x, Tensor):
            if kind in _VALUES:
                key += kind, x
            elif kind in (list, tuple) and len(x) <= _MOST_ITEMS:
                key += kind, len(x)
                _add(device, key, x, operands, has_flags)
            else:
                add_to_key(key, (x,), arrays)
            continue
        memory = x.untyped_storage()._vk
        if memory in memories:
            key += memories.index(memory), *[at for at, tensor in enumerate(tensors) if tensor is x]
        else:
            if memory.is_shared or memory.visible_nbytes < memory.nbytes:
                _require_alone(memory, memories)
                key.append("shared")
            memories.append(memory)
            if (whole := memory.whole) is None:
                key += None, memory.nbytes
            elif whole.runtime is not device:
                raise UnknownKeyError
            else:
                arrays.append(whole)
                if whole._expression is None:
                    launch_key = whole.launch_key
                    key += launch_key[0] & device.alignment - 1, launch_key[1:]
                else:
                    key += whole._shape, lazy.part_of(whole)
        key += x.dtype, x.shape, x.stride(), x.storage_offset()
        if has_flags:
            key += x.is_neg(), x.is_conj()
        tensors.append(x)


def _require_alone(memory: Memory, memories: Sequence[Memory]) -> None:
    """Raises UnknownKeyError for a memory that is cut, or shared beside another one: both may have the same bytes."""
    if memory.visible_nbytes < memory.nbytes or any(other.is_shared for other in memories):
        raise UnknownKeyError


def _traced(device: Runtime, operands: Operands, call: Callable[[], Any]) -> tuple[Any, OperatorPlan | None]:
    """Returns the result of a call, and its plan, if it can be repeated."""
    state, before = _state(operands), [memory.whole for memory in operands[1]]
    result, trace = traced(device, operands[2], (), call, knows_lazy=True)
    return result, _plan_of(trace, operands, before, result) if _state(operands) == state else None


def _state(operands: Operands) -> list[Any]:
    """Returns what a call that is planned does not change."""
    tensors, memories, _ = operands
    sizes = [(x.shape, x.stride(), x.storage_offset(), memory_of(x).address) for x in tensors]
    return [sizes, [(memory.visible_nbytes, memory.is_shared) for memory in memories]]


def _plan_of(trace: CallTrace, operands: Operands, before: Sequence[Array | None], result: Any) -> OperatorPlan | None:
    """Returns the plan of a traced call; None if it cannot be repeated."""
    _, memories, arrays = operands
    outputs: list[Array] = []
    replaced = []
    for at, (memory, array) in enumerate(zip(memories, before, strict=True)):
        if memory.whole is not array:
            replaced.append((at, len(outputs)))
            outputs.append(memory.whole)  # type: ignore[arg-type]
    try:
        described = _described(result, operands, outputs)
    except UnknownKeyError:
        return None
    if not _are_own(outputs, arrays):
        return None
    call = plan_of(trace, arrays, outputs[0] if len(outputs) == 1 else outputs)
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
    if type(result) is int:
        return Number(result)
    if not isinstance(result, torch.Tensor):
        raise UnknownKeyError
    given = [at for at, tensor in enumerate(operands[0]) if tensor is result]
    if given:
        return given[0]
    memory = getattr(result.untyped_storage(), "_vk", None)  # a tensor of the host has none
    if memory is None or memory in operands[1] or result.storage_offset() or result.is_neg() or result.is_conj():
        raise UnknownKeyError
    at = None if memory.whole is None else len(outputs)
    if memory.whole is not None:
        outputs.append(memory.whole)
    layout = layout_of(result.dtype, tuple(result.shape), result.stride())
    of_storage = layout if layout is not None and layout.nbytes == memory.nbytes else None
    return New(at, memory.nbytes, of_storage, result.dtype, tuple(result.shape), result.stride())


def _are_own(outputs: Sequence[Array], arrays: Sequence[Array]) -> bool:
    """True if each array is lazy, or all of memory that nobody else has."""
    keys = [id(x) if x.is_pending else id(x.buffer) for x in (*outputs, *arrays)]
    parts = [x for x in outputs if not x.is_pending and (not x.contiguous or x.offset or x._base is not None)]
    return (
        not parts
        and len({*keys[: len(outputs)]}) == len(outputs)
        and {*keys[: len(outputs)]}.isdisjoint(keys[len(outputs) :])
    )
