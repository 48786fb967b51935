"""Every construct of the language, against the same function run by Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracle import check

import vkcompute as vc

SCALE = 3
OFFSETS = (0.5, -1.5)
MODE = "double"
N = 16
X = np.linspace(-4, 4, N, dtype=np.float32)
Y = np.roll(X, 5)
K = np.arange(N, dtype=np.int32) - 5
Z = np.zeros(N, np.float32)
ZK = np.zeros(N, np.int32)


@vc.kernel
def operators(x, y, out):
    """A docstring is no statement."""
    i = vc.global_id(0)
    a, b = x[i], y[i]
    out[i, 0] = a + b
    out[i, 1] = a - b * 2
    out[i, 2] = -a / (b + 10)
    out[i, 3] = a // 1.5
    out[i, 4] = a % 1.5
    out[i, 5] = a**2 + b**3 - +a
    out[i, 6] = abs(a) ** b
    out[i, 7] = 2**a
    out[i, 8] = a**-2 if a != 0 else 0
    out[i, 9] = abs(a) ** 0.5


@vc.kernel
def loops_with_else(k, out):
    i = vc.global_id(0)
    for n in range(2, k[i]):
        if k[i] % n == 0:
            out[i, 0] = n
            break
    else:
        out[i, 0] = -1
        for n in range(5):
            if n == i:
                break
            out[i, 1] = n
        else:
            out[i, 1] += 10
    left = k[i]
    while left > 0:
        left -= 3
        if left == 1:
            break
    else:
        left = 100
    out[i, 2] = left
    out[i, 3] = first_multiple(k[i], 7)


def first_multiple(n, limit):
    for m in range(1, limit):
        if m * m > n:
            return m
    else:
        if n > 20:
            return -n
        limit *= 2
    return limit


@vc.kernel
def integers(k, out):
    i = vc.global_id(0)
    n = k[i]
    out[i, 0] = n // 3
    out[i, 1] = n % 3
    out[i, 2] = n // -3
    out[i, 3] = n % -3
    out[i, 4] = n << 2 | 1
    out[i, 5] = n >> 1 & 0xFF
    out[i, 6] = ~n ^ 5
    out[i, 7] = n**3
    out[i, 8] = 3 ** abs(n)
    out[i, 9] = n / 4 * 100
    q, r = divmod(n, 4)
    out[i, 10] = q * 1000 + r


@vc.kernel
def comparisons(x, y, out):
    i = vc.global_id(0)
    a, b = x[i], y[i]
    out[i, 0] = a < b
    out[i, 1] = -1 < a <= b < 3
    out[i, 2] = a == b or a != a or not b > 0
    out[i, 3] = (a >= b) == (b >= 0)
    out[i, 4] = (a and b) * 10
    out[i, 5] = (a > 0 and b) or a
    out[i, 6] = (a > 0) & (b > 0) | (a < -2) ^ (b < -2)
    out[i, 7] = True if a > 0 else b > 0
    out[i, 8] = (1 if a > 1 else 2) + (3.5 if b > 1 else 4)
    out[i, 9] = bool(a) + 1


@vc.kernel
def only_where_it_matters(x, out):
    """The right operand loads outside of the array where the left one is false."""
    i = vc.global_id(0)
    if i >= 1 and x[i - 1] < x[i]:
        out[i] += 1
    if i == 0 or x[i - 1] > 0:
        out[i] += 2
    out[i] += x[i - 4] if i >= 4 else 4


@vc.kernel
def ladders(k, out):
    i = vc.global_id(0)
    if k[i] < -2:
        name = 1
    elif k[i] < 2:
        name = 2
        if k[i] == 0:
            name = 20
    elif k[i] == 7:
        name = 7
    else:
        name = 3.5
    out[i] = name


@vc.kernel
def ranges(k, out):
    i = vc.global_id(0)
    n = k[i]
    for j in range(n):
        out[i, 0] += j + 1
    for j in range(2, n):
        out[i, 1] += j
    for j in range(n, -4, -1):
        out[i, 2] += j + 100
    for j in range(-n, n, 3):
        out[i, 3] += j * j + 1
    for j in range(5, -5, n if n != 0 else 1):
        out[i, 4] = out[i, 4] * 3 + j
    for j in range(3):
        j *= 10
        out[i, 5] += j
    j = -1
    for j in range(n):
        pass
    out[i, 6] = j
    for j in range(2147483640, 2147483647, 5):
        out[i, 7] += j - 2147483000
    for j in range(10, 2, -4):
        out[i, 8] = out[i, 8] * 10 + j


@vc.kernel
def whiles(k, out):
    i = vc.global_id(0)
    n, steps = k[i] + 10, 0
    while n != 1 and n > 0:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 50:
            break
    out[i, 0] = steps
    total = 0
    j = 0
    while True:
        j += 1
        if j % 3 == 0:
            continue
        if j > abs(k[i]) + 3:
            break
        inner = 0
        while inner < j:
            inner += 2
            if inner == 6:
                break
        total += inner
    out[i, 1] = total * 1000 + j
    while True:
        last = j * 2
        if last > 10:
            break
        j += 1
    out[i, 2] = last


@vc.kernel
def early(k, out):
    i = vc.global_id(0)
    if k[i] < 0:
        return
    for j in range(10):
        if j > k[i]:
            out[i] = -j
            return
        out[i] += j
    out[i] += 1000


@vc.kernel
def widened(x, k, out):
    """Variables that begin as Python's numbers, and take the type of what they meet, in loops and branches."""
    i = vc.global_id(0)
    total, count, product, result = 0, 0, 1, False
    for j in range(out.shape[0]):
        total += x[j]
        count += x[j] > 0
        if x[j] > 2:
            product = product * 1.5
            result = result or j > 3
    out[i, 0] = total
    out[i, 1] = count
    out[i, 2] = product
    out[i, 3] = result
    a, b = 0, 1
    for j in range(k[i]):
        a, b = b, a + b
        for _ in range(2):
            b += 0.5
    out[i, 4] = a
    pair = (0, 1.5)
    while pair[0] < 3:
        pair = (pair[1], pair[0] + 1)
    out[i, 5] = pair[0] + 10 * pair[1]


