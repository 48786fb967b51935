"""Random expressions of C++, and their values by a compiler of the host."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++")
TYPES = {
    "b": ("bool", "bool"), "c": ("int8", "signed char"), "C": ("uint8", "unsigned char"), "s": ("int16", "short"),
    "S": ("uint16", "unsigned short"), "i": ("int32", "int"), "I": ("uint32", "unsigned"), "l": ("int64", "long long"),
    "L": ("uint64", "unsigned long"), "f": ("float32", "float"), "d": ("float64", "double"),
}  # fmt: skip
"""For each variable, its dtype and its type in C."""
ROW = np.dtype([(name, dtype) for name, (dtype, _) in TYPES.items()], align=True)

_PRELUDE = """
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
using namespace std;
struct Row { MEMBERS };
template <class A, class B> auto min_of(A a, B b) { decltype(+(a + b)) x = a, y = b; return x < y ? x : y; }
template <class A, class B> auto max_of(A a, B b) { decltype(+(a + b)) x = a, y = b; return x > y ? x : y; }
template <class T> int put(T value, void *out) {
  memcpy(out, &value, sizeof value);
  return sizeof value + 100 * (is_same<T, bool>() ? 0 : is_floating_point<T>() ? 3 : is_signed<T>() ? 1 : 2);
}
#define min min_of
#define max max_of
#define ROW_NAMES(r) NAMES
#define __device__
#define __constant__ static const
"""
_LITERALS = (
    "0", "1", "2", "7", "-3", "100", "255", "32768", "2147483647", "2147483648", "3000000000", "1u", "4000000000u",
    "1ll", "5l", "3ul", "0xff", "0x80000000", "0xffffffff", "0x7fffffffffffffff", "0xffffffffffffffff", "010", "0b101",
    "'a'", "'\\n'", "1.0", "1.5f", ".5", "2.f", "1e3", "0.1f", "0.1", "1e-3f", "0x1.8p1", "true", "false", "INT_MAX",
    "UINT_MAX", "INT64_MIN", "M_PI", "FLT_MAX", "DBL_EPSILON", "1'000", "16777217.0000001f",
)  # fmt: skip
_CASTS = ("(long long)", "(unsigned char)", "(unsigned)", "static_cast<short>", "(unsigned long long)",
          "(signed char)", "(int)", "(bool)", "(long)", "(unsigned short int)")  # fmt: skip
_FLOATS = ("fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "sqrt", "fabsf", "roundf", "truncf", "abs")


class Generator:
    """Writes expressions whose value C++ and wrapping arithmetic define."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self, depth: int) -> str:
        """Returns an expression of any type."""
        return self.floating(depth) if self.random.random() < 0.3 else self.integer(depth)

    def number(self, depth: int) -> str:
        """Returns an operand of any type."""
        return self.integer(depth - 1) if self.random.random() < 0.6 else self.floating(depth - 1)

    def _leaf(self, kinds: str) -> str:
        if self.random.random() < 0.7:
            return self.random.choice([name for name, (dtype, _) in TYPES.items() if np.dtype(dtype).kind in kinds])
        is_float = [np.dtype("f") if "." in text or text in ("1e3", "1e-3f", "M_PI", "FLT_MAX", "DBL_EPSILON")
                    else np.dtype("i") for text in _LITERALS]  # fmt: skip
        return self.random.choice([t for t, kind in zip(_LITERALS, is_float, strict=True) if kind.kind in kinds])

    def integer(self, depth: int) -> str:
        """Returns an expression of an integer type or bool."""
        if depth <= 0:
            return self._leaf("biu")
        pick = self.random.choice
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        divisor = pick(["3", "-7", "10u", "2", "-1000000007ll", f"(({b}) | 1u)", f"(({b}) & 15) + 1"])
        whole = f"fmin(fmax({self.floating(depth - 1)}, {pick(['0', '-100'])}.0f), 100.0)"
        both = f"({a} {pick(['+', '-', '*', '&', '|', '^'])} {b})"
        return pick([
            both, both, f"({a} {pick('/%')} ({divisor}))", f"({a} {pick(['<<', '>>'])} ({b} & 7))",
            f"{pick('-+~!')}({a})",
            f"({self.number(depth)} {pick(['==', '!=', '<', '>', '<=', '>='])} {self.number(depth)})",
            f"({a} {pick(['&&', '||'])} {self.number(depth)})", f"({self.number(depth)} ? {a} : {b})",
            f"{pick(_CASTS)}({a})", f"{pick(['min', 'max'])}({a}, {b})", f"abs((int)({a}))",
            f"{pick(['(int)', '(short)', 'long', 'static_cast<signed char>'])}({whole})",
            f"{pick(['isnan', 'isinf', 'isfinite'])}({self.floating(depth - 1)})", f"signbit({pick('fd')})",
            f"{pick(['lround', 'llrint'])}({whole})",
        ])  # fmt: skip

    def floating(self, depth: int) -> str:
        """Returns an expression of a float type."""
        if depth <= 0:
            return self._leaf("f")
        pick = self.random.choice
        a, b, c = self.floating(depth - 1), self.floating(depth - 1), self.number(depth)
        return pick([
            f"({a} {pick('+-*/')} {c})", f"({c} {pick('+-*/')} {a})", f"-({a})", f"({c} ? {a} : {c})",
            f"{pick(_FLOATS)}({a})", f"{pick(['floor', 'sqrt', 'ceil', 'fabs'])}({c})", f"copysign({a}, {pick('fd')})",
            f"fmod({a}, {pick(['3.0f', '0.7', b])})",
            f"{pick(['(float)', '(double)', 'float', 'static_cast<double>'])}({c})",
        ])  # fmt: skip


