"""Random kernels of integers and control flow as text, in which each wrap of an integer is written as a conversion.

So three readers compute the same numbers: the library; Python, whose ints have no size (`run_exactly`); and Numba,
which computes in 64 bits. The letter of a variable is its type:

    a int8      c uint8      h int16      e uint16      k int32      u uint32      b bool
    v           a Python int that is computed in the kernel
    p           an argument that is a Python int

Sums of a type are converted back to it. Those with a computed Python int are not: the library promises at least int32
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

N = 8
TYPES = {"a": "int8", "c": "uint8", "h": "int16", "e": "uint16", "k": "int32", "u": "uint32"}
ARGUMENTS = 3
N_COLUMNS = 3  # of the arrays that a kernel writes

_PREAMBLE = """
import numpy as np
import vkcompute as vc
FEW = (3, -1, 300, 40000)
PAIRS = ((1, 200), (-2, 7), (255, 256))
TABLE = np.array([5, -7, 120, 90], np.int8)
LIMIT = np.int16(3000)
"""
# An uppercase letter is an expression of the type; T is the type of the form itself. C_ is a comparison, D a divisor.
# I is an index into eight, I2 into two. S is a number of bits, N an integer of less than 32 bits, P an argument.
_TYPED = """T(T_ + T_); T(T_ - T_); T(T_ * T_); T(T_ // D); T(T_ % D); T(T_ & T_); T(T_ | T_); T(T_ ^ T_); T(~T_)
    T(-T_); T(abs(T_)); T(min(T_, T_)); T(max(T_, 5)); T(T_ << S); T(T_ >> S); T(T_ + P); T(max(T_, P)); T(min(P, T_))
    T(P - T_); T(T_ * P); T(T_ if B else P); T(V); T(K); T(U); T(N); T(V); (T_ if B else T_); T(T_ and T_)
    T(T_ or T_); x[I]; x[-1]; T(B); T(P); T(V + T_); T(x[I] + V); o[i, I2]; T(T_ + 7); T(3 - T_); T(T_ * 3)"""
_FORMS = {
    "V": """V + V; V - V; (V % 97) * N; N * (V % 61); V + N; N - V; N + V; V // D; V % D; N // (V % 7 + 1); V & V; V ^ N
        N | (V & 255); -V; abs(V); min(N, V); max(V, N); min(V, N, V); max(-1, V); min(V, 200); int(N if B else V)
        int(V if B else N); (V if B else V); int(V and V); int(N or V); FEW[(I) % 4]; FEW[I2]
        PAIRS[(I) % 3][1]; PAIRS[(I) % 3][0]; (7, -9, 70000)[(I) % 3]; (N - V, V)[I2]; (-1 if B else 1)
        (300 if B else -300); (V + P); (P + V); -P; P - 1
        (P if B else V); (K & 1023) + V; V - (K & 255); (N < V) + V; (B) + V; (V & 1023) << S; V >> S; V * 3; V - 300
        300 - V; int(N); int(B); divmod(V, D)[0]; int(h0(N, V, B)); int(h1(V, K, B)); (N - 0 * V) * 2
        V + TABLE[(I) % 4]
        N + (1 if B else -1); (V % 50) * LIMIT; len(xk) + V; V + xk.shape[0]""",
    "B": """N C_ N; N C_ V; V C_ N; V C_ V; K C_ U; U C_ V; V C_ U; K C_ V; N C_ U; P C_ N; N C_ P; N C_ 300; N C_ -1
        -1 C_ U; N C_ V C_ N; V C_ N C_ 90; not B; B and B; B or B; B == B; bool(V); bool(N); V in FEW; N in (1, -1, 4)
        (B if B else B); V % 3 == 1 and N C_ V; not N; V and N C_ 2; U C_ 3000000000""",
}
_SMALL = {
    "C_": "<; <=; >; >=; ==; !=",
    "D": "3; 7; -3; 100; 2; 8; -7; 1",
    "S": "1; 2; 5",
    "I": "i; 7 - i; (V % 8); (U & 7); (K & 7); (N & 7)",
    "I2": "(V & 1); (K & 1)",
    "P": "p0; p1; p2",
}
_DIVISORS = "3; 7; 100; 2; 8; 1"  # of unsigned integers
_STATEMENTS = """a0 = A; a1 = A; c0 = C; c1 = C; g0 = H; e0 = E; k0 = K; k1 = K; u0 = U; u1 = U; b0 = B; b1 = B
    v0 = (V) % 40009; v1 = (V) % 977 - 300; v2 = (V) % 1009 - 999; v0 += N; v1 -= N; v2 += N; v0 = N + (V) % 5000
    o[i, I2] = T_; o[i, I2] = V; o[i, I2] += V; o[i, I2] -= N; o[i, I2] ^= N; o[i, I2] += P; o[i, 1] += 1; o[i, 0] *= 3
    a0, a1 = a1, A; v0, v1 = v1, v0; v0, a0 = int(a0), A; (v0, k0), c0 = (int(N), K), C; v1, v2 = FEW[I2], (V) % 100
    b0 = not b1; v2 = (V) % 311 + N; v0 = int(c0); pass"""


def _split(forms: str) -> list[str]:
    return [form.strip() for line in forms.split("\n") for form in line.split(";")]


_LEAVES = {
    "A": "a0; a1; xa[I]; a0", "C": "c0; c1; xc[I]; c0", "H": "g0; xh[I]; g0", "E": "e0; xe[I]; e0",
    "K": "k0; k1; xk[I]; i", "U": "u0; u1; xu[I]", "B": "b0; b1; b0; N C_ V", "V": "v0; v1; v2; FEW[(I) % 4]; v0",
}  # fmt: skip
_TABLE = {name: _split(forms) for name, forms in (_FORMS | _SMALL).items()}
_LEAF_TABLE = {name: _split(forms) for name, forms in _LEAVES.items()}
for _letter, _dtype in TYPES.items():
    _found = _TYPED.replace("T_", _letter.upper()).replace("T(", f"np.{_dtype}(").replace("x[", f"x{_letter}[")
    _found = _found.replace("o[", f"o{_letter}[")
    _TABLE[_letter.upper()] = _split(_found.replace(" D", " D_") if _dtype[0] == "u" else _found)
_TABLE["D_"] = _split(_DIVISORS)
_TOKEN = re.compile(r"\b(C_|D_|I2|[ACHEKUVBNDSIP])\b")


class IntegerProgram:
    """Draws one program from a random generator; without `narrow` no type has less than 32 bits."""

    foreign = re.compile("(?!)")  # what no form may have
    kinds: tuple[str, ...] = ("if", "if", "for", "while", "match", "sum", "chain")

    def __init__(self, random: Random, *, narrow: bool = True) -> None:
        self._random, self._narrow = random, narrow
        self._n_helpers, self._calls, self._counter = 0, 4, 0

    @property
    def letters(self) -> str:
        """The letters of the types in use."""
        return "acheku" if self._narrow else "ku"

    def text(self) -> str:
        """A module with kernel(xa, …, oa, …, p0, p1, p2): arrays (N,) of each type in, (N, N_COLUMNS) out."""
        arrays = [f"x{letter}" for letter in self.letters] + [f"o{letter}" for letter in self.letters]
        lines = []
        for name, parameters in ("h0", "n, v, b"), ("h1", "v, k, b"):
            self._scope = ["n"] if name == "h0" else []
            lines += [f"def {name}({', '.join(['i', *arrays, 'p0, p1, p2', parameters])}):"]
            start = ["v0, v1, v2, b0, b1 = v, v % 77, 3 - v % 99, b, not b", *self._start(["k"] * (name == "h1"))]
            lines += indented([*start, *self._block(2, 0, "return {}"), self._filled("return (V) % 4001", 2)])
            self._n_helpers += 1
        self._scope = []
        start = [
            "i = vc.global_id(0)",
            "v0, v1, v2 = FEW[i % 4], xk[i] % 900 - 450 + FEW[0] % (i + 1), FEW[(i + 1) % 4]",
            "b0, b1 = i > 3, i % 2 == 0",
            *self._start([]),
        ]
        block = self._block(3, 0, "return")
        end = [f"o{letter}[i, 2] = {name}" for letter, name in zip("acheku", _TYPED_NAMES, strict=True)]
        end = [line for line in end if line[1] in self.letters]
        end += ["ok[i, 0] = v0 ^ v1", "ok[i, 1] = v2 + b0 - b1", "ou[i, 0] = v1"]
        lines += [f"def kernel({', '.join([*arrays, 'p0, p1, p2'])}):", *indented([*start, *block, *end])]
        return self._called(_PREAMBLE + "\n".join(lines) + "\n", arrays)

    def _called(self, text: str, arrays: list[str]) -> str:
        """Hands what all functions read to the helpers."""
        return re.sub(r"(?<!def )\b(h[01])\(", rf"\1({', '.join(['i', *arrays, 'p0, p1, p2'])}, ", text)

    def _start(self, given: list[str]) -> list[str]:
        """Values of all typed variables."""
        values = [f"{name} = x{letter}[1]" for letter, name in zip(TYPES, _TYPED_NAMES, strict=True)]
        values += ["a1, c1, k1, u1 = xa[2], xc[2], xk[2], xu[2]" if self._narrow else "k1, u1 = xk[2], xu[2]"]
        values = [value for value in values if self._narrow or value[0] in "ku"]
        return [*values, *["k0 = k"] * bool(given)]

    def _token(self, name: str, depth: int) -> str:
        if name == "N":
            if self._narrow:
                return self._token(self._random.choice("ACHE"), min(depth, 1))
            return self._filled(self._random.choice(["(K & 255)", "(K % 300 - 150)", "(k1 & 63)"]), 0)
        if not self._narrow and name in "ACHE":
            name = "K"
        if name in _SMALL or name == "D_":
            return self._filled(self._drawn(_TABLE[name]), 0)
        if depth <= 0 or self._random.random() < 0.3:
            return self._filled(self._drawn(_LEAF_TABLE[name]), 0)
        form = self._drawn(_TABLE[name])
        if match := re.search(r"\bh(\d)\(", form):
            if int(match[1]) >= self._n_helpers or not self._calls:
                return "v1"
            self._calls -= 1
        text = self._filled(form, depth - 1)
        return f"({text})" if " " in text else text

    def _drawn(self, forms: list[str]) -> str:
        return self._random.choice([form for form in forms if not self.foreign.search(form)])

    def _filled(self, form: str, depth: int) -> str:
        if not self._narrow:
            form = form.replace("TABLE[", "FEW[")
        return _TOKEN.sub(lambda match: self._token(match[1], depth), form)

    def _simple(self) -> str:
        form = self._drawn(_split(_STATEMENTS))
        letter = self._random.choice(self.letters)
        form = form.replace("o[", f"o{letter}[").replace("T_", letter.upper())
        if not self._narrow and re.search(r"\b([ace][01]|g0)\b", form):
            return "pass"
        return self._filled(form, 3)

    def _block(self, depth: int, loops: int, end: str) -> list[str]:
        lines: list[str] = []
        kinds = ["simple"] * 5 + [*self.kinds] * bool(depth) + ["leave"]
        for _ in range(self._random.randint(1, 4)):
            kind = self._random.choice(kinds)
            if kind == "leave":
                if loops and self._random.random() < 0.7:
                    return [*lines, self._random.choice(["break", "continue"])]
                if self._random.random() < 0.4:
                    return [*lines, self._filled(end.format("(V) % 3001"), 2)]
            elif kind == "simple":
                lines.append(self._simple())
            else:
                lines += getattr(self, f"_{kind}")(depth - 1, loops, end)
        return lines or ["pass"]

    def _if(self, depth: int, loops: int, end: str) -> list[str]:
        lines = [self._filled("if B:", 3), *indented(self._block(depth, loops, end))]
        while self._random.random() < 0.3:
            lines += [self._filled("elif B:", 2), *indented(self._block(depth, loops, end))]
        if self._random.random() < 0.5:
            lines += ["else:", *indented(self._block(depth, loops, end))]
        return lines

    def _chain(self, depth: int, loops: int, end: str) -> list[str]:
        """A long chain of branches, of early ends, or of operators; most programs have none."""
        if self._random.random() < 0.8:
            return [self._simple()]
        n, kind = self._random.choice([10, 30, 90]), self._random.randrange(3)
        if kind == 0:
            word = self._random.choice(["and", "or"])
            parts = f" {word} ".join(self._filled("(N C_ V)" if k % 5 else "(B)", 0) for k in range(n))
            return [f"b0 = {parts}"]
        lines: list[str] = []
        for k in range(n):
            body = [self._simple()] if kind == 1 or k % 7 else [self._filled(end.format("V % 9"), 0)]
            lines += [self._filled(f"{'el' * (kind == 1 and k > 0)}if V % {n} == {k}:", 0), *indented(body)]
        return lines

    def _sum(self, depth: int, loops: int, end: str) -> list[str]:
        """An accumulator that begins as a Python int."""
        self._counter += 1
        name, letter = f"s{self._counter}", self._random.choice(self.letters)
        head = self._random.choice([f"for y in x{letter}:", f"for j, y in enumerate(x{letter}, -1):", "for y in FEW:"])
        bounded = "np.int32(y % 1000)" if letter in "ku" and "FEW" not in head else "y"
        step = self._random.choice([f"{name} += {bounded}", f"{name} -= {bounded}", f"{name} = {name} + {bounded}"])
        more = f"{name} += {bounded} * (j % 5)" if " j" in head else "pass"
        middle = self._filled(self._random.choice(["if B: continue", "if B: break", "pass"]), 1)
        start = self._random.choice(["0", "-1", "300"])
        return [f"{name} = {start}", head, f"    {middle}", f"    {step}", f"    {more}", f"v0 = {name} % 30011"]

    def _match(self, depth: int, loops: int, end: str) -> list[str]:
        lines = [self._filled("match V % 9:" if self._random.random() < 0.5 else "match N:", 2)]
        for pattern in ("0", "1 | 2 | -1", "3 if B", "4 | 5 if B", "255 | 8", "_"):
            if self._random.random() < 0.6:
                lines += indented([self._filled(f"case {pattern}:", 1), *indented(self._block(depth, loops, end))])
        return lines if len(lines) > 1 else ["pass"]

    def _for(self, depth: int, loops: int, end: str) -> list[str]:
        self._counter += 1
        name = f"j{self._counter}"
        steps = ["range(3)", "range(V & 3)", "range(K % 4)", "range(-1, V % 4)", "range(5, N & 3, -2)", "range(N & 3)"]
        items = ["FEW", "(V, 300, -5)", "range(2, 200, 77)"]
        head = f"for {name} in {self._filled(self._random.choice([*steps, *items]), 1)}:"
        body = [self._random.choice([f"v0 += {name} % 7", f"k0 = np.int32({name})", "pass"])]
        lines = [head, *indented([*body, *self._block(depth, loops + 1, end)])]
        return lines + self._else(depth, loops, end)

    def _while(self, depth: int, loops: int, end: str) -> list[str]:
        self._counter += 1
        counter = f"n{self._counter}"
        head = self._filled(self._random.choice([f"while {counter} < 4 and (B):", f"while {counter} < V % 5:"]), 2)
        lines = [f"{counter} = 0", head, *indented([f"{counter} += 1", *self._block(depth, loops + 1, end)])]
        return lines + self._else(depth, loops, end)

    def _else(self, depth: int, loops: int, end: str) -> list[str]:
        return ["else:", *indented(self._block(depth, 0, end))] if self._random.random() < 0.3 else []


_TYPED_NAMES = ("a0", "c0", "g0", "e0", "k0", "u0")


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def data_of(program: IntegerProgram, random: Random) -> tuple[list[np.ndarray[Any, Any]], list[int]]:
    """Arrays for the inputs and outputs of a program, and its arguments, which mostly fit all types."""
    generator = np.random.default_rng(random.getrandbits(32))
    arrays = []
    for letter in program.letters:
        dtype = np.dtype(TYPES[letter])
        limits = np.iinfo(dtype)
        any_, small = generator.integers(limits.min, limits.max, N, dtype, endpoint=True), generator.integers(0, 9, N)
        arrays.append(np.where(generator.random(N) < 0.6, any_, small.astype(dtype)))
    outputs = [np.full((N, N_COLUMNS), 7, TYPES[letter]) for letter in program.letters]
    arguments = [random.randint(0, 127), random.choice([0, 1, 2, 100]), random.choice([1, 1, 7, 127, -1, 300, -129])]
    return [*arrays, *outputs], arguments


# -- the readers ------------------------------------------------------------------------------------------------------


def _wrapped(dtype: str) -> Callable[[int], int]:
    bits = np.iinfo(dtype).bits
    half = 0 if dtype[0] == "u" else 1 << bits - 1
    return lambda value: (int(value) + half) % (1 << bits) - half


CONVERSIONS = {name: _wrapped(name) for name in TYPES.values()}


class _Elements:
    """An array of Python ints, which wraps what is stored."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.values, self.shape, self._wrap = array.tolist(), array.shape, CONVERSIONS[array.dtype.name]

    def __getitem__(self, at: Any) -> Any:
        return self.values[at[0]][at[1]] if isinstance(at, tuple) else self.values[at]

    def __setitem__(self, at: tuple[int, int], value: int) -> None:
        self.values[at[0]][at[1]] = self._wrap(value)

    def __len__(self) -> int:
        return len(self.values)


def run_exactly(text: str, arrays: list[np.ndarray[Any, Any]], arguments: list[int]) -> list[Any]:
    """Returns the contents of the arrays after a program that Python runs on its own ints."""
    given = [_Elements(array) for array in arrays]
    scope = executed(text)
    scope["np"] = SimpleNamespace(**CONVERSIONS)
    scope |= {"TABLE": scope["TABLE"].tolist(), "LIMIT": int(scope["LIMIT"])}
    for i in range(N):
        scope["vc"] = SimpleNamespace(global_id=lambda axis, i=i: i)
        scope["kernel"](*given, *arguments)
    return [elements.values for elements in given]


def executed(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(compile(text, "<program>", "exec"), scope)
    return scope
