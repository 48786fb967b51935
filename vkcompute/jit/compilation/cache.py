"""Caches of specializations in memory and on disk, keyed by the compiler, the functions and the types of the arguments.

The globals that a function captures are known only after it has been compiled. So they are part of an entry, not of its
key: each with its owner, its name and the text of its value. They are looked up again when the entry is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from vkcompute import deferred_calls, disk
from vkcompute.errors import KernelError, hides_calls
from vkcompute.frontend.captured import CapturedGlobal, lookup_in, with_functions
from vkcompute.ir import KernelModule
from vkcompute.jit.compilation import fingerprint, plain_data
from vkcompute.jit.compilation.specialization import Specialization
from vkcompute.runtime.bounded_cache import BoundedCache
from vkcompute.slow_work import announced

logger = logging.getLogger(__name__)

Owner = tuple[str, Any]
"""("globals" or "attributes", name of a module), or ("cell", (position of the function, index in its closure))."""

_MAX_KEYS = 256
_MAX_PER_KEY = 16  # with different captured globals

__tracebackhide__ = hides_calls


class Specializations:
    """The specializations of a kernel, of the newest keys in memory, and on disk.

    Args:
        functions: those from which the kernel is made.
        common: texts of everything else on which all of its specializations depend; None for one without a text.
    """

    def __init__(self, functions: Sequence[FunctionType], *common: str | None) -> None:
        self._functions, self._common = functions, common
        self._known: BoundedCache[tuple[Any, ...], list[Specialization]] = BoundedCache(_MAX_KEYS)

    def find(self, key: tuple[Any, ...], make: Callable[..., Specialization]) -> Specialization:
        """Returns the specialization for a key, made by `make(*key)` if there is none for today's captured globals."""
        found = self._known.get(key) or []
        for each in found:
            if not each.captured or each.is_current:
                return each
        try:
            made = self._cached(key, make)
        except KernelError as error:
            raise error.with_traceback(None) from None  # the message has the place; the compiler's calls say nothing
        self._known[key] = [made, *found[: _MAX_PER_KEY - 1]]
        return made

    def _cached(self, key: tuple[Any, ...], make: Callable[..., Specialization]) -> Specialization:
        """Returns a specialization from the disk; if there is none, makes and stores it."""
        entry = self._entry(key)
        found = None if entry is None else _load(entry, self._functions)
        if found is None:
            name = getattr(next(iter(self._functions), None), "__name__", "a function of arrays")
            with announced(f"compiling {name}"):
                found = make(*key)
            if entry is not None:
                _store(entry, self._functions, found)
        return found

    def _entry(self, key: tuple[Any, ...]) -> Path | None:
        """Returns the file of a specialization; None if something on which it depends has no text."""
        parts = fingerprint.compiler(), *self._common, *map(fingerprint.function, self._functions)
        if None in parts:
            return None
        digest = hashlib.sha256("\0".join(map(str, (*parts, *key))).encode()).hexdigest()
        return disk.cache_folder() / "python" / digest


def _load(entry: Path, functions: Sequence[FunctionType]) -> Specialization | None:
    """Returns a stored specialization if it is well-formed, and all of its captured globals are unchanged."""
    data = disk.read_cached(entry)
    if data is None:
        return None
    head, _, spirv = data.partition(b"\n")
    try:
        interface, fields, stored = plain_data.loads(head)
        captured = []
        for each in stored:
            again = _captured_again(functions, *each)
            if again is None:
                return None
            captured.append(again)
        return Specialization(KernelModule(spirv, interface), with_functions(captured), *fields)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        deferred_calls.call(partial(logger.debug, "discarding the malformed cache entry %s: %r", entry, error))
        return None


def _store(entry: Path, functions: Sequence[FunctionType], found: Specialization) -> None:
    """Stores a specialization, unless a captured global cannot be found or compared in another process."""
    stored = [
        (_owner(owner, functions), name, fingerprint.value(value))
        for _, name, value, owner in found.captured
        if not isinstance(owner, FunctionType)  # the value of a function has its code and its defaults
    ]
    if any(None in each for each in stored):
        return
    fields = [getattr(found, each.name) for each in dataclasses.fields(found)[2:]]  # behind the module and `captured`
    head = plain_data.dumps((found.module.interface, fields, stored))
    disk.keep_cached(entry, head.encode() + b"\n" + found.spirv)


def _owner(owner: Any, functions: Sequence[FunctionType]) -> Owner | None:
    """Describes an owner so that another process finds it; None if that is not possible."""
    if isinstance(owner, dict):
        name = str(owner.get("__name__"))
        return ("globals", name) if vars(sys.modules.get(name, ModuleType(""))) is owner else None
    if isinstance(owner, ModuleType):
        return ("attributes", owner.__name__) if sys.modules.get(owner.__name__) is owner else None
    for at, function in enumerate(functions):
        for n, cell in enumerate(function.__closure__ or ()):
            if cell is owner:
                return "cell", (at, n)
    return None


def _captured_again(functions: Sequence[FunctionType], described: Owner, name: str, text: str) -> CapturedGlobal | None:
    """Looks up a stored global again; None if its value has another text now."""
    kind, which = described
    owner: Any = (functions[which[0]].__closure__ or ())[which[1]] if kind == "cell" else sys.modules.get(which)
    if owner is None:
        return None
    owner = vars(owner) if kind == "globals" else owner
    lookup = lookup_in(owner, item=kind == "globals")
    try:
        found = lookup(name)
    except (AttributeError, ValueError):
        return None
    return CapturedGlobal(lookup, name, found, owner) if fingerprint.value(found) == text else None
