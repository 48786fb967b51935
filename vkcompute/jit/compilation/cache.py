"""The disk cache of specializations, keyed by the compiler, the function and the types of its arguments.

The globals that a function captures are known only after it has been compiled. So they are part of an entry, not of its
key: each with its owner, its name and the text of its value. They are looked up again when the entry is read.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from vkcompute import disk
from vkcompute.jit.compilation import fingerprint
from vkcompute.jit.compilation.specialization import Specialization
from vkcompute.jit.frontend.captured import CapturedGlobal, lookup_in
from vkcompute.jit.frontend.report import Site

Owner = tuple[str, Any]
"""("globals" or "attributes", name of a module), or ("cell", index in the function's closure)."""


def cached(make: Callable[[], Specialization], function: FunctionType, *rest: Any) -> Specialization:
    """Returns a specialization from the disk; if there is none, makes and stores it.

    Args:
        rest: the other arguments on which it depends, as the signature.
    """
    parts = fingerprint.compiler(), fingerprint.function(function)
    if None in parts:
        return make()
    key = hashlib.sha256("\0".join(map(str, (*parts, *rest))).encode()).hexdigest()
    entry = disk.cache_folder() / "python" / key
    found = _load(entry, function)
    if found is None:
        found = make()
        _store(entry, function, found)
    return found


def _load(entry: Path, function: FunctionType) -> Specialization | None:
    """Returns a stored specialization if all of its captured globals are unchanged."""
    data = disk.read_cached(entry)
    if data is None:
        return None
    head, _, spirv = data.partition(b"\n")
    fields, stored = json.loads(head)
    captured = []
    for each in stored:
        again = _captured_again(function, *each)
        if again is None:
            return None
        captured.append(again)
    pushes, first, linear, local_size, features, iterations, sites = map(_frozen, fields)
    places = tuple([Site(*each) for each in sites])
    return Specialization(spirv, pushes, first, linear, local_size, tuple(captured), features, iterations, places)


def _store(entry: Path, function: FunctionType, found: Specialization) -> None:
    """Stores a specialization, unless a captured global cannot be found or compared in another process."""
    stored = [(_owner(owner, function), name, fingerprint.value(value)) for _, name, value, owner in found.captured]
    if any(None in each for each in stored):
        return
    s = found
    fields = s.pushes, s.first, s.linear, s.local_size, s.features, s.iterations, s.sites
    disk.keep_cached(entry, json.dumps((fields, stored)).encode() + b"\n" + s.spirv)


def _owner(owner: Any, function: FunctionType) -> Owner | None:
    """Describes an owner so that another process finds it; None if that is not possible."""
    if isinstance(owner, dict):
        name = str(owner.get("__name__"))
        return ("globals", name) if vars(sys.modules.get(name, ModuleType(""))) is owner else None
    if isinstance(owner, ModuleType):
        return ("attributes", owner.__name__) if sys.modules.get(owner.__name__) is owner else None
    for n, cell in enumerate(function.__closure__ or ()):
        if cell is owner:
            return "cell", n
    return None


def _captured_again(function: FunctionType, described: Owner, name: str, text: str) -> CapturedGlobal | None:
    """Looks up a stored global again; None if its value has another text now."""
    kind, which = described
    owner: Any = (function.__closure__ or ())[which] if kind == "cell" else sys.modules.get(which)
    if owner is None:
        return None
    owner = vars(owner) if kind == "globals" else owner
    lookup = lookup_in(owner, item=kind == "globals")
    try:
        found = lookup(name)
    except (AttributeError, ValueError):
        return None
    return CapturedGlobal(lookup, name, found, owner) if fingerprint.value(found) == text else None


def _frozen(given: Any) -> Any:
    """Converts lists to tuples, which JSON does not keep."""
    return tuple(map(_frozen, given)) if isinstance(given, list) else given
