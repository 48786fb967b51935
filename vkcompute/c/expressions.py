"""The parser of C's expressions, which translates them to terms."""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np

from vkcompute.c import functions, terms, types
from vkcompute.c.macros import preprocessed
from vkcompute.c.scopes import Argument, DeviceFunction, Scope
from vkcompute.c.terms import Term
from vkcompute.c.tokens import Token, UntranslatedError, character, number
from vkcompute.errors import KernelError

_ATOMICS = {
    "atomicAdd": "add", "atomicSub": "add", "atomicMax": "max", "atomicMin": "min", "atomicAnd": "and_",
    "atomicOr": "or_", "atomicXor": "xor", "atomicExch": "exchange", "atomicCAS": "compare_exchange",
}  # fmt: skip


class Parser:
    """Translates expressions of one text.

    Args:
        text: the text.
        scope: the meaning of its names.
    """

    def __init__(self, text: str, scope: Scope) -> None:
        self.scope = scope
        self.tokens = preprocessed(text, scope.macros)
        self.at = 0

    def whole(self) -> Term:
        """Returns the expression that is the whole text.

        Raises:
            UntranslatedError: it is more than an expression.
            KernelError: C refuses it.
        """
        term = self.expression()
        if self.peek().kind != "end":
            self.refuse()
        return term

    # -- tokens -------------------------------------------------------------------------------------------------------

    def refuse(self) -> NoReturn:
        """Raises UntranslatedError, with the tokens that follow."""
        near = " ".join(token.text for token in self.tokens[self.at : self.at + 4])
        raise UntranslatedError(
            "C is translated without structs, switch, references, arrays of arrays, ++ and = within expressions, and "
            f"pointers that are no parameters; got {near!r}"
        )

    def peek(self, ahead: int = 0) -> Token:
        """Returns a token that follows."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Returns the next token, and passes it."""
        token = self.peek()
        self.at += 1
        return token

    def take(self, *texts: str) -> None:
        """Passes tokens that are required."""
        for text in texts:
            if self.peek().text != text:
                self.refuse()
            self.at += 1

    def passes(self, *texts: str) -> bool:
        """Passes tokens if they follow."""
        if any(self.peek(ahead).text != text for ahead, text in enumerate(texts)):
            return False
        self.at += len(texts)
        return True

    # -- types --------------------------------------------------------------------------------------------------------

    def type_name(self) -> types.DType | None:
        """Returns the type that follows, and passes it; None if none follows."""
        start = self.at
        words: list[str] = []
        while self.peek().kind == "name":
            word = self.peek().text.removeprefix("::")
            word = re.sub(r"^(std|thrust|cuda::std)::", "", word)
            if word in self.scope.names or word in self.scope.arrays:
                break
            if word in types.QUALIFIERS:
                self.next()
            elif word == "complex" and self.peek(1).text == "<":
                return self._complex_type()
            elif word in self.scope.typedefs and not words:
                self.next()
                self._pass_qualifiers()
                return self.scope.typedefs[word]
            elif word in types.NAMES and not (words and word in types.DEFINED):
                words.append(word)
                self.next()
            else:
                break
        kind = types.named(words)
        if words and kind is None:
            raise KernelError(f"C has no type {' '.join(words)}; write it as unsigned int, long long, or float")
        if kind is None:
            self.at = start
        return kind

    def _pass_qualifiers(self) -> None:
        while self.peek().text in types.QUALIFIERS:
            self.next()

    def _complex_type(self) -> types.DType:
        self.next()
        self.take("<")
        part = self.type_name()
        self.take(">")
        if part not in (types.FLOAT, types.DOUBLE):
            raise KernelError("parts of complex numbers are float or double")
        return types.FLOAT_COMPLEX if part == types.FLOAT else types.DOUBLE_COMPLEX

    # -- operators ----------------------------------------------------------------------------------------------------

    def expression(self) -> Term:
        """Returns the expression that follows, without a comma or an assignment."""
        condition = self._binary(0)
        if not self.passes("?"):
            return condition
        one = self.expression()
        self.take(":")
        return terms.chosen(condition, one, self.expression())

    def _binary(self, least: int) -> Term:
        """Returns an expression whose binary operators have at least this precedence."""
        left = self._unary()
        while (sign := self.peek().text) in terms.PRECEDENCE and terms.PRECEDENCE[sign] >= least:
            self.next()
            left = terms.binary(sign, left, self._binary(terms.PRECEDENCE[sign] + 1))
        return left

    def _unary(self) -> Term:
        if (token := self.peek()).text in ("-", "+", "~", "!"):
            self.next()
            return terms.unary(token.text, self._unary())
        start = self.at
        if self.passes("("):
            kind = self.type_name()
            if kind is not None and self.passes(")"):
                return terms.converted(self._unary(), kind)
            self.at = start
        if self.passes("sizeof", "("):
            kind = self.type_name()
            kind = self.expression().type if kind is None else kind
            self.take(")")
            return terms.constant(np.uint64(kind.itemsize))
        return self._member(self._primary())

    def _member(self, term: Term) -> Term:
        """Returns `term.real()` or `term.imag()`."""
        while self.peek().text == "." and self.peek(1).text in ("real", "imag") and self.peek(2).text == "(":
            name = self.peek(1).text
            self.at += 2
            self.take("(", ")")
            term = terms.of_complex(name, term)
        return term

    # -- operands -----------------------------------------------------------------------------------------------------

    def _primary(self) -> Term:
        token = self.peek()
        if token.kind in ("number", "character"):
            self.next()
            return terms.constant((number if token.kind == "number" else character)(token.text))
        if self.passes("("):
            term = self.expression()
            self.take(")")
            return term
        if token.kind != "name":
            self.refuse()
        if self.passes("static_cast", "<") or self.passes("reinterpret_cast", "<"):
            return self._static_cast(token)
        if re.fullmatch(r"(::)?(cuda::)?std::numeric_limits", token.text):
            return self._limit()
        kind = self.type_name()
        return self._named() if kind is None else self._constructed(kind)

    def _static_cast(self, token: Token) -> Term:
        kind = self.type_name()
        if kind is None or token.text != "static_cast":
            self.refuse()
        self.take(">", "(")
        term = self.expression()
        self.take(")")
        return terms.converted(term, kind)

    def _limit(self) -> Term:
        """Returns `std::numeric_limits<T>::max()` and the like."""
        self.next()
        self.take("<")
        kind = self.type_name()
        self.take(">")
        value = functions.limit(self.next().text.removeprefix("::"), kind) if kind is not None else None
        if value is None:
            self.at -= 1
            self.refuse()
        self.take("(", ")")
        return terms.constant(value)

    def _constructed(self, kind: types.DType) -> Term:
        """Returns `T(x)`, or a complex number of two parts."""
        if self.peek().text not in ("(", "{"):
            self.refuse()
        arguments = self._arguments()
        if kind.kind == "c" and len(arguments) == 2:
            parts = [terms.converted(term, types.part(kind)).text for term in arguments]
            return Term(f"np.{kind.name}(complex({', '.join(parts)}))", kind)
        if not arguments:
            return terms.constant(kind.type(0))
        if len(arguments) > 1:
            raise KernelError(f"a {kind.name} is made of one number; got {len(arguments)}")
        return terms.converted(arguments[0], kind)

    def _arguments(self) -> list[Term]:
        end = {"(": ")", "{": "}"}[self.next().text]
        arguments = []
        while not self.passes(end):
            arguments.append(self.expression())
            if self.peek().text != end:
                self.take(",")
        return arguments

    def _named(self) -> Term:
        """Returns a variable, an element, or a call."""
        token = self.next()
        name = token.text.removeprefix("::").removeprefix("std::")
        name = name.removeprefix("thrust::")
        if name in self.scope.functions and name not in self.scope.names and self.peek().text in ("(", "<"):
            return self._result(name)
        if self.peek().text == "(":
            return self._call(name)
        array = self.scope.arrays.get(name)
        if array is not None and self.peek().text == "[":
            return Term(f"{array.text}[{self.index()}]", array.type)
        if array is not None and self.passes(".", "size", "(", ")"):
            return Term(f"np.int64({array.text}.size)", types.LONG)
        if f"{name}.size()" in self.scope.names and self.passes(".", "size", "(", ")"):
            return self.scope.names[f"{name}.size()"]
        if name in self.scope.names:
            return self.scope.names[name]
        if name in functions.CONSTANTS:
            return terms.constant(functions.CONSTANTS[name])
        self.at -= 1
        if array is not None or self.peek(1).text in (".", "->", "<", "["):
            self.refuse()
        raise KernelError(f"identifier {name!r} is undefined; parameters and declared variables are defined")

    def index(self) -> str:
        """Returns the text of an index in brackets."""
        self.take("[")
        term = self.expression()
        self.take("]")
        if term.type.kind not in "biu":
            raise KernelError(f"an index is an integer; got {term.type.name}; write (int)x")
        return str(term.value) if term.value is not None else term.text

    def _call(self, name: str) -> Term:
        if name in _ATOMICS:
            return self._atomic(name)
        term = terms.call(name, self._arguments())
        if term is None:
            raise UntranslatedError(f"no function {name} is defined before, or known; define it in the preamble")
        return term

    def _result(self, name: str) -> Term:
        """Returns the result of a function of the text."""
        text, kind = self.call_of(name)
        if kind is None:
            raise KernelError(f"{name} returns nothing; call it in a statement of its own")
        return Term(text, kind)

    def call_of(self, name: str) -> tuple[str, types.DType | None]:
        """Returns the text of a call, which is parsed behind its name, and the type of its result."""
        given = self._template_arguments() if self.peek().text == "<" else []
        self.take("(")
        arguments: list[Argument] = []
        while not self.passes(")"):
            arguments.append(self._argument())
            if self.peek().text != ")":
                self.take(",")
        return self._overload(name, arguments, len(given)).called(arguments, given)

    def _template_arguments(self) -> list[types.DType]:
        self.take("<")
        kinds: list[types.DType] = []
        while not self.passes(">"):
            kind = self.type_name()
            if kind is None:
                self.refuse()
            kinds.append(kind)
            self.passes(",")
        return kinds

    def _argument(self) -> Argument:
        """Returns an argument of a function of the text: an expression, or the name of an array."""
        name = self.peek().text
        if name in self.scope.arrays and self.peek(1).text in (",", ")"):
            self.next()
            return Argument(self.scope.arrays[name], True, name in self.scope.constants)
        return Argument(self.expression())

    def _overload(self, name: str, arguments: list[Argument], n_given: int) -> DeviceFunction:
        """Returns the function of a name whose parameters are those arguments; of types for a template, a template."""
        functions = [function for function in self.scope.functions[name] if len(function.template) >= n_given]
        if len(functions) == 1:
            return functions[0]
        if not functions:
            raise KernelError(f"{name} is no template of {n_given} type{'s' * (n_given > 1)}; write {name}(x)")
        alike = [function for function in functions if function.takes(arguments)]
        exact = [function for function in alike if not function.template] or alike
        if len(exact) != 1:
            kinds = ", ".join([argument.term.type.name for argument in arguments])
            raise KernelError(f"{len(exact)} functions {name} take exactly ({kinds}); convert the arguments")
        return exact[0]

    def _atomic(self, name: str) -> Term:
        """Returns `atomicAdd(&a[i], x)` and the like, whose value is the element before."""
        self.take("(", "&")
        key = self.peek().text
        target = self._named()
        if key in self.scope.constants or target.text in self.scope.constants:
            raise KernelError(f"{key} is constant; {name} takes an element of a result")
        array, _, index = target.text.partition("[")
        values = []
        while self.passes(","):
            values.append(terms.converted(self.expression(), target.type))
        self.take(")")
        if not index or len(values) != 1 + (name == "atomicCAS"):
            raise KernelError(f"{name} takes an element, as &y[i], and its operands")
        if name == "atomicSub":
            values = [terms.converted(terms.unary("-", values[0]), target.type)]
        arguments = ", ".join([array, index.removesuffix("]"), *(value.text for value in values)])
        return Term(f"c_atomic_{_ATOMICS[name].rstrip('_')}({arguments})", target.type)
