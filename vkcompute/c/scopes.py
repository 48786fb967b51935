"""The meaning of the names of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vkcompute.c import types
from vkcompute.c.macros import Macros
from vkcompute.c.terms import Term, converted
from vkcompute.errors import KernelError

Lines = list[str]


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
class Function:
    """A function of a text, which is translated for the types of each call of a template.

    Attributes:
        name: its name in C.
        result: the type of its result, or the name of a parameter of the template; None for `void`.
        parameters: its parameters.
        template: the names of the template's parameters.
        translate: returns the name in Python of the translation for types of the template's parameters.
    """

    name: str
    result: types.DType | str | None
    parameters: Sequence[Parameter]
    template: Sequence[str]
    translate: Callable[[Mapping[str, types.DType]], str]
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
        if len(arguments) != len(self.parameters):
            n = len(self.parameters)
            raise KernelError(f"{self.name} takes {n} argument{'s' * (n != 1)}; got {len(arguments)}")
        bound = self._bound(arguments, given)
        texts = []
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            kind = bound[parameter.type] if isinstance(parameter.type, str) else parameter.type
            texts.append(self._passed(parameter, argument, kind))
        result = bound[self.result] if isinstance(self.result, str) else self.result
        return f"{self.translated(tuple(bound.values()))}({', '.join(texts)})", result

    def translated(self, kinds: tuple[types.DType, ...]) -> str:
        """Returns the name in Python of the translation for types of the template's parameters."""
        if kinds not in self._translations:
            self._translations[kinds] = self.translate(dict(zip(self.template, kinds, strict=True)))
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
            wanted = "an array" if parameter.is_array else "a number"
            raise KernelError(f"{parameter.name} of {self.name} is {wanted}; pass {wanted}")
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
        macros: the macros.
        module: lines of Python that precede the kernel, the translations of functions.
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
        self.functions: dict[str, list[Function]] = {}
        self.macros: Macros = {}
        self.module: Lines = []

    def inside(self, typedefs: Mapping[str, types.DType]) -> Scope:
        """Returns the scope of a function: what is known here, and more types; `module` is the same list."""
        inner = Scope(self.names, self.arrays, self.typedefs | dict(typedefs), self.constants)
        inner.functions = {name: list(functions) for name, functions in self.functions.items()}
        inner.module = self.module
        return inner

    def declare(self, name: str, term: Term, *, is_array: bool = False) -> None:
        """Gives a name a meaning, in the place of another."""
        self.names.pop(name, None)
        self.arrays.pop(name, None)
        (self.arrays if is_array else self.names)[name] = term
        self.constants -= {name}

    def block(self) -> tuple[dict[str, Term], dict[str, Term], frozenset[str]]:
        """Returns the names before a block, for `leave`."""
        return dict(self.names), dict(self.arrays), self.constants

    def leave(self, before: tuple[dict[str, Term], dict[str, Term], frozenset[str]]) -> None:
        """Forgets the names of a block."""
        self.names, self.arrays, self.constants = before
