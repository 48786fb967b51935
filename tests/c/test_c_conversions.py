"""Expressions of C, translated, against a compiler of C++ on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gcc import COMPILER, ROW, TYPES, Generator, Programs, rows, values_by_gcc

from vkcompute.c.expressions import Parser, Scope
from vkcompute.c.functions import NAMESPACE
from vkcompute.c.statements import StatementParser
from vkcompute.c.terms import Term

pytestmark = [pytest.mark.pure, pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")]
ARGUMENTS = ", ".join(f"p_{name}" for name in TYPES)


def scope() -> Scope:
    return Scope({name: Term(f"p_{name}", np.dtype(dtype)) for name, (dtype, _) in TYPES.items()})


def computed(code: Any, table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values of a translation, executed by Python with NumPy's numbers."""
    with np.errstate(all="ignore"):
        return np.array([code(*[ROW[name].type(row[name]) for name in TYPES]) for row in table])


def is_same(results: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    same = (results == expected) | (results != results) & (expected != expected)
    return bool(results.dtype == expected.dtype and same.all())


@pytest.mark.parametrize("seed", range(2))
def test_random_expressions(tmp_path: Path, seed: int) -> None:
    generator = Generator(seed)
    texts = [generator.expression(1 + k % 4) for k in range(150)]
    table, wrong = rows(16, seed), []
    for text, expected in zip(texts, values_by_gcc(texts, table, tmp_path), strict=True):
        term = Parser(text, scope()).whole()
        results = computed(eval(f"lambda {ARGUMENTS}: {term.text}", dict(NAMESPACE)), table)
        if term.type != expected.dtype or not is_same(results, expected):
            wrong.append(f"{text}: {expected}, not {term.type} {results}; {term.text}")
    assert not wrong


@pytest.mark.parametrize("seed", range(2))
def test_random_statements(tmp_path: Path, seed: int) -> None:
    generator = Programs(seed)
    bodies = [generator.program() for _ in range(60)]
    names = [f"v{k % 4}" for k in range(60)]
    table, wrong = rows(10, seed), []
    for body, name, expected in zip(bodies, names, values_by_gcc(names, table, tmp_path, bodies), strict=True):
        parser = StatementParser(body, scope())
        lines = [*parser.lines(), f"return {parser.scope.names[name].text}"]
        made = dict(NAMESPACE)
        exec(f"def function({ARGUMENTS}):\n" + "\n".join(f"    {line}" for line in lines), made)
        if not is_same(results := computed(made["function"], table), expected):
            wrong.append(f"{body}: {name} is {expected}, not {results}; {lines}")
    assert not wrong
