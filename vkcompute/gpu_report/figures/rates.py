"""Rates of the device, with which other figures are compared: copies, transfers, arithmetic, matrices, launches.

Copies, arithmetic and matrices have the device's time, as functions have. Transfers have the host's: it takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.compat import triton
from vkcompute.compat.triton import language as tl
from vkcompute.gpu_report.figures.timing import device_seconds, figures_of, rounded, seconds
from vkcompute.gpu_report.items import Items, Session, Unavailable, equal
from vkcompute.tile.device import block_target

_SIZES_MIB = 1, 8, 64, 512
_ENOUGH_S = 0.03  # a larger size is not tried
_LOCAL, _CHAINS, _FLOPS = 256, 8, 2
_GOAL_S = 0.02
_TILE, _WARPS = 64, 4
_MOST_STEPS = 512  # products of an invocation, with up to 64 iterations each: lavapipe runs at most 65,535
_MOST_GROWTH = 16  # of the number of block programs, once the steps are the most
_BY_DEVICE = {"clock": "device_ms"}
"""Marks rates over the same clock as `device_ms`; earlier reports lack it, and are compared with no others."""


def items() -> Items:
    """Returns the items by name."""
    arithmetic = {f"arithmetic {dtype}": partial(_arithmetic, dtype) for dtype in _DTYPES}
    matrices = {f"matrices {dtype}": partial(_matrices, dtype) for dtype in ("float32", "float16", "bfloat16", "int8")}
    return {"copy": copy, "upload": upload, "download": download, "launch": launch, **matrices, **arithmetic}


def copy(session: Session) -> dict[str, Any]:
    """Copies an array on the device; the rate counts the bytes that are read and written."""

    def call(gpu: vc.Runtime, nbytes: int) -> Callable[[], Any]:
        source, target = gpu.full(nbytes // 4, 1.5), gpu.empty(nbytes // 4)
        return lambda: target.copy_from(source)

    return _rate(session, call, 2, device_seconds) | _BY_DEVICE


def upload(session: Session) -> dict[str, Any]:
    """Writes an array from host memory."""

    def call(gpu: vc.Runtime, nbytes: int) -> Callable[[], Any]:
        host, target = np.ones(nbytes // 4, np.float32), gpu.empty(nbytes // 4)
        return lambda: target.write(host)

    return _rate(session, call, 1, seconds)


def download(session: Session) -> dict[str, Any]:
    """Reads an array into host memory."""

    def call(gpu: vc.Runtime, nbytes: int) -> Callable[[], Any]:
        host, source = np.ones(nbytes // 4, np.float32), gpu.full(nbytes // 4, 1.5)
        return lambda: source.read(host)

    return _rate(session, call, 1, seconds)


def _rate(
    session: Session,
    make: Callable[[vc.Runtime, int], Callable[[], Any]],
    passes: int,
    clock: Callable[[Callable[[], Any], vc.Runtime], float],
) -> dict[str, Any]:
    """Measures growing sizes until one takes long enough; returns the best rate, which may be a cache's, and all."""
    best: dict[str, Any] = {"gb_per_s": 0.0}
    by_mib: dict[str, float] = {}
    for size in _SIZES_MIB:
        nbytes = size << 20
        try:
            call = make(session.gpu, nbytes)
        except vc.OutOfDeviceMemory:
            break
        call()
        took = clock(call, session.gpu)
        rate = passes * nbytes / took / 1e9
        by_mib[f"{size}"] = rounded(rate)
        if rate > best["gb_per_s"]:
            best = {"gb_per_s": rounded(rate), "size_mib": size}
        if took > _ENOUGH_S:
            break
    return best | {"gb_per_s_by_mib": by_mib}


@vc.kernel
def _nothing(x: Any, y: Any) -> None:
    if vc.global_id(0) < 1:
        y[0] = x[0]


def launch(session: Session) -> dict[str, Any]:
    """Launches a kernel that does nearly nothing."""
    x, y = session.gpu.zeros(64), session.gpu.zeros(64)

    def launches() -> None:
        for _ in range(100):
            _nothing(x, y, grid=1)

    figures = figures_of(lambda: _nothing(x, y, grid=1), session.gpu)
    alone = seconds(lambda: _nothing(x, y, grid=1).result(), session.gpu)
    many = seconds(launches, session.gpu)
    with session.gpu.record() as graph:
        launches()
    graph.run()
    recorded = seconds(graph.run, session.gpu)
    return {
        "host_us": rounded(figures["host_ms"] * 1e3),
        "with_wait_us": rounded(alone * 1e6),
        "of_100_us": rounded(many * 1e4),
        "of_100_recorded_us": rounded(recorded * 1e4),
    }


