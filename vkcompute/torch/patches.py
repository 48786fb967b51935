"""Replacements of functions of PyTorch that need an allocator in C++; `undo` restores them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from vkcompute.errors import KernelError
from vkcompute.torch import profiling, triton_package
from vkcompute.torch.device_guard import Engine
from vkcompute.torch.errors import NoNestedTensorsError, warn_once
from vkcompute.torch.generator import OF_DEVICE
from vkcompute.torch.imports import after_import
from vkcompute.torch.kernels import DEVICE_NAME, DEVICE_TYPES, is_on_device

_ACCELERATOR = (
    "empty_cache empty_host_cache get_memory_info max_memory_allocated max_memory_reserved "
    "memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats synchronize"
).split()
"""Functions of torch.accelerator whose C++ ends the process, or raises, without an allocator in C++."""
_FLEX = "torch.nn.attention.flex_attention"

_replacing = threading.local()
"""Per thread: `parameters` is True while a module replaces its own by ones of the device, or of another."""
_STEPS = ("adam", "_multi_tensor_adam", "step_adam"), ("sgd", "_multi_tensor_sgd", "step_descent")
"""Modules of torch.optim, their functions that step many tensors at once, and ours of `operators.optimizers`."""


class Replacements:
    """Replaced attributes of PyTorch, and how they are restored."""

    def __init__(self) -> None:
        self._restorers: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of a module or a class until `undo`."""
        has_own, original = name in owner.__dict__, owner.__dict__.get(name)
        setattr(owner, name, value)
        self.on_undo(lambda: setattr(owner, name, original) if has_own else delattr(owner, name))

    def on_undo(self, function: Callable[[], None]) -> None:
        """Calls a function at `undo`, before those that were given earlier."""
        self._restorers.append(function)

    def undo(self) -> None:
        """Restores all attributes."""
        while self._restorers:
            self._restorers.pop()()


_replaced = Replacements()


def apply(library: Any) -> None:
    """Replaces what a storage of the device, its loading and its synchronization need.

    Args:
        library: the library of kernels, to which one of the CPU is added.
    """
    replace = _replaced.replace
    triton_package.enable(_replaced)
    after_import(_FLEX, _replaced, _allow_flex_attention)
    after_import("torch._inductor.compile_fx", _replaced, _add_compiler)
    replace(torch.UntypedStorage, "__new__", _storage_maker(torch.UntypedStorage.__new__))
    replace(torch.UntypedStorage, "resize_", _storage_resizer(torch.UntypedStorage.resize_))
    replace(torch.UntypedStorage, "copy_", _storage_copier(torch.UntypedStorage.copy_))
    for name in ("nbytes", "size", "__len__"):
        replace(torch.UntypedStorage, name, _storage_size(getattr(torch.UntypedStorage, name)))
    for name in filter(torch.accelerator.__dict__.__contains__, _ACCELERATOR):
        replace(torch.accelerator, name, _of_module(name))
    replace(torch.accelerator, "get_device_capability", _capability)
    replace(torch._tensor_str, "_tensor_str", _printed_on_host(torch._tensor_str._tensor_str))
    replace(torch, "Generator", _generator_class(torch.Generator))
    replace(torch.autograd.Variable, "_execution_engine", Engine())
    replace(torch, "Event", _event_class(torch.Event))
    replace(torch.utils, "swap_tensors", _swapper(torch.utils.swap_tensors))
    replace(torch.nn.Module, "_apply", _applier(torch.nn.Module._apply))
    replace(torch.nn.TransformerEncoder, "forward", _padded_encoder(torch.nn.TransformerEncoder.forward))
    replace(torch.Tensor, "__vkcompute_array__", property(_held))
    for module, name, step in _STEPS:
        owner = import_module(f"torch.optim.{module}")
        replace(owner, name, _stepper(getattr(owner, name), step))
    inductor = torch._TorchCompileInductorWrapper
    replace(inductor, "__init__", _prepared(inductor.__init__))
    replace(inductor, "__call__", _compiler(inductor.__call__))
    profiling.enable(replace)
    package = (15, _tag, _restored)
    torch.serialization.register_package(*package)
    registry = torch.serialization._package_registry
    _replaced.on_undo(lambda: registry.remove(package))
    library.impl("_pin_memory", lambda tensor, device=None: tensor.clone(), "CPU")  # ordinary memory serves


