"""Random well-typed kernels as text, whose results Python has to the bit.

The letter of a variable is its type:

    k int32      u uint32      f float32      b bool
    w            a Python int from 0 on
    m            int32 or float32, depending on the way taken
    v, p         a vector of three int32, and one of two float32

Values stored in an f, m or p are multiples of 1/4 between -8 and 8. So expressions of a few of them are exact in
float32, whatever the order, and may decide branches. No function in G of such numbers is next to an odd multiple of
1/8: results that are right to some ulp are rounded alike. Divisors are not 0; indices are in range; loops are short.
"""

from __future__ import annotations

import re
from random import Random

N = 8
_PREAMBLE = """
import math
import numpy as np
import vkcompute as vc
THREE = 3
SEVEN = np.int32(7)
HALF = np.float32(0.5)
TABLE = np.array([5, -3, 2147483647, 0, 9, -1, 77, 4], np.int32)
WAVES = np.float32([[0.25, -8.0, 3.5, 0.0, 1.0, -0.75, 7.75, 2.0], [8.0, 0.5, -1.25, 6.0, -4.0, 0.0, 1.5, -2.5]])
def q(v):
    return np.rint(min(max(v, -8.0), 8.0) * 4.0) * 0.25
def pair(v, t=5, *, s=1):
    return v + t * s, v
def bit(v, j):
    return v >> j & 1
def first(v, n):
    for j in range(n & 7):
        if bit(v, j):
            return j
    return -1
"""
# The forms of expressions. K U B F W are expressions of a type, F1 of a float that is stored, C is a comparison, G are
# functions of floats. D and E are divisors, S and T shifts, I an index into eight, I3 from 3 to 5, I2 from 2 to 3. H is
# an index into the list hs, X stands for the arguments of a helper. The private array ps has the shape (2, 2).
_FORMS = {
    "K": """K + K; K - K; K * K; K & K; K | K; K ^ K; K // D; K % D; K << S; K >> S; K ** 2; K ** (K & 3); -K; ~K
        abs(K)
        min(K, K); max(K, 5); min(K, W, K); np.sign(K); np.int32(K if B else 4); np.int32(K and K); np.int32(K or 3)
        K if B else K; K and K; np.int32(U); np.int32(W); np.int32(M); np.int32(F1); x[I]; x[-1]; out[i, I3]; K + W
        K - 3
        10 - K; np.int32(0) - K; W - K; 1 << (K & 31); K * THREE; K + SEVEN; K + len(x)
        K + x.shape[0] * out.shape[1]; K + B; K * int(B)
        divmod(K, D)[1]; K + round(F1); K - int(F1); K ^ math.floor(F1); np.int32(np.where(B, K, K)); K + vc.local_id(0)
        pair(K)[0]; pair(s=K, v=K)[0]; first(K, K) + K; bit(K, K & 7); h0(X, K, K, B); h1(X, K, K); x[I] if B else K
        TABLE[I]; TABLE[K & 7]; (x, TABLE)[1][I]; hs[H]; hs[H]
        V.x; V[1]; V[K % 3]; V[-1]; V.zy[W % 2]; sum(V); min(V); max(V); V @ V; np.dot(V, V); len(V) + K
        ps[H & 1, 1]; ps[0][H & 1]; (k2 := K); (k1 := K) + k1; (lambda v: v ^ k0)(K); sum(hs)
        np.int32(sum(e1 ^ K for e1 in range(W % 4))); np.int32(sum(K * e2 for e2 in (K, J, K) if B))
        np.int32(sum(e4 - e3 * K for e3 in range(3) if e3 != K for e4 in x)); (K, K)[K & 1]""",
    "U": """U + U; U - U; U * U; U & U; U | U; U ^ U; U // E; U % E; U // 7; np.uint32(4294967295) // E; U << T
        U >> T; U ** 2; -U; ~U; abs(U); min(U, U)
        max(U, 5); np.sign(U); np.uint32(U if B else 4); U if B else U; np.uint32(U and U); np.uint32(K)
        np.uint32(B); y[I]
        U + W; W - U; W ^ U; U - 3; U * 2654435761; U + B; np.uint32(np.where(B, U, U))""",
    "B": """K C K; U C U; F C F; K C W; K C U; U C K C U; W - 9 C U; U C W - 9; K C 5; U C -1; K C 4000000000
        -5 C K C 2.5
        not B; not K; B and B; B or B; B ^ B; B & B; B | B; B == B; bool(K); bool(F1); K C K C W; M C 2; M C F1
        F1 C K & 15
        B if B else B; K > 3 != B; z[I] C F; np.isnan(F1); K // D C 3 or K % D C 2; x[I] C 4 and y[I] C 9
        (K, K) C (K, 3); (K, W, K) C (K, W, K); any(e5 C K for e5 in x if B); all(e6 C e7 for e6, e7 in zip(x, hs))
        all(e8 C e9 for e8, e9 in zip(reversed(x), range(W)))
        bool(K and x[I] > 0); any(V C V); all(V C K); any(L C L); V[K & 1] C K; L.y C F1""",
    "F": """F1 + F1; F1 - F1; F1 * F1; min(F1, F1); max(F1, 1); abs(F1); -F1; F1 / 2; F1 // 2.0; F1 % 2.0; F1 ** 2
        np.sign(F1)
        np.floor(F1); np.ceil(F1); np.trunc(F1); np.rint(F1); F1 if B else F1; (K & 15) / 4; F1 + (K & 15)
        float(K & 15)
        np.float32(K & 7); F1 * B; F1 * HALF; F1 or 2.5; F1 and F1; np.float32(np.where(B, F1, F1)); pair(F1, 0.5)[0]
        (U & 7) * 0.5; 1.5 - F1; F1 - W % 9; M + F1; M * 2; fo[i, I2]
        L.x; L[K & 1]; L[-1]; sum(L); min(L); max(L); L @ L; L.yx.x; L[::-1][0]
        WAVES[K & 1, I]; WAVES[-1, I]; F1 * F1 + F1 * F1; z[I]; q(G)""",
    "V": """V + V; V - V; V * V; V & V; V | V; V ^ V; V + K; K - V; V * W; 3 - V; V // D; V % D; V << 2; V >> 31; V ** 2
        -V; ~V; abs(V); min(V, V); max(V, K); min(V, 5); V if B else V; V.zyx; V.xxy; V.yzx; V[::-1]
        vc.int32x3(np.where(V C V, V, V)); vc.int32x3(np.where(V C K, V, 7)); vc.int32x3(K, K, K); vc.int32x3(K)
        vc.int32x3(V.xz, K); vc.int32x3(K, V[1:]); vc.int32x3(L, K); vc.int32x3(np.cross(V, V)); pair(V)[0]
        vc.int32x3((K, W, 4)); (v1 := V); (lambda v: v ^ k0)(V); vc.int32x3(U)""",
    "P": """L + L; L - L; L * L; L * F1; F1 - L; L / 2; L // 2.0; min(L, L); max(L, 1); abs(L); -L; L if B else L; L.yx
        L[::-1]; vc.float32x2(np.where(L C L, L, F1)); vc.float32x2(F1, F1); vc.float32x2(F1); vc.float32x2(V.zx & 15)
        np.floor(L); np.rint(L); np.sign(L); L ** 2; L * 2; 1.5 - L; L + W % 9; pair(L, 0.5)[0]; L + L * L""",
    "W": "W % 7; (W + 5) % 9; W * 3 % 8; W; W + 1; 4; 0; W if B else 3; min(W, 6); W // 2; abs(W - 4)",
}
_SMALL = {
    "C": "<; <=; >; >=; ==; !=",
    "D": "3; 7; -3; -7; 1009; 1; 2; -1; (K & 15 | 1); -(K & 15 | 1); -(K & 1 | 1)",
    "E": "3; 7; 10; (U & 15 | 1)",
    "S": "2; 31; (K & 31); (K & 63); W; 40; -1",
    "T": "3; 33; (U & 63); W",
    "I": "i; 7 - i; 3; -2; K % 8; U & 7; (i + W) % 8",
    "I3": "K % 3 + 3; 3; -1; -2; W % 3 + 3; 4",
    "I2": "(K & 1) + 2; 2; -1",
    "M": "m0",
    "G": "np.sin(F1); np.cos(F1); np.tan(F1); np.exp(F1); np.expm1(F1); np.tanh(F1); np.log1p(abs(F1))"
    "; np.hypot(F1, F1); np.arctan2(F1, abs(F1) + 1.0); np.cbrt(F1); abs(F1) ** 0.75; np.arcsinh(F1)"
    "; np.log(abs(F1) + 0.25); np.sqrt(abs(F1)); np.sqrt(HALF); np.sqrt(np.float32(3)) + F1",
    "X": "x, y, z, out, fo, i, hs, ps",
    "H": "0; 3; -1; (K & 3); W % 4",
}
_LEAVES = {
    "K": "k0; k1; k2; k0; k1; k2; i; np.int32(0); np.int32(1); np.int32(-9); np.int32(65537); np.int32(2147483647); J",
    "U": "u0; u1; u0; u1; np.uint32(7); np.uint32(4294967295)",
    "F": "f0; f1; 0.5; -1.5; 2.0; F1",
    "F1": "f0; f1; f0; f1; np.float32(0.25); z[I]",
    "V": "v0; v1; v0; v1; vc.int32x3(1, -2, 2147483647); vc.int32x3(i)",
    "P": "p0; p1",
    "L": "p0; p1; p0; p1; vc.float32x2(0.25, -3.5)",
    "B": "b0; b1",
    "W": "w0; w1; 2",
}
_SIMPLE = """k0 = K; k1 = K; k2 = K; k0 += K; k1 -= K; k2 ^= K; k0 //= D; k1 %= D; k2 <<= S; k0 >>= S; k1 *= K
        k0, k1 = k1, K
    k0, k1 = pair(K, K); k1, u0 = K, U; k2 = k1 = K; (k0, k1), f0 = pair(K), q(F); [k0, b0] = K, B; k2 -= 1 if B else K
    u0 = U; u1 = U; u0 += U; u1 ^= U; u0 >>= 3; u1 -= 1; u0 //= E; u1 %= E; f0 = q(F); f1 = q(F); f0 = q(f1 + F)
        f1 = q(f0 * F1)
    b0 = B; b1 = B; b0 &= B; b1 ^= B; w0 = W; w1 = W; w0 += 1; w1 = w0; m0 = K & 15; m0 = q(F); m0 = q(M + F1); pass
    out[i, I3] = K; out[i, I3] += K; out[i, I3] -= K; out[i, I3] //= D; fo[i, I2] = q(F); 'no value'
        k0 = np.int32(len(x))
    v0 = V; v1 = V; v0 += V; v1 -= K; v1 ^= V; p0 = q(P); p1 = q(P); p0 = q(p1 + P); v0, v1 = v1, V; k0, k1, k2 = V
        f0, f1 = q(P); k0, (f0, f1) = K, q(P); p0, p1 = p1, p0; v0 *= 1; p1 = q(p0 - P)
    hs[H] = K; hs[H] += K; ps[H & 1, H & 1] -= K; ps[1, 0] = W; hs[0], hs[3] = hs[3], K; (k0, *_), k1 = (K, K, K), K
    out[i, I3], fo[i, 2] = K, q(F); u0, u1 = u1, u0; f0, f1 = f1, f0; w0, w1 = w1, w0; b0, b1 = b1, B"""