@vc.kernel
def builtin_functions(x, y, k, out):
    i = vc.global_id(0)
    a, b = x[i], y[i]
    out[i, 0] = min(a, b, 0.25) + max((a, b))
    out[i, 1] = abs(a) + abs(k[i])
    out[i, 2] = round(a) + 0.5
    out[i, 3] = int(a) + int(a > b)
    out[i, 4] = float(k[i]) / 3
    out[i, 5] = pow(a, 3) + pow(2, 3)
    out[i, 6] = bool(k[i])
    out[i, 7] = vc.float32(k[i]) * vc.uint32(3)
    out[i, 8] = np.int32(2.75) + np.float32(b)
    out[i, 9] = len(x) + x.size + out.shape[1] + out.ndim + len(out.shape)


@vc.kernel
def mathematics(x, out):
    i = vc.global_id(0)
    a = x[i]
    b = abs(a) / 5
    out[i, 0] = math.sqrt(b) + np.sqrt(2)
    out[i, 1] = math.sin(a) + np.cos(a) * math.tan(b)
    out[i, 2] = math.asin(b) + np.arccos(b) + math.atan(a)
    out[i, 3] = math.exp(a) + np.exp2(a) + math.expm1(b)
    out[i, 4] = math.log(b + 1) + np.log2(b + 1) + math.log10(b + 1) + math.log1p(b)
    out[i, 5] = math.sinh(a) + np.cosh(a) + math.tanh(a)
    out[i, 6] = math.asinh(a) + np.arccosh(b + 1) + math.atanh(b)
    out[i, 7] = math.atan2(a, b) + np.hypot(a, b) + math.hypot(3, 4)
    out[i, 8] = math.floor(a) + math.ceil(a) + math.trunc(float(a)) + np.floor(a) / 2 + np.rint(a)
    out[i, 9] = math.degrees(a) + math.radians(a) + math.copysign(b, a) + math.fabs(a)
    out[i, 10] = math.fmod(a, 1.5) + np.sign(a) + np.minimum(a, b) + np.where(a > 0, a, 1)
    out[i, 11] = math.isnan(a) + 2 * math.isinf(a) + 4 * np.isfinite(a)
    out[i, 12] = math.pi * a + math.e + np.cbrt(a)


