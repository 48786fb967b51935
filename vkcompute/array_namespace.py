"""The functions of arrays, and the methods that these compute, which are in a higher layer than arrays."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

_modules: dict[str, str] = {}


def register(*, namespace: str, methods: str) -> None:
    """Sets the names of the modules with the functions, and with `METHODS`."""
    _modules.update(namespace=namespace, methods=methods)


@cache
def namespace() -> ModuleType:
    """Returns the namespace of arrays, imported on first use: it loads the compiler and the driver."""
    return importlib.import_module(_modules["namespace"])


def methods() -> Mapping[str, Any]:
    """Returns the methods that arrays get on first use of one."""
    table: Mapping[str, Any] = importlib.import_module(_modules["methods"]).METHODS
    return table
