"""Fingerprints: texts of functions and constants that are equal in two processes only if their meaning is.

A fingerprint is None where equality cannot be known; what depends on it is not cached on disk.
`PythonOrigin` gives the cache those of a program.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vkcompute import compiled, frontend, ir, operations, spirv
from vkcompute.code_version import code_version
from vkcompute.compiled.captured import PLAIN, CapturedGlobal, NamedConstant, plain_text
from vkcompute.frontend.captured import lookup_in, with_functions
from vkcompute.frontend.code_objects import PROGRAM, code_parts, last_line
from vkcompute.frontend.constants import is_named
from vkcompute.frontend.source import Definition, lines_of
from vkcompute.jit.frontend.intrinsics import of_numbers
from vkcompute.jit.library.vector import VectorType

_OWN = f"{__name__.partition('.')[0]}."  # functions of this package are known by name; `compiler` covers their code
_FOLDERS = (
    *[Path(package.__path__[0]) for package in (ir, spirv, compiled, operations, frontend)],
    Path(__file__).parents[1],
    Path(__file__).parents[2] / "c",  # whose functions texts in C and kernels call
)

_Owner = tuple[str, Any]
"""("globals" or "attributes", name of a module), ("module of", position of the function), or ("cell", (position of the
function, index in its closure)). "module of" is for modules that `sys.modules` lacks, as compilers load the code that
they generate.
"""


def value(captured: Any) -> str | None:
    """Returns the fingerprint of a captured constant, function, class or module."""
    captured = of_numbers(captured)
    if isinstance(captured, tuple):
        parts = [value(part) for part in captured]
        fields = getattr(captured, "_fields", "")
        return None if None in parts else f"{fields}({', '.join(map(str, parts))})"
    if isinstance(captured, PLAIN):
        return plain_text(captured)
    if isinstance(captured, NamedConstant):
        return captured.fingerprint
    if isinstance(captured, ModuleType):
        return f"module {captured.__name__}"
    if isinstance(captured, FunctionType) and not _is_known_by_name(captured):
        return function(captured)
    if isinstance(definition := getattr(captured, "definition", None), Definition):  # compiled where it is called
        return function(definition.function)
    if isinstance(captured, type) and is_named(captured):
        return None  # its fields may change
    if isinstance(captured, (type, np.ufunc, FunctionType, BuiltinFunctionType, VectorType)):
        module = getattr(captured, "__module__", "numpy")
        return f"{type(captured).__name__} {module}.{getattr(captured, '__qualname__', captured.__name__)}"
    return None


def _is_known_by_name(fn: FunctionType) -> bool:
    """True for a function that this package has under its name, as it has no lambda and no function of a call."""
    if not str(fn.__module__).startswith(_OWN):
        return False
    owner: Any = sys.modules.get(fn.__module__)
    for name in fn.__qualname__.split("."):
        owner = getattr(owner, name, None)
    return owner is fn


def function(fn: FunctionType) -> str | None:
    """Returns the fingerprint of a function: name, code with line numbers, text, defaults and annotations.

    It has no captured globals. The name of an expression is its text. Python has no code for the annotations of
    variables, by which kernels convert; only the text has them.
    """
    source = _text(fn)
    defaults = value((fn.__defaults__ or (), *(fn.__kwdefaults__ or {}).items()))
    try:
        annotations = repr(fn.__annotations__)
    except NameError:  # Python 3.14 evaluates annotations here, earlier versions at the definition
        return None
    if defaults is None or source is None:
        return None
    location = f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
    text = "\0".join((fn.__name__, location, *code_parts(fn.__code__), source, defaults, annotations))
    return f"function {hashlib.sha256(text.encode()).hexdigest()}"


def _text(fn: FunctionType) -> str | None:
    """Returns the lines of a function in its file, or the program that has it; None if neither is known."""
    code, program = fn.__code__, vars(fn).get(PROGRAM)
    if program is not None:
        return str(program)
    text = "".join(lines_of(fn)[code.co_firstlineno - 1 : last_line(code)])
    return None if not text and code.co_filename in ("<string>", "<stdin>") else text


def compiler() -> str | None:
    """Returns the fingerprint of the installed compiler, that is of seven folders; None for a package in an archive."""
    return code_version(*_FOLDERS)


class PythonOrigin:
    """Functions from which programs are compiled; an `Origin`.

    Args:
        rules: a function of the language, whose folder has all of the language's code that is outside of `jit/`.

    Attributes:
        name: that of the first function, for messages.
    """

    def __init__(self, functions: Sequence[FunctionType], rules: Callable[..., object] | None = None) -> None:
        self._functions, self._rules = functions, rules
        self.name: str = functions[0].__name__ if functions else "a function of arrays"

    def text(self) -> str | None:
        """Returns the fingerprints of the compiler and of the functions; None if one has none."""
        texts = [compiler(), *map(function, self._functions)]
        if self._rules is not None:
            file = sys.modules[self._rules.__module__].__file__
            texts += [self._rules.__qualname__, None if file is None else code_version(Path(file).parent)]
        return None if None in texts else "\0".join(map(str, texts))

    def stored(self, captured: Iterable[CapturedGlobal]) -> list[tuple[Any, ...]] | None:
        """Describes captured globals by owner, name and fingerprint; None if one lacks one of them."""
        described = [
            (self._owner(owner), name, value(constant))
            for _, name, constant, owner in captured
            if not isinstance(owner, FunctionType)  # the value of a function has its code and its defaults
        ]
        return None if any(None in row for row in described) else described

    def looked_up(self, stored: Iterable[tuple[Any, ...]]) -> tuple[CapturedGlobal, ...] | None:
        """Finds stored globals again; None if one has another fingerprint now."""
        captured = []
        for described in stored:
            again = self._again(*described)
            if again is None:
                return None
            captured.append(again)
        return with_functions(captured)

    def _owner(self, owner: Any) -> _Owner | None:
        """Describes an owner so that another process finds it; None if that is not possible."""
        if isinstance(owner, dict):
            name = str(owner.get("__name__"))
            if vars(sys.modules.get(name, ModuleType(""))) is owner:
                return "globals", name
            return next((("module of", at) for at, fn in enumerate(self._functions) if fn.__globals__ is owner), None)
        if isinstance(owner, ModuleType):
            return ("attributes", owner.__name__) if sys.modules.get(owner.__name__) is owner else None
        for at in range(len(self._functions)):
            for n, cell in enumerate(self._cells(at)):
                if cell is owner:
                    return "cell", (at, n)
        return None

    def _cells(self, at: int) -> Sequence[Any]:
        return self._functions[at].__closure__ or ()

    def _again(self, described: _Owner, name: str, text: str) -> CapturedGlobal | None:
        """Looks up a stored global; None if its value has another text now."""
        kind, which = described
        owner: Any
        if kind == "cell":
            owner = self._cells(which[0])[which[1]]
        elif kind == "module of":
            owner = self._functions[which].__globals__
        elif (owner := sys.modules.get(which)) is None:
            return None
        elif kind == "globals":
            owner = vars(owner)
        lookup = lookup_in(owner, item=isinstance(owner, dict))
        try:
            constant = lookup(name)
        except (AttributeError, ValueError):
            return None
        return CapturedGlobal(lookup, name, constant, owner) if value(constant) == text else None
