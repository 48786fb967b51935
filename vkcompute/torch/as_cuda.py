"""Lets programs that say `cuda` run on the device `vk`, unchanged.

    import vkcompute.torch.as_cuda            # at the top of a program; or python -m vkcompute.torch program.py

Devices and strings `cuda` mean `vk`, and tensors of it say that they are on `cuda:0`. The functions of torch.cuda are
those of torch.vk. `restore()` undoes it, `enable()` does it again.

Raises:
    RuntimeError: PyTorch has a CUDA device.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from vkcompute.torch.kernels import DEVICE_NAME, DEVICE_TYPES, is_on_device
from vkcompute.torch.patches import Replacements

__all__ = ["enable", "restore"]

_CUDA = "cuda"
_LIKE = "empty_like full_like ones_like rand_like randint_like randn_like zeros_like"
_METHODS = "to new_empty new_empty_strided new_full new_ones new_tensor new_zeros"
_FUNCTIONS = (
    "Event OutOfMemoryError Stream StreamContext can_device_access_peer current_device current_stream default_stream "
    "device device_count device_of empty_cache get_device_capability get_device_name get_device_properties "
    "get_rng_state get_rng_state_all init initial_seed ipc_collect is_available is_bf16_supported is_initialized "
    "manual_seed manual_seed_all max_memory_allocated max_memory_cached max_memory_reserved mem_get_info "
    "memory_allocated memory_cached memory_reserved memory_stats memory_summary reset_accumulated_memory_stats "
    "reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats seed seed_all set_device set_rng_state "
    "set_rng_state_all set_stream stream synchronize _is_in_bad_fork _lazy_init _exchange_device "
    "_maybe_exchange_device"
).split()
"""Functions and classes that torch.cuda has from torch.vk."""
_AUTOCAST = "get_autocast_dtype is_autocast_enabled set_autocast_dtype set_autocast_enabled"
_TYPES = "Bool Byte Char Double Float Half Int Long Short BFloat16"
_replaced = Replacements()
_device_of = torch._C.TensorBase.device.__get__


def enable() -> None:
    """Makes `cuda` mean `vk`; says so on stderr. Idempotent.

    Raises:
        RuntimeError: PyTorch has a CUDA device.
    """
    if _CUDA in DEVICE_TYPES:
        return
    if torch.cuda.is_available():
        raise RuntimeError(
            f"PyTorch has a CUDA device ({torch.cuda.get_device_name()}), so cuda cannot mean {DEVICE_NAME}; "
            "run the program without vkcompute, or hide the device with CUDA_VISIBLE_DEVICES=''"
        )
    DEVICE_TYPES.add(_CUDA)
    _replaced.on_undo(_forget_known_functions)  # called last
    _replaced.on_undo(lambda: DEVICE_TYPES.discard(_CUDA))
    _replace_makers()
    _replace_tensors()
    _replace_autocast()
    _replace_module()
    _replace_dispatch_keys()
    _forget_known_functions()
    print(
        f"vkcompute: in this program, cuda is the Vulkan device {DEVICE_NAME} (vkcompute.torch.as_cuda.restore() "
        "undoes it)",
        file=sys.stderr,
    )


def restore() -> None:
    """Restores what `enable` replaced: `cuda` means CUDA's devices again."""
    _replaced.undo()


def _forget_known_functions() -> None:
    """Makes Dynamo, where it is imported, look up PyTorch's functions again, which it knows by their identity."""
    if (rules := sys.modules.get("torch._dynamo.trace_rules")) is not None:
        rules.clear_lru_cache()


def on_vk(value: Any) -> Any:
    """Returns the device `vk` for `cuda`, as a device or a string; other values as they are.

    Raises:
        RuntimeError: it is not the first device: a process has one.
    """
    if type(value) is str:
        if value.partition(":")[0] != _CUDA:
            return value
        value = torch.device(value)
    if type(value) is not torch.device or value.type != _CUDA:
        return value
    if value.index:
        raise RuntimeError(f"CUDA error: invalid device ordinal: {value}; {DEVICE_NAME} has one device per process")
    return torch.device(DEVICE_NAME, 0)


