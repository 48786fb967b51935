"""Expressions of C, as in the text of CuPy's kernels, translated to those of kernels in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)|(?P<name>[A-Za-z_]\w*(?:::\w+)?)"
    r"|(?P<sign><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|\+\+|--|->|.))"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
"""Binary operators, by rising precedence."""
TYPES = {
    "bool": "bool", "char": "int8", "short": "int16", "int": "int32", "long": "int64", "float": "float32",
    "double": "float64", "unsigned": "uint32", "size_t": "uint64", "ptrdiff_t": "int64", "half": "float16",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                               "float32", "float64", "complex64", "complex128")},
    **{f"{name}_t": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
"""The dtypes of C's and CuPy's names of types."""
_FUNCTIONS = {
    "abs": "abs", "fabs": "abs", "min": "min", "max": "max", "fmin": "np.fmin", "fmax": "np.fmax", "pow": "pow",
    "asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan", "atan2": "np.arctan2", "asinh": "np.arcsinh",
    "acosh": "np.arccosh", "atanh": "np.arctanh", "tgamma": "math.gamma", "lgamma": "math.lgamma", "erf": "math.erf",
    "erfc": "math.erfc", "fmod": "math.fmod", "round": "np.round", "rsqrt": "_rsqrt",
    **{name: f"np.{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log",
       "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite",
       "signbit", "copysign", "hypot", "conj", "real", "imag")},
}  # fmt: skip
_TRUTHS = "isnan", "isinf", "isfinite", "signbit"
_WHOLE = "the text of a kernel is expressions of C: assignments and operators, without control flow, pointers or macros"


class Term(NamedTuple):
    """A translated expression: its text, and the kind of its dtype."""

    text: str
    kind: str


class Refused(NotImplementedError):
    """The text is more than expressions of C."""


class Parser:
    """Translates one expression.

    Args:
        text: the expression.
        names: the terms of variables.
        arrays: the kinds of elements of arrays that are indexed.
        types: the dtypes of letters of types.
    """

    def __init__(
        self, text: str, names: Mapping[str, Term], arrays: Mapping[str, str], types: Mapping[str, str]
    ) -> None:
        self._text, self._names, self._arrays = text, names, arrays
        self._types = {**TYPES, **types}
        self._tokens = [match.group().strip() for match in _TOKEN.finditer(text) if match.group().strip()]
        self._at = 0

    def parsed(self) -> Term:
        """Returns the whole expression.

        Raises:
            NotImplementedError: it is more than an expression.
        """
        term = self._choice()
        if self._at < len(self._tokens):
            raise self._refused()
        return term

    def _refused(self) -> Refused:
        near = " ".join(self._tokens[self._at : self._at + 4])
        return Refused(f"{_WHOLE}; got {self._text.strip()!r}, near {near!r}; write vc.kernel, or a jit.rawkernel")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, token: str) -> None:
        if self._next() != token:
            self._at -= 1
            raise self._refused()

    def _choice(self) -> Term:
        condition = self._binary(0)
        if self._peek() != "?":
            return condition
        self._next()
        yes = self._choice()
        self._take(":")
        no = self._choice()
        return Term(f"({yes.text} if {condition.text} else {no.text})", _common(yes.kind, no.kind))

    def _binary(self, level: int) -> Term:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (sign := self._peek()) in _LEVELS[level]:
            self._next()
            left = _operation(sign, left, self._binary(level + 1))
        return left

    def _unary(self) -> Term:
        token = self._peek()
        if token in ("-", "+", "~", "!"):
            self._next()
            term = self._unary()
            return Term(f"(not {term.text})", "b") if token == "!" else Term(f"({token}{term.text})", term.kind)
        if token == "(" and self._tokens[self._at + 1] in self._types and self._tokens[self._at + 2] == ")":
            dtype = self._types[self._tokens[self._at + 1]]
            self._at += 3
            return _cast(dtype, self._unary())
        return self._primary()

    def _primary(self) -> Term:
        token = self._next()
        if token == "(":
            term = self._choice()
            self._take(")")
            return Term(f"({term.text})", term.kind)
        if re.match(r"[\d.]", token):
            return _number(token)
        if token == "static_cast":
            self._take("<")
            token = self._next()
            self._take(">")
        if token in self._types and self._peek() == "(":
            return _cast(self._types[token], self._arguments()[0])
        if token == "_ind" and self._tokens[self._at : self._at + 4] == [".", "size", "(", ")"]:
            self._at += 4
            return Term("_n", "i")
        if token in ("true", "false"):
            return Term(token.capitalize(), "b")
        if self._peek() == "(":
            return self._call(token)
        if token in self._arrays and self._peek() == "[":
            return Term(f"{token}[{self.index()}]", self._arrays[token])
        if token in self._names:
            return self._names[token]
        self._at -= 1
        raise self._refused()

    def index(self) -> str:
        """Returns the index that follows."""
        self._take("[")
        at = self._choice()
        self._take("]")
        return at.text

    def _arguments(self) -> list[Term]:
        self._take("(")
        terms = []
        while self._peek() != ")":
            terms.append(self._choice())
            if self._peek() == ",":
                self._next()
        self._take(")")
        return terms

    def _call(self, name: str) -> Term:
        plain = name.removeprefix("std::").removeprefix("::")
        plain = plain if plain in _FUNCTIONS else plain.removesuffix("f")
        if plain not in _FUNCTIONS:
            self._at -= 1
            raise self._refused()
        terms = self._arguments()
        kind = terms[0].kind
        for term in terms[1:]:
            kind = _common(kind, term.kind)
        if plain == "rsqrt":
            return Term(f"(1 / np.sqrt({terms[0].text}))", "f")
        keeps = plain in ("abs", "min", "max", "conj")
        of = "b" if plain in _TRUTHS else kind if keeps or kind == "c" else "f"
        return Term(f"{_FUNCTIONS[plain]}({', '.join(term.text for term in terms)})", of)


def _number(token: str) -> Term:
    if token[:2].lower() == "0x":
        return Term(token.rstrip("uUlL"), "i")
    text = token.rstrip("fFuUlL")
    return Term(text, "f" if re.search(r"[.eE]", text) or token[-1] in "fF" else "i")


def _common(one: str, other: str) -> str:
    """Returns the kind of an operation on two."""
    order = "biufc"
    return max(one, other, key=order.index)


def _cast(dtype: str, term: Term) -> Term:
    name = "bool" if dtype == "bool" else f"np.{dtype}"
    return Term(f"{name}({term.text})", np.dtype(dtype).kind)


def _operation(sign: str, left: Term, right: Term) -> Term:
    """Returns a binary operation; quotients of integers round towards zero, as in C."""
    if sign in ("&&", "||"):
        return Term(f"({left.text} {'and' if sign == '&&' else 'or'} {right.text})", "b")
    if sign in ("==", "!=", "<", ">", "<=", ">="):
        return Term(f"({left.text} {sign} {right.text})", "b")
    kind = _common(left.kind, right.kind)
    if kind == "b" and sign in ("+", "-", "*"):
        left, kind = Term(f"int({left.text})", "i"), "i"
    if sign in ("/", "%") and kind in "biu":
        a, b = left.text, right.text
        if kind == "u":
            return Term(f"({a} {'//' if sign == '/' else '%'} {b})", kind)
        quotient = f"({a} // {b} if ({a} < 0) == ({b} < 0) else -(-({a}) // ({b})))"
        return Term(quotient if sign == "/" else f"({a} - {b} * {quotient})", kind)
    return Term(f"({left.text} {sign} {right.text})", kind)


def statements(text: str) -> list[tuple[str, str, str, str]]:
    """Returns the assignments of a text: a declared type, the target, the operator, and the expression.

    Raises:
        NotImplementedError: the text has others.
    """
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = []
    for line in filter(None, (part.strip() for part in plain.split(";"))):
        match = re.fullmatch(
            r"(?:const\s+)?(?:([A-Za-z_]\w*)\s+)?([A-Za-z_]\w*(?:\s*\[.*?\])?)\s*([-+*/%&|^]|<<|>>)?=(?!=)(.*)", line,
            re.DOTALL,
        )  # fmt: skip
        if match is None or re.search(r"[{}#]", line):
            raise Refused(f"{_WHOLE}; got {line!r}; write vc.kernel, or a jit.rawkernel")
        found.append((match[1] or "", re.sub(r"\s+", "", match[2]), match[3] or "", match[4]))
    return found
