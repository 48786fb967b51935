"""Expressions of C, translated, against a compiler of C++ on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gcc import COMPILER, ROW, TYPES, Generator, rows, values_by_gcc

from vkcompute.c.expressions import Parser, Scope
from vkcompute.c.functions import NAMESPACE
from vkcompute.c.terms import Term

pytestmark = [pytest.mark.pure, pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")]
SCOPE = Scope({name: Term(f"p_{name}", np.dtype(dtype)) for name, (dtype, _) in TYPES.items()})


def differences(texts: list[str], folder: Path, seed: int) -> list[str]:
    """The expressions whose type or value is another one than in C++."""
    table = rows(16, seed)
    wrong = []
    for text, expected in zip(texts, values_by_gcc(texts, table, folder), strict=True):
        term = Parser(text, SCOPE).whole()
        code = eval(f"lambda {', '.join(f'p_{name}' for name in TYPES)}: {term.text}", dict(NAMESPACE))
        with np.errstate(all="ignore"):
            results = np.array([code(*[ROW[name].type(row[name]) for name in TYPES]) for row in table])
        same = (results == expected) | (results != results) & (expected != expected)
        if {term.type, results.dtype} != {expected.dtype} or not same.all():
            wrong.append(f"{text}: {expected.dtype} {expected[~same]}, not {term.type} {results[~same]}; {term.text}")
    return wrong


@pytest.mark.parametrize("seed", range(2))
def test_random_expressions(tmp_path: Path, seed: int) -> None:
    generator: Any = Generator(seed)
    texts = [generator.expression(1 + k % 4) for k in range(150)]
    assert not differences(texts, tmp_path, seed)
