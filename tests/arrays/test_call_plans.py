"""Call plans: functions called again with arguments of the same layouts, with plans and without, to the bit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.compiled import call_plans
from vkcompute.compiled.call_steps import CopyStep
from vkcompute.compiled.completion import expect
from vkcompute.core.device_profile import emulated

pytestmark = pytest.mark.device_only

Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {
    "softmax": lambda x, y, line, rows: nn.softmax(x),
    "softmax of a lazy array": lambda x, y, line, rows: nn.softmax(x * 2 + y),
    "layer_norm": lambda x, y, line, rows: nn.layer_norm(x, x.shape[-1], line, line),
    "linear": lambda x, y, line, rows: nn.linear(x, y, line, activation="gelu"),
    "matmul": lambda x, y, line, rows: x @ y.T,
    "conv2d": lambda x, y, line, rows: nn.conv2d(
        x.reshape(1, 2, 6, 6), y[:3, :8].copy().reshape(3, 2, 2, 2), padding=1
    ),
    "attention": lambda x, y, line, rows: nn.scaled_dot_product_attention(x, y, x, is_causal=True),
    "take": lambda x, y, line, rows: vnp.take(x, rows, axis=1),
    "indices": lambda x, y, line, rows: x[rows, rows],
    "argmax": lambda x, y, line, rows: vnp.argmax(x, axis=1),
    "var": lambda x, y, line, rows: vnp.var(x),
    "cumsum": lambda x, y, line, rows: vnp.cumsum(x, axis=0),
    "sort": lambda x, y, line, rows: vnp.sort(x),
    "topk": lambda x, y, line, rows: nn.topk(x, 3),
    "pad": lambda x, y, line, rows: vnp.pad(x, 1),
    "roll": lambda x, y, line, rows: vnp.roll(x, 2, axis=1),
    "concatenate": lambda x, y, line, rows: vnp.concatenate((x, y, x[:2])),
    "split": lambda x, y, line, rows: vnp.split(vnp.flip(x, 0).copy(), 2),
    "histogram": lambda x, y, line, rows: vnp.histogram(x, 4),
}


@pytest.fixture(autouse=True)
def _with_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_plans, "are_used", True)


def drawn(gpu: vc.Runtime, seed: int) -> tuple[vc.Array, ...]:
    rng = np.random.default_rng(seed)
    floats = [gpu.array(rng.normal(size=shape).astype(np.float32)) for shape in ((6, 12), (6, 12), (12,))]
    floats[2] = floats[2] if seed < 3 else gpu.array(rng.normal(size=6).astype(np.float32))
    return (*floats, gpu.array(rng.integers(0, 6, 5).astype(np.int32)))


def on_host(result: Any) -> list[np.ndarray[Any, Any]]:
    return [x.numpy() for x in (result if isinstance(result, (tuple, list)) else (result,))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_same_with_plans(gpu: vc.Runtime, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, operands = FUNCTIONS[name], [drawn(gpu, seed + 3 * (name == "linear")) for seed in range(3)]
    monkeypatch.setattr(call_plans, "are_used", False)
    expected = [on_host(function(*given)) for given in operands]
    monkeypatch.setattr(call_plans, "are_used", True)
    results = [function(*given) for given in operands * 2]  # some wait in the queue together
    for got, right in zip(map(on_host, results), expected * 2, strict=True):
        for one, other in zip(got, right, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


REDUCED: dict[str, tuple[str, Function]] = {
    "mean": ("float32", lambda x: vnp.mean(x, axis=1)),
    "mean along the first axis": ("float32", lambda x: vnp.mean(x, axis=0, keepdims=True)),
    "mean of all": ("float32", vnp.mean),
    "mean of float16": ("float16", lambda x: vnp.mean(x, axis=1)),
    "mean of integers": ("int32", lambda x: vnp.mean(x, axis=1)),
    "var": ("float32", lambda x: vnp.var(x, axis=1)),
    "std": ("float32", lambda x: vnp.std(x, axis=0)),
    "argmax": ("float32", lambda x: vnp.argmax(x, axis=1)),
}


@pytest.mark.parametrize("name", REDUCED)
def test_the_last_kernel_of_a_reduction_computes_what_follows(
    gpu: vc.Runtime, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype, function = REDUCED[name]
    arrays = [gpu.array((np.random.default_rng(seed).normal(size=(70, 40)) * 50).astype(dtype)) for seed in range(3)]
    monkeypatch.setattr(call_plans, "are_used", False)
    expected = [function(x).numpy() for x in arrays]
    monkeypatch.setattr(call_plans, "are_used", True)
    for _ in range(2):  # makes the plan, at the second call where a process has many that are not repeated
        function(arrays[0]).compute()
    assert any(".reduce" in operation for operation in vnp.info(function(arrays[0]))[-1].operations)
    for x, right in zip(arrays * 2, expected * 2, strict=True):
        got = function(x).numpy()
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got, right)


def test_a_reduction_that_a_result_shares_is_computed_once(gpu: vc.Runtime) -> None:
    """The sum is a result, too, so that it has memory of its own."""
    both = planned(lambda x: (total := x.sum(axis=1), total / 3))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(3):
        total, third = both(gpu.array(x))
        np.testing.assert_array_equal(third.numpy(), x.sum(axis=1) / np.float32(3))
        np.testing.assert_array_equal(total.numpy(), x.sum(axis=1))


@pytest.mark.parametrize("second", [slice(2, 6), slice(4, 8), slice(6, 10)])
def test_copies_to_one_array_keep_their_order(gpu: vc.Runtime, second: slice) -> None:
    """Plans join copies to bytes that differ; of those to the same bytes, the last one counts."""

    def assembled(x: Any) -> Any:
        out = vnp.zeros_like(x) if isinstance(x, vc.Array) else np.zeros_like(x)
        out[:4], out[second] = x[:4], x[8:12]
        return out

    function = planned(assembled)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=12).astype(np.float32)
        np.testing.assert_array_equal(function(gpu.array(x)).numpy(), assembled(x))


@pytest.mark.parametrize(
    ("at", "source", "slot", "joins"), [(16, 0, 3, True), (8, 0, 3, False), (16, 3, 3, False), (16, 0, 4, False)]
)
def test_copies_join_if_they_need_no_order(at: int, source: int, slot: int, joins: bool) -> None:
    first = CopyStep([((0, 0, 16), np.array([[0, 0, 16]]))], (3, 0, 16))
    later = CopyStep([((source, 0, 16), np.array([[0, at, 16]]))], (slot, at, at + 16))
    assert (first.joined(later) is not None) == joins


def test_arguments_that_share_memory(gpu: vc.Runtime) -> None:
    """A call with one array twice is another than one with two; so are views of one array, by their distance."""
    host = np.arange(64, dtype=np.float32)
    x, y = gpu.array(host), gpu.array(-host)
    for _ in range(2):
        for one, other in ((x, y), (x, x), (x[:32], x[32:]), (x[:32], x[16:48]), (x[32:], x[:32])):
            expected = np.concatenate((one.numpy(), other.numpy()))
            np.testing.assert_array_equal(vnp.concatenate((one, other)).numpy(), expected)


def test_views_at_other_offsets(gpu: vc.Runtime) -> None:
    host = np.random.default_rng(0).normal(size=(9, 4, 16)).astype(np.float32)
    x = gpu.array(host)
    for at in range(9):
        np.testing.assert_array_equal(vnp.sort(x[at]).numpy(), np.sort(host[at]))
        np.testing.assert_array_equal(vnp.cumsum(x[at, :, 3:7], axis=0).numpy(), np.cumsum(host[at, :, 3:7], axis=0))
        np.testing.assert_array_equal(vnp.sort(x[at:, 1, 1::2]).numpy(), np.sort(host[at:, 1, 1::2]))


def test_bytes_behind_an_array_are_kept(gpu: vc.Runtime) -> None:
    """A whole array of odd length has padding behind it; its part at the same place has other elements."""
    for n in (7, 5, 7, 5):
        whole = gpu.array(np.arange(8, dtype=np.uint8))
        part = whole[:n] if n < 7 else gpu.array(np.arange(7, dtype=np.uint8))
        part[gpu.array(np.array([1], np.int32))] = gpu.array(np.array([9], np.uint8))
        assert part.numpy().tolist() == [0, 9, *range(2, n)]
        assert whole.numpy()[n:].tolist() == [*range(8)][n:]


def test_assignments_after_which_lazy_arrays_read_the_old_elements(gpu: vc.Runtime) -> None:
    rows = gpu.array(np.array([0, 2], np.int32))
    for k in range(4):
        x = gpu.array(np.full((3, 2), k, np.float32))
        before = x + 1
        x[rows] = gpu.array(np.full((2, 2), 10 + k, np.float32))
        assert before.numpy().tolist() == [[k + 1] * 2] * 3
        assert x.numpy().tolist() == [[10 + k] * 2, [k] * 2, [10 + k] * 2]


LAZY: dict[str, Function] = {
    "mean": lambda x: vnp.mean(x, axis=1),
    "var": lambda x: vnp.var(x, axis=0),
    "argmax": lambda x: vnp.argmax(x, axis=1),
    "sum": lambda x: vnp.sum(x * x),
    "clip": lambda x: vnp.clip(x, 0, 4),
    "of a transposed view": lambda x: vnp.std(x.T, axis=1),
}


def _reshape(x: vc.Array) -> None:
    x.shape = (x.size,)


def _closed(x: vc.Array) -> None:
    x.close()


BETWEEN: dict[str, Function] = {
    "nothing": lambda x, made, others: None,
    "the argument is overwritten": lambda x, made, others: x.fill(9),
    "a part of it is": lambda x, made, others: x.__setitem__(0, 9),
    "the argument has another shape": lambda x, made, others: _reshape(x),
    "the argument is closed": lambda x, made, others: _closed(x),
    "another result is computed from it": lambda x, made, others: (made * 2).numpy(),
    "two others are, together": lambda x, made, others: [(made + made).numpy(), (made * 3).compute()],
    "it is asked how it is computed": lambda x, made, others: vnp.info(made),
    "another result waits for it": lambda x, made, others: others.append(made * 2 + 1),
    "a graph reads it": lambda x, made, others: _recorded(made),
}


def _recorded(made: vc.Array) -> None:
    out = vnp.zeros_like(made)
    with made.runtime.record() as graph:
        out.copy_from(made * 2)
    graph.run()
    np.testing.assert_array_equal(out.numpy(), made.numpy() * 2)


@pytest.mark.parametrize("name", LAZY)
def test_lazy_results_are_those_of_the_time_of_the_call(
    gpu: vc.Runtime, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expressions of repeated calls have no operands until these are needed."""
    function = LAZY[name]
    hosts = [np.random.default_rng(seed).normal(size=(6, 10)).astype(np.float32) * 5 for seed in range(len(BETWEEN))]
    monkeypatch.setattr(call_plans, "are_used", False)
    expected = [function(gpu.array(host)).numpy() for host in hosts]
    monkeypatch.setattr(call_plans, "are_used", True)
    for _ in range(2):
        arrays = [gpu.array(host) for host in hosts]
        made = [function(x) for x in arrays]
        others: list[Any] = []
        for x, result, between in zip(arrays, made, BETWEEN.values(), strict=True):
            between(x, result, others)
        made.append(function(arrays[0]))
        for result, right in zip(reversed(made), [expected[0], *reversed(expected)], strict=True):
            assert result.dtype == right.dtype
            np.testing.assert_array_equal(result.numpy(), right)
        at = [*BETWEEN].index("another result waits for it")
        np.testing.assert_array_equal(others[0].numpy(), (made[at] * 2 + 1).numpy())