_STEPS = """3; W % 4; K & 3; 0, 7, 3; 2, K % 4 - 3, -1; K & 3, 9, (K & 1) * 2 + 1; U & 3; W % 9, W % 5, -2; len(x) - 5
    K & 7, K & 7, (K & 2) - 1; 5, 0, -2; 0; -2, 2"""
_JOINED = """t = K / t = K / k0 = t; t = K / t = B / k1 = np.int32(t); t = W / t = K / k2 = np.int32(t)
    t = U / t = U / u0 = t; t = K & 15 / t = q(F) / m0 = t; t = q(F) / t = W % 9 / m0 = t
        t = K, U / t = K, U / k0, u1 = t
    t = (W, K) / t = (K, K) / k1 = np.int32(t[0] + t[1]); t = B / t = B / b1 = t; w0 = W / k0 = K / pass"""


def _split(forms: str) -> list[str]:
    return [form.strip() for line in forms.split("\n") for form in line.split(";")]


_TABLES = [{name: _split(forms) for name, forms in table.items()} for table in (_FORMS, _SMALL, _LEAVES)]
_HALVES = _split(
    """np.float32(np.float16(F1)); np.float32(np.float16(F1) * np.float16(F1)); np.float32(np.float16(K & 15) + F1)
    np.float32(np.float16(F1) - np.float16(F1) * np.float16(F1)); np.float32(np.float16(F1) // np.float16(2))
    np.float32(max(np.float16(F1), np.float16(F1))); np.float32(F1 if np.float16(F1) < np.float16(F1) else F1)"""
)
_TOKEN = re.compile(r"\b(I3|I2|F1|[KUBFWVPLCDESTIMXJGH])\b")


