"""Series of steps of a call: one task of the scheduler, with barriers, and temporary memory in one allocation."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from happens_before import races
from runtimes import open_runtime
from sync_trace import traced

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.compiled import call_plans, call_series
from vkcompute.compiled.call_series import Series, barriers_between, in_series, layout_of
from vkcompute.compiled.call_steps import AllocateStep, CopyStep, FillStep, FreeStep, ReportStep, Step
from vkcompute.core.command import RepeatedCommands

pytestmark = pytest.mark.device_only

add, multiply = vc.elementwise("x + y"), vc.elementwise("x * y")


@planned
def woven(x: vc.Array, y: vc.Array) -> list[vc.Array]:
    """Launches two chains, on temporary memory that is used again."""
    results = []
    for first, second in ((x, y), (y, x)):
        for _ in range(3):
            third, fourth = vnp.empty_like(x), vnp.empty_like(x)
            add(first, second, out=third)
            multiply(third, second, out=fourth)
            first, second = third, fourth
        results += first, second
    y.copy_from(results[0])
    add(x, results[1], out=x)
    return results


def woven_on_host(x: Any, y: Any) -> tuple[list[Any], Any, Any]:
    results = []
    for first, second in ((x, y), (y, x)):
        for _ in range(3):
            first, second = first + second, (first + second) * second
        results += first, second
    return results, x + results[1], results[0]


@pytest.mark.parametrize("options", [{"timelines": 1}, {"timelines": 3}, {"submit_limit_s": 1e-9}], ids=str)
def test_launches_of_a_call_are_in_order(options: dict[str, Any]) -> None:
    """A software driver runs one command after the other, so that the results alone do not show a missing barrier."""
    rng = np.random.default_rng(0)
    hosts = [rng.integers(-2, 3, (2, 16)).astype(np.float32) for _ in range(2)]
    with traced() as trace, open_runtime(**options) as gpu:
        x, y = (gpu.array(host) for host in hosts)
        for _ in range(12):
            expected, *hosts = woven_on_host(*hosts)
            got = woven(x, y)
            for one, right in zip([*got, x, y], [*expected, *hosts], strict=True):
                np.testing.assert_array_equal(one.numpy(), right)
            x.write(hosts[0] % 3)
            y.write(hosts[1] % 3)
            hosts = [host % 3 for host in hosts]
    assert not races(trace.history)
    assert (trace.n_executed > 0) is ("submit_limit_s" not in options), "from the third launch on, it is one command"


def test_a_repeated_series_is_between_other_launches(gpu: vc.Runtime) -> None:
    """Bindings of the series are unknown to the launches after it, and theirs to the series."""
    x, out, n_before = gpu.array(np.arange(12, dtype=np.float32).reshape(3, 4)), gpu.zeros((3, 4)), n_executed()
    for number in range(20):
        add(x, out, out=out)
        values = nn.topk(x, 2)[0].numpy()
        add(x, out, out=out)
        np.testing.assert_array_equal(values, [[3, 2], [7, 6], [11, 10]])
        np.testing.assert_array_equal(out.numpy(), x.numpy() * 2 * (number + 1))
    assert n_executed() > n_before


def n_executed() -> int:
    gc.collect()
    return sum(type(x) is RepeatedCommands for x in gc.get_objects())


def test_repeated_commands_are_bounded_and_released(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_series, "_MOST_REPEATED", 0)
    n_before = n_executed()
    with open_runtime() as other:
        for runtime, most in ((gpu, 0), (other, 512)):
            monkeypatch.setattr(call_series, "_MOST_REPEATED", most)
            x = runtime.array(np.random.default_rng(0).normal(size=(5, 19)).astype(np.float32))
            expected = np.sort(x.numpy(), axis=1)[:, :-4:-1]
            for _ in range(12):
                np.testing.assert_array_equal(nn.topk(x, 3)[0].numpy(), expected)
            assert (n_executed() > n_before) is (most > 0)
        other.plans.clear()
        assert n_executed() == n_before
        np.testing.assert_array_equal(nn.topk(x, 3)[0].numpy(), expected)


def test_commands_stay_single_where_the_driver_has_no_memory(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise vc.OutOfDeviceMemory(0, 0, 0, call="vkAllocateCommandBuffers")

    monkeypatch.setattr(call_series, "RepeatedCommands", exhausted)
    x = gpu.array(np.random.default_rng(0).normal(size=(5, 21)).astype(np.float32))
    for _ in range(6):
        np.testing.assert_array_equal(nn.topk(x, 3)[0].numpy(), np.sort(x.numpy(), axis=1)[:, :-4:-1])


@pytest.mark.pure
def test_temporary_memory_is_used_again_once_it_is_free() -> None:
    """Of slots 2 to 5, one after the other from the former: 4 has the place of 2; 5 is a result, 6 is larger."""
    fills: list[Step] = [FillStep((at, 0, 8), 0) for at in range(7)]
    steps = [
        *[AllocateStep(2, 100), fills[2], AllocateStep(3, 100), fills[3], FreeStep(2), AllocateStep(4, 100), fills[4]],
        *[FreeStep(3), FreeStep(4), AllocateStep(5, 100), fills[5], AllocateStep(6, 300), fills[6], FreeStep(6)],
    ]
    layout = layout_of(steps, {5})
    assert layout.starts == {2: 0, 3: 256, 4: 0, 6: 512}
    assert layout.nbytes == 4096
    assert len(in_series(steps, 9, {5})) == 1
    assert in_series([AllocateStep(2, 1 << 30), fills[2], fills[2], FreeStep(2)], 9, {0})[1] is fills[2]


@pytest.mark.pure
def test_barriers_are_where_a_step_depends_on_one_before() -> None:
    rows = np.array([[0, 0, 8]])
    first, second = FillStep((2, 0, 8), 0), CopyStep([((2, 0, 8), rows)], (3, 0, 8))
    other, overwriting, beside = FillStep((4, 0, 8), 1), FillStep((2, 4, 8), 2), FillStep((2, 0, 4), 2)
    assert barriers_between([first, other, second, beside]) == [False, False, True, True]
    assert barriers_between([first, second, overwriting, beside]) == [False, True, True, False]
    assert barriers_between([first, second.moved({3: (2, 64)}), FillStep((2, 64, 72), 1)]) == [False, True, True]
    assert barriers_between([overwriting, FillStep((2, 8, 12), 0), FillStep((2, 0, 4), 1)], 2) == [False, True, True]


@pytest.mark.pure
def test_a_report_is_around_what_depends_on_it() -> None:
    """Slot 0 is an argument's, 1 is freed, 2 is a result. An error of the report is none of what does not need it."""
    rows = np.array([[0, 0, 8]])
    reported, copy, fill = FillStep((1, 0, 8), 0), CopyStep([((1, 0, 8), rows)], (2, 0, 8)), FillStep((2, 0, 8), 0)
    report = ReportStep(3, 64, lambda words: None, [reported, reported])
    allocated, freed = [AllocateStep(1, 8), AllocateStep(2, 8)], [FreeStep(1)]
    (around,) = in_series([*allocated, report, copy, *freed], 9, {0, 2})
    assert type(around) is ReportStep
    assert [type(step) for step in around.steps] == [Series]
    for others in ([fill, fill], [copy, fill], [copy, CopyStep([((1, 8, 16), rows)], (0, 0, 8))]):
        steps = in_series([*allocated, report, *others, *freed], 9, {0, 2})
        assert [type(step) for step in steps] == [AllocateStep, AllocateStep, ReportStep, Series]
    twice = in_series([*allocated, report, report, copy, *freed], 9, {0, 2})
    assert [type(twice[0]), type(twice[0].steps[0]), type(twice[0].steps[0].steps[0])] == [
        ReportStep,
        ReportStep,
        Series,
    ]


