"""What Python programmers write, and few think of: it computes what numpy does, or is refused in words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, module

import vkcompute as vc
from vkcompute.errors import KernelError

N = 8
INPUTS: dict[str, list[Any]] = {
    "int32": [-(2**31) + 1, -7, -1, 0, 1, 5, 7, 2**31 - 1],
    "uint32": [0, 1, 2, 5, 100, 2**31 - 1, 2**31, 2**32 - 1],
    "uint8": [0, 1, 100, 127, 128, 200, 254, 255],
    "int8": [-128, -100, -7, 0, 1, 100, 126, 127],
    "int64": [-(2**63) + 1, -7, -1, 0, 1, 5, 2**40, 2**63 - 1],
    "uint64": [0, 1, 2, 5, 100, 2**31, 2**63, 2**64 - 1],
    "bool": [0, 1, 1, 0, 0, 0, 1, 1],
    "float32": [-4, -2.5, -1, 0, 0.25, 1, 2.5, 4],
}
HEAD = """
import math
import numpy as np
import vkcompute as vc
TABLE = (3, 1, 2)
LAST = np.int32(-1)
def keywords(a, b=2, *, c=3):
    return a * b + c
def rest(a, *more):
    return a * more[0] + more[1]
double = lambda v: 2 * v
async def coroutine(v):
    return v
def found(a):
    for k in range(10):
        if k * k > a:
            return k
    return -1
