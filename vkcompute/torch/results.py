"""Arguments for results, `out=`: their shapes and dtypes, and the forms of operators that lack kernels of their own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.torch.kernels import KERNELS, Kernel, exists, operator
from vkcompute.torch.operands import require_on_device
from vkcompute.torch.storage import copy_to, empty

_dtype_errors: BoundedCache[tuple[Any, ...], Exception | None] = BoundedCache(1024)
_layouts: BoundedCache[tuple[Any, ...], Any] = BoundedCache(4096)
_OF_DTYPES = re.compile(
    "out tensor to have dtype|desired output type|out tensor with dtype|Found dtype .* but expected"
)
_EXACT = re.compile(r"to have dtype torch\.(\w+) but got torch\.(\w+)")
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
_STRUCTURED = "CompositeExplicitAutogradNonFunctional"
_OF_ALL_DEVICES = "CompositeExplicitAutograd", "CompositeImplicitAutograd", _STRUCTURED


def forms_with_results() -> Iterator[tuple[str, Kernel]]:
    """Yields names and kernels of the forms with `out=` of operators whose kernels return new tensors only."""
    for name, function in list(KERNELS.items()):
        if not exists(name) or _n_written(operator(name)._schema):
            continue
        wanted = _inputs(operator(name)._schema)
        packet = getattr(torch.ops.aten, name.partition(".")[0])
        for overload in packet.overloads():
            form = f"{name.partition('.')[0]}.{overload}"
            schema = getattr(packet, overload)._schema
            if form not in KERNELS and _n_written(schema) and _inputs(schema) == wanted and not _is_composed(form):
                yield form, _copying(function, [x.name for x in schema.arguments if x.is_out])


def structured_forms() -> Iterator[tuple[str, Kernel]]:
    """Yields names and kernels of operators, and of those in place, that PyTorch derives from a kernel with `out=`."""
    for name, function in [item for item in KERNELS.items() if exists(item[0])]:
        schema, packet = operator(name)._schema, name.partition(".")[0]
        outs = [argument.name for argument in schema.arguments if argument.is_out]
        for base in (packet, f"{packet}_") if outs else ():
            for overload in getattr(getattr(torch.ops.aten, base, None), "overloads", list)():
                form = f"{base}.{overload}".removesuffix(".default")
                if form in KERNELS or _inputs(operator(form)._schema) != _inputs(schema) or not _has(form, _STRUCTURED):
                    continue
                yield form, _derived(form, function, outs[0], is_in_place=base != packet)


def _derived(name: str, function: Kernel, out: str, *, is_in_place: bool) -> Kernel:
    """Returns the kernel that PyTorch derives from one with `out=`; that one, if a number is in place of a tensor.

    PyTorch's takes no number, which it has made a tensor of its own kind for the dtype of the result.
    """
    derived = torch.library.get_kernel(f"aten::{name}", "PrivateUse1")
    takes = [str(argument.type) == "Tensor" for argument in operator(name)._schema.arguments]

    def run(*args: Any, **named: Any) -> Any:
        if all(isinstance(x, torch.Tensor) for is_tensor, x in zip(takes, args, strict=False) if is_tensor):
            return derived.call_boxed(_KEYS, *args, **named)
        target = args[0] if is_in_place else empty(*_layout_with_number(name, args, named))
        return function(*args, **named, **{out: target})

    return run


def _layout_with_number(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Returns shape, strides and dtype of the result of an operator that takes a number in place of a tensor."""
    key = name, torch.get_default_dtype(), *map(_layout_of, (*args, *named.items()))
    layout = _layouts.get(key)
    if layout is None:
        given, others = tree_map_only(torch.Tensor, _described, (tuple(args), dict(named)))
        made = getattr(torch.ops.aten, name.partition(".")[0])(*given, **others)  # its overload for numbers
        layout = _layouts[key] = tuple(made.shape), made.stride(), made.dtype
    return layout


