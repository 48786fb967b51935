"""The parser of what precedes a kernel in C: types, constants, and functions of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from vkcompute.c import terms, types
from vkcompute.c.scopes import DeviceFunction, Lines, Parameter, Scope
from vkcompute.c.statements import StatementParser
from vkcompute.c.terms import Term
from vkcompute.errors import KernelError

_SPECIFIERS = (
    "__device__", "__host__", "__forceinline__", "__noinline__", "__inline__", "__constant__", "inline", "static",
    "constexpr", "extern", "const", "volatile", "register",
)  # fmt: skip


def scope_of(text: str, typedefs: Mapping[str, types.DType]) -> Scope:
    """Returns the scope of a kernel after definitions in C.

    Args:
        text: the definitions.
        typedefs: types that the text uses.

    Raises:
        UntranslatedError: the text has parts of C that are not translated.
        KernelError: C refuses it.
    """
    scope = Scope(typedefs=typedefs)
    DefinitionParser(text, scope).definitions()
    return scope


class DefinitionParser(StatementParser):
    """Adds the definitions of a text to its scope."""

    def definitions(self) -> None:
        """Parses the whole text."""
        while self.peek().kind != "end":
            if self.passes("typedef"):
                self._type(is_first=True)
            elif self.passes("using"):
                self._type(is_first=False)
            elif not self.passes(";"):
                self._definition()

    def _type(self, *, is_first: bool) -> None:
        """Parses `typedef T name;` or `using name = T;` behind its first word."""
        name = ""
        if not is_first:
            name = self.next().text
            self.take("=")
        self._pass_qualifiers()
        kind = self.type_name()
        if is_first:
            name = self.next().text
        if kind is None or self.peek().text != ";":
            self.refuse()
        self.take(";")
        self.scope.typedefs[name] = kind

    def _definition(self) -> None:
        """Parses a function, or constants of one type."""
        template = self._template()
        self._pass_specifiers()
        kind = None if self.passes("void") else self._type_of(template)
        self._pass_specifiers()
        if self.peek().kind != "name":
            self.refuse()
        if self.peek(1).text == "(":
            self._function(kind, template)
        elif isinstance(kind, np.dtype):
            self._constants(kind)
        else:
            self.refuse()

    def _pass_specifiers(self) -> None:
        while self.peek().text in _SPECIFIERS:
            if self.next().text == "extern" and self.passes('"'):
                self.take("C", '"')

    def _template(self) -> list[str]:
        """Returns the names of `template <typename T, class U>`; none without a template."""
        names: list[str] = []
        if not self.passes("template"):
            return names
        self.take("<")
        while not self.passes(">"):
            if self.peek().text not in ("typename", "class"):
                self.refuse()
            self.next()
            names.append(self.next().text)
            self.passes(",")
        return names

    def _type_of(self, template: Sequence[str]) -> types.DType | str:
        """Returns the type that follows, or the name of a template's parameter."""
        self._pass_qualifiers()
        if self.peek().text in template:
            name = self.next().text
            self._pass_qualifiers()
            return name
        kind = self.type_name()
        if kind is None:
            self.refuse()
        return kind

    # -- constants ----------------------------------------------------------------------------------------------------

    def _constants(self, kind: types.DType) -> None:
        """Parses constants and tables of one type."""
        while not self.passes(";"):
            name = self.next().text
            if self.peek().text == "[":
                self._table(name, kind)
            else:
                self.take("=")
                self.scope.declare(name, _known(name, terms.converted(self.expression(), kind)))
            if self.peek().text != ";":
                self.take(",")

    def _table(self, name: str, kind: types.DType) -> None:
        """Parses an array of constants, and adds it to the module."""
        length, values = self.elements()
        if values is None:
            self.refuse()
        known = [_known(name, terms.converted(value, kind)).value for value in values]
        data = np.array(known + [0] * (length - len(known)), kind)
        text = f"t{len(self.scope.module)}_{name}"
        numbers = ", ".join([terms.constant(value).text for value in data])
        self.scope.module.append(f"{text} = np.array([{numbers}], np.{kind.name})")
        self.scope.declare(name, Term(text, kind), is_array=True)
        self.scope.constants |= {name}

    # -- functions ----------------------------------------------------------------------------------------------------

    def _function(self, result: types.DType | str | None, template: Sequence[str]) -> None:
        """Parses a function, or a declaration without a body, which has no effect."""
        name = self.next().text
        parameters = self._parameters(template)
        self._pass_specifiers()
        if self.passes(";"):
            return
        body, scope = self._body(), self.scope.inside({})
        function = DeviceFunction(name, result, parameters, template, partial(_translated, body, scope))
        if not template:
            function.translated(())
        self.scope.functions.setdefault(name, []).append(function)

    def _parameters(self, template: Sequence[str]) -> list[Parameter]:
        parameters: list[Parameter] = []
        self.take("(")
        if self.passes("void", ")"):
            return parameters
        while not self.passes(")"):
            parameters.append(self._parameter(template))
            if self.peek().text != ")":
                self.take(",")
        return parameters

    def _parameter(self, template: Sequence[str]) -> Parameter:
        start = self.at
        kind = self._type_of(template)
        is_constant = any(token.text == "const" for token in self.tokens[start : self.at])
        is_array = self.passes("*")
        while self.peek().text in ("__restrict__", "__restrict", *types.QUALIFIERS):
            self.next()
        if not is_array and self.peek().text == "&":
            if not is_constant:
                self.refuse()  # a reference, by which the function assigns
            self.next()
        name = self.next().text if self.peek().kind == "name" else ""  # declarations may leave it out
        if self.peek().text not in ("[", ",", ")"):
            self.refuse()
        if self.passes("["):
            is_array = True
            if self.peek().text != "]":
                self.expression()
            self.take("]")
        return Parameter(name, kind, is_array, is_constant)

    def _body(self) -> str:
        """Parses the body that follows, and returns its text."""
        self.take("{")
        start, depth = self.at, 1
        while depth:
            token = self.next()
            if token.kind == "end":
                raise KernelError("the body of a function has no end; add }")
            depth += (token.text == "{") - (token.text == "}")
        return " ".join([token.text for token in self.tokens[start : self.at - 1]])


