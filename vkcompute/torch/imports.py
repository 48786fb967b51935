"""Patches of modules that may not be imported yet: they are applied at the import."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from typing import Any


def after_import(name: str, replaced: Any, change: Callable[[Any], None]) -> None:
    """Calls a function with a module: now if it is there, else once it has loaded.

    Args:
        name: of the module.
        replaced: `Replacements`, which end the waiting.
        change: the function.
    """
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    awaited = _Import(name, change)
    sys.meta_path.insert(0, awaited)
    replaced.on_undo(awaited.end)


class _Import(MetaPathFinder):
    """An import hook that changes a module once it has loaded."""

    def __init__(self, name: str, change: Callable[[Any], None]) -> None:
        self._name, self._change, self._is_asked = name, change, False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Returns the module's specification, with a loader that changes it."""
        if name != self._name or self._is_asked:
            return None
        self._is_asked = True
        try:
            spec = find_spec(name)
        finally:
            self._is_asked = False
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            loader.exec_module = self._following(loader.exec_module)
        return spec

    def _following(self, execute: Any) -> Any:
        def executed(module: Any) -> None:
            execute(module)
            self.end()
            self._change(module)

        return executed

    def end(self) -> None:
        """Removes the import hook."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