def test_a_series_that_fails_is_the_error_of_its_results(gpu: vc.Runtime) -> None:
    x, y = gpu.zeros(4), gpu.zeros(4)

    def fail(recorder: Any) -> None:
        raise ZeroDivisionError("it was cut short")

    series: Any = SimpleNamespace(commands=[(fail, ())], repeated=None, costs=[])
    with pytest.raises(ZeroDivisionError):
        gpu.scheduler.enqueue_series(series, [x.span], [y.span])
    with pytest.raises(ZeroDivisionError, match="it was cut short"):
        x.numpy()
    assert not (y + x.fill(0)).numpy().any()


def test_each_launch_of_a_call_is_measured(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.array(np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32))
    names = []
    for used in (False, True):
        monkeypatch.setattr(call_plans, "are_used", used)
        nn.topk(x, 2), nn.topk(x, 2)
        with gpu.profile() as profile:
            nn.topk(x, 2)
        names.append([task.name for task in profile.tasks])
    assert names[0] == names[1]


def test_a_plan_in_a_call_that_is_traced(gpu: vc.Runtime) -> None:
    outer = planned(lambda x: nn.topk(x, 3)[0] * 2)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(5, 16)).astype(np.float32)
        nn.topk(gpu.array(x), 3)
        np.testing.assert_array_equal(outer(gpu.array(x)).numpy(), np.sort(x)[:, :-4:-1] * 2)