def tail(v: float) -> float:
    if v > 1:
        return v * 2
    if v > 0:
        return v
    return -1


def partial(v, limit=2):
    if v > 0:
        if v > limit:
            return 1
        v += 10
    return v


def search(values, wanted, start=0):
    for j in range(start, len(values)):
        for step in range(3):
            if values[j] + step == wanted:
                return j, step
        if j > 12:
            break
    else_ = -1
    return else_, 0


def store_twice(out, i, value):
    if value < 0:
        return
    out[i, 4] = value
    out[i, 5] = value + SCALE


@vc.kernel
def helpers(x, k, out):
    i = vc.global_id(0)
    out[i, 0] = tail(x[i])
    out[i, 1] = partial(x[i]) + partial(v=k[i], limit=3)
    where, step = search(k, i - 3)
    out[i, 2] = where * 10 + step
    out[i, 3] = search(k, k[i], start=2)[0]
    store_twice(out, i, k[i])


@vc.kernel
def outside(x, out):
    i = vc.global_id(0)
    value = x[i] * SCALE + OFFSETS[0] - OFFSETS[-1]
    if MODE == "double":
        value *= 2
    elif MODE == "never compiled":
        value = value.nonsense
    out[i] = value if MODE is not None else 0


@vc.kernel
def ends(x, out):
    """Indices that count from the end."""
    i = vc.global_id(0)
    out[i, -1] = x[-1] + x[-2]
    if i == 0:
        out[-1, 0] = x[0]


@vc.kernel
def updates(out, k):
    i = vc.global_id(0)
    out[i, 0] += 2
    out[i, 0] *= k[i]
    out[i, 1] = out[i, 2] = k[i]
    out[i, 1] -= 0.5
    x: int = 3
    out[i, 2] //= x


def test_operators(gpu: vc.Runtime) -> None:
    check(gpu, operators, X + 0.125, Y, np.zeros((N, 10), np.float32), rtol=1e-4)


def test_loops_with_else(gpu: vc.Runtime) -> None:
    check(gpu, loops_with_else, np.arange(N, dtype=np.int32) + 7, np.zeros((N, 4), np.int32))