_DTYPES = {"float32": (), "float16": ("shaderFloat16",), "float64": ("shaderFloat64",), "int32": (),
           "int64": ("shaderInt64",)}  # fmt: skip


@vc.kernel
def _multiply_and_add(x: Any, out: Any, factor: Any, n_steps: vc.int32) -> None:
    """Advances eight chains of products and sums, which do not depend on each other."""
    i = vc.global_id(0)
    if i < out.size:
        a, b, c, d = x[i], x[i] + 1, x[i] + 2, x[i] + 3
        e, f, g, h = x[i] + 4, x[i] + 5, x[i] + 6, x[i] + 7
        scale = factor[0]
        for _ in range(n_steps):
            a, b, c, d = a * scale + a, b * scale + b, c * scale + c, d * scale + d
            e, f, g, h = e * scale + e, f * scale + f, g * scale + g, h * scale + h
        out[i] = a + b + c + d + e + f + g + h


def _arithmetic(dtype: str, session: Session) -> dict[str, Any]:
    """Measures products and sums in registers, in operations per second."""
    session.require(*_DTYPES[dtype])
    gpu = session.gpu
    n = _LOCAL * (1 << 4 if gpu.device.physical.kind == "cpu" else 1 << 12)
    x, out, factor = gpu.zeros(n, dtype), gpu.empty(n, dtype), gpu.zeros(1, dtype)
    n_steps, took = 64, 0.0
    while True:
        call = partial(_multiply_and_add, x, out, factor, n_steps)
        call()
        took = device_seconds(call, gpu)
        if took > _GOAL_S or n_steps >= 1 << 14:
            break
        n_steps *= 4
    equal(out, np.full(n, 28, dtype))  # the factor is 0
    return {"gop_per_s": rounded(n * _CHAINS * _FLOPS * n_steps / took / 1e9), **_BY_DEVICE}


@triton.jit
def _products(a_ptr, b_ptr, out_ptr, n_steps, sums: tl.constexpr, N: tl.constexpr):
    """Multiplies two blocks again and again, without loads from memory in between."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    total = tl.zeros((N, N), dtype=sums)
    for _ in range(n_steps):
        total = tl.dot(a, b, total)
    tl.store(out_ptr + tl.program_id(0) * N * N + at, total)


def _matrices(dtype: str, session: Session) -> dict[str, Any]:
    """Measures products of blocks: by cooperative matrices if the device has them for this type."""
    gpu, sums = session.gpu, "int32" if dtype == "int8" else "float32"
    with_matrices = any((matrix.operand, matrix.sums) == (dtype, sums) for matrix in block_target(gpu).matrices)
    if dtype != "float32" and not with_matrices:
        raise Unavailable(f"no cooperative matrices of {dtype}")
    n = _TILE if with_matrices else _TILE // 2
    n_programs = 4 if gpu.device.physical.kind == "cpu" else 1024
    most_programs = n_programs * _MOST_GROWTH
    unit = np.eye(n, dtype=np.float32)
    a: Any = gpu.array(_as(unit, dtype))
    a = triton.reinterpret(a, tl.bfloat16) if dtype == "bfloat16" else a
    n_steps = 8
    while True:
        out = gpu.empty((n_programs, n, n), sums)
        call = partial(_products[(n_programs,)], a, a, out, n_steps, getattr(tl, sums), n, num_warps=_WARPS)
        call()
        took = device_seconds(call, gpu)
        if took > _GOAL_S or n_programs >= most_programs:
            break
        n_steps, n_programs = (n_steps * 4, n_programs) if n_steps < _MOST_STEPS else (n_steps, n_programs * 4)
    equal(out, np.broadcast_to((unit * n_steps).astype(sums), out.shape))
    rate = 2 * n**3 * n_programs * n_steps / took / 1e9
    return {"gop_per_s": rounded(rate), "cooperative": with_matrices, **_BY_DEVICE}


def _as(unit: np.ndarray[Any, Any], dtype: str) -> Any:
    """Converts an array; of bfloat16, it has the bits as uint16."""
    return (unit.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else unit.astype(dtype)
