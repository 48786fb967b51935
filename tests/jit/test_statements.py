"""Assignments in expressions, starred targets, `match`, loop variables after a loop, and nested functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import check, module

import vkcompute as vc

N = 8
K = np.array([3, -7, 0, 12, 5, 1, 2, 40], np.int32)
F = np.array([0.5, -1.5, 2, 3.25, 0, 8, -4, 1], np.float32)
ADD, SCALE, LARGE = 1, 2, -3
SEVEN = np.int32(7)


@vc.kernel
def assigned_in_expressions(k, f, out, real):
    i = vc.global_id(0)
    if (n := k[i]) > 2 and (m := n * 2) < 30:
        out[i, 0] = m
    out[i, 1] = (a := n + 1) + a
    while (n := n - 3) > 0:
        out[i, 2] += n
    out[i, 3] = n
    if not (p := k[i] > 1) or (r := k[i] - 1) > 5:
        out[i, 4] = p
    else:
        out[i, 4] = r
    while n < 5 and (step := k[(n + 8) % 8] & 3 | 1) > 0:
        n += step
    out[i, 5] = n
    y = 1
    last = k[i] > 0 and (y := f[i]) > 1
    real[i, 0] = y / 2
    real[i, 1] = (y := 2) if last else (z := k[i] // 2) + z + 0.5
    real[i, 2] = y
    out[i, 6] = (a := np.int32(7)) + a
    b = k[i]
    if b > 2:
        out[i, 7] = (b := SEVEN) + 1
    out[i, 6] += b


@vc.kernel
def unpacked(k, f, out, real):
    i = vc.global_id(0)
    first, *rest = k[i], 2, 3
    *most, last = f[i], first, True
    (one, *two), *three = (1, 2, 3), 4.5
    x, *yz = three_of(f[i])
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = first, rest[0] + rest[1], len(most), last
    out[i, 4], out[i, 5], out[i, 6] = one, two[1], len(three)
    real[i, 0], real[i, 1] = three[0] + most[0], x + sum(yz)
    for a, *others in ((1, 2, 3), (k[i], 5, 6)):
        out[i, 7] += a * others[1]
    h = [*rest, *two, k[i]]
    h[0] += 1
    out[i, 6] += sum(h) + math_of(*rest, *most[:1]) + max(*h)


def three_of(v):
    return 1, v, 3


def math_of(a, b, c):
    return a * 100 + b * 10 + int(c)


@vc.kernel
def repeated(k, f, out, real):
    i = vc.global_id(0)
    zeros, pair = (0,) * 3 + (1,), (k[i], f[i]) * SCALE
    out[i, 0], out[i, 1], out[i, 2] = zeros[i % 4], len(pair), pair[2]
    real[i, 0] = pair[3] + len((5,) * 0 + ()) + (2 * (f[i],))[1]
    best = (0, 0.0) * 2
    best = (*best[:2], *(1, 2.5))
    real[i, 1] = best[3]


def kind_of(n):
    match n:
        case 0:
            return 10
        case 1 | 2 | 3:
            return 20
        case -7 | 12 as m if m > 0:
            return m
        case m if m > 30:
            return m * 2
        case _:
            return -1


@vc.kernel
def matched(k, f, out, real):
    i = vc.global_id(0)
    out[i, 0] = kind_of(k[i])
    m = 5
    match k[i] % 4:
        case 0 as m:
            out[i, 1] = 1
        case 1 | 3 as m if m > 2:
            out[i, 1] = m
        case 3:
            out[i, 1] = 99
    out[i, 2] = m
    match f[i]:
        case 0.5 | -1.5:
            real[i, 0] = 1
        case v if v > 3:
            real[i, 0] = v
    match SCALE:
        case 1:
            out[i, 3] = 1
        case 2:
            y = 0.5
    real[i, 1] = y
    for j in range(5):
        match j:
            case 1:
                continue
            case 3:
                break
        out[i, 4] += j + 1


@vc.kernel
def assigned_in_guards(k, f, out, real):
    i = vc.global_id(0)
    m, n = np.int32(9), np.int32(9)
    match k[i] & 7:
        case m if (m := k[7 - i]) > 1:
            out[i, 0] = m
    match k[i] & 3:
        case 1:
            out[i, 1] = n
        case 0 | 2 as n if n < k[i] and (n := k[i] + 1) > 4:
            out[i, 2] = n
        case _ if (n := n + 1) > 3:
            out[i, 3] = n
    out[i, 4], out[i, 5] = m, n


@vc.kernel
def after_loops(k, f, out, real):
    i = vc.global_id(0)
    for j in range(5):
        out[i, 0] += j
    for n in range(40, 0, -3):
        if n == k[i]:
            break
        if n % 2:
            continue
    else:
        out[i, 3] = n
    out[i, 1] = j * 100 + n
    for v in (4, 5, k[i]):
        for w in (1, 2):
            x = w + v
    out[i, 2] = v * w + x
    for p in range(3):
        q = p + k[i]
    out[i, 5] = q


@vc.kernel
def after_late(k, f, out, real):
    i = vc.global_id(0)
    for a in range(3):
        y = 1 if k[i] > 0 else a * 0.5
        if a == 1:
            continue
    for a in range(2, 4):
        h = [a, a + 1]
    real[i, 0], out[i, 0] = y / 2, h[1] + a


def always_in_loop(k, n):
    while n < 8:
        while True:
            return k[n] + 1
        n += 1
    return 0


def always_in_else(k, n):
    while n < 8:
        for j in range(k[n]):
            n += 1
        else:
            return n
        n *= 3
    return -1


@vc.kernel
def returns_on_all_paths(k, f, out, real):
    i = vc.global_id(0)
    out[i, 0] = always_in_loop(k, i)
    out[i, 1] = always_in_else(k, i)


@vc.kernel
def counted_by_uint32(bounds, out):
    i = vc.global_id(0)
    start, stop = bounds[i, 0], bounds[i, 1]
    n = np.uint32(0)
    for j in range(stop):
        n += np.uint32(j) + 1
        if j > 1:
            break
    out[i, 0] = n
    for j in range(start, stop):
        out[i, 1] = j
        if j - start > 2:
            break
    for j in range(stop, start, -3_000_000):
        out[i, 2] = j
        if stop - j > 8_000_000:
            break
    for j in range(vc.int32(start & 7) - 9, stop, start & 3 | 1):
        out[i, 3] = vc.uint32(j)
        if j > 0:
            break


@vc.kernel
def counted_across_zero(bounds, step, out):
    i = vc.global_id(0)
    start, stop = vc.int32(bounds[i, 0]), bounds[i, 1]
    n = 0
    for j in range(start, stop, step[i]):
        n += 1
        if n > 20:
            break
    out[i, 0], n = n, 0
    for j in range(stop, start, -step[i]):
        n += 1
        if n > 20:
            break
    out[i, 1] = n


def test_ranges_from_negative_to_unsigned_bounds_are_longer_than_their_types(gpu: vc.Runtime) -> None:
    ranges = [
        range(start, stop, step)
        for start in (-1, -5, -(2**31))
        for stop in (-start % 2**32 - 1, 2**32 + start - 1, 2**32 + start, 2**32 + start + 1, 2**32 - 1)
        for step in (1, 7**10, 2**30, 2**31 - 1)
        if stop < 2**32
    ]
    bounds = np.array([[each.start, each.stop] for each in ranges]).astype(np.uint32)
    out = gpu.zeros((len(ranges), 2), np.int32)
    step = np.array([each.step for each in ranges], np.int32)
    counted_across_zero[1, len(ranges)](gpu.array(bounds), gpu.array(step), out)
    assert out.numpy().tolist() == [[min(-(-(each.stop - each.start) // each.step), 21)] * 2 for each in ranges]


def test_ranges_of_uint32_count_by_their_values(gpu: vc.Runtime) -> None:
    bounds = np.array([[0, 2**31], [2**31, 4_000_000_000], [3_000_000_000, 3_000_000_002], [5, 2], [7, 7]], np.uint32)
    out = gpu.full((5, 4), 77, np.uint32)
    counted_by_uint32[1, 5](gpu.array(bounds), out)
    expected = []
    for start, stop in bounds.tolist():
        up, down = range(start, stop)[:4], range(stop, start, -3_000_000)[:4]
        mixed = [j for j in range((start & 7) - 9, stop, start & 3 | 1)[:20] if j < (start & 3 | 1) + 1]
        last = [row[-1] % 2**32 if row else 77 for row in (up, down, mixed)]
        expected.append([sum(j + 1 for j in range(stop)[:3]), *last])
    assert out.numpy().tolist() == expected


@vc.kernel
def left_from_else(k, f, out, real):
    i = vc.global_id(0)
    for a in range(6):
        for b in range(3):
            if k[(i + a + b) & 7] > 4:
                break
        else:
            break
        out[i, 0] += a
    for a in range(6):
        n = 0
        while n < 3:
            if k[(i + a * n) & 7] < 2:
                break
            n += 1
        else:
            if a & 1:
                continue
            for b in (1, 2):
                out[i, 1] += b
            else:
                if i & 1:
                    continue
                out[i, 2] += 1
        out[i, 3] += n + 10


@vc.kernel
def divided(k, f, out, real):
    i = vc.global_id(0)
    x, y = vc.int32(-2147483648) + (i & 1), k[i & 3] // 3 + 1 - i // 4 * 3
    if y != 0:
        out[i, 0], out[i, 1], out[i, 2] = x // y, x % y, np.fmod(x, y)
    out[i, 3], out[i, 4], out[i, 5] = x // -1, x % -1, np.fmod(x, np.int32(-1))


KERNELS = (
    assigned_in_expressions, unpacked, repeated, matched, assigned_in_guards, after_loops, after_late,
    returns_on_all_paths, left_from_else, divided,
)  # fmt: skip


def checked(gpu: Any, kernel: Any) -> None:
    check(gpu, kernel, K, F, np.zeros((N, 8), np.int32), np.zeros((N, 4), np.float32), local_size=(N, 1, 1))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_against_python(gpu: vc.Runtime, kernel: Any) -> None:
    checked(gpu, kernel)


REFUSED = {
    "a, *b = n": "these names take a tuple of at least 1; got a Python int",
    "a, *b, c = (1,)": "these names take a tuple of at least 2; got a tuple of 1",
    "b = (1, *n)": "\\* takes a tuple, a vector or a list; got a Python int",
    "b = (0,) * n": "\\* of an int known at compile time; got a tuple of 1 \\* a Python int",
    "b = (0,) * (1 << 40)": "a tuple has at most 4,096 items; got 1,099,511,627,776; use a list",
    "b = (0,) + n": "tuples have \\+ of two tuples",
    "*a, b = (1, 2); a[0] = 3": "the elements of a tuple cannot be assigned",
    "if n > 2 and (m := n) > 3: pass\n    out[0] = m": "m has no value that can be used here: it is assigned in",
    "match n:\n        case (0, _): pass": "a pattern beside numbers, names, 1 | 2 and _; write if and elif",
    "match n:\n        case 1: pass\n        case True: pass": "a pattern beside numbers",
    "for j in range(n): pass\n    out[0] = j": "the loop at line 3 may end before it is assigned; assign it before",
    "for j in range(0): pass\n    out[0] = j": "j is used before it is assigned",
    "for j in range(4):\n        if j: out[0] = q\n        q = j": "q is used before it is assigned",
    "for j in range(4):\n        if n > j: y = 1\n    out[0] = y": "y has no value that can be used here",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(gpu: vc.Runtime, text: str) -> None:
    body = text.replace("; ", "\n    ") if "range" not in text and "case" not in text else text
    kernel = vc.kernel(module(f"import vkcompute as vc\ndef kernel(out, n):\n    {body}\n").kernel)
    with pytest.raises(vc.KernelError, match=REFUSED[text]) as caught:
        kernel[1, 1](gpu.zeros(4, np.int32), 2)
    assert str(caught.value).endswith("^")


@vc.kernel
def nested(k, f, out, real):
    i = vc.global_id(0)
    scale, total, h = f[i], 0, [0] * 3

    def scaled(v, by=2, *more, plus=i):  # noqa: ANN002
        if v > 10:
            return 10.0
        return v * scale * by + plus + len(more)

    def count(n):
        h[n % 3] += 1
        return between(n, 2) + total

    between = lambda v, low: low if v < low else min(v, LARGE + 20)  # noqa: E731
    real[i, 0], real[i, 1] = scaled(k[i]), scaled(f[i], 3, 1, 2, plus=0.5)
    scale = 100
    real[i, 2] = scaled(v=k[i] % 4, by=k[i])
    for n in range(4):
        total += count(k[i] + n)
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = total, h[0], h[1], h[2]
    out[i, 4] = twice(lambda x: x * k[i] + n, 3)
    add = adder(k[i])
    out[i, 5] = add(1) + adder(2)(3)
    if i > 3:

        def square(x):
            for _ in range(k[i] & 1):
                x *= x
            return x

        out[i, 6] = square(i) + twice(square, 3)


def twice(function, x):
    return function(function(x))


def adder(n):
    base = n + ADD
    return lambda x: x + base * n


@vc.kernel
def defined_again(k, f, out, real):
    i = vc.global_id(0)
    for j in range(3):

        def g(x, by=k[i] - j):
            return x * by + i

        out[i, 0] += g(k[i])

    def g(x):
        return x + i

    out[i, 1] = g(j)


@vc.kernel
def defaults_with_effects(k, f, out, real):
    i = vc.global_id(0)

    def noted(at):
        out[i, at] += 1
        return at

    def called_twice(x, *more, by=noted(0), plus=noted(1)):  # noqa: ANN002, B008
        return x * by + plus + len(more)

    def never_called(x=noted(2)):  # noqa: B008
        return x

    thrice = lambda x, by=noted(3): x * by  # noqa: B008, E731
    out[i, 4] = called_twice(k[i]) + called_twice(2, 3, by=4) + thrice(1) + thrice(2) + thrice(3, by=2)


def test_nested_functions(gpu: vc.Runtime) -> None:
    checked(gpu, nested)
    checked(gpu, defined_again)
    checked(gpu, defaults_with_effects)


REFUSED_FUNCTIONS = {
    "def f(x): return f(x - 1)\n    out[0] = f(n)": "f calls itself; kernels have no recursion",
    "def f(x):\n        nonlocal n\n        n = x\n    f(2)": "nonlocal; return the value",
    "def f(x): return x + late\n    out[0] = f(n)\n    late = 2": "late is used before it is assigned",
    "def f(x): return x\n    out[0] = f(n, 2)": "f: too many positional arguments",
    "@vc.function\n    def f(x): return x": "f is decorated, and decorators are not compiled",
    "f = (lambda x: y)\n    out[0] = f(1)": "the name y is not defined",
    "if n > 2: f = lambda x: x\n    else: f = lambda x: 2\n    out[0] = f(1)": "the function <lambda> on one path",
    "for j in range(3):\n        def f(x): return x\n    out[0] = f(1)": "the function f on one path",
}


@pytest.mark.parametrize("text", REFUSED_FUNCTIONS)
def test_refused_functions(gpu: vc.Runtime, text: str) -> None:
    kernel = vc.kernel(module(f"import vkcompute as vc\ndef kernel(out, n):\n    {text}\n").kernel)
    with pytest.raises(vc.KernelError, match=REFUSED_FUNCTIONS[text]):
        kernel[1, 1](gpu.zeros(4, np.int32), 2)
