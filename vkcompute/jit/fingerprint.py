"""Functions and constants as text that is the same in every process, where what they mean is the same.

Whatever is not known to be so has none (None), and what depends on it is not kept on disk.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute import ir
from vkcompute._version import __version__
from vkcompute.jit.values import PLAIN, is_named, plain_text
from vkcompute.jit.vectors import VectorType

_OWN = f"{__name__.partition('.')[0]}."  # whose functions are known by name: `compiler` has what they do


def value(found: Any) -> str | None:
    """The text of a constant, a function, a class or a module that a kernel has found outside."""
    if isinstance(found, tuple):
        parts = [value(each) for each in found]
        fields = getattr(found, "_fields", "")
        return None if None in parts else f"{fields}({', '.join(map(str, parts))})"
    if isinstance(found, PLAIN):
        return plain_text(found)
    if isinstance(found, ModuleType):
        return f"module {found.__name__}"
    if isinstance(found, FunctionType) and not str(found.__module__).startswith(_OWN):
        return function(found)
    if isinstance(found, type) and is_named(found):
        return None  # what its fields are may change
    if isinstance(found, (type, np.ufunc, FunctionType, BuiltinFunctionType, VectorType)):
        module = getattr(found, "__module__", "numpy")
        return f"{type(found).__name__} {module}.{getattr(found, '__qualname__', found.__name__)}"
    return None


def function(found: FunctionType) -> str | None:
    """The text of a function: its code, places included, its defaults and annotations; not what it reads."""
    defaults = value((found.__defaults__ or (), *(found.__kwdefaults__ or {}).items()))
    try:
        annotations = repr(found.__annotations__)
    except NameError:  # which Python 3.14 finds here, and others where the function is made
        return None
    if defaults is None:
        return None
    text = "\0".join((*_code(found.__code__), defaults, annotations))
    return f"function {hashlib.sha256(text.encode()).hexdigest()}"


def _code(code: CodeType) -> Iterator[str]:
    lines = getattr(code, "co_linetable", b"")
    for part in (code.co_filename, code.co_firstlineno, lines, code.co_code, code.co_names, code.co_varnames):
        yield repr(part)
    for part in (code.co_argcount, code.co_freevars, code.co_cellvars):
        yield repr(part)
    for each in code.co_consts:
        yield from _code(each) if isinstance(each, CodeType) else (f"{type(each).__name__} {each!r}",)


@functools.cache
def compiler() -> str | None:
    """The text of the compiler itself, as it is installed, and of what it runs on; None where it is in an archive."""
    try:
        files = [each for folder in (ir.__file__, __file__) for each in os.scandir(os.path.dirname(folder))]
        infos = sorted((each.name, each.stat()) for each in files if each.name.endswith(".py"))
    except OSError:
        return None
    texts = [f"{name} {info.st_size} {info.st_mtime_ns}" for name, info in infos]
    return " ".join((__version__, sys.version, np.__version__, *texts))
