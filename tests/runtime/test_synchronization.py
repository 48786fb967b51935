"""Whatever touches the same bytes is put in order by barriers and semaphores, not by the driver's habit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from machine import Machine, Step, check, programs
from sync_trace import traced

import vkcompute as vc
from vkcompute.core.device import QueuePlan
from vkcompute.runtime.lane import Lane, Strand
from vkcompute.runtime.transfer import Transfers, host_view

PLANS = {
    "one queue": ("compute",),
    "three queues": ("compute", "compute", "compute"),
    "queues for copies": ("compute", "transfer", "compute", "transfer"),
}


def planned(roles: tuple[str, ...], staging: bool) -> vc.Runtime:
    """A runtime with a timeline for each of `roles`, whatever queues the device has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueuePlan, "of", lambda *_: QueuePlan(tuple((0, 0, role) for role in roles)))
        return vc.Runtime(staging=staging)


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("plan", PLANS)
@settings(max_examples=6)
@given(program=programs())
def test_nothing_races(plan: str, staging: bool, program: list[Step]) -> None:
    with traced() as trace, planned(PLANS[plan], staging) as runtime:
        check(Machine(runtime), program)
    assert trace.conflicts() == []


def without_waits(self: Transfers, buffer: Any, offset: int, nbytes: int, **_: Any) -> Any:
    return host_view(buffer, offset, nbytes)


@pytest.mark.parametrize(
    ("plan", "owner", "method", "instead"),
    [
        ("one queue", Strand, "order", lambda *_: None),
        ("three queues", Lane, "wait_for", lambda *_: None),
        ("one queue", Transfers, "mapped", without_waits),
    ],
    ids=["barriers", "semaphores", "waits"],
)
def test_the_trace_sees_what_is_left_out(plan: str, owner: type, method: str, instead: Callable[..., Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VKCOMPUTE_VALIDATION", "off")  # or it would be the first to say so
        patch.setattr(owner, method, instead)
        with traced() as trace, planned(PLANS[plan], staging=False) as runtime:
            machine = Machine(runtime)
            a, b, c, d = machine.tensors
            for queue, out in enumerate((c, d, c, d)):
                machine.add(a, b, out, 1, queue=queue % len(PLANS[plan]))
                machine.add(out, out, a, 1, queue=0)
            a.numpy()
    assert trace.conflicts()