class _BodyParser(StatementParser):
    """Translates the body of a function, whose result has a type; None for `void`."""

    def __init__(self, text: str, scope: Scope, result: types.DType | None) -> None:
        super().__init__(text, scope, end="")
        self._returned = result

    def _statement(self) -> Lines:
        if not self.passes("return"):
            return super()._statement()
        if self._returned is None:
            self.take(";")
            return ["return"]
        value = terms.converted(self.expression(), self._returned)
        self.take(";")
        return [f"return {value.text}"]


def _translated(body: str, outer: Scope, function: DeviceFunction, bound: Mapping[str, types.DType]) -> str:
    """Adds the translation of a function to the module; returns its name in Python."""
    (kinds, result), scope = function.bound_types(bound), outer.inside(bound)
    names = [
        f"v_{parameter.name}" if parameter.name else f"unused_{k}" for k, parameter in enumerate(function.parameters)
    ]
    for parameter, text, kind in zip(function.parameters, names, kinds, strict=True):
        scope.declare(parameter.name, Term(text, kind), is_array=parameter.is_array)
        if parameter.is_array and parameter.is_constant:
            scope.constants |= {parameter.name}
    lines = _BodyParser(body, scope, result).lines() or ["pass"]
    last = [line for line in lines if not line.startswith(" ")][-1]
    if result is not None and last == "while True:":
        lines.append(f"return {terms.constant(result.type(0)).text}")  # not reached, but demanded of kernels
    text = f"f{len(scope.module)}_{function.name}"
    scope.module.append("\n".join([f"def {text}({', '.join(names)}):", *[f"    {line}" for line in lines]]))
    return text


def _known(name: str, term: Term) -> Term:
    """Returns a term; raises KernelError if it is no constant."""
    if term.value is None:
        raise KernelError(f"the value of {name} is no constant; write it as a number, or in the text of the kernel")
    return term
