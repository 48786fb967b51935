"""Random graphs give what numpy gives, and whatever they touch is put in order by barriers and semaphores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from graph_machine import GraphMachine, check, programs
from happens_before import races
from hypothesis import given, settings
from machine import Step
from sync_trace import traced

import vkcompute as vc

TIMELINES = {"one queue": 1, "queues for copies": (2, 1)}


@pytest.fixture(scope="module", params=TIMELINES.values(), ids=TIMELINES)
def machine(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[GraphMachine]:
    staging = not rt.device.memory.unified
    with vc.Runtime(timelines=request.param, staging=staging) as runtime:
        yield GraphMachine(runtime)


@given(program=programs())
def test_random_graphs(machine: GraphMachine, program: list[Step]) -> None:
    check(machine, program)


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("queues", TIMELINES)
@settings(max_examples=8)
@given(program=programs())
def test_no_graph_races(queues: str, staging: bool, program: list[Step]) -> None:
    with traced() as trace, vc.Runtime(timelines=TIMELINES[queues], staging=staging) as runtime:
        check(GraphMachine(runtime), program)
    assert not races(trace.history)
