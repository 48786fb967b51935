"""Numbers in kernels: arithmetic and conversions of each dtype, bits, functions of floats, random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute import dtypes
from vkcompute.gpu_report.items import Session, equal

N = 1000  # no multiple of a workgroup
LOCAL = 64


@vc.kernel
def _counted_bits(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2] = vc.popcount(x[i]), vc.clz(x[i]), vc.ctz(x[i])
        out[i, 3] = vc.bitcast(vc.bitcast(x[i] & 0x7F7FFFFF, vc.float32), vc.uint32) ^ vc.bit_reverse(x[i])


def bits(session: Session) -> None:
    """Functions of the bits of 32-bit integers."""
    some = np.random.default_rng(6).integers(0, 2**32, N - 2, np.uint32)
    x = np.concatenate([[0, 1], some >> np.arange(N - 2, dtype=np.uint32) % 32]).astype(np.uint32)
    out = session.gpu.zeros((N, 4), np.uint32)
    _counted_bits(session.gpu.array(x), out, grid=-(-N // LOCAL), local_size=LOCAL)
    texts = [f"{value:032b}" for value in x.tolist()]
    rows = [
        (text.count("1"), len(text) - len(text.lstrip("0")), len(text) - len(text.rstrip("0")), int(text[::-1], 2))
        for text in texts
    ]
    expected = np.array(rows, np.uint32)
    expected[:, 3] ^= x & 0x7F7FFFFF
    equal(out, expected)


def element_functions(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        v = x[i]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = math.exp(v), math.log(v), math.sin(v), math.cos(v)
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = math.tanh(v), math.sqrt(v), v**1.7, math.atan2(v, 2.0)
        out[i, 8], out[i, 9], out[i, 10], out[i, 11] = 1 / v, v // 0.3, v % 0.3, math.erf(v)


def functions(session: Session) -> None:
    """Functions of float32, which the library computes itself."""
    _compare_functions(session, vc.kernel(element_functions), 4e-7)


def fast_functions(session: Session) -> None:
    """Functions of float32 as the driver computes them, for which Vulkan allows larger errors."""
    _compare_functions(session, vc.kernel(fast_math=True)(element_functions), 1e-3)


def _compare_functions(session: Session, kernel: Any, rtol: float) -> None:
    x = np.random.default_rng(7).uniform(0.01, 9, N).astype(np.float32)
    out = session.gpu.zeros((N, 12))
    kernel(session.gpu.array(x), out, grid=-(-N // LOCAL), local_size=LOCAL)
    v = x.astype(np.float64)
    step = float(np.float32(0.3))
    exact: list[Any] = [np.exp(v), np.log(v), np.sin(v), np.cos(v), np.tanh(v), np.sqrt(v), v**1.7,
                        np.arctan2(v, 2), 1 / v, None, None, np.array([math.erf(value) for value in v])]  # fmt: skip
    result = out.numpy()
    for column, expected in enumerate(exact):
        if expected is not None:
            equal(result[:, column], expected.astype(np.float32), rtol, rtol)
    whole = result[:, 9].astype(np.float64) * step + result[:, 10]  # either side of a multiple is right
    equal(whole.astype(np.float32), x, 1e-5 if rtol < 1e-5 else 5e-2)


@vc.kernel
def _wide(x: Any, y: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2] = x[i] * y[i], x[i] // y[i], x[i] % y[i]
        out[i, 3], out[i, 4] = x[i] << (i % 64), x[i] >> (i % 64)
        out[i, 5] = vc.int64(x[i] < y[i]) + 2 * vc.int64(vc.int32(x[i]) < 5)


def integers_of_64_bits(session: Session) -> None:
    """Products, quotients, remainders, shifts and comparisons of int64."""
    session.require("shaderInt64")
    random = np.random.default_rng(8)
    x, y = (random.integers(-(2**62), 2**62, N) >> random.integers(0, 60, N) for _ in range(2))
    y[y == 0] = 3
    out = session.gpu.zeros((N, 6), np.int64)
    _wide(session.gpu.array(x), session.gpu.array(y), out, grid=-(-N // LOCAL), local_size=LOCAL)
    shift = np.arange(N) % 64
    with np.errstate(all="ignore"):
        columns = [x * y, x // y, x % y, x << shift, x >> shift, (x < y) + 2 * (x.astype(np.int32) < 5)]
    equal(out, np.stack(columns, 1).astype(np.int64))


@vc.kernel
def _random_bits(out: Any, seed: Any) -> None:
    i = vc.global_id(0)
    if i < out.shape[0]:
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = vc.random.philox(i, seed)


def random_numbers(session: Session) -> None:
    """Philox 4x32-10, which multiplies integers of 32 bits to 64."""
    out = session.gpu.zeros((N, 4), np.uint32)
    _random_bits(out, 42, grid=-(-N // LOCAL), local_size=LOCAL)
    counter = np.zeros((N, 4), np.uint64)
    counter[:, 0], key = np.arange(N), [42, 0]
    for _ in range(10):  # Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011
        one, other = counter[:, 0] * np.uint64(0xD2511F53), counter[:, 2] * np.uint64(0xCD9E8D57)
        mixed = other >> np.uint64(32) ^ counter[:, 1] ^ np.uint64(key[0])
        more = one >> np.uint64(32) ^ counter[:, 3] ^ np.uint64(key[1])
        counter = np.stack([mixed, other, more, one], 1) & np.uint64(0xFFFFFFFF)
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    equal(out, counter.astype(np.uint32))


@vc.kernel
def _mixed(x: Any, y: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2] = x[i] + y[i], x[i] * y[i], x[i] - y[i]
        out[i, 3], out[i, 4] = min(x[i], y[i]), max(x[i], y[i])


@vc.kernel
def _logical(x: Any, y: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        out[i, 0], out[i, 1], out[i, 2] = x[i] and y[i], x[i] or y[i], x[i] ^ y[i]


def arithmetic(name: str, session: Session) -> None:
    """Arithmetic of a dtype, with results that it holds exactly."""
    random, kernel = np.random.default_rng(9), _mixed
    x, y = (random.integers(0, 11, N).astype(name) for _ in range(2))
    columns = [x + y, x * y, x - y, np.minimum(x, y), np.maximum(x, y)] if name != "bool" else [x & y, x | y, x ^ y]
    kernel = _logical if name == "bool" else _mixed
    out = session.gpu.zeros((N, len(columns)), name)
    kernel(session.gpu.array(x), session.gpu.array(y), out, grid=-(-N // LOCAL), local_size=LOCAL)
    equal(out, np.stack(columns, 1))


@vc.kernel
def _converted(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < x.size:
        out[i] = x[i]


def conversions(name: str, session: Session) -> None:
    """Conversions of a dtype to all others that a device has, of numbers that both hold."""
    limit = 2 if name == "bool" else 120
    x = np.random.default_rng(10).integers(0, limit, N).astype(name)
    if np.dtype(name).kind == "f":
        x = x + x.dtype.type(0.25)  # truncated by conversions to integers
    available = dtypes.kernel_dtypes(session.gpu.device.physical.features)
    array = session.gpu.array(x)
    for target in available:
        out = session.gpu.zeros(N, target)
        _converted(array, out, grid=-(-N // LOCAL), local_size=LOCAL)
        equal(out, x.astype(target))