"""

# (dtype of x, dtype of out, what a kernel of x, out and a does at i)
COMPUTED = [
    ("uint32", "int32", "out[i] = a < x[i]"),
    ("uint32", "int32", "out[i] = (x[i] > a) + 2 * (x[i] == a) + 4 * (a != x[i]) + 8 * (a >= x[i])"),
    ("uint32", "int32", "c = 0\nfor j in range(3):\n    c -= 1\nout[i] = c < x[i] and x[i] >= c and not x[i] <= c"),
    ("uint32", "int32", "out[i] = (x[i] > np.int32(-1)) + (i - 4 < x[i]) * 2"),
    ("uint64", "int32", "out[i] = (i - 4 < x[i]) + (x[i] == np.int64(-1)) * 2"),
    ("int64", "int32", "out[i] = (x[i] < np.uint64(5)) + (np.uint32(i) > x[i]) * 2"),
    ("uint8", "int32", "out[i] = (x[i] < a + 301) + (x[i] == 256 + a) * 2"),
    ("int8", "int32", "out[i] = (x[i] < np.uint8(200)) + (np.uint8(i) > x[i]) * 2 + (x[i] > a - 200) * 4"),
    ("uint8", "int32", "out[i] = int(x[i]) * 1000 + round(x[i])"),
    ("float32", "float32", "out[i] = x[i] ** math.inf"),
    ("float32", "float32", "out[i] = (x[i] * 2) ** 1e30"),
    ("float32", "float32", "out[i] = x[i] ** 16777216.0 + x[i] ** 3.0 + x[i] ** -1"),
    ("float32", "float32", "out[i] = float('inf') if i > 3 else -float('inf')"),
    ("float32", "float32", "out[i] = x[-1] + x[LAST] + x[-8]"),
    ("float32", "float32", "out[i] = np.log(0.0)"),
    ("int32", "int32", "[p, q] = 1, i\nout[i] = p + q"),
    ("int32", "int32", "p, (q, r) = 1, (2, i)\nout[i] = p + q * r"),
    ("int32", "int32", "p = q = i\nq += 1\nout[i] = p * 10 + q"),
    ("int32", "int32", "out[i] = keywords(i) + keywords(i, c=1) + keywords(b=i, a=2)"),
    ("int32", "int32", "out[i] = rest(i, 2, 3)"),
    ("int32", "int32", "f = found\nout[i] = f(abs(x[i]) & 63)"),
    ("int32", "int32", "out[i] = TABLE[-1] + len(TABLE) + (1 if TABLE == (3, 1, 2) else 0)"),
    ("int32", "int32", "len = 3\nmax = x[i]\nout[i] = len + (max & 7)"),
    ("int32", "int32", "x = out\nx[i] = 3"),
    ("int32", "int32", "größe = x[i]\nout[i] = größe"),
    ("int32", "int32", "q = None\nout[i] = 1 if q is None else 2"),
    ("int32", "int32", "out[i] = i and 5 or 7"),
    ("float32", "float32", "out[i] = i or 2.5"),
    ("int32", "int32", "out[i] = (i > 3) < (i < 5)"),
    ("int32", "int32", "out[i] = i == 1 == True"),
    ("int32", "int32", "out[i] = +True + True - ~True"),
    ("int32", "int32", "q, r = divmod(x[i], -7)\nout[i] = q ^ r"),
    ("int32", "int32", "out[i] = (x[i] << 70) + (x[i] >> 70) + (x[i] >> -1) + (x[i] << 32)"),
    ("int32", "int32", "q = True\nfor j in range(3):\n    q = q + 1\nout[i] = q"),
    ("int32", "float32", "q = i\nfor j in range(3):\n    q = q / 2\nout[i] = q"),
    ("int32", "int32", "q = i > 3\nfor j in range(3):\n    q = not q\nout[i] = q"),
    ("int32", "float32", "if i > 2: q = (1, 2)\nelse: q = (3.5, i)\nout[i] = q[0] + q[1]"),
    ("int32", "int32", "c = 0\nfor j in range(2147483640, 2147483647, 3):\n    c += 1\nout[i] = c"),
    ("int32", "int32", "c = 0\nfor j in range(-2147483648, 2147483647, 1000000000):\n    c += 1\nout[i] = c"),
    ("int32", "int32", "c = 0\nfor j in range(5, 0, -2):\n    c = c * 10 + j\n    j = 100\nout[i] = c"),
    ("int32", "int32", "while 1:\n    out[i] = i\n    if i > 3: return\n    i += 1\n    break"),
    ("uint32", "uint32", "out[i] = x[i] * 2654435761 >> 7 ^ -x[i]"),
    ("bool", "bool", "out[i] = not x[i] or i > 6"),
    ("bool", "bool", "out[i] = 2\nout[i] ^= x[i]"),
    ("bool", "int32", "out[i] = x[i] + 1 << x[i]"),
    ("int32", "int32", "for j in range(3):\n    if np.int32(j - j) < 5:\n        continue\n    out[i] = 1"),
    ("int32", "int32", "out[i] = double(x[i])"),
    ("int32", "int32", "for j in range(3):\n    out[i] += TABLE[j] * 10**j"),
    ("int32", "float32", "out[i] = (i, 2.5, -1)[i % 3] / 2"),
    ("int32", "int32", "out[i] = (i in (1, 2, x[i])) + 2 * (i not in TABLE) + 4 * (3 in TABLE)"),
    ("int32", "int32", "...\n'a text'\nout[i] = np.negative(np.bitwise_and(x[i], 5)) + np.left_shift(i, 2)"),
    ("float32", "bool", "out[i] = np.logical_or(np.less(x[i], -1), np.logical_not(np.greater_equal(x[i], 1)))"),
    ("int32", "int32", "out[i] = np.iinfo(np.int16).max + np.iinfo(x.dtype).bits"),
    ("float32", "float32", "out[i] = x[i] * np.finfo(np.float32).eps + np.finfo('f4').tiny"),
    ("int32", "int32", "if np.int32(0.25) < 5:\n    w = 3\nout[i] = w"),
]  # fmt: skip

# (a statement, what it is refused with)
REFUSED = [
    ("out[i] = 10 ** 10 ** 8", r"this \*\* exceeds 64 bits"),
    ("out[i] = 1 << 10 ** 9", "this << exceeds 64 bits|integers have at most 64 bits"),
    ("out[i] = " + "9" * 4000, "integers have at most 64 bits in kernels; this one needs 13288"),
    ("out[i] = coroutine(i)", "coroutine is not a plain function"),
    ("t = (i, 2)\nt[0] = 1", "the elements of a tuple cannot be assigned; make another tuple"),
    ("t = (i, 2)\nt[0] += 1", "the elements of a tuple cannot be assigned; make another tuple"),
    ("out[i] = " + " + ".join(["x[i]"] * 400), "nested too deeply; chains of elif, cases and operators count, too"),
    ("out[i] = " + "-" * 495 + "x[i]", "nested too deeply"),
    ("if " + " and ".join(["x[i] > i"] * 5000) + ": out[i] = 1", "nested too deeply"),
    ("\n".join(f"{'el' * (n > 0)}if i == {n}: out[i] = {n}" for n in range(300)), "nested too deeply"),
]


def written(statements: str) -> Callable[..., Any]:
    """A kernel of x, out and a, whose source Python can find."""
    lines = ["def kernel(x, out, a):", "    i = vc.global_id(0)", *[f"    {line}" for line in statements.split("\n")]]
    return vc.kernel(module(HEAD + "\n".join(lines) + "\n").kernel)


@pytest.mark.parametrize(("source", "target", "statements"), COMPUTED, ids=[item[2] for item in COMPUTED])
def test_what_is_computed(gpu: vc.Runtime, source: str, target: str, statements: str) -> None:
    x, out = np.array(INPUTS[source], source), np.zeros(N, target)
    check(gpu, written(statements), x, out, -1, local_size=(N, 1, 1))


@pytest.mark.parametrize(("statements", "message"), REFUSED, ids=[item[0][:30] for item in REFUSED])
def test_what_is_refused(gpu: vc.Runtime, statements: str, message: str) -> None:
    with pytest.raises(KernelError, match=message) as raised:
        written(statements)[1, N](gpu.zeros(N), gpu.zeros(N), 1)
    assert str(raised.value).split("\n")[2].strip() == "^"


@pytest.mark.pure
def test_what_python_itself_compiles_only_as_text() -> None:
    with pytest.raises(KernelError, match=r"mine.py:\d+: kernel is nested too deeply; chains of elif"):
        written("out[i] = " + " + ".join(["x[i]"] * 2000)).simulate(np.zeros(1), np.zeros(1), 1)


def noted(function: Any) -> Any:
    return function


class Namespace:
    @staticmethod
    @vc.kernel
    def static(x) -> None:
        if vc.global_id() == 0:
            x[0] = 5


@noted
@vc.kernel
@noted
def in_between(x):
    if vc.global_id() == 1:
        x[1] = 6


def test_decorators_that_change_nothing(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)
    Namespace.static(x)
    Namespace().static(x)
    in_between(x)
    assert x.numpy().tolist() == [5, 6, 0, 0]
    with pytest.raises(KernelError, match="is decorated"):
        vc.kernel(functools.wraps(noted)(written))


def test_functions_from_outside_and_hidden_builtins_may_change(gpu: vc.Runtime) -> None:
    kernel = written("out[i] = np.int32(F(x[i])) + max(i, 3)")
    scope = kernel.__wrapped__.__globals__
    x, out = gpu.full(N, 2.25), gpu.zeros(N)

    def first() -> float:
        kernel[1, N](x, out, 1)
        return float(out.numpy()[0])

    scope["F"] = np.sqrt
    assert first() == 1 + 3
    scope["F"] = np.ceil
    assert first() == 3 + 3
    scope["max"] = min
    assert first() == 3 + 0


def test_sizes_that_are_none(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)
    for grid in ((-1, 4), (1, -4), (1, 1 << 40), (1 << 40, 1)):
        with pytest.raises(ValueError, match="not negative, and less than"):
            in_between[grid](x)
    with pytest.raises(ValueError, match="workgroups of"):
        in_between[1, 0](x)
    in_between[0, 4](x)
    in_between(gpu.zeros(0))
    assert x.numpy().tolist() == [0] * 4


@vc.kernel
def left_in_the_middle(x, limits, out):
    i = vc.global_id(0)
    n = 0
    while True:
        value = x[n] * 10
        n += 1
        if n > limits[i]:
            break
    total = 0
    while True:
        k = 0
        while True:
            inner = x[k] + total
            k += 1
            if k >= limits[i] % 3:
                break
        total += 1
        outer = inner * 100 + k
        if total * 2 > limits[i]:
            break
    out[i, 0], out[i, 1], out[i, 2] = value, inner, outer


@given(st.lists(st.integers(0, 9), min_size=20, max_size=20))
def test_values_of_loops_that_are_left_in_the_middle(gpu: vc.Runtime, limits: list[int]) -> None:
    """Each invocation has the values of the pass in which it left, not those of others that stayed longer."""
    x, out = np.arange(3, 13, dtype=np.int32), gpu.zeros((20, 3), np.int32)
    left_in_the_middle[1, 20](gpu.array(x), gpu.array(np.array(limits, np.int32)), out)
    for limit, result in zip(limits, out.numpy().tolist(), strict=True):
        k, rounds = max(limit % 3, 1), limit // 2 + 1
        inner = x[k - 1] + rounds - 1
        assert result == [x[limit] * 10, inner, inner * 100 + k]


@vc.kernel
def left_early(x, limits, out):
    i, n = vc.global_id(0), 0
    while True:
        value = x[n] * 10
        n += 1
        if n > limits[i] & 7:
            break
    out[i] = value


def test_values_of_a_loop_with_a_known_end(gpu: vc.Runtime) -> None:
    """lavapipe takes this kernel without detection of cut loops."""
    x, limits, out = np.arange(3, 11, dtype=np.int32), np.arange(64, dtype=np.int32), gpu.zeros(64, np.int32)
    left_early[1](gpu.array(x), gpu.array(limits), out)
    assert out.numpy().tolist() == (x[limits & 7] * 10).tolist()


@vc.kernel
def counts_twice(x, out, n):
    i = vc.global_id(0)
    result = 0
    for by in range(2, 200, 77):
        turns, other = 0, by + n + x[i]
        while turns < (x[i & 7] & 255 if x[i & 7] & 255 > other & 255 else other & 255) % 5:
            turns += 1
            result = result * 10 + turns
    out[i] = result


@pytest.mark.every_driver
def test_what_a_loop_has_loaded_is_not_used_behind_it(gpu: vc.Runtime) -> None:
    """SwiftShader's optimizer did that, and lanes that leave a loop early load 0 in its later turns."""
    x, out = np.array([24, 2, 8, 5, 6, 66, 130, 6], np.int32), gpu.zeros(8, np.int32)
    counts_twice[1, 8](gpu.array(x), out, 90)
    expected = []
    for each in x.tolist():
        turns = [max(each, by + 90 + each & 255) % 5 for by in range(2, 200, 77)]
        expected.append(int("".join(str(k + 1) for n in turns for k in range(n)) or 0))
    assert out.numpy().tolist() == expected