class Programs(Generator):
    """Writes statements of variables `v0` to `v3`: an int, an unsigned char, a float, and a long."""

    KINDS = ("int", "unsigned char", "float", "long long")

    def program(self) -> str:
        """Returns declarations and statements."""
        pick = self.random.choice
        declared = [f"{kind} v{k} = {self._value(k)};" for k, kind in enumerate(self.KINDS)]
        return " ".join([*declared, *(self._statement(2) for _ in range(pick([2, 3, 5])))])

    def _value(self, k: int) -> str:
        return self.floating(1) if self.KINDS[k] == "float" else self.integer(2)

    def _statement(self, depth: int) -> str:
        pick, k = self.random.choice, self.random.randrange(4)
        simple = [
            f"v{k} = {self._value(k)};", f"v{k} {pick(['+=', '-=', '*='])} {self._value(k)};",
            f"{pick(['++', '--'])}v{k};", f"v{k}{pick(['++', '--'])};", f"v0 = v3 = v1 - {self.integer(1)};",
            "v0 %= 100; v0 *= 1.75;",
            f"v3 {pick(['&=', '|=', '^='])} {self.integer(1)};", "v1 <<= 3;", "v3 >>= 1; v0 /= 3;",
            f"v2 /= {self.number(1)};",
            f"{{ {pick(self.KINDS)} v2 = v1; v3 += v2; }}", ";", f"auto w = v{k}; v2 += w;".join("{}"),
        ]  # fmt: skip
        if depth == 0 or self.random.random() < 0.6:
            return pick(simple)
        body, leave = " ".join(self._statement(depth - 1) for _ in range(2)), "if (v1 > 9) break;"
        return pick([
            f"if ({self.expression(1)}) {{ {body} }} else {pick(simple[:4])}", f"if (v{k}) {pick(simple[:4])}",
            f"for (int k = 0; k < {pick('234')}; {pick(['k++', '++k', 'k += 1'])}) {{ {body} }}",
            f"for (int k = 0, m = 5; k < m; k++, m -= 1) {{ if (k == {pick('01')}) continue; {body} {leave} }}",
            f"{{ int n = 0; while (n < 3) {{ n++; if ({self.expression(1)}) continue; {body} }} }}",
            f"{{ int n = 0; do {{ n += 2; {body} if (n == 2) continue; v0 += n; }} while (n < 4); }}",
        ])  # fmt: skip


