"""Overlap: copies with kernels, and two independent chains of kernels on two queues, beside one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import vkcompute as vc
from vkcompute.gpu_report.figures.timing import rounded, seconds
from vkcompute.gpu_report.items import Items, Session, Unavailable, equal

_CHUNK, _CHUNKS = 1 << 20, 8
_FACTOR, _SUMMAND = 1_664_525, 1_013_904_223
_MAX_STEPS = 1 << 14
_LAUNCHES, _SMALL, _GOAL_S = 16, 64, 0.002


def items() -> Items:
    """Returns the items by name."""
    chains = {f"two chains of {n} workgroups": partial(_chains, n) for n in (1, 8, 64)}
    return {"stream": stream, "copy beside a kernel": copy_beside_a_kernel, **chains}


@vc.kernel
def _generate(x: Any, y: Any, n_steps: vc.int32) -> None:
    i = vc.global_id(0)
    if i < y.size:
        v = x[i]
        for _ in range(n_steps):
            v = v * 1664525 + 1013904223
        y[i] = v


def _expected(data: Any, n_steps: int) -> Any:
    factor, summand = 1, 0
    for _ in range(n_steps):
        factor, summand = factor * _FACTOR % 2**32, (summand * _FACTOR + _SUMMAND) % 2**32
    return data * np.uint32(factor) + np.uint32(summand)


def _steps_for(gpu: vc.Runtime, call: Callable[[int], Any], goal_s: float) -> int:
    """Returns the number of steps of which a call takes about this long."""
    n_steps = 1
    call(1)
    while n_steps < _MAX_STEPS and seconds(partial(call, n_steps), gpu) < goal_s:
        n_steps *= 2
    return n_steps


def stream(session: Session) -> dict[str, Any]:
    """A stream whose kernels take as long as its copies, beside a loop, the copies and the kernels alone."""
    gpu, n = session.gpu, _CHUNK * _CHUNKS
    data, out = np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32)
    up, down = gpu.empty(_CHUNK, np.uint32), gpu.empty(_CHUNK, np.uint32)
    rows = [slice(start, start + _CHUNK) for start in range(0, n, _CHUNK)]

    def copies() -> None:
        for chunk in rows:
            up.write(data[chunk])
            up.read(out[chunk])

    def kernels(n_steps: int) -> None:
        for _ in rows:
            _generate(up, down, n_steps)

    def loop(n_steps: int) -> None:
        for chunk in rows:
            up.write(data[chunk])
            _generate(up, down, n_steps)
            down.read(out[chunk])

    copies()
    n_steps = _steps_for(gpu, kernels, seconds(copies, gpu))
    work = lambda one, other: _generate(one, other, n_steps)  # noqa: E731
    streamed = partial(gpu.stream, data, work, out, chunk_bytes=4 * _CHUNK)
    streamed()
    figures = {
        "stream_ms": seconds(streamed, gpu),
        "loop_ms": seconds(partial(loop, n_steps), gpu),
        "copies_ms": seconds(copies, gpu),
        "kernels_ms": seconds(partial(kernels, n_steps), gpu),
    }
    out[:] = 0
    streamed()
    equal(out, _expected(data, n_steps))
    bound = max(figures["copies_ms"], figures["kernels_ms"])
    gain = {"gain": rounded(figures["loop_ms"] / figures["stream_ms"]), "bound": rounded(figures["loop_ms"] / bound)}
    return {name: rounded(value * 1e3) for name, value in figures.items()} | gain


def copy_beside_a_kernel(session: Session) -> dict[str, Any]:
    """A copy on the device by a transfer queue beside a kernel, and both on one queue."""
    gpu = session.gpu
    compute, transfer = _queues(gpu, "compute"), _queues(gpu, "transfer")
    if not transfer:
        raise Unavailable("the device has no transfer queue that the runtime opens")
    n = 4 * _CHUNK
    source, target = gpu.full(n, 3, np.uint32), gpu.empty(n, np.uint32)
    x, y = gpu.array(np.arange(_CHUNK, dtype=np.uint32)), gpu.empty(_CHUNK, np.uint32)
    host = np.full(n, 3, np.uint32)

    def copy() -> None:
        target.write(host)

    copy()
    n_steps = _steps_for(gpu, partial(_generate, x, y, queue=compute[0]), seconds(copy, gpu))

    def both() -> None:
        _generate(x, y, n_steps, queue=compute[0])
        gpu.flush()
        copy()

    figures = {
        "together_ms": seconds(both, gpu),
        "copy_ms": seconds(copy, gpu),
        "kernel_ms": seconds(partial(_generate, x, y, n_steps, queue=compute[0]), gpu),
    }
    equal(y, _expected(np.arange(_CHUNK, dtype=np.uint32), n_steps))
    equal(target, source.numpy())
    return _with_gain(figures)


def _queues(gpu: vc.Runtime, role: str) -> list[int]:
    return [number for number, queue in enumerate(gpu.device.queues) if queue.role == role]


def _with_gain(figures: dict[str, float]) -> dict[str, Any]:
    """Adds the sum of both times over the time together: 1 without overlap, 2 if both are hidden."""
    together, *alone = figures.values()
    return {name: rounded(value * 1e3) for name, value in figures.items()} | {"gain": rounded(sum(alone) / together)}


def _chains(n_groups: int, session: Session) -> dict[str, Any]:
    """Two chains of dependent launches, too small to fill a GPU: on two queues, and on one."""
    gpu = session.gpu
    compute = _queues(gpu, "compute")
    if len(compute) < 2:
        raise Unavailable("the runtime opens one compute queue")
    n = n_groups * _SMALL
    data = np.arange(n, dtype=np.uint32)
    arrays = [gpu.array(data) for _ in range(2)]

    def chain(number: int, n_steps: int, queue: int) -> None:
        for _ in range(_LAUNCHES):
            _generate(arrays[number], arrays[number], n_steps, grid=n_groups, local_size=_SMALL, queue=queue)

    n_steps = _steps_for(gpu, lambda n_steps: chain(0, n_steps, compute[0]), _GOAL_S)
    arrays[:] = [gpu.array(data) for _ in range(2)]
    n_runs = 0

    def run(queues: tuple[int, ...]) -> None:
        nonlocal n_runs
        n_runs += 1
        for number, queue in enumerate(queues):
            chain(number, n_steps, queue)
            gpu.flush()

    two, one = ((compute[0], compute[1]), (compute[0], compute[0]))
    run(two)
    figures = {"two_queues_ms": seconds(partial(run, two), gpu), "one_queue_ms": seconds(partial(run, one), gpu)}
    for array in arrays:
        equal(array, _expected(data, n_steps * _LAUNCHES * n_runs))
    gain = rounded(figures["one_queue_ms"] / figures["two_queues_ms"])
    return {name: rounded(value * 1e3) for name, value in figures.items()} | {"gain": gain}