def sums_of_found(i, x, table, flags, out, value):
    result = value % 77
    for by in (value, 300, -5):
        value += by % 7
        for _ in range((x[result % 8] + x[7 - i]) % 4):
            value = 8
        else:
            result = table[value % 8] + (1 if flags[i] == 300 else -1)
            out[i] += result


@vc.kernel
def loops_in_a_loop(x, table, flags, out):
    i = vc.global_id(0)
    first, last = x[1], x[2]
    n = 0
    while n < 4:
        n += 1
        sums_of_found(i, x, table, flags, out, i)
    else:
        if (3, -1, 300, 40000)[i % 4] == 29:
            last = first
    flags[i] = last


@pytest.mark.parametrize("dtype", [np.int32, np.uint16])
def test_results_of_loops_in_a_loop(gpu: vc.Runtime, dtype: Any) -> None:
    """Lanes leave the inner loops in different turns, by a load that only the lanes make which leave."""
    x = np.array([3, 1835537740, 1, 530229913, -2136960651, -406326450, 1004646932, 273472238], np.int32)
    table = np.array([48609, 5, 54273, 1, 4, 0, 14430, 31743], dtype)
    flags, out = gpu.full(8, 7, np.int32), gpu.zeros(8, np.int32)
    expected = np.zeros(8, np.int32)
    for i in range(8):
        for _ in range(4):
            sums_of_found(i, x.astype(int), table.astype(int), expected, expected, i)
    try:
        loops_in_a_loop[1, 8](gpu.array(x), gpu.array(table), flags, out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))
    assert out.numpy().tolist() == expected.tolist()
    assert flags.numpy().tolist() == [1] * 8


@vc.function
def clamped(v, low, high=5):
    return min(max(v, low), high)


@vc.kernel
def clamps(x, out):
    i = vc.global_id(0)
    out[i] = clamped(x[i], -1)


def test_marked_functions(gpu: vc.Runtime) -> None:
    x, out = np.arange(-4, 8, dtype=np.int32), gpu.zeros(12, np.int32)
    clamps[1, 12](gpu.array(x), out)
    assert np.array_equal(out.numpy(), np.clip(x, -1, 5))
    assert clamped(9, 0) == 5  # it is what it was
    for wrong in (len, 3, clamps):
        with pytest.raises(TypeError, match=r"vc\.function takes a function written in Python; got"):
            vc.function(wrong)  # type: ignore[type-var]
    scope: dict[str, Any] = {}
    exec("def nowhere(x): return x", scope)
    with pytest.raises(KernelError, match="the source of nowhere is not found"):
        vc.function(scope["nowhere"])
