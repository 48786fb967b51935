"""The parser of C's statements, which translates them to lines of a kernel in Python."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from vkcompute.c import terms, types
from vkcompute.c.expressions import Parser
from vkcompute.c.scopes import Lines, Scope
from vkcompute.c.terms import Term
from vkcompute.c.tokens import UntranslatedError
from vkcompute.errors import KernelError

_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_REFUSED = ("switch", "goto", "case", "default", "typedef", "struct", "static", "using", "template", "asm")
_ONE = terms.constant(np.int32(1))
_EFFECT = re.compile(r"\b(c_atomic_|f\d+_)\w+\(")
"""The beginning of a call that may have effects."""


class StatementParser(Parser):
    """Translates the statements of one text.

    Args:
        text: the text.
        scope: the meaning of its names.
        end: the statement of Python that ends the text early, for `continue` outside of loops; "" refuses that.
    """

    def __init__(self, text: str, scope: Scope, end: str = "return") -> None:
        super().__init__(text, scope)
        known = {**scope.names, **scope.arrays}
        self._variables = {name: 1 for name, term in known.items() if re.match(r"v\d*_", term.text)}
        self._continuations: list[Lines] = [[end]]

    def lines(self) -> Lines:
        """Returns the translation of the whole text.

        Raises:
            UntranslatedError: the text has parts of C that are not translated.
            KernelError: C refuses it.
        """
        lines: Lines = []
        while self.peek().kind != "end":
            lines += self._statement()
        return lines

    def _statement(self) -> Lines:
        token = self.peek().text
        handlers: dict[str, Callable[[], Lines]] = {
            "{": self._block, "if": self._if, "for": self._for, "while": self._while, "do": self._do,
            "break": self._break, "continue": self._continue,
        }  # fmt: skip
        if token in handlers:
            return handlers[token]()
        if token == "return":
            raise UntranslatedError("return is translated in functions only; put the statements behind it under if")
        if token == "static" and self.peek(1).text in ("const", "constexpr"):
            self.next()
        elif token in _REFUSED:
            self.refuse()
        lines = self._simple()
        if self.peek().kind != "end":
            self.take(";")
        return lines

    def _block(self) -> Lines:
        self.take("{")
        outer, lines = self.scope.snapshot(), []
        while not self.passes("}"):
            if self.peek().kind == "end":
                self.refuse()
            lines += self._statement()
        self.scope.restore(outer)
        return lines

    def _simple(self) -> Lines:
        """Translates a declaration, assignments, an expression, or nothing."""
        if self.peek().text in (";", ")") or self.peek().kind == "end":
            return []
        start = self.at
        while self.peek().text in (*types.QUALIFIERS, "constexpr"):
            self.next()
        kind, is_auto = None, self.passes("auto")
        if is_auto:
            self._pass_qualifiers()
        else:
            kind = self.type_name()
        if is_auto or (kind is not None and self.peek().kind == "name"):
            words = {token.text for token in self.tokens[start : self.at]}
            return self._declarations(kind, is_constant=not words.isdisjoint(("const", "constexpr")))
        self.at = start
        lines: Lines = []
        while True:
            lines += self._effects()
            if not self.passes(","):
                return lines

    def _effects(self) -> Lines:
        """Translates an assignment, or an expression for its effects."""
        self.passes("(", "void", ")")
        name = self.peek().text
        functions = self.scope.functions.get(name, []) if self.peek(1).text in ("(", "<") else []
        if functions and all(function.result is None for function in functions):
            self.next()
            return [self.call_of(name)[0]]
        lines: Lines = []
        term = self._assigned(lines, is_used=False)
        return lines if lines or not _EFFECT.search(term.text) else [term.text]

    def _declarations(self, kind: types.DType | None, *, is_constant: bool = False) -> Lines:
        lines: Lines = []
        while True:
            name = self.next()
            if name.kind != "name":
                self.at -= 1
                self.refuse()
            if kind is not None and self.peek().text == "[":
                lines += self._local_array(name.text, kind)
                if self.passes(","):
                    continue
                return lines
            if self.passes("="):
                value = self._assigned(lines)
            elif (opening := self.peek().text) in ("(", "{"):
                self.take(opening)
                value = self.expression()
                self.take(")" if opening == "(" else "}")
            elif kind is None or self.peek().text not in (",", ";", ""):
                self.refuse()
            else:
                value = terms.constant(kind.type(0))
            lines.append(self._declared(name.text, terms.converted(value, kind or value.type), is_constant=is_constant))
            if not self.passes(","):
                return lines

    def _declared(self, name: str, value: Term, *, is_constant: bool) -> str:
        text = self._variable(name)
        self.scope.declare(name, Term(text, value.type, value.value if is_constant else None))
        return f"{text} = {value.text}"

    def _variable(self, name: str) -> str:
        """Returns a new variable of Python: a name may be declared in several blocks."""
        count = self._variables[name] = self._variables.get(name, 0) + 1
        return f"v_{name}" if count == 1 else f"v{count}_{name}"

    def _local_array(self, name: str, kind: types.DType) -> Lines:
        """Translates the declaration of an array behind its name, as `float a[3] = {1, 2}`."""
        length, values = self.elements()
        text = self._variable(name)
        self.scope.declare(name, Term(text, kind), is_array=True)
        lines = [f"{text} = c_local({length}, np.{kind.name})"]
        if values is None:
            return lines
        if len(values) < length:
            lines.append(f"for c_k in range({len(values)}, {length}): {text}[c_k] = {kind.type(0)!r}")
        return lines + [f"{text}[{k}] = {terms.converted(value, kind).text}" for k, value in enumerate(values)]

    def elements(self) -> tuple[int, list[Term] | None]:
        """Returns the length of a declared array, and its first values, or None without values."""
        self.take("[")
        length = None if self.peek().text == "]" else self._length()
        self.take("]")
        values = None
        if self.passes("="):
            if self.peek().text != "{":
                self.refuse()
            values = self._arguments()
        length = len(values or []) if length is None else length
        if self.peek().text == "[" or length < max(1, len(values or [])):
            self.refuse()
        return length, values

    def _length(self) -> int:
        """Returns the constant that follows."""
        term = self.expression()
        if term.value is None or term.type.kind not in "biu":
            raise KernelError("the length of an array is a constant integer, as 4, or as N after const int N = 4")
        return int(term.value)

    # -- assignments --------------------------------------------------------------------------------------------------

    def _assigned(self, lines: Lines, *, is_used: bool = True) -> Term:
        """Adds the lines of an assignment, or of `++x` and the like; returns its value, or that of an expression."""
        start = self.at
        step = self.next().text if self.peek().text in ("++", "--") else ""
        target = self._target(is_stored=bool(step))
        if target is None:
            self.at = start
            return self.expression()
        sign = step or self.next().text
        if sign not in ("++", "--"):
            return self._stored(target, sign, self._assigned(lines), lines)
        if self.peek().text not in (";", ")", ",", ""):
            self.refuse()
        if step or not is_used:
            return self._stored(target, f"{sign[0]}=", _ONE, lines)
        target = self._fixed(target, lines)
        before = target._replace(text=self._kept(target.text, lines))
        self._stored(target, f"{sign[0]}=", _ONE, lines)
        return before

    def _target(self, *, is_stored: bool) -> Term | None:
        """Returns the variable or element that is assigned to; None if another expression follows."""
        name = self.peek().text
        target: Term | None
        if name in self.scope.arrays and self.peek(1).text == "[":
            target, key = self._named(), name
        elif self.peek().kind == "name":
            self.next()
            target = self.scope.names.get(name)
            key = name if target is None else target.text
        else:
            return None
        if not is_stored and self.peek().text not in (*_ASSIGNMENTS, "++", "--"):
            return None
        if target is None:
            raise KernelError(f"identifier {name!r} is undefined; declare it, as float {name} = 0, or check its name")
        if key in self.scope.constants or target.value is not None:
            raise KernelError(f"{name} is constant; assign to a result, or to a declared variable")
        return target

    def _stored(self, target: Term, sign: str, value: Term, lines: Lines) -> Term:
        """Adds an assignment; returns the target. An index with effects is computed once, after the value."""
        if _EFFECT.search(target.text):
            if _EFFECT.search(value.text):
                value = Term(self._kept(value.text, lines), value.type)
            target = self._fixed(target, lines)
        value = value if sign == "=" else terms.binary(sign[:-1], target, value)
        lines.append(f"{target.text} = {terms.converted(value, target.type).text}")
        return target

    def _fixed(self, target: Term, lines: Lines) -> Term:
        """Returns a target whose index has no effects: a line before computes one that has."""
        if not _EFFECT.search(target.text):
            return target
        array, _, index = target.text.partition("[")
        return target._replace(text=f"{array}[{self._kept(index.removesuffix(']'), lines)}]")

    def _kept(self, text: str, lines: Lines) -> str:
        """Adds a line that keeps the value of an expression; returns its variable, which no name of C has."""
        name = self._variable("")
        lines.append(f"{name} = {text}")
        return name

    # -- control flow -------------------------------------------------------------------------------------------------

    def _condition(self) -> str:
        self.take("(")
        text = terms.truth(self.expression()).text
        self.take(")")
        return text

    def _if(self) -> Lines:
        self.take("if")
        lines = [f"if {self._condition()}:", *_indented(self._scoped())]
        if self.passes("else"):
            lines += ["else:", *_indented(self._scoped())]
        return lines

    def _scoped(self) -> Lines:
        outer = self.scope.snapshot()
        lines = self._statement()
        self.scope.restore(outer)
        return lines

    def _loop(self, condition: str, step: Lines) -> Lines:
        """Translates the body of a loop, whose steps also precede each `continue`."""
        self._continuations.append([*step, "continue"])
        lines = [f"while {condition}:", *_indented([*self._scoped(), *step])]
        self._continuations.pop()
        return lines

    def _while(self) -> Lines:
        self.take("while")
        return self._loop(self._condition(), [])

    def _for(self) -> Lines:
        self.take("for", "(")
        outer = self.scope.snapshot()
        lines = self._simple()
        self.take(";")
        condition = "True" if self.peek().text == ";" else terms.truth(self.expression()).text
        self.take(";")
        step = self._simple()
        self.take(")")
        lines += self._loop(condition, step)
        self.scope.restore(outer)
        return lines

    def _do(self) -> Lines:
        """Translates a `do` loop: a flag lets its first iteration pass."""
        self.take("do")
        self._variables["do"] = count = self._variables.get("do", 0) + 1
        first = f"first_{count}"
        lines = self._loop("True", [])
        self.take("while")
        condition = self._condition()
        lines[0] = f"while {first} or {condition}:"
        return [f"{first} = True", lines[0], f"    {first} = False", *lines[1:]]

    def _break(self) -> Lines:
        self.take("break", ";")
        if len(self._continuations) == 1:
            raise KernelError("break is outside of a loop")
        return ["break"]

    def _continue(self) -> Lines:
        self.take("continue")
        if self.peek().kind != "end":
            self.take(";")
        if self._continuations[-1] == [""]:
            raise KernelError("continue is outside of a loop; write return")
        return list(self._continuations[-1])


def _indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines or ["pass"]]
