"""Compiled kernels on disk, by what they depend on: the compiler, the function, its arguments' types, what it reads.

What a function reads is known once it is compiled. So it is in the entry, not in its key: with each name where it was
looked up and what was found, as text. Whoever takes the entry looks there again.
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
from vkcompute.jit import fingerprint
from vkcompute.jit.compile import Variant
from vkcompute.jit.expressions import Read, lookup_in
from vkcompute.jit.report import Site

Place = tuple[str, Any]
"""("globals" or "attributes", a module's name) or ("cell", its number among the function's)"""


def kept(make: Callable[[], Variant], function: FunctionType, *rest: Any) -> Variant:
    """The variant of a function for a signature and the like (`rest`): from the disk, or made, and kept if possible."""
    parts = fingerprint.compiler(), fingerprint.function(function)
    if None in parts:
        return make()
    key = hashlib.sha256("\0".join(map(str, (*parts, *rest))).encode()).hexdigest()
    entry = disk.cache_folder() / "python" / key
    variant = _load(entry, function)
    if variant is None:
        variant = make()
        _keep(entry, function, variant)
    return variant


def _load(entry: Path, function: FunctionType) -> Variant | None:
    """The variant that was kept, if all that it read is still what it was."""
    data = disk.read_cached(entry)
    if data is None:
        return None
    head, _, spirv = data.partition(b"\n")
    fields, stored = json.loads(head)
    reads = []
    for each in stored:
        read = _read_again(function, *each)
        if read is None:
            return None
        reads.append(read)
    pushes, first, linear, local_size, features, passes, sites = map(_frozen, fields)
    places = tuple([Site(*each) for each in sites])
    return Variant(spirv, pushes, first, linear, local_size, tuple(reads), features, passes, places)


def _keep(entry: Path, function: FunctionType, variant: Variant) -> None:
    """Keeps a variant, unless something that it read cannot be looked up in another process, or told from others."""
    stored = [(_place(owner, function), name, fingerprint.value(found)) for _, name, found, owner in variant.reads]
    if any(None in each for each in stored):
        return
    v = variant
    fields = v.pushes, v.first, v.linear, v.local_size, v.features, v.passes, v.sites
    disk.keep_cached(entry, json.dumps((fields, stored)).encode() + b"\n" + variant.spirv)


def _place(owner: Any, function: FunctionType) -> Place | None:
    """Where `owner`, in which a name was looked up, is found in any process."""
    if isinstance(owner, dict):
        name = str(owner.get("__name__"))
        return ("globals", name) if vars(sys.modules.get(name, ModuleType(""))) is owner else None
    if isinstance(owner, ModuleType):
        return ("attributes", owner.__name__) if sys.modules.get(owner.__name__) is owner else None
    for n, cell in enumerate(function.__closure__ or ()):
        if cell is owner:
            return "cell", n
    return None


def _read_again(function: FunctionType, place: Place, name: str, text: str) -> Read | None:
    where, which = place
    owner: Any = (function.__closure__ or ())[which] if where == "cell" else sys.modules.get(which)
    if owner is None:
        return None
    owner = vars(owner) if where == "globals" else owner
    lookup = lookup_in(owner, item=where == "globals")
    try:
        found = lookup(name)
    except (AttributeError, ValueError):
        return None
    return Read(lookup, name, found, owner) if fingerprint.value(found) == text else None


def _frozen(given: Any) -> Any:
    """Lists as the tuples that they were."""
    return tuple(map(_frozen, given)) if isinstance(given, list) else given
