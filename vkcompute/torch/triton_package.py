"""Kernels of the package triton on tensors of the device: each is launched as a block program of the same function.

Other launches remain Triton's. Without a GPU of Triton's, its compiler gets a target, so that torch.compile can find
what a kernel writes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from vkcompute.torch.imports import after_import
from vkcompute.torch.kernels import DEVICE_NAME, is_on_device

_PACKAGE, _OURS = "triton", "vkcompute.compat.triton"
_LAUNCHES = f"{_PACKAGE}.runtime.jit"
_TARGET = "cuda", 80, 32
_TRANSLATED = "dtype", "constexpr", "JITFunction"
_OPTIONS = "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline"
_kernels: WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()
"""Block programs of this package by the functions of Triton's kernels, with the globals that they use."""
_lock = threading.RLock()


def enable(replaced: Any) -> None:
    """Launches Triton's kernels on tensors of the device as block programs, from the package's import on.

    Args:
        replaced: `Replacements`, which undo it.
    """
    after_import(_LAUNCHES, replaced, lambda jit: _replace(replaced, jit))


def _replace(replaced: Any, jit: Any) -> None:
    replaced.replace(jit.JITFunction, "run", _launcher(jit.JITFunction.run))

    def has_triton() -> bool:  # Dynamo asks before it takes a kernel into a graph
        try:
            jit.driver.active  # noqa: B018 - raises where Triton has no GPU
        except RuntimeError:
            jit.driver.set_active(_driver_class()())
            replaced.on_undo(lambda: jit.driver.set_active(None))
        return True

    replaced.replace(import_module("torch.utils._triton"), "has_triton", has_triton)


def _launcher(original: Any) -> Any:
    """Returns JITFunction.run, which launches a block program of this package on tensors of the device."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if not any(map(is_on_device, _tensors((*args, *named.values())))):
            return original(self, *args, grid=grid, warmup=warmup, **named)
        kernel, args = _kernel_of(self), tuple(map(_given, args))
        named = {name: _given(value) for name, value in named.items()}
        return kernel.warmup(*args, grid=grid, **named) if warmup else kernel[grid](*args, **named)

    return run


def _given(value: Any) -> Any:
    """Returns our counterpart of an argument that is a type, a constant or a kernel of Triton's."""
    return _translated(value) if type(value).__name__ in _TRANSLATED else value


def _tensors(values: tuple[Any, ...]) -> Iterator[Any]:
    """Yields arguments, the items of tuples and the tensors of descriptors among them."""
    for value in values:
        if isinstance(value, tuple):
            yield from _tensors(value)
        else:
            yield getattr(value, "base", value) if type(value).__name__ == "TensorDescriptor" else value


def _driver_class() -> Any:
    """Returns Triton's driver for this device."""
    testing = import_module(f"{_OURS}.testing")
    target = import_module(f"{_PACKAGE}.backends.compiler").GPUTarget(*_TARGET)
    torch = import_module("torch")

    def launcher_cls(*_: Any) -> Any:
        raise RuntimeError(f"Triton has no GPU here; its kernels take tensors of the device {DEVICE_NAME}")

    members = {
        "is_active": classmethod(lambda cls: True),
        "map_python_to_cpp_type": lambda self, ty: ty,
        "get_current_target": lambda self: target,
        "get_active_torch_device": lambda self: torch.device(DEVICE_NAME),
        "get_device_interface": lambda self: torch.vk,
        "get_current_device": lambda self: 0,
        "get_current_stream": lambda self, device=None: 0,
        "get_benchmarker": lambda self: testing.do_bench,
        "launcher_cls": staticmethod(launcher_cls),
    }
    return type("Driver", (import_module(f"{_PACKAGE}.backends.driver").DriverBase,), members)


def _kernel_of(kernel: Any) -> Any:
    """Returns the block program of a kernel of Triton's.

    Raises:
        RuntimeError: a global that it uses has changed since its first launch, as Triton raises it.
    """
    with _lock:
        known = _kernels.get(kernel.fn)
        if known is None:
            return _made(kernel)
    ours, used = known
    for name, value in used.items():
        if kernel.fn.__globals__.get(name) is not value:
            raise RuntimeError(f"the global {name} has changed since {kernel.fn.__name__} was compiled; make it anew")
    return ours


def _made(kernel: Any) -> Any:
    triton, function = import_module(_OURS), kernel.fn
    cells = tuple([CellType() for _ in function.__closure__ or ()])
    copy = FunctionType(function.__code__, {}, function.__name__, None, cells)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__annotations__ = {name: _translated(value) for name, value in function.__annotations__.items()}
    copy.__defaults__ = function.__defaults__ and tuple(map(_translated, function.__defaults__))
    copy.__kwdefaults__ = {name: _translated(value) for name, value in (function.__kwdefaults__ or {}).items()}
    ours = triton.jit(copy, **{name: option for name in _OPTIONS if (option := getattr(kernel, name, None))})
    names = {*_names(function.__code__), "__builtins__"}
    used = {name: value for name, value in function.__globals__.items() if name in names}
    _kernels[function] = ours, used  # kernels that call each other end here
    try:
        copy.__globals__.update({name: _translated(value) for name, value in used.items()})
        for cell, given in zip(cells, function.__closure__ or (), strict=True):
            if given != CellType():
                cell.cell_contents = _translated(given.cell_contents)
    except BaseException:
        del _kernels[function]
        raise
    return ours


def _names(code: CodeType) -> Iterator[str]:
    """Yields the names that code and the functions in it have, other than of variables."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class _Module(ModuleType):
    """A module of the user's with kernels of Triton's, as block programs see it."""

    def __init__(self, original: ModuleType) -> None:
        super().__init__(original.__name__)
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        return _translated(getattr(self.__dict__["_original"], name))


def _translated(value: Any) -> Any:
    """Returns our counterpart of a module, function, type or constant of Triton's; other values as they are."""
    if isinstance(value, ModuleType):
        return _module(value)
    origin = getattr(value, "__module__", None) or type(value).__module__
    if not _is_tritons(type(value).__module__) and not _is_tritons(origin):
        return value
    kind = type(value).__name__
    if kind == "JITFunction" and not _is_tritons(value.fn.__module__):
        return _kernel_of(value)
    language = import_module(f"{_OURS}.language")
    if kind == "constexpr":
        return language.constexpr(_translated(value.value))
    if kind == "dtype":
        return getattr(language, repr(value).rpartition(".")[2], value)
    name = getattr(value, "__name__", None) or str(value)
    for owner in (counterpart(origin), language, import_module(_OURS)):
        if owner is not None and hasattr(owner, name):
            return getattr(owner, name)
    return value


def _is_tritons(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _module(value: ModuleType) -> Any:
    """Returns our counterpart of a module of Triton's, or of one that has kernels of Triton's; other modules as is."""
    if _is_tritons(value.__name__):
        return counterpart(value.__name__) or value
    has_kernels = any(type(item).__name__ == "JITFunction" for item in list(vars(value).values()))
    return _Module(value) if has_kernels else value


def counterpart(name: str) -> Any:
    """Returns our module of the name of one of Triton's, or None."""
    if not _is_tritons(name):
        return None
    try:
        return import_module(_OURS + name.removeprefix(_PACKAGE))
    except ImportError:
        return None
