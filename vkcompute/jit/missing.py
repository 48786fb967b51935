"""Where a kernel uses a type that its device lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from vkcompute.errors import KernelError, MissingFeature
from vkcompute.ir import Function, Scalar
from vkcompute.jit.compile import Signature, build
from vkcompute.jit.source import Source
from vkcompute.jit.statements import Statements
from vkcompute.jit.values import Kind, Vector, kind_of

_TYPES = {
    "Float64": ("float64",),
    "Float16": ("float16",),
    "Int64": ("int64", "uint64"),
    "Int16": ("int16", "uint16"),
    "Int8": ("int8", "uint8"),
}
"""SPIR-V's capability -> the types that need it"""


class _Finder(Statements):
    """Compiles a function once more.

    Attributes:
        places: of the first expression of each type.
    """

    def __init__(self, function: Function, real: Scalar, *, folded: bool = False) -> None:
        super().__init__(function, real, folded=folded)
        self.places: dict[str, KernelError] = {}

    def located(self, work: Callable[[Any], Any], node: ast.AST) -> Any:
        found = super().located(work, node)
        kind = kind_of(found[0] if isinstance(found, Vector) else found, self.real)
        if isinstance(kind, Kind) and kind.type.name not in self.places:
            self.places[kind.type.name] = self.error(node, f"this is {kind.type}")
        return found


def explained(
    missing: MissingFeature, function: FunctionType, source: Source, signature: Signature, *local_size: Any
) -> MissingFeature:
    """The same error, with the place in the kernel where it comes from; an argument's type speaks for itself."""
    lacking = [name for each, names in _TYPES.items() if f"capability {each} " in str(missing) for name in names]
    weak = (int, float)  # which numpy takes for 64 bits
    given = {np.dtype(each[0] if type(each) is tuple else each).name for each in signature if each not in weak}
    if not lacking or given.intersection(lacking):
        return missing
    _, finder, _ = build(function, source, signature, *local_size, using=_Finder)
    places = finder.places if isinstance(finder, _Finder) else {}
    found = [f"{missing}; where that comes in:\n{places[name]}" for name in lacking if name in places]
    return MissingFeature(found[0]) if found else missing