def undo() -> None:
    """Restores what `apply` replaced."""
    _replaced.undo()


def _allow_flex_attention(module: Any) -> None:
    """Adds the device to those that FlexAttention takes: a set in code, as Dynamo traces no function of ours."""
    function = module._validate_device
    code = function.__code__
    constants = [value | {*DEVICE_TYPES} if isinstance(value, frozenset) else value for value in code.co_consts]
    function.__code__ = code.replace(co_consts=tuple(constants))
    _replaced.on_undo(lambda: setattr(function, "__code__", code))


def _add_compiler(_: Any) -> None:
    """Makes the device known to Inductor, which backends of others call without the default compiler."""
    import_module("vkcompute.torch.inductor.backend").enable(_replaced)


def _held(tensor: Any) -> Any:
    """Returns the memory of a tensor as an array, which launches take; None for a tensor of another device."""
    return import_module("vkcompute.torch.storage").array_of(tensor) if is_on_device(tensor) else None


def _is_device(device: Any) -> bool:
    return device is not None and torch.device(device).type in DEVICE_TYPES


def _of_module(name: str) -> Callable[..., Any]:
    """Returns a function of torch.accelerator that calls that of torch.vk."""

    def call(device: Any = None, /) -> Any:
        return getattr(torch.vk, name)()

    call.__name__ = name
    return call


def _capability(device: Any = None, /) -> dict[str, Any]:
    """Returns the dtypes of the device, by the name that torch.accelerator has for them."""
    from vkcompute.torch.element_types import ARRAYS

    return {"supported_dtypes": set(ARRAYS)}


def _storage_maker(original: Any) -> Any:
    """Returns UntypedStorage.__new__, which ends the process for a device without an allocator in C++."""

    def new(cls: Any, *args: Any, device: Any = None, **named: Any) -> Any:
        if _is_device(device):
            n = int(args[0]) if args else 0
            return torch.empty(n, dtype=torch.uint8, device=DEVICE_NAME).untyped_storage()
        return original(cls, *args, **named) if device is None else original(cls, *args, device=device, **named)

    return new


def _storage_resizer(original: Any) -> Any:
    """Returns UntypedStorage.resize_, by which sharded training frees and allocates memory; C++ refuses to."""

    def resize(self: Any, size: Any) -> Any:
        if not _is_device(self.device):
            return original(self, size)
        import_module("vkcompute.torch.storage").memory_of_storage(self).resize(int(size))
        return self

    return resize


def _storage_copier(original: Any) -> Any:
    """Returns UntypedStorage.copy_, which copies only the visible part of a resized storage."""

    def copy(self: Any, source: Any, non_blocking: Any = None) -> Any:
        if not (_is_cut(self) or _is_cut(source)):
            return original(self, source, non_blocking)
        _bytes_of(self).copy_(_bytes_of(source))
        return self

    return copy


def _is_cut(storage: Any) -> bool:
    """Returns True if a part of the memory of a storage is not visible, after `resize_`."""
    memory = getattr(storage, "_vk", None)  # storages of other devices have none
    return memory is not None and memory.visible_nbytes < memory.nbytes


