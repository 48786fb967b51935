"""Random programs give what numpy gives, one step after the other, however the work is queued."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from machine import Machine, Step, check, programs

import vkcompute as vc


@pytest.fixture(scope="module", params=[1, 3, (2, 2)], ids=["one timeline", "three timelines", "timelines for copies"])
def machine(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[Machine]:
    staging = not rt.device.memory.unified
    with vc.Runtime(timelines=request.param, staging=staging) as runtime:
        yield Machine(runtime)


@given(program=programs())
@settings(max_examples=10)
def test_random_program_in_a_profile(machine: Machine, program: list[Step]) -> None:
    """Measured, a graph's tasks are launched one by one: with the same results."""
    with machine.runtime.profile() as profile:
        check(machine, program)
    assert profile.tasks == sorted(profile.tasks, key=lambda task: task.start_ns)
    assert all(task.start_ns <= task.stop_ns for task in profile.tasks)


@given(program=programs())
def test_random_program(machine: Machine, program: list[Step]) -> None:
    check(machine, program)
