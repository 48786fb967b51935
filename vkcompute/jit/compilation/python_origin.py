"""Python functions as the origin of compiled programs, for the cache."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

from vkcompute.compiled.captured import CapturedGlobal
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.frontend.captured import lookup_in, with_functions

_Owner = tuple[str, Any]
"""("globals" or "attributes", name of a module), or ("cell", (position of the function, index in its closure))."""


class PythonOrigin:
    """Functions from which programs are compiled; an `Origin`.

    Attributes:
        name: that of the first function, for messages.
    """

    def __init__(self, functions: Sequence[FunctionType]) -> None:
        self._functions = functions
        self.name: str = functions[0].__name__ if functions else "a function of arrays"

    def text(self) -> str | None:
        """Returns the fingerprints of the compiler and of the functions; None if one has none."""
        texts = [fingerprint.compiler(), *map(fingerprint.function, self._functions)]
        return None if None in texts else "\0".join(map(str, texts))

    def stored(self, captured: Iterable[CapturedGlobal]) -> list[tuple[Any, ...]] | None:
        """Describes captured globals by owner, name and fingerprint; None if one lacks one of them."""
        described = [
            (self._owner(owner), name, fingerprint.value(value))
            for _, name, value, owner in captured
            if not isinstance(owner, FunctionType)  # the value of a function has its code and its defaults
        ]
        return None if any(None in each for each in described) else described

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
            return ("globals", name) if vars(sys.modules.get(name, ModuleType(""))) is owner else None
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
        owner: Any = self._cells(which[0])[which[1]] if kind == "cell" else sys.modules.get(which)
        if owner is None:
            return None
        owner = vars(owner) if kind == "globals" else owner
        lookup = lookup_in(owner, item=kind == "globals")
        try:
            value = lookup(name)
        except (AttributeError, ValueError):
            return None
        return CapturedGlobal(lookup, name, value, owner) if fingerprint.value(value) == text else None
