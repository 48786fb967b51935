"""Modules that Inductor has written, loaded with our package in the place of Triton.

No module of `sys.modules` is replaced: each loaded module has an `__import__` of its own. So a program for CUDA in the
same process has Triton's package, and without it nothing else believes that it is installed.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from torch._inductor import async_compile, runtime
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime import hints

from vkcompute.blocks.language import ordering
from vkcompute.compat import triton
from vkcompute.compat.triton import language
from vkcompute.compat.triton.language import math, standard
from vkcompute.compat.triton.language.extra import libdevice
from vkcompute.torch.inductor import programs
from vkcompute.torch.kernels import DEVICE_NAME
from vkcompute.torch.triton_package import counterpart

_RUNTIME = "torch._inductor.runtime"
_HELPERS = "triton_helpers_of_vk"
"""The name of our copy of `torch._inductor.runtime.triton_helpers`, which calls our package."""
_loaded: dict[str, ModuleType] = {}
"""Modules of programs, by the keys of their texts."""


class AsyncCompile(async_compile.AsyncCompile):  # type: ignore[misc]
    """Inductor's loader of the programs of a graph; those of the device are block programs."""

    def triton(self, kernel_name: str, source_code: str, device_str: str = DEVICE_NAME) -> Any:
        """Returns the program of this name in a text."""
        if device_str != DEVICE_NAME:
            return super().triton(kernel_name, source_code, device_str)
        key, path = PyCodeCache.write(source_code)
        if key not in _loaded:
            _loaded[key] = load(kernel_name, path, _replaced(), AttrsDescriptor=hints.AttrsDescriptorWrapper)
            getattr(_loaded[key], kernel_name).compile()
        return getattr(_loaded[key], kernel_name)


def check_launches(launches: Iterable[tuple[programs.Program, Sequence[int]]]) -> None:
    """Compiles programs for tensors that are larger than a binding, or more than a device binds.

    Args:
        launches: programs, and the bytes of each tensor.

    Raises:
        ValueError: the device has too few bindings for a launch.
    """
    for program, sizes in launches:
        if isinstance(program, programs.Program):
            program.check(sizes)


def load(name: str, path: str, replaced: Mapping[str, Any], **known: Any) -> ModuleType:
    """Returns a module made of a file, in which some imports give others than usual; those of Triton give our package.

    Args:
        replaced: modules by the names of imports, with dots in front for relative ones. One that is imported without
            names, as in `import triton.language`, is that of its first part.
        known: names that the module has from the start.
    """
    module = ModuleType(name)

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        wanted = "." * level + name
        found_by = wanted if fromlist else wanted.partition(".")[0]
        found = replaced.get(found_by) or counterpart(found_by)
        return found or builtins.__import__(name, globals, locals, fromlist, level)

    module.__file__ = path
    module.__dict__.update(known)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": imported}
    exec(compile(Path(path).read_text(), path, "exec"), module.__dict__)
    return module


@cache
def _replaced() -> dict[str, Any]:
    """Returns the modules that programs of Inductor import in the place of others."""
    helpers = _helpers()
    given = SimpleNamespace(**vars(runtime))
    given.triton_helpers, given.triton_heuristics = helpers, programs.HEURISTICS
    return {_RUNTIME: given, f"{_RUNTIME}.triton_helpers": helpers}


def _helpers() -> ModuleType:
    """Returns the functions that programs of Inductor call, which are block programs here."""
    compat = SimpleNamespace(
        triton=triton,
        tl=language,
        math=math,
        libdevice=libdevice,
        _log2=standard._log2,
        JITFunction=triton.JITFunction,
        builtins_use_semantic_kwarg=True,
    )
    path = str(Path(str(runtime.__file__)).with_name("triton_helpers.py"))
    module = load(_HELPERS, path, {".triton_compat": compat})
    module.set_driver_to_gpu = lambda: None  # type: ignore[attr-defined]  # it looks for Triton's drivers
    module.sort_with_index = ordering.sort_with_index  # type: ignore[attr-defined]
    sys.modules[_HELPERS] = module  # where programs that come from the disk look their functions up
    return module