def test_integers(gpu: vc.Runtime) -> None:
    check(gpu, integers, K, np.zeros((N, 11), np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_comparisons(gpu: vc.Runtime, dtype: Any) -> None:
    check(gpu, comparisons, X.astype(dtype), Y.astype(dtype), np.zeros((N, 10), np.float32))


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (only_where_it_matters, (X, Z)),
        (ladders, (K, Z)),
        (ranges, (K, np.zeros((N, 9), np.int32))),
        (whiles, (K, np.zeros((N, 3), np.int32))),
        (early, (K, ZK)),
        (widened, (X, K, np.zeros((N, 6), np.float32))),
        (builtin_functions, (X + 0.1, Y, K, np.zeros((N, 10), np.float32))),
        (mathematics, (X + 0.1, np.zeros((N, 13), np.float32))),
        (helpers, (X, K, np.zeros((N, 6), np.float32))),
        (outside, (X, Z)),
        (ends, (X, np.zeros((N, 3), np.float32))),
        (updates, (np.ones((N, 3), np.float32), K)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_construct(gpu: vc.Runtime, kernel: Any, args: tuple[Any, ...]) -> None:
    check(gpu, kernel, *args, rtol=1e-3, atol=1e-3)  # Vulkan asks no more of acos than 2**-11 or so


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint32", "int64", "float16", "float64"])
def test_variables_take_the_types_that_they_meet(gpu: vc.Runtime, dtype: str) -> None:
    check(gpu, widened, np.abs(X).astype(dtype), K, np.zeros((N, 6), np.float64 if "64" in dtype else np.float32))


@vc.kernel
def limits(x, y, out):
    """Numbers at and beyond the ends of their types, and powers that are none of integers."""
    i = vc.global_id(0)
    out[i, 0] = int(x[i]) * int(x[i])
    out[i, 1] = y[i] ** math.inf
    out[i, 2] = y[i] ** x[i]
    out[i, 3] = (-y[i]) ** 3.0 + (-y[i]) ** 0.0
    out[i, 4] = 2.0 ** (x[i] - 200)
    out[i, 5] = float(x[i] > 200) / 2


@vc.kernel
def compared_beyond(x, out):
    i = vc.global_id(0)
    out[i] = x[i] < 256 and x[i] > -1


def test_limits(gpu: vc.Runtime) -> None:
    x, y = np.arange(196, 204).astype(np.uint8), np.array([0.5, 2, 0, 1, 3.5, 0.25, 1.5, 1], np.float32)
    check(gpu, limits, x, y, np.zeros((8, 6), np.float32), local_size=(8, 1, 1))
    check(gpu, compared_beyond, x, np.zeros(8, np.float32), local_size=(8, 1, 1))


@vc.kernel
def long_constants(out):
    out[0], out[1], out[2], out[3] = 2**40, 2 << 40, 3**39, (-2) ** 63
    out[4], out[5], out[6], out[7] = 4 << 60 >> 1, 2**62 + 2**61, -(2**53) - 1, 1 << 62


def test_constants_of_up_to_64_bits(gpu: vc.Runtime) -> None:
    check(gpu, long_constants, np.zeros(8, np.int64), local_size=(1, 1, 1))


@vc.kernel
def places(out):
    x, y, z = vc.global_id(0), vc.global_id(1), vc.global_id(2)
    out[z, y, x] = (vc.local_id(0) + 10 * vc.local_id(1) + 100 * vc.local_id(2)) * 1000 + (
        vc.group_id(0) + vc.group_id(1) * vc.num_groups(1) + vc.local_size(0) * vc.group_id(2) * vc.num_groups(2)
    )


def test_places_in_three_dimensions(gpu: vc.Runtime) -> None:
    check(gpu, places, np.zeros((6, 4, 8), np.int32), grid=(2, 2, 3), local_size=(4, 2, 2))


@vc.kernel
def operators_by_name(x, y, out):
    i = vc.global_id(0)
    if i < x.size:
        a, b = x[i], y[i]
        out[i, 0] = np.add(a, b)
        out[i, 1] = np.subtract(a, b)
        out[i, 2] = np.multiply(a, 3)
        out[i, 3] = np.divide(a, np.float32(4))
        out[i, 4] = np.floor_divide(a, b)
        out[i, 5] = np.mod(a, b)
        out[i, 6] = np.power(a, 2)
        out[i, 7] = np.square(a)
        out[i, 8] = np.clip(a, -2, b)
        out[i, 9] = sum(np.clip(vc.float32x2(a, b), 0, vc.float32x2(1, 2)))
        out[i, 10] = np.clip(7, 1, 3) + np.square(3) + np.add(1, 2)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_operators_by_their_names_in_numpy(gpu: vc.Runtime, dtype: type) -> None:
    x, y = np.array([-7, -2, 0, 3, 5, 9], dtype), np.array([2, 3, -1, -2, 4, 7], dtype)
    out = gpu.zeros((6, 11))
    operators_by_name[1, 6](gpu.array(x), gpu.array(y), out)
    parts = np.clip(np.stack([x, y]), 0, [[1], [2]]).sum(0)
    named = [x + y, x - y, x * 3, x / np.float32(4), x // y, x % y, x**2, x * x, np.clip(x, -2, y), parts]
    expected = np.stack([*named, np.full(6, 15)], 1)
    assert out.numpy().tolist() == expected.tolist()
