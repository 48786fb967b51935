"""Block programs: NumPy, or their interpreter, computes what is expected."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vkcompute.compat import triton
from vkcompute.compat.triton import language as tl
from vkcompute.gpu_report.items import Item, Items, Session, equal

_INTEGERS = "int8", "uint8", "int16", "uint16", "int32", "uint32"
_DTYPES = (*_INTEGERS, "int64", "uint64", "float16", "float32", "float64")
_FEATURES = {"int64": "shaderInt64", "uint64": "shaderInt64", "float64": "shaderFloat64"}


def items() -> Items:
    """Returns the items by name, the most doubtful first."""
    others = (
        loops, orders, histograms, gathers, products, tiles, softmax_rows, attention_steps, random_numbers,
        brain_floats, tables_of_pointers,
    )  # fmt: skip
    by_name: dict[str, Item] = {item.__name__.replace("_", " "): item for item in others}
    for dtype in _DTYPES:
        by_name[f"reductions and scans {dtype}"] = partial(_reduced, dtype)
        by_name[f"atomics {dtype}"] = partial(_atomics, dtype)
    return by_name


def _as_interpreted(session: Session, program: Any, grid: tuple[int, ...], args: tuple[Any, ...], **named: Any) -> None:
    """Compares a program on the device with its interpreter, to the bit."""
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    program.interpret[grid](*copies, **named)
    given = [session.gpu.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    program[grid](*given, **named)
    for result, expected in zip(given, copies, strict=True):
        if isinstance(expected, np.ndarray):
            equal(result, expected)


def _numbers(dtype: str, n: int) -> np.ndarray[Any, Any]:
    """Returns small integers in a dtype, whose sums and products of a few are exact."""
    return np.random.default_rng(n).integers(0, 3 if dtype == "float16" else 9, n).astype(dtype)


@triton.jit
def _combined(x_ptr, sums_ptr, most_ptr, scan_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = rows[:, None] * COLUMNS + columns[None, :]
    x = tl.load(x_ptr + tl.program_id(0) * ROWS * COLUMNS + at)
    tl.store(sums_ptr + tl.program_id(0) * ROWS + rows, tl.sum(x, axis=1))
    tl.store(most_ptr + tl.program_id(0) * COLUMNS + columns, tl.max(x, axis=0))
    tl.store(scan_ptr + tl.program_id(0) * ROWS * COLUMNS + at, tl.cumsum(x, axis=1))


def _reduced(dtype: str, session: Session) -> None:
    """Reductions and scans along both axes of a block."""
    if dtype in _FEATURES:
        session.require(_FEATURES[dtype])
    for rows, columns in ((4, 8), (16, 64), (2, 512)):
        x = _numbers(dtype, 3 * rows * columns)
        wide = "int32" if np.dtype(dtype).itemsize < 4 and dtype[0] != "f" else dtype
        wide = wide.replace("int32", "uint32") if dtype[0] == "u" and wide == "int32" else wide
        out = np.zeros(3 * rows, wide), np.zeros(3 * columns, dtype), np.zeros(x.size, wide)
        args = (x, *out)
        _as_interpreted(session, _combined, (3,), args, ROWS=rows, COLUMNS=columns)


@triton.jit
def _atomic(x_ptr, sums_ptr, most_ptr, n, N_BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_add(sums_ptr + at % N_BINS, x, mask=at < n)
    tl.atomic_max(most_ptr + at % N_BINS, x, mask=at < n)


def _atomics(dtype: str, session: Session) -> None:
    """Sums and maxima by atomic operations of several programs."""
    if dtype in _FEATURES:
        session.require(_FEATURES[dtype])
    x = np.random.default_rng(0).integers(0, 2, 259).astype(dtype)
    args = x, np.ones(5, dtype), np.zeros(5, dtype), 259
    _as_interpreted(session, _atomic, (5,), args, N_BINS=5, BLOCK=64)


@triton.jit
def _loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total, largest = tl.zeros((BLOCK,), tl.int32), tl.full((BLOCK,), -(2**31), tl.int32)
    for start in range(tl.program_id(0), n, BLOCK):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0)
        if tl.max(x, axis=0) > 900:
            total += x
        else:
            total = total * 3 + x
        largest = tl.maximum(largest, total)
    k = 0
    while tl.sum(largest, axis=0) > k * 1000 and k < 20:
        k += 1
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total ^ largest + k)


def loops(session: Session) -> None:
    """Loops with masks, branches and a number of steps that depends on data."""
    x = np.random.default_rng(1).integers(0, 1000, 700).astype(np.int32)
    _as_interpreted(session, _loop, (3,), (x, np.zeros(3 * 128, np.int32), x.size), BLOCK=128)


@triton.jit
def _ordered(x_ptr, out_ptr, most_ptr, N: tl.constexpr, K: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.flip(tl.sort(x)))
    tl.store(most_ptr + tl.program_id(0) * K + tl.arange(0, K), tl.topk(x, K))


def orders(session: Session) -> None:
    """Sorts of blocks of several lengths, and the largest of them."""
    for n in (16, 128, 1024):
        x = np.random.default_rng(n).integers(-500, 500, 2 * n).astype(np.int32)
        _as_interpreted(session, _ordered, (2,), (x, np.zeros_like(x), np.zeros(2 * 8, np.int32)), N=n, K=8)


@triton.jit
def _counted(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    counts = tl.histogram(tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N)), BINS)
    tl.store(out_ptr + tl.program_id(0) * BINS + tl.arange(0, BINS), counts)


def histograms(session: Session) -> None:
    """Histograms of blocks, in workgroup memory."""
    x = np.random.default_rng(2).integers(0, 32, 2048).astype(np.int32)
    _as_interpreted(session, _counted, (4,), (x, np.zeros(4 * 32, np.int32)), N=512, BINS=32)


@triton.jit
def _gathered(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.gather(tl.load(x_ptr + at), tl.load(at_ptr + at), 0))


def gathers(session: Session) -> None:
    """Elements of a block by the indices of another."""
    x, at = _numbers("int32", 256), np.random.default_rng(3).permutation(256).astype(np.int32)
    _as_interpreted(session, _gathered, (1,), (x, at, np.zeros(256, np.int32)), N=256)


@triton.jit
def _product(a_ptr, b_ptr, out_ptr, n_steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for step in range(n_steps):
        a = tl.load(a_ptr + rows * n_steps * K + step * K + inner[None, :])
        b = tl.load(b_ptr + (step * K + inner[:, None]) * N + columns)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows * N + columns, total)


def products(session: Session) -> None:
    """Products of blocks in float32 and float16, whose results are exact."""
    for dtype in ("float32", "float16"):
        for m, n, k in ((16, 16, 16), (32, 64, 16), (64, 32, 32)):
            a, b = _numbers(dtype, m * 3 * k), _numbers(dtype, 3 * k * n)
            out = session.gpu.zeros((m, n))
            _product[(1,)](session.gpu.array(a), session.gpu.array(b), out, 3, M=m, N=n, K=k)
            equal(out, a.reshape(m, -1).astype(np.float32) @ b.reshape(-1, n).astype(np.float32))


@triton.jit
def _tiles(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    out = tl.make_tensor_descriptor(out_ptr, [columns, rows], [rows, 1], [COLUMNS, ROWS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([column, row], tl.trans(x.load([row, column])))


def tiles(session: Session) -> None:
    """A transposition by tensor descriptors, with tiles beyond the ends of the array."""
    x = np.arange(48 * 36, dtype=np.float32).reshape(48, 36)
    out = session.gpu.zeros((36, 48))
    _tiles[(3, 3)](session.gpu.array(x), out, 48, 36, ROWS=16, COLUMNS=16)
    equal(out, x.T.copy())


@triton.jit
def _softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * n + at, powers / tl.sum(powers, axis=0), mask=at < n)


def softmax_rows(session: Session) -> None:
    """Softmax of rows that are shorter than a block."""
    x = np.random.default_rng(4).normal(size=(20, 700)).astype(np.float32)
    out = session.gpu.zeros(x.shape)
    _softmax[(20,)](session.gpu.array(x), out, 700, BLOCK=1024)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    equal(out, (powers / powers.sum(1, keepdims=True)).astype(np.float32), 1e-5)


@triton.jit
def _attention(q_ptr, k_ptr, v_ptr, out_ptr, n, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows, inner = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + inner[None, :])
    most, sums = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        keys = start + tl.arange(0, N)
        k = tl.load(k_ptr + keys[None, :] * D + inner[:, None])
        scores = tl.dot(q, k)
        larger = tl.maximum(most, tl.max(scores, 1))
        weights, shrink = tl.exp(scores - larger[:, None]), tl.exp(most - larger)
        sums = sums * shrink + tl.sum(weights, 1)
        v = tl.load(v_ptr + keys[:, None] * D + inner[None, :])
        out = tl.dot(weights, v, out * shrink[:, None])
        most = larger
    tl.store(out_ptr + rows[:, None] * D + inner[None, :], out / sums[:, None])


def attention_steps(session: Session) -> None:
    """The online softmax of attention: two products and reductions in a loop."""
    q, k, v = np.random.default_rng(5).normal(size=(3, 64, 16)).astype(np.float32)
    out = session.gpu.zeros((64, 16))
    _attention[(4,)](*map(session.gpu.array, (q, k, v)), out, 64, D=16, M=16, N=16)
    scores = q.astype(np.float64) @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    equal(out, (weights / weights.sum(1, keepdims=True) @ v).astype(np.float32), 1e-4)


@triton.jit
def _random(out_ptr, seed, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.randint(seed, at))


def random_numbers(session: Session) -> None:
    """Random integers, which are the same on all devices."""
    _as_interpreted(session, _random, (2,), (np.zeros(512, np.int32), 1234), N=256)


@triton.jit
def _brain(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.bfloat16)) + at)
    y = tl.load(y_ptr.to(tl.pointer_type(tl.bfloat16)) + at)
    tl.store(out_ptr.to(tl.pointer_type(tl.bfloat16)) + at, x * y + x)


def brain_floats(session: Session) -> None:
    """Arithmetic of bfloat16, rounded after each operation."""
    x, y = (
        (np.random.default_rng(seed).normal(size=256).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        for seed in (6, 7)
    )
    _as_interpreted(session, _brain, (1,), (x, y, np.zeros(256, np.uint16)), N=256)


@triton.jit
def _by_table(table_ptr, out_ptr, n, N: tl.constexpr):
    pointers = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.int32))
    at = tl.arange(0, N)
    tl.store(out_ptr + tl.program_id(0) * N + at, tl.load(pointers + at, mask=at < n, other=-1))


def tables_of_pointers(session: Session) -> None:
    """Arrays that a program chooses from a table."""
    arrays = [session.gpu.full(10, k, np.int32) for k in range(3)]
    out = session.gpu.zeros(3 * 16, np.int32)
    _by_table[(3,)](triton.PointerTable(arrays), out, 10, N=16)
    expected = np.repeat(np.arange(3, dtype=np.int32), 16).reshape(3, 16)
    expected[:, 10:] = -1
    equal(out, expected.reshape(-1))