class Definitions(Programs):
    """Writes definitions, and statements that use them: macros, constants, tables, functions, templates, arrays."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._element = self.random.choice(self.KINDS)

    def definitions(self) -> str:
        """Returns macros, constants and functions."""
        pick, kind, element = self.random.choice, self.random.choice(self.KINDS), self._element
        parameters = ", ".join(f"{pick(['', 'const '])}{of} {name}" for name, (_, of) in TYPES.items())
        return f"""
            typedef {pick(self.KINDS)} number;
            static const {kind} C1 = {pick(["5", "-7", "300", "1.75f"])};
            #define LIMIT {pick(["17", "(3u)", "2.5f", "C1"])}
            #define MIXED(x, y) ((x) {pick("+-*")} (y) + LIMIT)
            __constant__ {kind} table[{pick(["4", ""])}] = {{1, (char)-2.5f, {pick(["7", "1 << 5"])}, 99}};
            __device__ inline {pick(["int", "short", "long long"])} of_all({parameters}) {{
                {self.program()} if ({self.expression(1)}) return {self.whole()};
                for (int n = 0; n < 3; n++) {{ v0 += n; if ({self.expression(1)}) return v{pick("013")}; }}
                {self._statement(1)} return (int)v{pick("013")} + MIXED(3, table[{self.integer(1)} & 3]);
            }}
            template <typename T, class U> __device__ U sum_of(T x, const U* a, int n) {{
                T sum = C1;
                number w = (signed char)x;
                for (int k = 0; k < (n & 3); ++k) {{ if (a[k] == x) continue; sum += a[k]; w -= 2; }}
                return (U)((long long)sum {pick("+-")} (long long)w);
            }}
            __device__ void change({element} *a, int n) {{ if (n == 3) return; a[n & 3] += n; a[0] -= a[(n + 1) & 3]; }}
            __device__ {element} both({element}* __restrict__ a, int x) {{
                change(a, x > 2); change(a, x); return a[1] + 1;
            }}
        """

    def whole(self) -> str:
        """Returns a small number of an integer type."""
        return f"(({self.integer(2)}) & 63)"

    def uses(self) -> str:
        """Returns statements behind a program, which use the definitions."""
        pick, names = self.random.choice, [*TYPES]
        arguments = ", ".join(pick([name, name, f"({kind})({self.whole()})"]) for name, (_, kind) in TYPES.items())
        return f"""
            v0 = of_all({arguments}) + of_all({", ".join(names)});
            {self._element} a[4] = {{1, {self.whole()}}};
            change(a, v0); v1 += both(a, {self.whole()}); v3 ^= (int)a[v0 & 3];
            for (int k = 0; k < 2; k++) {{ int a[3] = {{(int)v1}}; a[k + 1] += k; v3 += a[k] + a[2]; }}
            v3 += sum_of((int)v1, a, {self.whole()}) {pick("+-")} sum_of<{pick(["short", "int"])}>(v1, a, 2);
            v1 = {self.expression(1)} ? both(a, 3) : of_all({", ".join(names)});
        """


def rows(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Returns values of the variables: random ones, small ones, and extremes."""
    rng = np.random.default_rng(seed)
    table = np.zeros(n, ROW)
    for name in TYPES:
        dtype = ROW[name]
        if dtype.kind == "f":
            values = rng.choice([0, -1, 0.5, 1.5, 2.5, -0.5, 1e10, -1e-10, np.inf, np.nan, 3.7, 16777217.0], n)
            table[name] = np.where(rng.random(n) < 0.4, rng.normal(size=n) * 100, values)
        elif dtype.kind == "b":
            table[name] = rng.integers(0, 2, n)
        else:
            info = np.iinfo(dtype)
            wide = rng.integers(info.min, info.max, n, dtype, endpoint=True)
            edges = rng.choice(np.array([info.min, info.max, 0, 1, 3, info.max - 1], dtype), n)
            table[name] = np.where(rng.random(n) < 0.5, edges, wide)
    return table


def values_by_gcc(
    texts: Sequence[str], table: np.ndarray[Any, Any], folder: Path, bodies: Sequence[str] | None = None,
    definitions: str = "",
) -> list[np.ndarray[Any, Any]]:  # fmt: skip
    """Returns the values of each expression for all rows, with its dtype, after the statements of its body."""
    members = " ".join(f"{kind} {name};" for name, (_, kind) in TYPES.items())
    names = " ".join(f"auto {name} = r.{name};" for name in TYPES)
    functions = [
        f'extern "C" int e{k}(const Row &r, void *out) {{ ROW_NAMES(r) {body} return put({text}, out); }}'
        for k, (text, body) in enumerate(zip(texts, bodies or [""] * len(texts), strict=True))
    ]
    source = folder / "expressions.cpp"
    source.write_text(
        _PRELUDE.replace("MEMBERS", members).replace("NAMES\n", names + "\n") + definitions + "\n".join(functions)
    )
    options = ["-std=c++17", "-O0", "-w", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC"]
    assert COMPILER is not None
    library = folder / "expressions.so"
    subprocess.run([COMPILER, *options, str(source), "-o", str(library)], check=True)
    loaded, results = ctypes.CDLL(str(library)), []
    for k in range(len(texts)):
        out, code = np.zeros((len(table), 8), np.uint8), 0
        for n in range(len(table)):
            code = loaded[f"e{k}"](ctypes.c_void_p(table[n : n + 1].ctypes.data), ctypes.c_void_p(out[n].ctypes.data))
        kind = np.dtype("?" if code < 100 else f"{'?iuf'[code // 100]}{code % 100}")
        results.append(np.ascontiguousarray(out[:, : kind.itemsize]).view(kind)[:, 0])
    return results
