"""Finds the place where a kernel uses a type that its device lacks, for the error message."""

from __future__ import annotations

import ast
from types import NoneType
from typing import Any

from vkcompute.compiled.specialization import DEFAULTS, CompileOptions
from vkcompute.dtypes import as_dtype
from vkcompute.errors import KernelError, MissingFeature
from vkcompute.frontend.language import Handler
from vkcompute.frontend.source import Definition
from vkcompute.ir import Constant, Function
from vkcompute.jit.compilation.build import Rules, Signature, build, kernel_types
from vkcompute.jit.frontend.compiler import Compiler
from vkcompute.jit.frontend.type_rules import TypeRules, kind_of
from vkcompute.jit.frontend.values import Complex, Kind, Number, Vector

_TYPES = {"Float64": ("float64",), "Int64": ("int64", "uint64")}
"""SPIR-V capability -> the types that need it."""


class _Finder(Compiler):
    """A compiler that notes the first expression of each type that a device computes, as an error at its place.

    Of an expression, the place is that of its first constant of this type.
    """

    def __init__(self, function: Function, rules: TypeRules) -> None:
        super().__init__(function, rules)
        self.evaluator.around = self._noted
        self.first_uses: dict[str, KernelError] = {}
        self._constants: dict[str, dict[ast.AST, KernelError]] = {}

    def _noted(self, handler: Handler, node: ast.AST) -> Any:
        value = self.evaluator.evaluate(handler, node)
        first = value[0] if isinstance(value, (Vector, Complex)) else value
        kind = kind_of(first, self.rules)
        if not isinstance(kind, Kind) or kind.type.name in self.first_uses:
            return value
        constants = self._constants.setdefault(kind.type.name, {})
        here = self.evaluator.error(node, f"this is {kind.type}")
        if isinstance(first, Number) and not isinstance(first.value, Constant):
            inside = [constants[child] for child in ast.walk(node) if child in constants]
            self.first_uses[kind.type.name] = inside[0] if inside else here
        else:
            constants[node] = here
        return value

    def uses(self, name: str) -> KernelError | None:
        """Returns the first expression of a type; one that is folded if a device computes none."""
        return self.first_uses.get(name) or next(iter(self._constants.get(name, {}).values()), None)


def lacking_types(missing: MissingFeature) -> list[str]:
    """Returns the names of the types that a device lacks, according to an error."""
    return [
        name for capability, names in _TYPES.items() if f"capability {capability} " in str(missing) for name in names
    ]


def located(missing: MissingFeature, use: object) -> MissingFeature:
    """Adds the first use of a missing type to an error."""
    return MissingFeature(f"{missing}; it is first used here:\n{use}")


def explained(
    missing: MissingFeature,
    definition: Definition,
    signature: Signature,
    options: CompileOptions = DEFAULTS,
    rules: Rules = kernel_types,
) -> MissingFeature:
    """Adds the first use of the missing type in the kernel to an error, unless an argument has that type."""
    lacking = lacking_types(missing)
    weak = (int, float, NoneType)  # for numpy, these have 64 bits
    given = {as_dtype(kind[0] if type(kind) is tuple else kind).name for kind in signature if kind not in weak}
    if not lacking or given.intersection(lacking):
        return missing
    finder = build(_Finder, definition, signature, options, rules)
    return next((located(missing, use) for name in lacking if (use := finder.uses(name)) is not None), missing)
