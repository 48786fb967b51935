"""Fingerprints: texts of functions and constants that are equal in two processes only if their meaning is.

A fingerprint is None where equality cannot be known; what depends on it is not cached on disk.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute import frontend, ir, spirv
from vkcompute.code_version import code_version
from vkcompute.frontend.constants import PLAIN, is_named, plain_text
from vkcompute.frontend.source import PROGRAM, Definition, code_parts, last_line, lines_of
from vkcompute.jit.library.vector import VectorType

_OWN = f"{__name__.partition('.')[0]}."  # functions of this package are known by name; `compiler` covers their code
_FOLDERS = (
    Path(ir.__file__).parent,
    Path(spirv.__file__).parent,
    Path(frontend.__file__).parent,
    Path(__file__).parents[1],
)


def value(found: Any) -> str | None:
    """Returns the fingerprint of a captured constant, function, class or module."""
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
    if isinstance(definition := getattr(found, "definition", None), Definition):  # compiled where it is called
        return function(definition.function)
    if isinstance(found, type) and is_named(found):
        return None  # its fields may change
    if isinstance(found, (type, np.ufunc, FunctionType, BuiltinFunctionType, VectorType)):
        module = getattr(found, "__module__", "numpy")
        return f"{type(found).__name__} {module}.{getattr(found, '__qualname__', found.__name__)}"
    return None


def function(found: FunctionType) -> str | None:
    """Returns the fingerprint of a function: name, code with line numbers, text, defaults and annotations.

    It has no captured globals. The name of an expression is its text. Python has no code for the annotations of
    variables, by which kernels convert; only the text has them.
    """
    source = _text(found)
    defaults = value((found.__defaults__ or (), *(found.__kwdefaults__ or {}).items()))
    try:
        annotations = repr(found.__annotations__)
    except NameError:  # Python 3.14 evaluates annotations here, earlier versions at the definition
        return None
    if defaults is None or source is None:
        return None
    place = f"{found.__code__.co_filename}:{found.__code__.co_firstlineno}"
    text = "\0".join((found.__name__, place, *code_parts(found.__code__), source, defaults, annotations))
    return f"function {hashlib.sha256(text.encode()).hexdigest()}"


def _text(found: FunctionType) -> str | None:
    """Returns the lines of a function in its file, or the program that has it; None if neither is known."""
    code, program = found.__code__, vars(found).get(PROGRAM)
    if program is not None:
        return str(program)
    text = "".join(lines_of(found)[code.co_firstlineno - 1 : last_line(code)])
    return None if not text and code.co_filename in ("<string>", "<stdin>") else text


def compiler() -> str | None:
    """Returns the fingerprint of the compiler: of ir/, spirv/, frontend/ and jit/; None for a package in an archive."""
    return code_version(*_FOLDERS)
