"""No barrier is taken for one that all invocations of a workgroup come to, if in a random program they do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import interpreter
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

from vkcompute import ir
from vkcompute.ir.function import Region, walk

GROUP = 8
N_IDS = 7  # operations that a function begins with, on which the others depend


@contextmanager
def inserting(function: ir.Function, region: Region, at: int) -> Iterator[ir.Builder]:
    """A builder in the middle of a region."""
    builder, rest = ir.Builder(function), region.ops[at:]
    builder.rewind((region, at))
    yield builder
    region.ops += rest


def mixed(function: ir.Function, data: st.DataObject) -> None:
    """Computes some of it from the group's id, where it was from the invocation's (but not where that stores), and lets
    branches depend on either.
    """
    me = function.body.ops[0]
    with inserting(function, function.body, 2) as b:
        group = b.builtin("group_id")
        odd, late = (
            b.compute("eq", b.compute("and", value, b.const(1, ir.UINT32)), b.const(1, ir.UINT32))
            for value in (me, group)
        )
    for op in walk(function.body):
        if op.code == "if" and isinstance(op.args[0], ir.Constant):
            op.args = (data.draw(st.sampled_from((odd, late, *op.args))),)
        elif op not in function.body.ops[:N_IDS] and me in op.args and data.draw(st.integers(0, 3)):
            op.args = tuple(group if value is me else value for value in op.args)


def let_pass(function: ir.Function, region: Region, at: int) -> bool:
    """Whether a barrier there would be."""
    with inserting(function, region, at) as builder:
        builder.barrier()
    found = ir.divergent_barrier(function)
    del region.ops[at]
    return found is None


@pytest.mark.pure
@given(function=functions(), data=st.data())
def test_all_invocations_come_to_the_barriers_that_are_let_pass(function: ir.Function, data: st.DataObject) -> None:
    function.local_size = (GROUP, 1, 1)
    mixed(function, data)
    me, *_ = function.body.ops
    regions = [function.body, *(region for op in walk(function.body) for region in op.regions)]
    places = [(region, at) for region in regions for at, op in enumerate(region.ops) if op.code != "unreachable"]
    places = [place for place in places if place[0] is not function.body or place[1] >= N_IDS]
    places = [place for place in places if let_pass(function, *place)]
    counts, n = function.buffer("counts", ir.INT32), max(len(places), 1)
    for number, (region, at) in reversed([*enumerate(places)]):  # from the end, so that places stay where they are
        with inserting(function, region, at) as b:
            mine = b.compute("add", me, b.const(number * N_INVOCATIONS, ir.UINT32))
            b.store(counts, mine, b.compute("add", b.load(counts, mine), b.const(1, ir.INT32)))
    lengths = {"src": N_SOURCE, "out": N_INVOCATIONS * SLOTS, "counts": N_INVOCATIONS * n}
    arrays = {name: np.zeros(length, np.int32) for name, length in lengths.items()}
    arrays["src"] += np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
    interpreter.run(function, arrays, N_INVOCATIONS, {"bias": data.draw(st.integers(-3, 3))})
    came = arrays["counts"].reshape(n, -1, GROUP)
    assert (came == came[..., :1]).all(), f"{came}\n{ir.text(function)}"