def test_operands_that_several_threads_need_at_once(gpu: vc.Runtime) -> None:
    host = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)
    for _ in range(3):
        made = vnp.var(gpu.array(host), axis=1)
        results: list[Any] = [None] * 4
        start = threading.Barrier(4)

        def work(at: int, made: vc.Array = made, results: list[Any] = results, start: Any = start) -> None:
            start.wait()
            results[at] = (made * (at + 1)).numpy()

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for at, result in enumerate(results):
            np.testing.assert_array_equal(result, made.numpy() * (at + 1))


def test_indices_out_of_range_are_errors_in_each_call(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(4, dtype=np.float32))
    for index in (1, 9, -4, -5, 3, 4):
        taken = vnp.take(x, gpu.array(np.array([index], np.int32)))
        if -4 <= index < 4:
            assert taken.numpy().tolist() == [index % 4]
        else:
            with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
                taken.numpy()


def test_numbers_that_are_equal_are_not_the_same_arguments(gpu: vc.Runtime) -> None:
    x = gpu.array(np.zeros((2, 3), np.float32))
    for value in (0.0, -0.0, 0, 0.0, -0.0, 1, True, 1.0):
        padded = vnp.pad(x, 1, constant_values=value).numpy()
        np.testing.assert_array_equal(np.signbit(padded[0]), np.signbit(np.float32(value)))
        assert padded[0, 0] == value
    for dtype in (np.float32, np.int64, np.float32, np.int64):
        assert vnp.cumsum(gpu.array(np.ones(3, np.int32)), dtype=dtype).dtype == dtype


