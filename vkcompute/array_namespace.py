"""The namespace of arrays: the module with their functions, which is on a higher floor than the arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

_providers: list[Callable[[], ModuleType]] = []
_found: list[ModuleType] = []


def register(provider: Callable[[], ModuleType]) -> None:
    """Sets the function that imports the namespace."""
    _providers[:] = [provider]


def namespace() -> ModuleType:
    """Returns the namespace of arrays, imported on first use."""
    if not _found:
        _found.append(_providers[0]())
    return _found[0]