class RandomProgram:
    """Draws one program from a random generator, with `halves` also of float16."""

    def __init__(self, random: Random, *, halves: bool = False) -> None:
        self._random = random
        self._forms, self._small, self._leaves = _TABLES
        if halves:
            self._forms = self._forms | {"F": [*self._forms["F"], *_HALVES]}
        self._n_helpers, self._calls = 0, 4  # each call is compiled where it stands
        self._counters: list[str] = []

    def text(self) -> str:
        """A module with kernel(x, y, z, out, uo, fo): int32, uint32 and float32 (N,) in; (N, 6), (N,), (N, 4) out."""
        lines = []
        for name, arguments in ("h0", "k0, k1, b0"), ("h1", "k0, k1, b0=False"):
            lines += [f"def {name}({self._small['X'][0]}, {arguments}):"]
            lines += indented(
                [*self._constants("k2 u0 u1 f0 f1 b1 w0 w1 m0 v0 v1 p0 p1"), *self._block(2, 0, "return {}")]
            )
            lines += indented([self._filled("return K", 1)])
            self._n_helpers += 1
        start = [
            "i = vc.global_id(0)",
            "hs, ps = [x[i], *(x[7 - i],) * 3], vc.local((2, 2), vc.int32)",
            "k0, k1, u0, u1, f0 = x[i], x[7 - i], y[i], y[i ^ 1], z[i]",
        ]
        end = ["k2 ^= hs[0] ^ hs[1] ^ hs[2] ^ hs[3] ^ ps[0, 0] ^ ps[0, 1] ^ ps[1, 0] ^ ps[1, 1]"]
        end += ["k1 ^= v0 @ v1", "f1 = q(f1 + p0 @ p1)"]
        end += [*[f"out[i, {n}] = k{n}" for n in range(3)], "uo[i] = u0 ^ u1", "fo[i, 0] = f0", "fo[i, 1] = q(f1 + m0)"]
        lines += ["def kernel(x, y, z, out, uo, fo):"]
        lines += indented(
            [*start, *self._constants("k2 f1 b0 b1 w0 w1 m0 v0 v1 p0 p1"), *self._block(3, 0, "return"), *end]
        )
        return _PREAMBLE + "\n".join(lines) + "\n"

    def _constants(self, names: str) -> list[str]:
        values = {"k": "np.int32(5)", "u": "np.uint32(9)", "f": "np.float32(1.5)", "b": "True", "w": "1", "m": "0"}
        values |= {"v": "vc.int32x3(4, -1, 9)", "p": "vc.float32x2(0.5)"}
        return [f"{name} = {values[name[0]]}" for name in names.split()]

    def _filled(self, form: str, depth: int) -> str:
        """The form with expressions in it."""
        return _TOKEN.sub(lambda match: self._token(match[1], depth), form)

    def _token(self, name: str, depth: int) -> str:
        if name == "J":
            return self._random.choice(self._counters or ["k0"])
        if name in self._small:
            return self._filled(self._random.choice(self._small[name]), 0)
        if name in ("F1", "L") or depth <= 0 or (name != "B" and self._random.random() < 0.3):
            return self._filled(self._random.choice(self._leaves[name]), 0)
        form = self._random.choice(self._forms[name])
        if re.match(r"h\d", form):
            if int(form[1]) >= self._n_helpers or not self._calls:
                return "k0"
            self._calls -= 1
        text = (self._without_names if " for " in form else self._filled)(form, depth - 1)
        return f"({text})" if " " in text else text

    def _block(self, depth: int, loops: int, end: str) -> list[str]:
        """Statements; `end` is how a return is written."""
        lines: list[str] = []
        choices = ["simple"] * 5 + ["if", "if", "for", "while", "joined", "match", "def"] * bool(depth) + ["leave"]
        for _ in range(self._random.randint(1, 4)):
            kind = self._random.choice(choices)
            if kind == "leave":
                if loops and self._random.random() < 0.7:
                    return [*lines, self._random.choice(["break", "continue"])]
                if end and self._random.random() < 0.4:
                    return [*lines, self._filled(end.format("K"), 2)]
            elif kind == "simple":
                lines.append(self._filled(self._random.choice(_split(_SIMPLE)), 2))
            elif kind == "joined":
                one, other, then = self._random.choice(_split(_JOINED)).split(" / ")
                joined = self._filled(f"if B:\n    {one}\nelse:\n    {other}\n{then}", 2)
                lines.append(re.sub(r"\bt\b", f"t{self._random.randrange(1000)}", joined))  # one type for each
            else:
                lines += getattr(self, f"_{kind}")(depth - 1, loops, end)
        return "\n".join(lines or ["pass"]).split("\n")

    def _if(self, depth: int, loops: int, end: str) -> list[str]:
        lines = [self._filled("if B:", 3), *indented(self._block(depth, loops, end))]
        while self._random.random() < 0.25:
            lines += [self._filled("elif B:", 2), *indented(self._block(depth, loops, end))]
        if self._random.random() < 0.5:
            lines += ["else:", *indented(self._block(depth, loops, end))]
        return lines

    def _match(self, depth: int, loops: int, end: str) -> list[str]:
        lines = [self._filled("match K & 7:", 2)]
        for pattern in ("0", "1 | 2", "3 if B", "4 | 5 as k2 if B", "k2 if B", "_"):
            if self._random.random() < 0.6:
                block = indented(self._block(depth, loops, end))
                lines += indented([self._filled(f"case {pattern}:", 2), *block])
        return lines if len(lines) > 1 else ["pass"]

    def _def(self, depth: int, loops: int, end: str) -> list[str]:
        """A nested function, which is called twice."""
        name, k = f"g{self._random.randrange(1000)}", self._random.randrange(3)
        early, late, default = (self._without_names(form, 2) for form in ("    if B:\n        return K", "K", "B"))
        lines = [f"def {name}(k{k}, b0={default}):", *early.split("\n"), f"    return {late}"]
        return [*lines, self._filled(f"k0 = {name}(K) ^ {name}(K, b0=B)", 1)]

    def _without_names(self, form: str, depth: int) -> str:
        """The form with expressions in it that assign to no names."""
        while ":=" in (text := self._filled(form, depth)):
            pass
        return text

    def _else(self, depth: int, loops: int, end: str) -> list[str]:
        """The else of a loop, or nothing."""
        return ["else:", *indented(self._block(depth, loops, end))] if self._random.random() < 0.3 else []

    def _for(self, depth: int, loops: int, end: str) -> list[str]:
        steps = self._filled(self._random.choice(_split(_STEPS)), 1)
        name = self._random.choice(["k0", "k1", f"j{loops}", f"j{loops}"])
        self._counters.append(name)
        body = self._block(depth, loops + 1, end)
        self._counters.pop()
        steps = f"range({steps})"
        if steps.count(",") < 2 and self._random.random() < 0.3:
            steps = f"reversed({steps})"
        return [f"for {name} in {steps}:", *indented(body), *self._else(depth, loops, end)]

    def _while(self, depth: int, loops: int, end: str) -> list[str]:
        counter = f"n{loops}{depth}{self._random.randrange(1000)}"
        body = [f"{counter} += 1", *self._block(depth, loops + 1, end)]
        kind = self._random.random()
        if kind < 0.25:
            head = ["while True:", f"    if {counter} >= 4: break"]
        elif kind < 0.5:  # left in the middle, with what was computed before
            before = [self._filled(self._random.choice(_split(_SIMPLE)), 2) for _ in range(self._random.randint(1, 3))]
            leave = self._filled(f"if {counter} >= 3 or (B): break", 2)
            head, body = ["while True:"], [body[0], *before, leave, *body[1:]]
        else:
            head = [self._filled(f"while {counter} < 5 and (B):", 2)]
        return [f"{counter} = 0", *head, *indented(body), *self._else(depth, loops, end)]


def indented(lines: list[str]) -> list[str]:
    """The lines of a block inside of another."""
    return [f"    {line}" for line in "\n".join(lines).split("\n")]
