"""Operators without a kernel: computed on the host, and said once per operator."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch

from vkcompute.errors import DtypeError, MissingFeature, OutOfDeviceMemory
from vkcompute.torch.element_types import array_dtype
from vkcompute.torch.errors import FallbackWarning, other_device
from vkcompute.torch.generator import host_generator
from vkcompute.torch.kernels import COUNTS, DEVICE_NAME, Kernel, is_on_device
from vkcompute.torch.kernels import operator as named_operator
from vkcompute.torch.operands import require_on_device
from vkcompute.torch.storage import Memory, empty, keep_elements, n_elements, new_storage, set_storage

_VARIABLE = "VKCOMPUTE_TORCH_FALLBACK"


def guarded(name: str, kernel: Kernel) -> Kernel:
    """Returns a kernel that raises PyTorch's errors, also where memory is full, and leaves some dtypes to the host."""

    def run(*args: Any, **named: Any) -> Any:
        try:
            return kernel(*args, **named)
        except BaseException as error:
            return after_error(name, error, args, named)

    return run


def after_error(name: str, error: BaseException, args: Any, named: Any) -> Any:
    """Returns the result of the host where a kernel lacks a dtype; else raises the error, as PyTorch's."""
    if isinstance(error, OutOfDeviceMemory):
        raise torch.OutOfMemoryError(str(error)) from error
    if isinstance(error, (MissingFeature, DtypeError)):
        return fall_back(named_operator(name), *args, **named)
    if isinstance(error, ValueError):
        raise (IndexError if isinstance(error, IndexError) else RuntimeError)(str(error)) from error
    if isinstance(error, KeyboardInterrupt):
        keep_elements((args, named))
    raise error


def fall_back(operator: Any, *args: Any, **named: Any) -> Any:
    """Computes an operator on the host, with copies of its tensors.

    Raises:
        NotImplementedError: the environment's VKCOMPUTE_TORCH_FALLBACK is "error".
        RuntimeError: a tensor with axes, or one for results, is on another device.
    """
    schema = operator._schema
    if _is_view(schema):
        return _view(operator, args, named)
    _require_one_device(args)
    require_on_device(*[named.get(argument.name) for argument in schema.arguments if argument.is_out])
    _report(str(operator))
    given = _Copies()
    host_args = [given.to_host(value) for value in args]
    host_named = {name: given.to_host(value) for name, value in named.items()}
    if any(argument.name == "generator" for argument in schema.arguments):
        host_named["generator"] = host_generator(host_named.get("generator"))
    result = operator(*host_args, **host_named)
    _write_back(schema, args, named, host_args, host_named)
    return given.to_device(result, len(schema.returns))


def _require_one_device(args: Any) -> None:
    """Raises RuntimeError for a tensor with axes of another device; lists of indices may have such."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.dim() and not is_on_device(value):
            raise other_device(value.device)


def _report(name: str) -> None:
    COUNTS[name] += 1
    setting = os.environ.get(_VARIABLE, "warn")
    if setting == "error":
        raise NotImplementedError(
            f"{name} has no kernel on the device vk, and {_VARIABLE}=error; unset it to compute on the host"
        )
    if COUNTS[name] == 1 and setting != "silent":
        warnings.warn(
            f"{name} has no kernel on the device vk; it is computed on the host (said once per operator; "
            f"torch.vk.fallbacks() lists them, {_VARIABLE}=error refuses)",
            FallbackWarning,
            stacklevel=3,
        )


def _is_view(schema: Any) -> bool:
    """True if an operator returns views of its first argument, and writes nothing."""
    aliases = [value.alias_info for value in schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _view(operator: Any, args: Any, named: Any) -> Any:
    """Returns the views of a tensor that an operator makes, whose sizes PyTorch's device "meta" computes."""
    source = next(value for value in args if is_on_device(value))
    shape, strides = source.shape, source.stride()
    size = (n_elements(shape, strides, source.storage_offset()),)
    like = torch.empty(size, dtype=source.dtype, device="meta").as_strided(shape, strides, source.storage_offset())
    like = _flagged(like, source)
    made = operator(*[like if value is source else value for value in args], **named)

    def real(view: Any) -> Any:
        tensor = empty((0,), (1,), view.dtype)
        sizes = view.storage_offset(), tuple(view.shape), tuple(view.stride())
        return _flagged(set_storage(tensor, source.untyped_storage(), *sizes), view)

    return [real(view) for view in made] if isinstance(made, (list, tuple)) else real(made)


def _flagged(tensor: Any, like: Any) -> Any:
    """Returns a tensor with the pending conjugation and negation of another."""
    tensor = tensor.conj() if like.is_conj() else tensor
    return torch._neg_view(tensor) if like.is_neg() else tensor


class _Copies:
    """Copies on the host of the tensors of one call."""

    def __init__(self) -> None:
        self._originals: dict[int, tuple[Any, Any]] = {}

    def to_host(self, value: Any) -> Any:
        """Returns a value for the host: copies of tensors, also in lists; the CPU in place of the device."""
        if isinstance(value, torch.Tensor):
            if not is_on_device(value):
                return value
            copy = value.cpu()
            self._originals[id(copy)] = copy, value
            return copy
        if isinstance(value, torch.device) and value.type == DEVICE_NAME:
            return torch.device("cpu")
        return type(value)(map(self.to_host, value)) if type(value) in (list, tuple) else value

    def to_device(self, result: Any, n_results: int) -> Any:
        """Returns a result for the device; an argument that was returned is itself."""
        if isinstance(result, torch.Tensor):
            if (pair := self._originals.get(id(result))) is not None:
                return pair[1]
            return result.to(DEVICE_NAME)
        if type(result) in (list, tuple):
            moved = [self.to_device(value, 1) for value in result]
            return tuple(moved) if n_results > 1 else moved
        return result


def _write_back(schema: Any, args: Any, named: Any, host_args: Any, host_named: Any) -> None:
    """Copies the arguments that an operator wrote back to the device."""
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        is_positional = position < len(args) and not argument.kwarg_only
        given = args[position] if is_positional else named.get(argument.name)
        copy = host_args[position] if is_positional else host_named.get(argument.name)
        for target, source in zip(*[x if isinstance(x, (list, tuple)) else [x] for x in (given, copy)], strict=True):
            if is_on_device(target):
                _overwrite(target, source)


def _overwrite(target: Any, source: Any) -> None:
    """Writes a tensor of the host to one of the device, which takes its sizes if they differ."""
    if target.shape != source.shape:
        nbytes = source.numel() * array_dtype(target.dtype).itemsize
        set_storage(target, new_storage(Memory(nbytes)), 0, source.shape, source.contiguous().stride())
    if target.numel():
        target.copy_(source)