def test_calls_in_a_recording_and_outside(gpu: vc.Runtime) -> None:
    x, y = (gpu.array(np.full((2, 4), value, np.float32)) for value in (1, 3))
    out = gpu.empty((4, 4), np.float32)
    vnp.concatenate((x, y))
    with gpu.record(x=x) as graph:
        out.copy_from(vnp.concatenate((graph["x"], vnp.cumsum(y, axis=1))))
    vnp.concatenate((x, y))
    for value in (5, 7):
        graph.run(x=gpu.array(np.full((2, 4), value, np.float32)))
        assert out.numpy().tolist() == [[value] * 4] * 2 + [[3, 6, 9, 12]] * 2


def test_closed_arrays_are_refused_by_each_call(gpu: vc.Runtime) -> None:
    x = gpu.array(np.ones((2, 4), np.float32))
    nn.softmax(x), nn.softmax(x)
    x.close()
    with pytest.raises(vc.ClosedError, match="is closed"):
        nn.softmax(x)


def test_arrays_of_two_runtimes(two_runtimes: list[vc.Runtime]) -> None:
    given = [[gpu.array(np.full((2, 2), at, np.float32)) for at in (1, 2)] for gpu in two_runtimes]
    for _ in range(2):
        for x, y in given:
            assert vnp.concatenate((x, y)).numpy().tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]
        with pytest.raises(ValueError, match="runtime"):
            vnp.concatenate((given[0][0], given[1][1])).numpy()