def _layout_of(value: Any) -> Any:
    """Returns what the layout of the result depends on: of numbers, the type."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride()
    if isinstance(value, tuple):
        return tuple(map(_layout_of, value))
    return type(value) if isinstance(value, (int, float, complex)) else value


def _n_written(schema: Any) -> int:
    return sum(argument.alias_info is not None for argument in schema.arguments)


def _inputs(schema: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]


def _is_composed(form: str) -> bool:
    """True if PyTorch has a kernel for all devices."""
    return any(_has(form, key) for key in _OF_ALL_DEVICES)


def _has(form: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{form}", key)  # type: ignore[no-any-return]


def _copying(function: Kernel, outs: Sequence[str]) -> Kernel:
    """Returns a kernel that copies the results of another to tensors."""

    def run(*args: Any, **named: Any) -> Any:
        targets = [named.pop(out) for out in outs]
        made = function(*args, **named)
        for target, result in zip(targets, [made] if len(outs) == 1 else made, strict=True):
            copy_to(target, result)
        return targets[0] if len(outs) == 1 else tuple(targets)

    return run


def prepared(name: str, function: Kernel) -> Kernel:
    """Returns a kernel that gives empty tensors for results their shapes, and refuses what PyTorch does.

    It refuses tensors for results of another device and of other dtypes.
    """
    outs = [argument.name for argument in operator(name)._schema.arguments if argument.is_out]
    if not outs:
        return function

    def run(*args: Any, **named: Any) -> Any:
        require_on_device(*map(named.get, outs))
        out = named.get(outs[0])  # not resized if it is an operand: PyTorch raises an error for another shape
        if isinstance(out, torch.Tensor) and not out.numel() and not any(out is value for value in args):
            _resize(name, args, named, outs)
        if isinstance(out, torch.Tensor) and args and out.dtype is not getattr(args[0], "dtype", None):
            _require_dtypes(name, args, named, outs)
        return function(*args, **named)

    return run


def _require_dtypes(name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]) -> None:
    """Raises PyTorch's error, if it has one, for tensors for results of these dtypes."""
    key = name, *map(_type_of, (*args, *named.values()))
    try:
        error = _dtype_errors[key]
    except KeyError:
        error = _dtype_errors[key] = _dtype_error(name, args, named, outs)
    if error is not None:
        raise type(error)(str(error))


def _type_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, not value.dim()
    if isinstance(value, (torch.dtype, bool)):
        return value
    return tuple(map(_type_of, value)) if isinstance(value, (list, tuple)) else type(value)


def _dtype_error(name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]) -> Exception | None:
    """Returns PyTorch's error for dtypes; the CPU decides where a reference in Python refuses a wider one."""
    error = _error_on("meta", name, args, named, outs)
    exact = _EXACT.search(str(error))
    if exact and torch.can_cast(*[getattr(torch, dtype) for dtype in exact.groups()]):
        error = _error_on("cpu", name, args, named, outs)
    return error if error and _OF_DTYPES.search(str(error)) else None


def _error_on(
    device: str, name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]
) -> Exception | None:
    """Returns the error of an operator for zeros of these shapes and dtypes on another device."""
    like = _described if device == "meta" else _zeros
    given, others = tree_map_only(torch.Tensor, like, (tuple(args), dict(named)))
    empty = {out: others[out].new_empty(0) for out in outs}
    try:
        operator(name)(*given, **{**others, **empty})
    except Exception as error:
        return error.with_traceback(None)
    return None


def _described(tensor: Any) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _zeros(tensor: Any) -> Any:
    return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)


def _resize(name: str, args: Sequence[Any], named: Mapping[str, Any], outs: Sequence[str]) -> None:
    """Resizes tensors for results, if PyTorch knows the shapes without the elements; else the kernel does it."""
    given, described = tree_map_only(torch.Tensor, _described, (tuple(args), dict(named)))
    with contextlib.suppress(Exception):
        operator(name)(*given, **described)
        resized = [out for out in outs if named[out].shape != described[out].shape]
        for out in resized:
            named[out].resize_(described[out].shape)
        if resized == list(outs) and any(isinstance(x, torch.Tensor) and not x.is_contiguous() for x in given):
            _order_axes(name, given, {key: x for key, x in described.items() if key not in outs}, map(named.get, outs))


def _order_axes(name: str, given: Sequence[Any], others: Mapping[str, Any], outs: Iterable[Any]) -> None:
    """Gives tensors the strides of an operator's new results, which those that PyTorch resizes on the CPU have, too."""
    made = getattr(torch.ops.aten, name.partition(".")[0])(*given, **others)
    for out, like in zip(outs, [made] if isinstance(made, torch.Tensor) else made, strict=True):
        if out.shape == like.shape and out.stride() != like.stride():
            out.as_strided_(like.shape, like.stride())
