"""Kernels of the package triton on tensors of the device: each is launched as a block program of the same function.

Other launches remain Triton's. Without a GPU of Triton's, its compiler gets a target, so that torch.compile can find
what a kernel writes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from types import CellType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from vkcompute.torch.kernels import DEVICE_NAME, is_on_device

_PACKAGE, _OURS = "triton", "vkcompute.compat.triton"
_LAUNCHES = f"{_PACKAGE}.runtime.jit"
_TARGET = "cuda", 80, 32
_kernels: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Block programs of this package by Triton's kernels."""


def enable(replaced: Any) -> None:
    """Launches Triton's kernels on tensors of the device as block programs, from the package's import on.

    Args:
        replaced: `Replacements`, which undo it.
    """
    jit = sys.modules.get(_LAUNCHES)
    if jit is not None:
        _replace(replaced, jit)
        return
    awaited = _Import(replaced)
    sys.meta_path.insert(0, awaited)
    replaced.on_undo(awaited.end)


class _Import(MetaPathFinder):
    """An import hook that replaces the launches of Triton's module once it has loaded."""

    def __init__(self, replaced: Any) -> None:
        self._replaced = replaced

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Returns the module's specification, with a loader that replaces its launches."""
        if name != _LAUNCHES:
            return None
        self.end()
        spec = find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            loader.exec_module = self._following(loader.exec_module)
        return spec

    def _following(self, execute: Any) -> Any:
        def executed(module: Any) -> None:
            execute(module)
            _replace(self._replaced, module)

        return executed

    def end(self) -> None:
        """Removes the import hook."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _replace(replaced: Any, jit: Any) -> None:
    replaced.replace(jit.JITFunction, "run", _launcher(jit.JITFunction.run))
    replaced.replace(import_module("torch.utils._triton"), "has_triton", lambda: True)  # Dynamo asks it about kernels
    configuration = jit.driver
    try:
        configuration.active  # noqa: B018 - raises where Triton has no GPU
    except RuntimeError:
        configuration.set_active(_driver_class()())
        replaced.on_undo(lambda: configuration.set_active(None))


def _launcher(original: Any) -> Any:
    """Returns JITFunction.run, which launches a block program of this package on tensors of the device."""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if not any(map(is_on_device, (*args, *named.values()))):
            return original(self, *args, grid=grid, warmup=warmup, **named)
        kernel = _kernel_of(self)
        return kernel.warmup(*args, grid=grid, **named) if warmup else kernel[grid](*args, **named)

    return run


def _driver_class() -> Any:
    """Returns Triton's driver for this device."""
    testing = import_module(f"{_OURS}.testing")
    target = import_module(f"{_PACKAGE}.backends.compiler").GPUTarget(*_TARGET)
    torch = import_module("torch")
    members = {
        "is_active": classmethod(lambda cls: True),
        "map_python_to_cpp_type": lambda self, ty: ty,
        "get_current_target": lambda self: target,
        "get_active_torch_device": lambda self: torch.device(DEVICE_NAME),
        "get_device_interface": lambda self: torch.vk,
        "get_current_device": lambda self: 0,
        "get_current_stream": lambda self, device=None: 0,
        "get_benchmarker": lambda self: testing.do_bench,
    }
    return type("Driver", (import_module(f"{_PACKAGE}.backends.driver").DriverBase,), members)


def _kernel_of(kernel: Any) -> Any:
    """Returns the block program of a kernel of Triton's."""
    ours = _kernels.get(kernel)
    if ours is None:
        triton, function = import_module(_OURS), kernel.fn
        copy = FunctionType(
            function.__code__,
            {},
            function.__name__,
            _translated_all(function.__defaults__),
            tuple([CellType(_translated(cell.cell_contents)) for cell in function.__closure__ or ()]),
        )
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        copy.__annotations__ = {name: _translated(value) for name, value in function.__annotations__.items()}
        ours = _kernels[kernel] = triton.jit(copy, do_not_specialize=kernel.do_not_specialize)
        copy.__globals__.update({name: _translated(value) for name, value in function.__globals__.items()})
    return ours


def _translated_all(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple([_translated(value) for value in values])


def _translated(value: Any) -> Any:
    """Returns our counterpart of a module, function, type or constant of Triton's; other values as they are."""
    if isinstance(value, ModuleType):
        return _module(value.__name__) or value
    origin = getattr(value, "__module__", None) or type(value).__module__
    if not _is_tritons(type(value).__module__) and not _is_tritons(origin):
        return value
    kind = type(value).__name__
    if kind == "JITFunction" and not _is_tritons(value.fn.__module__):
        return _kernel_of(value)
    language = import_module(f"{_OURS}.language")
    if kind == "constexpr":
        return language.constexpr(_translated(value.value))
    name = getattr(value, "__name__", None) or str(value)
    for owner in (_module(origin), language, import_module(_OURS)):
        if owner is not None and hasattr(owner, name):
            return getattr(owner, name)
    return value


def _is_tritons(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _module(name: str) -> Any:
    """Returns our counterpart of a module of Triton's, or None."""
    if not _is_tritons(name):
        return None
    try:
        return import_module(_OURS + name.removeprefix(_PACKAGE))
    except ImportError:
        return None
