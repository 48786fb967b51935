"""Texts of C, translated to kernels in Python, by tables of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vkcompute.c import types
from vkcompute.c.expressions import Parser, Scope, UntranslatedError
from vkcompute.c.functions import NAMESPACE
from vkcompute.c.statements import StatementParser
from vkcompute.c.terms import Term
from vkcompute.errors import KernelError

pytestmark = pytest.mark.pure
VALUES = {
    "x": np.uint8(3), "y": np.uint8(10), "k": np.int32(-7), "u": np.uint32(2), "m": np.int64(-1), "f": np.float32(2.5),
    "d": np.float64(0.1), "h": np.float16(1.5), "z": np.complex64(3 - 4j), "t": np.True_,
}  # fmt: skip


def scope() -> Scope:
    return Scope({name: Term(f"p_{name}", value.dtype) for name, value in VALUES.items()}, typedefs={"T": types.FLOAT})


def value_of(text: str) -> Any:
    """The value of an expression for `VALUES`, of exactly its type."""
    term = Parser(text, scope()).whole()
    with np.errstate(all="ignore"):
        result = np.asarray(eval(term.text, {**NAMESPACE, **{f"p_{name}": value for name, value in VALUES.items()}}))[
            ()
        ]
    assert result.dtype == term.type
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(x - y)", np.int32(7)),
        ("x * 100", np.int32(300)),
        ("-x", np.int32(-3)),
        ("~x << 4", np.int32(-64)),
        ("~t", np.int32(-2)),
        ("k < u", np.False_),
        ("k + u", np.uint32(2**32 - 5)),
        ("m + u", np.int64(1)),
        ("m < 1ull", np.False_),
        ("k / 2 + k % 2", np.int32(-4)),
        ("k >> 1", np.int32(-4)),
        ("010 + 0x10 + 0b10", np.int32(26)),
        ("2147483648", np.int64(2**31)),
        ("0xffffffff", np.uint32(2**32 - 1)),
        ("0xffffffffffffffff", np.uint64(2**64 - 1)),
        ("1'000'000 + 'a'", np.int32(1000097)),
        ("f * 2.0", np.float64(5)),
        ("f * 2", np.float32(5)),
        ("-f / 0.0f", np.float32(-np.inf)),
        ("1 / (f / -0.0)", np.float64(-0.0)),
        ("h * h", np.float32(2.25)),
        ("round(f) + round(-2.5)", np.float64(0)),
        ("rint(f)", np.float32(2)),
        ("lround(f)", np.int64(3)),
        ("fmax(d, 0.0 / 0.0)", np.float64(0.1)),
        ("pow(f, 2)", np.float64(6.25)),
        ("powf(d, 2)", np.float32(0.1) * np.float32(0.1)),
        ("min(k, u)", np.uint32(2)),
        ("max(f, k)", np.float32(2.5)),
        ("t ? x : y", np.uint8(3)),
        ("t ? x : k", np.int32(3)),
        ("!f || x && isnan(f)", np.False_),
        ("(x > 1) + (y > 1)", np.int32(2)),
        ("(long long)x", np.int64(3)),
        ("(unsigned char)k", np.uint8(249)),
        ("static_cast<unsigned long int>(k)", np.uint64(2**64 - 7)),
        ("T(k) + (const T)1", np.float32(-6)),
        ("double(x) / y", np.float64(0.3)),
        ("M_PI", np.float64(np.pi)),
        ("INFINITY - FLT_MAX", np.float32(np.inf)),
        ("INT_MAX + 1u", np.uint32(2**31)),
        ("UCHAR_MAX + DBL_EPSILON * 0", np.float64(255)),
        ("std::numeric_limits<int>::lowest()", np.int32(-(2**31))),
        ("sizeof(T) + sizeof(m)", np.uint64(12)),
        ("z.real() + z.imag()", np.float32(-1)),
        ("z * complex<float>(0, 1)", np.complex64(4 + 3j)),
        ("abs(z) + norm(z)", np.float32(30)),
        ("__popc(7) + __clz(1) + __ffs(8)", np.int32(38)),
        ("__float_as_int(1.0f)", np.int32(0x3F800000)),
        ("fma(f, f, 1.0f)", np.float32(7.25)),
    ],
)
def test_values(text: str, expected: Any) -> None:
    result = value_of(text)
    assert (result.dtype, result) == (expected.dtype, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5 & 2", "& takes integers; got float64"),
        ("k / 0", "has no result"),
        ("z < z", "no order"),
        ("float(z)", "C converts no complex number to float32"),
        ("sin(f, f)", "sin takes 1 argument; got 2"),
        ("1.5q", "C has no number 1.5q"),
        ("99999999999999999999", "exceeds the 64 bits"),
        ("(short float)f", "C has no type short float"),
        ("v", "identifier 'v' is undefined"),
        ("1 +", "got ''"),
        ("(f", "got ''"),
        ("f f", "got 'f '"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises((KernelError, UntranslatedError), match=message.replace("+", r"\+")):
        Parser(text, scope()).whole()


def run(text: str, name: str) -> Any:
    """The value of a variable of the statements' function."""
    parser = StatementParser(text, scope())
    lines = [*parser.lines(), f"return {parser.scope.names[name].text}"]
    made = {**NAMESPACE, **{f"p_{name}": value for name, value in VALUES.items()}}
    arguments = ", ".join(f"p_{name}=p_{name}" for name in VALUES)
    exec(f"def function({arguments}):\n" + "\n".join(f"    {line}" for line in lines), made)
    with np.errstate(all="ignore"):
        return made["function"]()


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("int a = 7; a += 1.5;", "a", np.int32(8)),
        ("int a = 7, b(2), c; a = c = b * 1.75", "a", np.int32(3)),
        ("unsigned int a = 5; a -= 6; a /= 2", "a", np.uint32(2**31 - 1)),
        ("unsigned char a = 255; ++a; a--", "a", np.uint8(255)),
        ("auto a = x + y; /* a; */ // b", "a", np.int32(13)),
        (
            "int a = 0; for (int j = 0, s = 2; j < 10; j += s) { if (j == 4) continue; if (j > 6) break; a += j; }",
            "a", np.int32(8),
        ),
        ("int a = 0; do { a += 2; if (a < 3) continue; a += 10; } while (a < 20);", "a", np.int32(26)),
        ("int a = 1; { int a = 5; a = 6; } if (k < 0) a += 1; else a = 9;", "a", np.int32(2)),
        ("if (k > 0) { f = 1; } else if (u == 2) f = d; else ;", "f", np.float32(0.1)),
        ("bool a = 0.5f;", "a", np.True_),
    ],
)  # fmt: skip
def test_statements(text: str, name: str, expected: Any) -> None:
    result = run(text, name)
    assert (np.asarray(result).dtype, result) == (expected.dtype, expected)


REFUSED = (
    "break;", "a = 1", "++a", "if (f { }", "{ f = 1;", "switch (k) {}", "goto x", "int a[2];", "if (k++ > 3) f = 1;",
    "f = 1 k = 2",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refused_statements(text: str) -> None:
    with pytest.raises((KernelError, UntranslatedError)):
        run(text, "f")
