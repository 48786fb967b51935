"""The meaning of the names of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vkcompute.c import types
from vkcompute.c.macros import Macros
from vkcompute.c.terms import Term, converted
from vkcompute.c.tokens import require_count
from vkcompute.errors import KernelError

Lines = list[str]
_Names = tuple[dict[str, Term], dict[str, Term], frozenset[str]]


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: its name.
        type: its type, or the name of a parameter of the template.
        is_array: True for a pointer.
        is_constant: True if the function does not change it.
    """

    name: str
    type: types.DType | str
    is_array: bool = False
    is_constant: bool = False


class Argument(NamedTuple):
    """An argument: a number, or a whole array, that may be constant."""

    term: Term
    is_array: bool = False
    is_constant: bool = False


@dataclass
class DeviceFunction:
    """A function of a text, translated once for the types of a template's parameters.

    Attributes:
        name: its name in C.
        result: the type of its result, or the name of a parameter of the template; None for `void`.
        parameters: its parameters.
        template: the names of the template's parameters.
        translate: translates this function for types of the template's parameters; returns its name in Python.
    """

    name: str
    result: types.DType | str | None
    parameters: Sequence[Parameter]
    template: Sequence[str]
    translate: Callable[[DeviceFunction, Mapping[str, types.DType]], str]
    _translations: dict[tuple[types.DType, ...], str] = field(default_factory=dict)

    def takes(self, arguments: Sequence[Argument]) -> bool:
        """Returns whether the types of arguments are those of the parameters."""
        return len(arguments) == len(self.parameters) and all(
            parameter.is_array == argument.is_array
            and (isinstance(parameter.type, str) or parameter.type == argument.term.type)
            for parameter, argument in zip(self.parameters, arguments, strict=True)
        )

    def called(
        self, arguments: Sequence[Argument], given: Sequence[types.DType] = ()
    ) -> tuple[str, types.DType | None]:
        """Returns the text of a call, and the type of its result.

        Args:
            arguments: the arguments.
            given: the first types of the template, as in `f<float>(x)`.

        Raises:
            KernelError: the arguments are not those of the function.
        """
        require_count(self.name, len(self.parameters), len(arguments))
        bound = self._bound(arguments, given)
        kinds, result = self.bound_types(bound)
        pairs = zip(self.parameters, arguments, kinds, strict=True)
        texts = ", ".join([self._passed(parameter, argument, kind) for parameter, argument, kind in pairs])
        return f"{self.translated(tuple(bound.values()))}({texts})", result

    def bound_types(self, bound: Mapping[str, types.DType]) -> tuple[list[types.DType], types.DType | None]:
        """Returns the types of the parameters and of the result, for types of the template's parameters."""
        kinds = [bound[p.type] if isinstance(p.type, str) else p.type for p in self.parameters]
        return kinds, bound[self.result] if isinstance(self.result, str) else self.result

    def translated(self, kinds: tuple[types.DType, ...]) -> str:
        """Returns the name in Python of the translation for types of the template's parameters."""
        if kinds not in self._translations:
            self._translations[kinds] = self.translate(self, dict(zip(self.template, kinds, strict=True)))
        return self._translations[kinds]

    def _bound(self, arguments: Sequence[Argument], given: Sequence[types.DType]) -> dict[str, types.DType]:
        """Returns the types of the template's parameters, in their order."""
        bound = dict(zip(self.template, given, strict=False))
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if isinstance(parameter.type, str):
                kind = bound.setdefault(parameter.type, argument.term.type)
                if kind != argument.term.type and parameter.type not in self.template[: len(given)]:
                    both = f"{kind.name} and {argument.term.type.name}"
                    raise KernelError(f"{parameter.type} of {self.name} is {both}; convert an argument")
        for name in self.template:
            if name not in bound:
                raise KernelError(f"no argument of {self.name} has the type {name}; write {self.name}<float>(x)")
        return {name: bound[name] for name in self.template}

    def _passed(self, parameter: Parameter, argument: Argument, kind: types.DType) -> str:
        """Returns the text of an argument."""
        if parameter.is_array != argument.is_array:
            kinds = ("a number", "an array")
            wanted, got = kinds[parameter.is_array], kinds[argument.is_array]
            raise KernelError(f"{parameter.name} of {self.name} is {wanted}; got {got}; pass {wanted}")
        if not parameter.is_array:
            return converted(argument.term, kind).text
        if argument.term.type != kind:
            raise KernelError(f"{parameter.name} of {self.name} is {kind.name}*; got {argument.term.type.name}*")
        if argument.is_constant and not parameter.is_constant:
            raise KernelError(f"{parameter.name} of {self.name} may be changed; declare it as const {kind.name}*")
        return argument.term.text


class Scope:
    """The meaning of names.

    Args:
        names: the terms of variables.
        arrays: the terms of arrays, with the type of their elements.
        typedefs: the dtypes of names of types.
        constants: texts of variables, and names of arrays, to which nothing is assigned.

    Attributes:
        functions: the functions of the text, by name; several of one name differ in their parameters.
        macros: the macros, by name.
        module: lines of Python that precede the kernel: tables, and the translations of functions.
    """

    def __init__(
        self,
        names: Mapping[str, Term] | None = None,
        arrays: Mapping[str, Term] | None = None,
        typedefs: Mapping[str, types.DType] | None = None,
        constants: frozenset[str] = frozenset(),
    ) -> None:
        self.names, self.arrays, self.typedefs = dict(names or {}), dict(arrays or {}), dict(typedefs or {})
        self.constants = constants
        self.functions: dict[str, list[DeviceFunction]] = {}
        self.macros: Macros = {}
        self.module: Lines = []

    def inside(self, typedefs: Mapping[str, types.DType]) -> Scope:
        """Returns the scope of a function: the names of this one, and more types; both have one `module`."""
        inner = Scope(self.names, self.arrays, self.typedefs | dict(typedefs), self.constants)
        inner.functions = {name: list(functions) for name, functions in self.functions.items()}
        inner.module = self.module
        return inner

    def declare(self, name: str, term: Term, *, is_array: bool = False) -> None:
        """Declares a variable or an array, which replaces another of this name."""
        self.names.pop(name, None)
        self.arrays.pop(name, None)
        (self.arrays if is_array else self.names)[name] = term
        self.constants -= {name}

    def snapshot(self) -> _Names:
        """Returns the variables and arrays before a block, for `restore`."""
        return dict(self.names), dict(self.arrays), self.constants

    def restore(self, before: _Names) -> None:
        """Drops the variables and arrays of a block."""
        self.names, self.arrays, self.constants = before
