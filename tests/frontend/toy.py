"""A toy language with `while`, `break`, `if`, functions, early returns, and the element x of an array.

Its tokenizer and parser drive the library's control flow. Parsing gives functions that build. An int and a float join
to a float. The variable `i` is the number of the invocation, and of its element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from vkcompute import ir
from vkcompute.errors import KernelError
from vkcompute.frontend.control_flow import ControlFlow
from vkcompute.frontend.kinds import Kinds
from vkcompute.frontend.unsupported import UnsupportedError
from vkcompute.ir import BOOL, FLOAT32, INT32, Scalar, Value

CODES = {"<": "lt", "==": "eq", "+": "add", "-": "sub", "*": "mul"}
LEVELS = ("<", "=="), ("+", "-"), ("*",)
Build, Evaluate = Callable[[], object], Callable[[], Value]


class Token(NamedTuple):
    text: str
    line: int

    def error(self, message: object) -> KernelError:
        return KernelError(f"line {self.line}: {message}")


class Numbers(Kinds):
    """The kinds of this language: values are device values, and their types are their kinds."""

    def __init__(self, builder: ir.Builder) -> None:
        self.builder = builder

    def kind_of_variable(self, value: Any) -> Scalar:
        return BOOL if isinstance(value, bool) else value.type

    def joined(self, one: Scalar, other: Scalar) -> Scalar:
        if one is not other and BOOL in (one, other):
            raise UnsupportedError(f"{one} on one path and {other} on another")
        return one if one is other else FLOAT32

    def packed(self, value: Any, kind: Scalar) -> list[Value]:
        return [self.builder.const(value, kind) if isinstance(value, bool) else self.builder.cast(value, kind)]

    def unpacked(self, kind: Scalar, values: Iterator[Value]) -> Value:
        return next(values)

    def filler(self, kind: Scalar) -> list[Value]:
        return [self.builder.const(0, kind)]

    def truth(self, value: Any) -> Value | bool:
        truth = value if isinstance(value, bool) else self.builder.cast(value, BOOL)
        return bool(truth.value) if isinstance(truth, ir.Constant) else truth


class Parser:
    def __init__(self, text: str, flow: ControlFlow, x: ir.Memory) -> None:
        lines = enumerate(text.splitlines(), 1)
        self.tokens = [Token(word, n) for n, line in lines for word in re.findall(r"[\w.]+|==|\S", line)]
        self.flow, self.x, self.functions = flow, x, dict[str, tuple[list[str], Build]]()

    def take(self, expected: str = "") -> Token:
        token = self.tokens.pop(0)
        if expected and token.text != expected:
            raise token.error(f"expected {expected}; got {token.text}")
        return token

    def block(self, end: str = "}") -> tuple[Build, set[str]]:
        """Parses statements to the end; returns what builds them, and the names that they assign to."""
        statements, names = list[tuple[Token, Build]](), set[str]()
        while self.tokens and self.tokens[0].text != end:
            where = self.take()
            build, assigned = self.statement(where)
            statements.append((where, build))
            names |= assigned
        del self.tokens[:1]
        return partial(
            self.flow.block, statements, lambda statement: statement[1](), lambda statement: statement[0]
        ), names

    def statement(self, where: Token) -> tuple[Build, set[str]]:
        flow = self.flow
        match where.text:
            case "while":
                test, (body, names) = self.expression("{"), self.block()
                return partial(flow.while_, test, body, names, where), names
            case "if":
                test, (then, names) = self.expression("{"), self.block()
                has_else = self.tokens and self.tokens[0].text == "else"
                otherwise, others = self.block() if has_else and self.take() and self.take("{") else (int, set[str]())
                return lambda: flow.if_(test(), then, otherwise, where), names | others
            case "def":
                name, parameters = self.take().text, [self.take().text for _ in iter(lambda: self.tokens[0].text, "{")]
                self.take("{")
                self.functions[name] = parameters, self.block()[0]
                return int, set()
            case "return":
                value = self.expression() if self.tokens[0].text != "}" else lambda: None
                return lambda: flow.return_(value()), set()
            case "break":
                return flow.break_, set()
        self.take("=")
        value = self.expression()
        if where.text == "x":
            return lambda: flow.builder.store(self.x, flow.read("i"), flow.builder.cast(value(), FLOAT32)), set()
        return lambda: flow.assign(where.text, value()), {where.text}

    def expression(self, end: str = "", level: int = 0) -> Evaluate:
        left = self.expression("", level + 1) if level < len(LEVELS) else self.operand(self.take())
        while level < len(LEVELS) and self.tokens and self.tokens[0].text in LEVELS[level]:
            left = partial(self.binary, self.take().text, left, self.expression("", level + 1))
        if end:
            self.take(end)
        return left

    def binary(self, sign: str, left: Evaluate, right: Evaluate) -> Value:
        kinds, values = self.flow.kinds, (left(), right())
        kind = kinds.joined(*[value.type for value in values])
        return self.flow.builder.compute(CODES[sign], *[kinds.packed(value, kind)[0] for value in values])

    def operand(self, token: Token) -> Evaluate:
        flow, text = self.flow, token.text
        if text[0].isdigit():
            return lambda: flow.builder.const(float(text), FLOAT32 if "." in text else INT32)
        if text in self.functions:
            parameters, body = self.functions[text]
            args = {name: self.operand(self.take()) for name in parameters}
            return lambda: flow.call(text, {name: value() for name, value in args.items()}, body)
        return (lambda: flow.builder.load(self.x, flow.read("i"))) if text == "x" else partial(self.variable, token)

    def variable(self, token: Token) -> Value:
        try:
            return self.flow.read(token.text)
        except UnsupportedError as error:
            raise token.error(error) from None


def program(text: str) -> bytes:
    """Compiles a program to SPIR-V with one binding, of float32."""
    function = ir.Function("toy", (1, 1, 1))
    flow = ControlFlow(builder := ir.Builder(function), Numbers(builder))
    body, _ = Parser(text, flow, function.buffer("x", FLOAT32)).block(end="")
    flow.program({"i": builder.cast(builder.builtin("global_id"), INT32)}, body)
    return ir.lower(ir.optimize(function)).spirv