def test_calls_of_several_threads(gpu: vc.Runtime) -> None:
    hosts = [np.random.default_rng(seed).normal(size=(5, 16)).astype(np.float32) for seed in range(4)]
    gpu.plans.clear()
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = gpu.array(hosts[seed])
        for _ in range(8):
            top, _ = nn.topk(x, 2)
            if not np.array_equal(top.numpy(), np.sort(hosts[seed])[:, :-3:-1]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_have_memory_of_their_own(gpu: vc.Runtime) -> None:
    x = gpu.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    results = [vnp.roll(x, 1, axis=1) for _ in range(3)]
    results[0].fill(9)
    assert results[1].numpy().tolist() == results[2].numpy().tolist() == [[2, 0, 1], [5, 3, 4]]


def test_calls_that_depend_on_values_have_no_plan(gpu: vc.Runtime) -> None:
    ints = np.arange(2, dtype=np.int32)
    for n in (1, 3, 2, 4):
        mask = gpu.array(np.arange(5) < n)
        assert vnp.nonzero(mask)[0].numpy().tolist() == [*range(n)]
        assert vnp.repeat(gpu.array(ints), gpu.array(np.array([n, 1], np.int32))).numpy().tolist() == [0] * n + [1]


def _set_rows(x: vc.Array, y: vc.Array, at: vc.Array, k: int) -> vc.Array:
    x[at] = y[:3]
    return x


def _set_masked(x: vc.Array, y: vc.Array, at: vc.Array, k: int) -> vc.Array:
    x[y > 0] = k
    return x


STEPS: tuple[Function, ...] = (
    lambda x, y, at, k: x + y * k,
    lambda x, y, at, k: vnp.where(x > y, x, y),
    lambda x, y, at, k: vnp.roll(x, k, axis=1),
    lambda x, y, at, k: vnp.sort(x, axis=k % 2),
    lambda x, y, at, k: x[at].repeat(2, axis=0)[:6],
    lambda x, y, at, k: vnp.take(x, at, axis=1).sum(axis=1, keepdims=True) + y,
    lambda x, y, at, k: nn.softmax(x, k % 2),
    lambda x, y, at, k: x - x.mean(axis=k % 2, keepdims=True),
    lambda x, y, at, k: x / (1 + vnp.std(y)),
    lambda x, y, at, k: vnp.cumsum(x[::-1], axis=0),
    lambda x, y, at, k: (x.T @ y).T[:6, :6],
    lambda x, y, at, k: vnp.concatenate((x[:k], y[k:])),
    lambda x, y, at, k: x * (vnp.argmax(y, axis=0) == k),
    lambda x, y, at, k: x.T.copy(),
    _set_rows,
    _set_masked,
)


def _run(gpu: vc.Runtime, seed: int) -> list[np.ndarray[Any, Any]]:
    """Runs random steps on arrays that share memory, are lazy, are views, and are written in place."""
    rng = np.random.default_rng(seed)
    base = gpu.array(rng.normal(size=(3, 6, 6)).astype(np.float32))
    arrays = [base[0], base[1], gpu.array(rng.normal(size=(6, 6)).astype(np.float32)), base[2].T]
    rows = [gpu.array(rng.integers(-6, 6, 3).astype(np.int32)) for _ in range(2)]
    seen = []
    for _ in range(60):
        x, y = (arrays[at] for at in rng.integers(0, 4, 2))
        result = STEPS[rng.integers(len(STEPS))](x, y, rows[rng.integers(2)], int(rng.integers(1, 4)))
        assert result.shape == (6, 6)
        arrays[rng.integers(4)] = result
        if rng.integers(4) == 0:
            seen.append(result.numpy())
    return [*seen, *[array.numpy() for array in arrays]]


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(4))
def test_random_steps_with_plans_and_without(gpu: vc.Runtime, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for used in (False, True, True):
        monkeypatch.setattr(call_plans, "are_used", used)
        results.append(_run(gpu, seed))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_random_steps_where_the_host_does_not_see_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are several queues, and uploads by way of staging memory: those of constants are the plan's."""
    with emulated(timelines=3, staging=True), contextlib.closing(vc.Runtime()) as gpu:
        results = [_run(gpu, 5) for _ in range(2)]
        monkeypatch.setattr(call_plans, "are_used", False)
        for one, two, right in zip(*results, _run(gpu, 5), strict=True):
            np.testing.assert_array_equal(one, right)
            np.testing.assert_array_equal(two, right)


def test_a_failed_launch_that_reports_is_no_step(gpu: vc.Runtime) -> None:
    @planned
    def summed(x: vc.Array) -> Any:
        y = x.copy()
        with contextlib.suppress(ZeroDivisionError):
            expect(gpu, 64, lambda words: None, lambda buffer: [x.copy(), 1 / 0])
        return vnp.cumsum(y * 2)

    for start in range(4):
        host = np.arange(start, start + 40, dtype=np.float32)
        np.testing.assert_array_equal(summed(gpu.array(host)).numpy(), np.cumsum(host * 2))


@vc.kernel
def combine(x: Any, y: Any, z: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] + 10 * y[i] + 100 * z[i]


@planned
def combined(x: vc.Array, y: vc.Array) -> tuple[vc.Array, vc.Array]:
    first, second = vnp.empty_like(x), vnp.empty_like(x)
    combine(x, x, y, first)
    combine(y, y, first, second)
    return first, second


@pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")
def test_arrays_bound_twice_move_during_a_call() -> None:
    with open_runtime(memory_limit_bytes=4 << 20) as gpu:
        x, y = gpu.full(1 << 17, 1.0), gpu.full(1 << 17, 2.0)
        kept = []
        for _ in range(8):
            results = [result.numpy() for result in combined(x, y)]
            assert [(result.min(), result.max()) for result in results] == [(211, 211), (21122, 21122)]
            kept.append(gpu.full(1 << 17, 3.0))
        assert gpu.memory().spilled


@pytest.mark.parametrize("n", [1, 3, 40, 1000])
def test_arrays_that_a_kernel_binds_and_does_not_access(gpu: vc.Runtime, n: int) -> None:
    """No integer is NaN: the kernel reads none, and its only other binding may be shorter."""
    for _ in range(4):
        assert not vnp.any(vnp.isnan(gpu.array(np.arange(n, dtype=np.int32))))