def _bytes_of(storage: Any) -> Any:
    """Returns the bytes of a storage that are visible, as a tensor on it."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (storage.nbytes(),), (1,))


def _storage_size(original: Any) -> Any:
    """Returns a method with the size of a storage, which C++ does not change."""

    def size(self: Any) -> Any:
        memory = getattr(self, "_vk", None)  # storages of other devices have none
        return original(self) if memory is None else memory.visible_nbytes

    return size


def _printed_on_host(original: Any) -> Any:
    """Returns the function that formats elements; on the device, it would compile a dozen kernels."""

    def format_elements(tensor: Any, indent: int) -> Any:
        return original(tensor.cpu() if is_on_device(tensor) else tensor, indent)

    return format_elements


def _applier(original: Any) -> Any:
    """Returns Module._apply, which swaps parameters that move to the device or from it: else it unties tied weights.

    Others stay as they are, since PyTorch swaps no parameter to which weak references exist. The parameters of a module
    of TorchScript are in C++, and Python has copies of their references: to swap these would leave the module's as they
    were. PyTorch sets its attributes.
    """

    def apply_to(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        for module in self.children() if recurse else ():
            module._apply(fn)
        swaps = torch.__future__.get_swap_module_params_on_conversion()
        _replacing.parameters = not isinstance(self, torch.jit.ScriptModule) and _is_moved(self, fn)
        torch.__future__.set_swap_module_params_on_conversion(swaps or _replacing.parameters)
        try:
            with _without_lazy(self, fn):
                return original(self, fn, recurse=False)
        finally:
            _replacing.parameters = False
            torch.__future__.set_swap_module_params_on_conversion(swaps)

    return apply_to


def _swapper(original: Any) -> Any:
    """Returns swap_tensors, by which modules replace parameters that graphs hold, and keep attributes and hooks."""

    @functools.wraps(original)
    def swap_tensors(t1: Any, t2: Any) -> None:
        if not getattr(_replacing, "parameters", False) or type(t1) is not type(t2):
            original(t1, t2)
            return
        if t1.requires_grad and t1.is_leaf and t1._use_count() > 1:
            torch.autograd.graph.get_gradient_edge(t1).node.register_prehook(_refuse_gradient)
        hooks, later_hooks = t1._backward_hooks, t1._post_accumulate_grad_hooks
        torch._C._swap_tensor_impl(t1, t2)
        if hooks:
            t1._backward_hooks = hooks
        if later_hooks:
            t1._post_accumulate_grad_hooks = later_hooks

    return swap_tensors


def _refuse_gradient(gradients: Any) -> None:
    """Raises RuntimeError: a graph from before computes a gradient of a parameter that was replaced since."""
    raise RuntimeError(
        "a module was moved or converted between its forward and its backward pass; do so before the forward pass, or "
        "after both"
    )


def _is_moved(module: Any, fn: Callable[[Any], Any]) -> bool:
    """True if the module's own parameters are on the device, or will be there."""
    own = next((parameter for parameter in module._parameters.values() if parameter is not None), None)
    if own is None or is_on_device(own):
        return own is not None
    with torch.no_grad():
        return is_on_device(fn(torch.empty(0, dtype=own.dtype, device=own.device)))


@contextlib.contextmanager
def _without_lazy(module: Any, fn: Callable[[Any], Any]) -> Iterator[None]:
    """Hides tensors without sizes, which would become ordinary if they were swapped; a function is applied to them."""
    tables = module._parameters, module._buffers
    pairs = [(table, name, value) for table in tables for name, value in table.items()]
    applied = []
    for table, name, value in pairs:
        if torch.nn.parameter.is_lazy(value):
            like = fn(torch.empty(0, dtype=value.dtype, device=value.device))
            applied.append((table, name, type(value)(value.requires_grad, device=like.device, dtype=like.dtype)))
            table[name] = None
    try:
        yield
    finally:
        for table, name, tensor in applied:
            table[name] = tensor


def _padded_encoder(original: Any) -> Any:
    """Returns TransformerEncoder.forward, which gives zeros at padding where PyTorch takes nested tensors for it."""

    @functools.wraps(original)
    def forward(self: Any, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: Any = None) -> Any:
        try:
            return original(self, src, mask, src_key_padding_mask, is_causal)
        except NoNestedTensorsError as error:
            is_kept = error.is_kept
        output = src
        for layer in self.layers:
            output = layer(output, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask)
        output = output.masked_fill(is_kept.logical_not()[..., None], 0)
        return output if self.norm is None else self.norm(output)

    return _traced_as(original, forward)


def _stepper(original: Any, name: str) -> Any:
    """Returns an optimizer's step of many tensors, which takes a launch per parameter of the device."""

    @functools.wraps(original)
    def step(params: Any, *tensors: Any, **named: Any) -> None:
        ours = params and is_on_device(params[0]) and import_module("vkcompute.torch.operators.optimizers")
        try:
            if not (ours and getattr(ours, name)(params, *tensors, **named)):
                original(params, *tensors, **named)
        except KeyboardInterrupt:
            import_module("vkcompute.torch.storage").keep_elements((params, tensors))
            raise

    return _traced_as(original, step)


