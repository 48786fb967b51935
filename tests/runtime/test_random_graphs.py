"""Random graphs give what numpy gives, and whatever they touch is put in order by barriers and semaphores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from graph_machine import GraphMachine, check, programs
from happens_before import races
from hypothesis import given, settings
from machine import Step
from runtimes import open_runtime
from sync_trace import traced

import vkcompute as vc

pytestmark = pytest.mark.queues

OPTIONS: dict[str, dict[str, Any]] = {
    "one queue": {"timelines": 1},
    "queues for copies": {"timelines": (2, 1)},
    "each launch in parts": {"timelines": (2, 1), "submit_limit_s": 1e-9},
    "some runs in parts": {"timelines": 1, "submit_limit_s": 2e-3},
}


@pytest.fixture(scope="module", params=OPTIONS.values(), ids=OPTIONS)
def machine(request: pytest.FixtureRequest, rt: vc.Runtime) -> Iterator[GraphMachine]:
    staging = not rt.device.memory.unified
    with open_runtime(staging=staging, **request.param) as runtime:
        yield GraphMachine(runtime)


@given(program=programs(lazy=True))
def test_random_graphs(machine: GraphMachine, program: list[Step]) -> None:
    check(machine, program)


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=8)
@given(program=programs())
def test_no_graph_races(options: str, staging: bool, program: list[Step]) -> None:
    with traced() as trace, open_runtime(staging=staging, **OPTIONS[options]) as runtime:
        runtime.device.memory.block_bytes = 1 << 20  # SwiftShader writes all of a new block
        check(GraphMachine(runtime), program)
    assert not races(trace.history)
