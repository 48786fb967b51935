"""Loops over tuples, vectors, arrays, enumerate and zip, against the same functions run by Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from oracle import check

import vkcompute as vc

TAPS = (0.125, 0.25, 0.5)
AROUND = ((-1, 2), (1, 3), (4, -5))
NOTHING = ()
SEVEN = np.int32(-7)
N = 16
X = np.linspace(-4, 4, N, dtype=np.float32)
K = np.arange(N, dtype=np.int32)


class Tap(NamedTuple):
    offset: int
    weight: float


NAMED = (Tap(0, 0.5), Tap(-1, 0.25), Tap(2, 0.125))


@vc.kernel
def tuples(k, x, out):
    i = vc.global_id(0)
    n = k[i]
    for d in (-1, 0, n):
        out[i, 0] += d * n
    for j, (d, e) in enumerate(AROUND):
        if d > n:
            break
        if e == n:
            continue
        out[i, 1] += j * d + e
    else:
        out[i, 1] += 100
    for a, b in zip(TAPS, (n, 2, 3, 4)):  # noqa: B905
        for c in TAPS:
            out[i, 2] += a * b * c
    for j, tap in enumerate(NAMED, start=n):
        out[i, 3] += j * tap.weight * x[max(i + tap.offset, 0) % 16]
    for each in NOTHING:
        out[i, 4] = each
    else:
        out[i, 4] = 7 if n > 3 else 7.5
    for flag in (True, n > 3):
        if flag:
            out[i, 5] += 1


@vc.kernel
def arrays(table, x, out):
    i = vc.global_id(0)
    for v in x:
        out[i, 0] += v
    for row in table:
        for v in row:
            out[i, 1] += v * i
    for j, (v, w) in enumerate(zip(x, TAPS), 3):  # noqa: B905
        out[i, 2] += j * v * w
    for j in range(2):
        for v in table[j]:
            out[i, 3] += v
    items = TAPS
    for items in items:  # noqa: B020
        out[i, 4] += items
    for length in x.shape:
        out[i, 5] += length


@vc.kernel
def backward(k, out):
    i = vc.global_id(0)
    n = k[i]
    for j in reversed(range(n)):
        out[i, 0] = (out[i, 0] * 3 + j) % 1009
    for j in reversed(range(n, i)):
        out[i, 1] = (out[i, 1] * 3 + j) % 1009
    for a, j in zip(reversed(TAPS), range(2, 9)):  # noqa: B905
        out[i, 2] += int(a * 8) * j
    for j, (a, b) in enumerate(zip(reversed(range(n, 5)), k), i):  # noqa: B905
        out[i, 3] = out[i, 3] * 5 + j * a - b
    for a, _ in zip(range(5, n), k):  # noqa: B905
        out[i, 4] += a
    for j, a in enumerate(range(n, 7, 3)):
        out[i, 4] = out[i, 4] * 3 + a - j
    for j in reversed(range(n, -9, -4)):
        out[i, 4] = (out[i, 4] * 5 + j) % 1009
    out[i, 5] = sum(NOTHING) + any(NOTHING) + 2 * all(NOTHING)
    for each in reversed(NOTHING):
        out[i, 5] += each


@vc.kernel
def rows(k, out):
    i = vc.global_id(0)
    n = abs(k[i]) % 3
    out[i, 0] = AROUND[n][1 - n % 2]
    out[i, 1] = NAMED[n].weight
    pair = ((n, 2.5), (3, n), (5, 6))[n]
    out[i, 2] = pair[0] * 10 + pair[1]


def steps(n, k):
    total = n
    for j in range(n & 3, 1, (abs(k) & 2) - 1):
        total += j * abs(k)
    else:
        total += 10
    return total


def counted(out, i):
    out[i, 2] += 1
    return 0


@vc.kernel
def nothing_to_do(k, out):
    """Ranges that are known to be empty, of which the compiler sees no more than the arguments."""
    i = vc.global_id(0)
    out[i, 0] = steps(np.int32(65), np.int32(-9))
    out[i, 1] = steps(np.int32(66), np.int32(-9))
    for each in range(abs(SEVEN) - 7, counted(out, i)):
        out[i, 1] = each
    for _ in range(3, abs(SEVEN) - 7):
        out[i, 1] += k[i]


def neighbours(n):
    return n - 1, n, n + 1


def in_turns(n):
    return (n, 2), (3, n)


@vc.kernel
def of_calls(k, out):
    """Sequences that functions return, evaluated once."""
    i = vc.global_id(0)
    n = k[i]
    for neighbour in neighbours(n):
        out[i, 0] += neighbour * neighbour
    for a, b in in_turns(n):
        out[i, 1] += a * 10 + b
    for j, neighbour in enumerate(reversed(neighbours(n))):
        out[i, 2] += j * neighbour
    for a, b in zip(divmod(n + 20, 7), neighbours(n)[1:]):  # noqa: B905
        out[i, 3] += a * b
    out[i, 4] = sum(a * b for a, b in in_turns(n))
    for neighbour in neighbours(counted(out, i)):
        out[i, 0] += neighbour


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (of_calls, (K - 5, np.zeros((N, 5), np.int32))),
        (nothing_to_do, (K, np.zeros((N, 3), np.int32))),
        (tuples, (K - 5, X, np.zeros((N, 6), np.float32))),
        (arrays, (np.arange(12, dtype=np.int32).reshape(3, 4), X, np.zeros((N, 6), np.float32))),
        (backward, (K - 5, np.zeros((N, 6), np.int32))),
        (rows, (K - 5, np.zeros((N, 3), np.float32))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_loops_over_items(gpu: vc.Runtime, kernel: Any, args: tuple[Any, ...]) -> None:
    check(gpu, kernel, *args, rtol=1e-5, atol=1e-5)


@vc.kernel
def pieces(out, k):
    tile = vc.shared(4, vc.int32)
    tile[vc.local_id(0)] = vc.local_id(0) + k
    vc.barrier()
    for step in (1, 2):
        below = tile[(vc.local_id(0) + step) % 4]
        vc.barrier()
        tile[vc.local_id(0)] += below
        vc.barrier()
    for each in tile:
        out[vc.local_id(0)] += each
    for part in vc.float32x3(1, 2, 3).zy, vc.float32x2(k):
        for each in part:
            out[vc.local_id(0)] += each


def test_barriers_in_loops_over_tuples_and_vectors(gpu: vc.Runtime) -> None:
    out = gpu.zeros(4, np.int32)
    pieces[1, 4](out, 5)
    values = np.arange(4) + 5
    for step in (1, 2):
        values = values + np.roll(values, -step)
    assert out.numpy().tolist() == [values.sum() + 3 + 2 + 5 + 5] * 4


def test_names_of_the_functions_own(gpu: vc.Runtime) -> None:
    """What such loops are written with is Python's, whatever these names mean in the kernel."""

    @vc.kernel
    def scaled(out, len):
        for range, min in zip(TAPS, (1, 2), strict=False):
            out[0] += range * min * len

    out = gpu.zeros(1)
    scaled[1, 1](out, 2.0)
    assert out.numpy()[0] == 2 * (0.125 + 2 * 0.25)