def _traced_as(original: Any, replacement: Any) -> Any:
    """Returns a replacement in whose place Dynamo traces the original: it breaks graphs at functions of ours."""
    replacement._torchdynamo_inline = original
    return replacement


def _prepared(original: Any) -> Any:
    """Returns the constructor of the default compiler, which prepares Dynamo before it traces a function."""

    def init(self: Any, *args: Any, **named: Any) -> None:
        import_module("vkcompute.torch.inductor.tracing").enable(_replaced)
        original(self, *args, **named)

    return init


def _compiler(original: Any) -> Any:
    """Returns the default compiler of torch.compile, to which the device is made known at its first graph."""

    def compile_graph(self: Any, model_: Any, inputs_: Any, **named: Any) -> Any:
        if not _computes_on_device(model_, inputs_):
            return original(self, model_, inputs_, **named)
        if "cuda" in DEVICE_TYPES:
            warn_once("torch.compile of programs that say cuda runs the operators of their graphs one by one")
            return model_.forward
        errors = import_module("torch._inductor.exc")
        try:
            return original(self, model_, inputs_, **named)
        except (errors.InductorError, KernelError, ValueError) as error:  # the latter of graphs from the disk
            reason = " ".join(str(error).split())[:500]
            warn_once(f"a graph is not compiled for {DEVICE_NAME}: its operators run one by one ({reason})")
            return model_.forward

    return compile_graph


def _computes_on_device(graph: Any, inputs: Any) -> bool:
    """True if a graph has tensors of the device, as inputs or inside."""
    inner = [node.meta.get("example_value") for node in graph.graph.nodes]
    return any(map(is_on_device, [*inputs, *inner]))


def _tag(storage: Any) -> str | None:
    """Returns the location of a storage of the device for programs that say cuda; else PyTorch names it itself."""
    return "cuda:0" if storage.device.type == DEVICE_NAME and "cuda" in DEVICE_TYPES else None


def _restored(storage: Any, location: str) -> Any:
    """Returns a storage of the host on the device, for `torch.load`; None for other locations.

    Those of packages have a dtype.
    """
    if location.split(":")[0] not in DEVICE_TYPES:
        return None
    if isinstance(storage, torch.TypedStorage):
        untyped = _restored(storage._untyped_storage, location)
        return torch.TypedStorage(wrap_storage=untyped, dtype=storage.dtype, _internal=True)
    nbytes = storage.nbytes()
    on_device = torch.empty(nbytes, dtype=torch.uint8, device=DEVICE_NAME)
    if nbytes:
        on_device.copy_(torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage))
    return on_device.untyped_storage()


def _generator_class(original: Any) -> Any:
    """Returns torch.Generator, whose generators for the device are the CPU's: they carry seed and state."""

    class Generator(original):  # type: ignore[misc]
        """A generator of random numbers; for the device, one of the host from which its kernels draw keys."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = original.__new__(cls, "cpu" if _is_device(device) else device)
            made._is_vk = _is_device(device)
            if made._is_vk:
                OF_DEVICE[made._cdata] = made
            return made

        def __init__(self, device: Any = "cpu") -> None:
            """Does nothing: `__new__` has set all."""

        @property
        def device(self) -> Any:
            """The device for whose operators it is made."""
            return torch.device(min(DEVICE_TYPES), 0) if self._is_vk else super().device

        def clone_state(self) -> Any:
            """Returns another generator for the device, with the same state."""
            return type(self)(self.device).set_state(self.get_state())

        def __reduce__(self) -> Any:
            """Returns what copies of it, and pickled ones, are made of."""
            make, _, *state = super().__reduce__()
            return make, (self.device,), *state

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"  # for pickle
    return Generator


def _event_class(original: Any) -> Any:
    """Returns torch.Event, whose events of the device are those of torch.vk: C++ has none."""

    class Event(original):  # type: ignore[misc]
        """A moment in the work of a device."""

        def __new__(cls, device: Any = None, **named: Any) -> Any:
            if _is_device(torch.accelerator.current_accelerator() if device is None else device):
                return torch.vk.Event(**named)
            return original.__new__(original, device, **named)

    return Event
