"""Definitions in C before a text: macros, types, constants, tables and functions, by tables of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vkcompute.c import types
from vkcompute.c.definitions import scope_of
from vkcompute.c.functions import NAMESPACE
from vkcompute.c.statements import StatementParser
from vkcompute.c.terms import Term
from vkcompute.c.tokens import UntranslatedError
from vkcompute.errors import KernelError

pytestmark = pytest.mark.pure
VALUES = {"k": np.int32(-7), "f": np.float32(2.5), "d": np.float64(0.1)}
CLIPPED = "template <typename A, class B> __device__ A clipped(A x, B low) { return x < low ? A(low) : x; }"
SUM = "__device__ float sum(const float *a, int n) { float s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }"

NEXT = "__device__ int next(int* c) { c[0] += 1; return c[0]; }"


def run(definitions: str, text: str) -> Any:
    """The value of `z` after the statements of a text, of exactly its type."""
    scope = scope_of(definitions, {"T": types.FLOAT})
    for name, value in VALUES.items():
        scope.declare(name, Term(f"p_{name}", value.dtype))
    lines = StatementParser(text, scope).lines()
    arguments = ", ".join(f"p_{name}=p_{name}" for name in VALUES)
    body = "\n".join(f"    {line}" for line in [*lines, f"return {scope.names['z'].text}"])
    made = {**NAMESPACE, **{f"p_{name}": value for name, value in VALUES.items()}, "c_local": np.zeros}
    exec("\n".join([*scope.module, f"def function({arguments}):\n{body}"]), made)
    with np.errstate(all="ignore"):
        result = np.asarray(made["function"]())[()]
    assert result.dtype == scope.names["z"].type
    return result


@pytest.mark.parametrize(
    ("definitions", "text", "expected"),
    [
        ("#define N 3\n#define TWICE(x) (2 * (x))", "auto z = TWICE(N + 1) * TWICE(TWICE(1))", np.int32(32)),
        ("const int N = 4;\n#define N N + 1", "auto z = 2 * N;", np.int32(9)),
        ("#define ADD(x, y) \\\n  x + /* , */ y  // z", "auto z = 2 * ADD(max(f, k) , 3);", np.float32(8)),
        ("#define F(x) x\n#undef F\nconst T F = 1e-1, G = F;", "auto z = G;", np.float32(0.1)),
        ("#pragma once\n#include <cupy/complex.cuh>\n;", "float z = 1;\n#pragma unroll\n;", np.float32(1)),
        ("typedef unsigned long long uint64_t; using u = short;", "auto z = u(70000) + uint64_t(1);", np.uint64(4465)),
        ("__constant__ short w[] = {1, 2.9f, 3};", "auto z = w[1] + w[2];", np.int32(5)),
        ("static const float w[4] = {7};", "auto z = w[0] + w[3];", np.float32(7)),
        ("extern \"C\" __host__ __device__ float g(void) { return 7 / 2; }", "auto z = g();", np.float32(3)),
        ("inline __device__ T g(const T &x, T y) { return x; }", "auto z = g(d, 1);", np.float32(0.1)),
        ("__device__ void g(int x[], int n) { if (n < 0) return; x[n] = n; }",
         "int a[3] = {5, 6}; g(a, -1); g(a, 1); auto z = a[0] + 10 * a[1] + 100 * a[2];", np.int32(15)),
        (SUM, "float a[3] = {1, f}; a[2] = 4; auto z = sum(a, 3);", np.float32(7.5)),
        ("__device__ int g(int x) { while (true) { x += 3; if (x > 5) return x; } }",
         "auto z = g(k) + g(0);", np.int32(14)),
        ("__device__ int g(int x); __device__ int g(int x) { x = 1; return x; }",
         "int x = 5; auto z = g(x) + x;", np.int32(6)),
        ("__device__ int g(float x) { return 1; } __device__ int g(int x) { return 2; }",
         "auto z = g(f) + 10 * g(k);", np.int32(21)),
        (CLIPPED, "auto z = clipped(f, 3);", np.float32(3)),
        (CLIPPED, "auto z = clipped<long long>(f, d);", np.int64(2)),
        (CLIPPED, "auto z = clipped(k, 0u) + clipped(f, f);", np.float32(2.5 - 7)),
        ("__device__ float abs(float x) { return 100; }", "auto z = abs(f);", np.float32(100)),
        ("const int k = 4;", "auto z = k;", np.int32(-7)),
        ("__device__ int g(int x) { int y[2] = {x}; { int y = 3; x += y; } return x + y[0]; }",
         "auto z = g(1);", np.int32(5)),
        ("__device__ complex<float> g(int *a) { a[0] += 1; return complex<float>(3, a[0]); }",
         "int a[1] = {3}; auto z = norm(g(a)) + a[0];", np.float32(29)),
        ("", "auto z = 18446744073709551615;", np.uint64(2**64 - 1)),
        ("", "int x = 1; { int x = 2; int x_2 = 7; x += x_2; } auto z = x;", np.int32(1)),
        ("__device__ int g(int* a) { { int a = 3; a += 1; } return a[0]; }", "int a[1] = {5}; auto z = g(a);",
         np.int32(5)),
        ("", "const int N = 4; int a[N] = {1, 2}; a[3] = N; auto z = a[1] + a[2] + a[3];", np.int32(6)),
        ("__device__ int g(int x) { static const int a[2] = {3, 4}; constexpr int N = 2; return a[x & 1] + N; }",
         "(void)k; auto const x = g(1); auto z = x;", np.int32(6)),
        (NEXT, "int c[1] = {}, a[4] = {}; a[next(c)] += 5; a[next(c)] = 7; auto z = c[0] + 10 * a[1] + 100 * a[2];",
         np.int32(752)),
        (NEXT, "int c[1] = {}, a[4] = {}; int x = a[next(c)] = next(c); auto z = x + 10 * a[2] + 100 * c[0];",
         np.int32(211)),
        ("", "int x = 3; int y = x++; int w = --x, v = x--; auto z = 1000 * y + 100 * w + 10 * v + x;", np.int32(3332)),
        ("__device__ int g(int x) { return 1; } template <class A> __device__ int g(A x) { return 2; }",
         "auto z = g<int>(k) + 10 * g(k) + 100 * g(f);", np.int32(212)),
        ("__device__ int g(const float* x) { return 1; } __device__ int g(float x) { return 2; }",
         "float a[1]; auto z = g(a) + 10 * g(f);", np.int32(21)),
        ("#define F G\n#define G(x) ((x) * 2)", "auto z = F(F(k));", np.int32(-28)),
        ("__device__ int g(int, float*); __device__ int g(int x, float* y, int) { return x; }",
         "float a[1]; auto z = g(3, a, 1);", np.int32(3)),
    ],
)  # fmt: skip
def test_definitions(definitions: str, text: str, expected: Any) -> None:
    result = run(definitions, text)
    assert (result.dtype, result) == (expected.dtype, expected)


@pytest.mark.parametrize(
    ("definitions", "text", "message"),
    [
        ("#ifdef A", "", "of C's directives.*got '#ifdef A'"),
        ("#define S(x) #x", "", "without #, ## and"),
        ("#define F(...) max(__VA_ARGS__)", "", r"without .* got '#define F"),
        ("", "int n = 3; float a[n] = {1};", "the length of an array is a constant integer"),
        ("", "const int n = 3; n = 4;", "n is constant"),
        ("__device__ int g(int x) { return x; }", "int z = g<int>(1);", "g is no template of 1 type"),
        ("", "int x = 3; int z = x++ + 1;", r"\+\+ and = within expressions"),
        ("#include <thrust/sort.h>", "", "thrust/sort.h"),
        ("#define F(x) x", "int z = F(1, 2);", "F takes 1 argument; got 2"),
        ("#define F(x) x", "int z = F(1;", r"the arguments of F have no end; add \)"),
        ("struct P { float x; };", "", "structs"),
        ("__device__ void g(float &x) { x = 1; }", "", "references"),
        ("__device__ int g(int x) { return g(x - 1); }", "", "no function g is defined before"),
        ("", "float z = g(f);", "no function g is defined before.*in the preamble"),
        ("__device__ int g(int x) { return x; ", "", "the body of a function has no end; add }"),
        ("__device__ int g(int x) { continue; }", "", "continue is outside of a loop; write return"),
        ("__device__ int g(int x) { return k; }", "", "identifier 'k' is undefined"),
        (SUM, "float z = sum(f, 3);", "a of sum is an array; got a number; pass an array"),
        (SUM, "int a[3]; float z = sum(a, 3);", r"a of sum is float32\*; got int32\*"),
        (SUM, "float a[3]; float z = sum(a, a);", "n of sum is a number; got an array; pass a number"),
        (SUM, "float a[3]; float z = sum(a);", "sum takes 2 arguments; got 1"),
        ("const float w[] = {1}; __device__ void g(float* x) { x[0] = 2; }", "g(w);", "declare it as const"),
        ("const float w[] = {1};", "w[0] = 2;", "w is constant"),
        ("__device__ void g(const float* x) { x[0] = 2; }", "", "x is constant"),
        ("const int N = 3;", "N = 4;", "N is constant"),
        ("__device__ void g(int x) { }", "int z = g(1);", "g returns nothing"),
        (CLIPPED.replace("B low", "A low"), "float z = clipped(f, d);", "A of clipped is float32 and float64"),
        ("template <class A> __device__ A g(int x) { return x; }", "int z = g(1);", "no argument of g has the type A"),
        ("__device__ int g(float x) { return 1; } __device__ int g(int x) { return 2; }", "int z = g(d);",
         r"0 functions g take exactly \(float64\)"),
        ("const int N = 3;", "int a[2] = {1, 2, 3};", "structs"),
        ("int N;", "", "structs"),
        ("const float N = sin(f);", "", "identifier 'f' is undefined"),
        ("__device__ float g(float x) { return x; } const float N = g(1);", "", "the value of N is no constant"),
        ("", "return 1;", "return is translated in functions only; put .* under if"),
    ],
)  # fmt: skip
def test_refused_definitions(definitions: str, text: str, message: str) -> None:
    with pytest.raises((KernelError, UntranslatedError), match=message):
        run(definitions, text or "int z = 1;")
