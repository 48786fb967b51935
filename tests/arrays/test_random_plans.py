"""Random programs with call plans and without, to the bit: views, updates in place, `where=`, draws, and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.compiled import call_plans

pytestmark = pytest.mark.device_only

SHAPE = ROWS, COLUMNS = 6, 8
N_RUNS = 3
"""The first calls are traced, later ones repeat plans."""


class Operands(NamedTuple):
    """What a step may read or write: arrays that may be the same, a number, rows, and a generator."""

    a: vc.Array
    b: vc.Array
    number: int
    rows: vc.Array
    rng: Any


def _assign(array: vc.Array, key: Any, value: Any) -> vc.Array:
    array[key] = value
    return array


def _masked_sum(x: Operands) -> vc.Array:
    return vnp.sum(x.a, axis=1, keepdims=True, where=x.b > 0) + x.b


def _into_view(x: Operands) -> vc.Array:
    made = vnp.zeros(SHAPE, np.float32, device=x.a.runtime)
    vnp.add(x.a[: x.number], 1, out=made[: x.number])
    return made + x.b


def _chained(x: Operands) -> vc.Array:
    lazy = x.a * x.number - x.b
    other = lazy + x.a
    x.b[...] = other  # after which the first one reads what it was
    return lazy * other


STEPS: dict[str, Callable[[Operands], vc.Array]] = {
    "sum": lambda x: x.a + x.b * x.number,
    "where": lambda x: vnp.where(x.a > x.b, x.a, x.b - x.number),
    "where=": lambda x: vnp.add(x.a, x.b, out=x.a.copy(), where=x.b > x.number),
    "masked sum": _masked_sum,
    "mean": lambda x: x.a - x.a.mean(axis=x.number % 2, keepdims=True),
    "deviation": lambda x: x.a / (1 + vnp.std(x.b)),
    "softmax": lambda x: nn.softmax(x.a, x.number % 2),
    "take": lambda x: vnp.take(x.a, x.rows, axis=0),
    "indices": lambda x: x.a[x.rows],
    "sort": lambda x: vnp.sort(x.a, axis=x.number % 2),
    "scan": lambda x: vnp.cumsum(x.a[::-1], axis=0),
    "product": lambda x: x.a @ (x.b.T @ x.a) / 64,
    "parts": lambda x: vnp.concatenate((x.a[: x.number], x.b[x.number :])),
    "in a view": _into_view,
    "read before it is written": _chained,
    "normal": lambda x: x.rng.normal(size=SHAPE).astype(np.float32),
    "integers": lambda x: x.a + x.rng.integers(0, 9, SHAPE).astype(np.float32),
    "shuffled": lambda x: x.rng.permuted(x.a, axis=1),
    "add in place": lambda x: x.a.__iadd__(x.b),
    "clip in place": lambda x: vnp.clip(x.a, -x.number, x.number, out=x.a),
    "rows": lambda x: _assign(x.a, slice(x.number, x.number + 2), x.b[:2]),
    "indexed rows": lambda x: _assign(x.a, x.rows[:3], x.b[:3]),
    "mask": lambda x: _assign(x.a, x.b > x.number, x.number),
    "put": lambda x: vnp.putmask(x.a, x.b > 0, x.b[0]) or x.a,
    "histogram": lambda x: x.a + vnp.histogram(x.b, COLUMNS, (-4, 4))[0].astype(np.float32),
}
Program = list[tuple[str, int, int, int, int]]
PROGRAMS = st.lists(
    st.tuples(st.sampled_from([*STEPS]), *[st.integers(0, 3)] * 3, st.integers(1, 4)), min_size=4, max_size=24
)


def run(gpu: vc.Runtime, program: Program, seed: int) -> list[np.ndarray[Any, Any]]:
    """Runs steps on two arrays, a view of one with an offset, and a transposed one."""
    host = np.random.default_rng(seed)
    base, other = gpu.array(host.normal(size=(3, *SHAPE)).astype(np.float32)), gpu.empty(SHAPE[::-1], np.float32)
    other.write(host.normal(size=SHAPE[::-1]).astype(np.float32))
    arrays, rng = [base[0], base[1], base[2][::-1], other.T], vnp.random.default_rng(seed, device=gpu)
    rows, seen = gpu.array(host.permutation(ROWS).astype(np.int32)), []
    for name, one, two, target, number in program:
        result = vnp.clip(STEPS[name](Operands(arrays[one], arrays[two], number, rows, rng)), -8, 8)
        assert result.shape == SHAPE
        arrays[target] = result
        if number == 4:
            seen.append(result.numpy())
    return [*seen, base.numpy(), *[array.numpy() for array in arrays]]


def require_same(got: list[np.ndarray[Any, Any]], expected: list[np.ndarray[Any, Any]]) -> None:
    for one, right in zip(got, expected, strict=True):
        assert one.dtype == right.dtype
        assert one.tobytes() == right.tobytes()


@pytest.mark.rotates
@given(program=PROGRAMS, seed=st.integers(0, 3))
@settings(
    max_examples=max(8, settings().max_examples // 4), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_programs(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, program: Program, seed: int) -> None:
    monkeypatch.setattr(call_plans, "are_used", False)
    expected = run(gpu, program, seed)
    monkeypatch.setattr(call_plans, "are_used", True)
    for _ in range(N_RUNS):
        require_same(run(gpu, program, seed), expected)


@given(program=PROGRAMS)
@settings(
    max_examples=max(3, settings().max_examples // 8), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_programs_of_several_threads(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    """Each thread has arrays of its own; one of them makes the plans that the others repeat."""
    monkeypatch.setattr(call_plans, "are_used", False)
    expected = [run(gpu, program, seed) for seed in range(3)]
    monkeypatch.setattr(call_plans, "are_used", True)
    results: dict[int, list[np.ndarray[Any, Any]]] = {}

    def work(seed: int) -> None:
        for _ in range(N_RUNS):
            results[seed] = run(gpu, program, seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, right in enumerate(expected):
        require_same(results[seed], right)