def _on_vk(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose arguments `cuda` mean `vk`."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if "device" in named:
            named["device"] = on_vk(named["device"])
        return function(*[on_vk(value) for value in args], **named)

    return call


def _replace_makers() -> None:
    """Replaces the functions of PyTorch that take a device."""
    constructors = torch.utils._device._device_constructors()  # before they are replaced: it keeps its result
    for owner in (torch, torch.fft, torch.nested):
        for name, function in list(vars(owner).items()):
            if callable(function) and function.__hash__ and function in constructors:
                _replaced.replace(owner, name, _on_vk(function))
    for name in _LIKE.split():
        _replaced.replace(torch, name, _on_vk(getattr(torch, name)))
    _replaced.replace(torch, "set_default_tensor_type", _default_type(torch.set_default_tensor_type))

    def in_context(self: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if function in constructors and named.get("device") is None:
            named["device"] = on_vk(self.device)
        return function(*args, **named)

    _replaced.replace(torch.utils._device.DeviceContext, "__torch_function__", in_context)


def _default_type(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns set_default_tensor_type, which also takes types of torch.cuda."""

    def set_default(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if name.startswith("torch.cuda."):
            torch.set_default_device(_CUDA)
            original(f"torch.{name.rpartition('.')[2]}")
        else:
            original(kind)

    return set_default


def _replace_tensors() -> None:
    """Replaces methods and attributes of tensors."""
    for name in _METHODS.split():
        _replaced.replace(torch.Tensor, name, _on_vk(getattr(torch.Tensor, name)))

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        where = DEVICE_NAME if device is None else on_vk(f"{_CUDA}:{device}" if type(device) is int else device)
        return self.to(where, non_blocking=non_blocking, memory_format=memory_format or torch.preserve_format)

    def device(self: Any) -> Any:
        own = _device_of(self)
        return torch.device(_CUDA, own.index) if own.type == DEVICE_NAME else own

    _replaced.replace(torch.Tensor, "cuda", cuda)
    _replaced.replace(torch.Tensor, "device", property(device))
    _replaced.replace(torch.Tensor, "is_cuda", property(is_on_device))
    _replaced.replace(torch.Tensor, "type", _type(torch.Tensor.type))


def _type(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns Tensor.type, whose names of types say torch.cuda for the device."""

    def convert(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
        if dtype is None:
            return original(self).replace(f"torch.{DEVICE_NAME}.", "torch.cuda.")
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}" if _is_type(dtype) else ""
        if name.startswith("torch.cuda."):
            return original(self.to(DEVICE_NAME), name.replace("torch.cuda.", f"torch.{DEVICE_NAME}."))
        return original(self, dtype, non_blocking)

    return convert


def _is_type(dtype: Any) -> bool:
    return isinstance(dtype, type)


def _replace_autocast() -> None:
    """Replaces the functions of autocast, which take a type of device."""
    autocast = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    def begin(self: Any, device_type: str, *args: Any, **named: Any) -> None:
        original(self, DEVICE_NAME if device_type == _CUDA else device_type, *args, **named)

    _replaced.replace(autocast, "__init__", begin)
    for name in _AUTOCAST.split():
        _replaced.replace(torch, name, _of_type(getattr(torch, name)))
    for name in ("get_autocast_gpu_dtype", "set_autocast_gpu_dtype"):
        function = getattr(torch, name.replace("_gpu", ""))
        _replaced.replace(torch, name, functools.partial(function, DEVICE_NAME))


def _of_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of autocast, whose type of device is `vk` for cuda and where none is given."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not args or not isinstance(args[0], str):
            args = (DEVICE_NAME, *args)
        return function(*[DEVICE_NAME if value == _CUDA else value for value in args])

    return call


def _replace_module() -> None:
    """Replaces the functions of torch.cuda."""
    for name in _FUNCTIONS:
        _replaced.replace(torch.cuda, name, getattr(torch.vk, name))
    for name in _TYPES.split():
        _replaced.replace(torch.cuda, f"{name}Tensor", _tensor_type(f"{name}Tensor"))
    _replaced.replace(torch.cuda, "is_current_stream_capturing", lambda: False)
    _replaced.replace(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)  # no handle is one of the device
    _replaced.replace(torch.cuda, "set_per_process_memory_fraction", lambda *args, **named: None)
    for name in ("mark", "range_pop", "range_push"):
        _replaced.replace(torch.cuda.nvtx, name, lambda *args, **named: 0)
    _replaced.replace(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    _replaced.replace(torch.nn.parallel.comm, "scatter", lambda tensor, *args, **named: (tensor.to(DEVICE_NAME),))


def _replace_dispatch_keys() -> None:
    """Replaces the functions that register kernels, as libraries of operators do for `CUDA`."""
    library = torch.library.Library
    register, begin = library.impl, library.__init__

    def impl(self: Any, name: Any, function: Any, dispatch_key: str = "", **named: Any) -> None:
        register(self, name, function, _key_of_vk(dispatch_key), **named)

    def init(self: Any, ns: str, kind: str, dispatch_key: str = "") -> None:
        begin(self, ns, kind, _key_of_vk(dispatch_key))

    _replaced.replace(library, "impl", impl)
    _replaced.replace(library, "__init__", init)


def _key_of_vk(dispatch_key: str) -> str:
    """Returns the key of `vk` for `CUDA`, `AutogradCUDA` and `AutocastCUDA`; others as they are."""
    return dispatch_key.replace("CUDA", "PrivateUse1")


class _TensorType(type):
    """The class of types such as torch.cuda.FloatTensor, of which tensors of the device are instances."""

    def __instancecheck__(cls, value: Any) -> bool:
        return is_on_device(value) and value.type() == f"torch.cuda.{cls.__name__}"


def _tensor_type(name: str) -> Any:
    def new(cls: Any, *args: Any, **named: Any) -> Any:
        return getattr(torch, name)(*args, **named).to(DEVICE_NAME)

    return _TensorType(name, (), {"__new__": new, "__module__": "torch.cuda"})


enable()
