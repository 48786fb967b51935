"""Whatever touches the same bytes is put in order by barriers and semaphores, not by the driver's habit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from happens_before import races, superfluous
from hypothesis import given, settings
from machine import Machine, Step, check, programs
from runtimes import open_runtime
from sync_trace import traced

from shaders import MULTIPLY
from vkcompute.runtime.graphs.results import temporary
from vkcompute.runtime.memory.transfers import Transfers, host_view
from vkcompute.runtime.scheduling.command_queue import CommandQueue, Timeline

TIMELINES = {"one queue": 1, "three queues": 3, "queues for copies": (2, 2)}


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("queues", TIMELINES)
@settings(max_examples=6)
@given(program=programs())
def test_nothing_races(queues: str, staging: bool, program: list[Step]) -> None:
    with traced() as trace, open_runtime(timelines=TIMELINES[queues], staging=staging) as runtime:
        check(Machine(runtime), program)
    assert not races(trace.history)
    assert not superfluous(trace.history)


def test_the_first_task_of_a_run_that_has_to_show_what_it_takes_needs_no_barrier_by_itself() -> None:
    with traced() as trace, open_runtime(timelines=1, submit_limit_s=0.5) as runtime:
        machine = Machine(runtime)
        with runtime.record() as graph:
            machine.scale(machine.arrays[0], 2, 1)
        graph.run()
    assert not superfluous(trace.history)


def without_waits(self: Transfers, buffer: Any, offset: int, nbytes: int, **_: Any) -> Any:
    return host_view(buffer, offset, nbytes)


@pytest.mark.parametrize(
    ("timelines", "owner", "method", "instead"),
    [
        (1, Timeline, "order_after", lambda *_: None),
        (3, CommandQueue, "wait_for", lambda *_: None),
        (1, Transfers, "mapped", without_waits),
    ],
    ids=["barriers", "semaphores", "waits"],
)
def test_the_trace_sees_what_is_left_out(timelines: int, owner: type, method: str, instead: Callable[..., Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VKCOMPUTE_VALIDATION", "off")  # or it would be the first to say so
        patch.setattr(owner, method, instead)
        with traced() as trace, open_runtime(timelines=timelines, staging=False) as runtime:
            machine = Machine(runtime)
            a, b, c, d = machine.arrays
            for queue, out in enumerate((c, d, c, d)):
                machine.add(a, b, out, 1, queue=queue % timelines)
                machine.add(out, out, a, 1, queue=0)
            a.numpy()
    assert races(trace.history)


def test_the_memory_of_a_freed_result_is_used_in_queue_order() -> None:
    """The device has not run the tasks that wrote and read it; a result of another size gets memory of its own."""
    with traced() as trace, open_runtime(queues=1, staging=False) as runtime:
        machine = Machine(runtime)
        a, b, *_ = machine.arrays
        a.write(np.arange(a.size, dtype=np.int32))
        places = []
        for _ in range(6):
            result = temporary(runtime, a.shape, a.dtype)
            other = temporary(runtime, (3 * a.size,), a.dtype)
            machine.add(a, b, result, 2)
            machine.add(result, a, other[: a.size], 1)
            places.append((result.launch_key, other.launch_key))
            del result, other
        last = temporary(runtime, a.shape, a.dtype)
        machine.add(a, b, last, 2)
        assert {last.launch_key} == {one for one, _ in places}
        assert len(set(places)) == 1
        np.testing.assert_array_equal(last.numpy(), np.arange(a.size) + 2 * b.numpy())
    assert not races(trace.history)
    assert not superfluous(trace.history)


def test_with_several_queues_the_memory_of_freed_results_stays_on_its_queue() -> None:
    """Results of a chain take the same range, and keep the chain there; what another queue still uses is not taken."""
    with open_runtime(timelines=3) as runtime:
        a, kernel = runtime.full(100, 1.0), runtime.kernel(MULTIPLY)
        places, queues = set(), set()
        for _ in range(6):
            result = temporary(runtime, a.shape, a.dtype)
            places.add(result.launch_key)
            queues |= {kernel(a, a, result).queue, kernel(result, a, a).queue}
            del result
        assert (len(places), len(queues)) == (1, 1)
        elsewhere = temporary(runtime, a.shape, a.dtype)
        place = elsewhere.launch_key
        kernel(a, a, elsewhere, queue=1)
        del elsewhere
        kernel(a, a, runtime.empty(100), queue=2)
        assert temporary(runtime, a.shape, a.dtype).launch_key != place
        assert a.numpy().tolist() == [1] * 100


def test_memory_that_the_device_still_uses_is_not_taken_for_data_of_the_host() -> None:
    with open_runtime(timelines=1, staging=False) as runtime:
        machine = Machine(runtime)
        a, b, *_ = machine.arrays
        result = temporary(runtime, a.shape, a.dtype)
        machine.add(a, b, result, 2)
        place = result.launch_key
        del result
        assert runtime.array(a.numpy()).launch_key != place


def test_a_failure_is_not_one_of_the_next_owner_of_the_memory() -> None:
    """A kernel that reads its result, too, reads nothing of the failed task."""
    with open_runtime(queues=1, staging=False) as runtime:
        machine = Machine(runtime)
        a, *_ = machine.arrays
        failed = temporary(runtime, a.shape, a.dtype)
        place = failed.launch_key
        failed.copy_from(a)
        queue = runtime.scheduler.queues[0]
        queue.fail(ValueError("this task"), queue.task)  # as a completion callback does
        with pytest.raises(ValueError, match="this task"):
            failed.numpy()
        del failed
        result = temporary(runtime, a.shape, a.dtype)
        assert result.launch_key == place
        assert not result.buffer.history.written
        machine.scale(result, 0, 7)
        assert (result.numpy() == 7).all()
