"""Random programs give what numpy gives, one step after the other, however the work is queued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from machine import Machine, Step, check, programs
from runtimes import open_runtime

import vkcompute as vc

pytestmark = pytest.mark.queues

_OPTIONS: dict[str, dict[str, Any]] = {
    "one timeline": {},
    "three timelines": {"timelines": 3},
    "timelines for copies": {"timelines": (2, 2)},
    "launches divided": {"timelines": 2, "submit_limit_s": 1e-9},
}


@pytest.fixture(scope="module", params=_OPTIONS.values(), ids=_OPTIONS.keys())
def machine(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[Machine]:
    with open_runtime(staging=not rt.device.memory.unified, **request.param) as runtime:
        yield Machine(runtime)


@given(program=programs(lazy=True))
@settings(max_examples=10)
def test_random_program_in_a_profile(machine: Machine, program: list[Step]) -> None:
    """Measured, a graph's tasks are launched one by one: with the same results."""
    with machine.runtime.profile() as profile:
        check(machine, program)
    assert profile.tasks == sorted(profile.tasks, key=lambda task: task.start_ns)
    assert all(task.start_ns <= task.stop_ns for task in profile.tasks)


@given(program=programs(lazy=True))
def test_random_program(machine: Machine, program: list[Step]) -> None:
    check(machine, program)
