"""Sources are parsed by one thread at a time, and names in trees are those of Python."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

import pytest

from vkcompute.frontend.source import read
from vkcompute.frontend.syntax import assigned, names_in, stores
from vkcompute.jit.elementwise.formula import function_of

pytestmark = pytest.mark.pure


def scale(x: Any) -> Any:
    return x * 2


double: Callable[..., Any] = lambda x: x + x  # noqa: E731


def test_threads_parse_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 raises SystemError if two threads make a tree at the same time, as the stand-in here does."""
    inside, parse = list[str](), ast.parse

    def exclusive(text: str, *options: Any, **named: Any) -> ast.AST:
        if inside:
            raise SystemError("AST constructor recursion depth mismatch")
        inside.append(text)
        time.sleep(0.02)
        inside.clear()
        return parse(text, *options, **named)

    monkeypatch.setattr(ast, "parse", exclusive)
    calls: list[Callable[[], Any]] = [
        lambda: read(scale).tree.name,
        lambda: ast.unparse(read(_function(double)).tree.body[0]),
        lambda: function_of("x + 1", "an expression").name,
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        results = list(pool.map(lambda call: call(), calls))
    assert results == ["scale", "return x + x", "x + 1"]


def _function(value: Any) -> FunctionType:
    assert isinstance(value, FunctionType)
    return value


TEXT = """
def outer(a):
    b = a
    for c in range(3):
        if (d := c) > 1:
            e: int = d
    f = lambda g: (h := g)
    def inner(i):
        j = i
        return j
    return [k for k in (b, b)]
"""


def test_names_of_inner_functions_are_theirs() -> None:
    [function] = ast.parse(TEXT).body
    assert isinstance(function, ast.FunctionDef)
    assert assigned([function]) == {"outer"}
    assert assigned(function.body) == {"b", "c", "d", "e", "f", "inner", "k"}
    assert {name.id for name in names_in(function)} >= {"a", "b", "g", "h", "i", "j", "range", "int"}
    assert stores(function) == dict.fromkeys("bcdefhjk", 1)
