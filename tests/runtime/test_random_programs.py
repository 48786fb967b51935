"""Random programs give what numpy gives, one step after the other, however the work is queued."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from machine import Machine, Step, check, programs

import vkcompute as vc
from vkcompute.core.device import QueuePlan


@pytest.fixture(scope="module", params=[1, 3], ids=["one timeline", "three timelines"])
def machine(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[Machine]:
    staging = not rt.device.memory.unified
    with vc.Runtime(timelines=request.param, staging=staging) as runtime:
        yield Machine(runtime)


@given(program=programs())
def test_random_program(machine: Machine, program: list[Step]) -> None:
    check(machine, program)


@pytest.fixture(scope="module")
def copying_machine() -> Iterator[Machine]:
    """Two compute queues and two that may only copy, whatever the device has."""
    plan = QueuePlan(((0, 0, "compute"), (0, 0, "transfer"), (0, 0, "compute"), (0, 0, "transfer")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueuePlan, "of", lambda *_: plan)
        runtime = vc.Runtime(staging=True)
    with runtime:
        yield Machine(runtime)


@given(program=programs())
def test_random_program_with_queues_for_copies(copying_machine: Machine, program: list[Step]) -> None:
    check(copying_machine, program)
