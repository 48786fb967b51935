"""Ctrl-C at any moment of a launch that reports: what it got wrong never passes for right, and all goes on."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import interrupted, watched
from runtimes import open_runtime

import vkcompute as vc

pytestmark = [
    pytest.mark.usefixtures("clean_handles"),
    pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer of its own is at work"),
]
LENGTH = 64
STRIDE = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 9  # of the moments at which it comes


@vc.kernel(check_bounds=True)
def move(source, target, shift):
    i = vc.global_id(0)
    if i < target.size:
        target[i] = source[i + shift]
        if i == 0:
            print("moved")


def held(array: vc.Array) -> set[int | str]:
    """The values of an array, or that the work that wrote it failed."""
    try:
        return set(array.numpy().tolist())
    except vc.VkComputeError as error:
        return {"failed" if "is outside of" in str(error) or "interrupted" in str(error) else repr(error)}


USES: dict[str, Callable[[Any], object]] = {
    "result": lambda w: move(w.a, w.b, 1).result(),
    "wait": lambda w: (move(w.a, w.b, 1), w.runtime.wait()),
    "numpy": lambda w: (move(w.a, w.b, 1), w.b.numpy()),
    "next launch": lambda w: (move(w.a, w.b, 1), w.runtime.flush(), move(w.b, w.c, 0).done()),
    "run": lambda w: w.graph.run(),
}


class World:
    """A runtime with arrays, and a graph of a launch that fails."""

    def __init__(self, *, staging: bool) -> None:
        self.runtime = open_runtime(timelines=2, staging=staging)
        self.a, self.b, self.c = (self.runtime.zeros(LENGTH, np.int32) for _ in range(3))
        with self.runtime.record() as self.graph:
            move(self.a, self.b, 1)
            move(self.b, self.c, 0)

    def reset(self) -> None:
        self.a.fill(7)
        self.b.fill(1)
        self.c.fill(2)
        with contextlib.suppress(vc.KernelError):
            self.runtime.wait()

    def check(self) -> None:
        assert held(self.b) in ({1}, {"failed"})
        assert held(self.c) in ({1}, {2}, {"failed"})
        move(self.a, self.b, 0)
        move(self.b, self.c, 0).result()
        assert held(self.c) == held(self.b) == {7}
        assert not self.runtime.scheduler.callbacks


@pytest.mark.rotates
@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("use", USES)
def test_ctrl_c_at_any_moment(use: str, staging: bool) -> None:
    told = io.StringIO()
    with watched(), contextlib.redirect_stdout(told):
        world = World(staging=staging)
        for after in itertools.count(0, STRIDE):
            world.reset()
            with interrupted(after) as come, contextlib.suppress(vc.KernelError):
                USES[use](world)
            world.check()
            if not come:
                break
        world.runtime.close()
        world.__dict__.clear()
    assert after > 100
    assert set(told.getvalue().splitlines()) == {"moved"}
