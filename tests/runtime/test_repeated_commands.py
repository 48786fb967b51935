"""Series and runs of functions that are one command of a batch: threads, Ctrl-C, and a runtime that is closed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from faults import interrupted, watched
from happens_before import races
from runtimes import open_runtime
from sync_trace import traced

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.compiled import call_plans
from vkcompute.core.command import RepeatedCommands

pytestmark = [
    pytest.mark.device_only,
    pytest.mark.skipif(not call_plans.are_used, reason="without plans, no series is repeated"),
]

add, multiply = vc.elementwise("x + y"), vc.elementwise("x * y")
N = 16


@planned
def powers(x: vc.Array, out: vc.Array) -> None:
    """Writes x + x**2 + x**3, by launches that depend on each other, on temporary memory."""
    square, cube = vnp.empty_like(x), vnp.empty_like(x)
    multiply(x, x, out=square)
    multiply(square, x, out=cube)
    add(x, square, out=out)
    add(out, cube, out=out)


def expected(value: float) -> float:
    return value + value**2 + value**3


def used(x: vc.Array, out: vc.Array, value: float) -> None:
    """Calls the function on new content of the same memory, and checks the result."""
    x.fill(value)
    powers(x, out)
    assert (out.numpy() == expected(value)).all()


def in_threads(works: list[Callable[[], None]]) -> None:
    """Runs functions on threads; raises the first error of any."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[RepeatedCommands]:
    """Counts the recordings of series: a test without one would show nothing."""
    made: list[RepeatedCommands] = []
    init = RepeatedCommands.__init__

    def counting(self: RepeatedCommands, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        made.append(None)  # type: ignore[arg-type]

    monkeypatch.setattr(RepeatedCommands, "__init__", counting)
    return made


@pytest.mark.parametrize("timelines", [1, 3])
def test_threads_repeat_series_on_memory_of_their_own(timelines: int, recorded: list[None]) -> None:
    with watched(), open_runtime(timelines=timelines) as gpu:

        def work(first: int) -> Callable[[], None]:
            def run() -> None:
                x, out = gpu.empty(N, np.float32), gpu.empty(N, np.float32)
                for number in range(40):
                    used(x, out, float(first + number % 7))

            return run

        in_threads([work(0), work(3)])
        assert len(recorded) >= 2


def test_threads_repeat_series_on_the_same_operand(recorded: list[None]) -> None:
    """One recording serves both: it binds the memory of all but the results, which differ."""
    with watched(), open_runtime() as gpu:
        x = gpu.full(N, 2.0, np.float32)

        def run() -> None:
            out = gpu.empty(N, np.float32)
            for _ in range(60):
                powers(x, out)
            assert (out.numpy() == expected(2)).all()

        in_threads([run, run, run])
        assert recorded


def test_ctrl_c_at_moments_of_the_launch_that_records(recorded: list[None]) -> None:
    """Whatever it cuts short, the next calls have their results, and nothing of the driver's is left."""
    with watched(), open_runtime() as gpu:
        warm = gpu.empty(N, np.float32), gpu.empty(N, np.float32)
        for _ in range(4):
            used(*warm, 1.0)
        kept, came = list[vc.Array](), [True]
        while came:
            x, out = gpu.full(N, 2.0, np.float32), gpu.empty(N, np.float32)
            kept += x, out  # so that the next round has other memory, and records anew
            for _ in range(2):
                powers(x, out)
            gpu.wait()
            with interrupted(len(kept)) as came:
                powers(x, out)  # the third launch on this memory
            for value in (3.0, 5.0):
                used(x, out, value)
        assert len(recorded) > len(kept) // 8 > 10, "where Ctrl-C comes early, commands stay single"
        del kept, warm, x, out


@pytest.mark.parametrize("timelines", [1, 3])
def test_a_runtime_is_closed_while_threads_repeat_series(timelines: int, recorded: list[None]) -> None:
    for pause in range(4):
        started = threading.Barrier(3)
        with watched():
            gpu = open_runtime(timelines=timelines)

            def run(gpu: vc.Runtime = gpu, started: threading.Barrier = started) -> None:
                x, out = gpu.full(N, 2.0, np.float32), gpu.empty(N, np.float32)
                for _ in range(3):
                    powers(x, out)
                started.wait()
                with suppress(vc.ClosedError):
                    for _ in range(100_000):
                        powers(x, out)
                    pytest.fail("the runtime was not closed")

            def close(gpu: vc.Runtime = gpu, started: threading.Barrier = started, pause: int = pause) -> None:
                started.wait()
                threading.Event().wait(0.003 * pause)
                gpu.close()

            in_threads([run, run, close])
            del gpu, run, close
    assert recorded


@vc.graph
def moved(x: vc.Array, state: vc.Array) -> tuple[vc.Array, vc.Array]:
    """Updates `state` in place, twice; returns new arrays from before and after."""
    before = state * 2
    state += x
    state *= x
    return before, state + before


@pytest.mark.parametrize("options", [{"timelines": 1}, {"timelines": 3}, {"submit_limit_s": 1e-9}], ids=str)
def test_runs_of_functions_are_in_order_with_the_batch_around_them(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x_host, state_host = (rng.integers(-2, 3, N).astype(np.float32) for _ in range(2))
    with traced() as trace, open_runtime(**options) as gpu:
        x, state = gpu.array(x_host), gpu.array(state_host)
        for number in range(12):
            rows = []
            for _ in range(1 + number % 3):  # several runs without a wait
                add(state, x, out=state)
                rows += moved(x, state)
                multiply(rows[-1], x, out=x)
                before = (state_host + x_host) * 2
                state_host = (state_host + x_host + x_host) * x_host
                rows += before, state_host + before
                x_host = (state_host + before) * x_host
            results, expected = ([row for at, row in enumerate(rows) if at % 4 // 2 == side] for side in (0, 1))
            for result, right in zip([*results, x, state], [*expected, x_host, state_host], strict=True):
                np.testing.assert_array_equal(result.numpy(), right)
            x_host, state_host = x_host % 3 - 1, state_host % 3 - 1
            x.write(x_host)
            state.write(state_host)
    assert not races(trace.history)
    is_joined = "submit_limit_s" not in options and not gpu.scheduler.submits_early
    assert (trace.n_executed >= 12) is is_joined


def test_a_function_is_forgotten_while_its_run_is_in_a_batch() -> None:
    with watched(), open_runtime() as gpu:
        x, value = gpu.full(N, 2.0, np.float32), 2.0
        for number in range(40):
            doubled = vc.graph(lambda array: array * 2 + 1)
            results = [doubled(x) for _ in range(3)]
            del doubled  # the recording ends with the function
            gc.collect()
            expected, value = 2 * value + 1, float(number)
            x.fill(value)
            if number % 8 == 7:  # else the next ones join the batch
                assert all((result.numpy() == expected).all() for result in results)
        del results, x
