"""Translations of C's expressions, without a device."""

from __future__ import annotations

import pytest

from vkcompute.compat.cupy.c_expressions import Parser, Term, statements

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("x + y * 2.0f", "(x + (y * 2.0))"),
        ("x > 0 ? x : -x", "(x if (x > 0) else (-x))"),
        ("k / 2", "(k // 2 if (k < 0) == (2 < 0) else -(-(k) // (2)))"),
        ("(float)k / 2", "(np.float32(k) / 2)"),
        ("static_cast<double>(k)", "np.float64(k)"),
        ("!(k == 3) && x != 1 || false", "(((not ((k == 3))) and (x != 1)) or False)"),
        ("a[_ind.size() - i - 1]", "a[((_n - i) - 1)]"),
        ("sqrtf(x) + pow(x, y)", "(np.sqrt(x) + pow(x, y))"),
        ("k << 2 | 1", "((k << 2) | 1)"),
    ],
)
def test_expressions(text: str, result: str) -> None:
    names = {"x": Term("x", "f"), "y": Term("y", "f"), "k": Term("k", "i"), "i": Term("i", "i")}
    assert Parser(text, names, {"a": "f"}, {}).parsed().text == result


def parse(text: str) -> None:
    for _, _, _, expression in statements(text):
        Parser(expression, {"x": Term("x", "f")}, {}, {}).parsed()


def test_statements() -> None:
    assert statements("T t = x * 2; // twice\n z += t") == [("T", "t", "", " x * 2"), ("", "z", "+", " t")]
    assert statements("z[i + 1] = x") == [("", "z[i+1]", "", " x")]


@pytest.mark.parametrize("text", ["if (x) { z = 1; }", "for (;;) z = 1", "z = *x", "z = f(x)", "return x", "z++"])
def test_more_than_expressions_is_refused(text: str) -> None:
    with pytest.raises(NotImplementedError, match="without control flow, pointers or macros"):
        parse(text)