def pairs(xs, ys):
    return (xs[0], ys[1]), (xs[1], ys[0])


def test_other_functions_of_these_names(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    enumerate = pairs

    @vc.kernel
    def local(out):
        zip = pairs
        for k in zip(TAPS, TAPS):
            out[0] += k[0]

    @vc.kernel
    def closure(out):
        for i, x in enumerate(TAPS, 1):
            out[i] = x

    @vc.kernel
    def later(out):
        for a, b in zip(TAPS, TAPS):  # noqa: B905
            out[0] = a * b

    for kernel, said in ((local, "zip is not"), (closure, "enumerate is not")):
        with pytest.raises(
            vc.KernelError, match=f"{said} Python's own here, but the function pairs; write a for loop over range"
        ):
            kernel[1, 1](gpu.zeros(4))
    out = gpu.zeros(1)
    monkeypatch.setitem(globals(), "min", pairs)
    later[1, 1](out)
    assert out.numpy()[0] == 0.25
    monkeypatch.setitem(globals(), "zip", pairs)
    with pytest.raises(vc.KernelError, match="zip is not"):
        later[1, 1](out)


@vc.kernel
def looked_up(k, out):
    i = vc.global_id(0)
    if i < k.size:
        out[i, 0] = (5.0, 1, -2.5)[k[i]]
        out[i, 1] = SQUARES[k[i]]
        out[i, 2] = (7,)[k[i]]
        out[i, 3] = ((1, 10), (2, 20), (3, 30), (4, 40))[k[i] & 3][1]


SQUARES = tuple(n * n for n in range(101))


@pytest.mark.device_only
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.int8])
def test_tuples_are_indexed_by_numbers_of_all_types(gpu: Any, dtype: Any) -> None:
    """An index out of range gives the first element."""
    k = np.arange(128).astype(dtype)
    k = np.concatenate([k, np.array([-1, -5, -128], dtype)]) if np.dtype(dtype).kind == "i" else k
    out = gpu.zeros((len(k), 4), np.float32)
    try:
        looked_up[-(-len(k) // 64), 64](gpu.array(k), out)
    except vc.MissingFeature as missing:
        pytest.skip(str(missing))

    def at(values: tuple[Any, ...], n: int) -> Any:
        return values[n] if 0 <= n < len(values) else values[0]

    expected = [[at((5, 1, -2.5), n), at(SQUARES, n), 7, (n & 3) * 10 + 10] for n in k.tolist()]
    np.testing.assert_array_equal(out.numpy(), expected)
