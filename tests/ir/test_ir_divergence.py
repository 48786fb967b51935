"""No barrier is taken for one that all invocations of a workgroup come to, if in a random program they do not."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

from vkcompute import ir
from vkcompute.ir.function import Region, walk

GROUP = 8


def inserted(function: ir.Function, region: Region, at: int) -> tuple[ir.Builder, list[ir.function.Op]]:
    """A builder in the middle of a region, and what is to come after."""
    builder, rest = ir.Builder(function), region.ops[at:]
    builder.rewind((region, at))
    return builder, rest


def of_groups(function: ir.Function, data: st.DataObject) -> None:
    """Computes some of it from the group's id, where it was from the invocation's: but not where that stores."""
    me, base = function.body.ops[:2]
    builder, rest = inserted(function, function.body, 2)
    group = builder.builtin("group_id")
    function.body.ops += rest
    for op in walk(function.body):
        if op is not base and me in op.args and data.draw(st.integers(0, 3)):
            op.args = tuple(group if value is me else value for value in op.args)


@pytest.mark.pure
@given(function=functions(), data=st.data())
def test_all_invocations_come_to_the_barriers_that_are_let_pass(function: ir.Function, data: st.DataObject) -> None:
    function.local_size = (GROUP, 1, 1)
    of_groups(function, data)
    regions = [region for op in walk(function.body) for region in op.regions if region.end()]
    region = data.draw(st.sampled_from([function.body, *regions]))
    at = data.draw(st.integers(3 if region is function.body else 0, len(region.ops) - bool(region.end())))
    builder, rest = inserted(function, region, at)
    assume(builder.reachable)
    builder.barrier()
    region.ops += rest
    ir.verify(function)
    if ir.divergent_barrier(function) is not None:
        return
    counts = function.buffer("counts", ir.INT32)
    builder, rest = inserted(function, region, at)
    me = builder.builtin("global_id")
    builder.store(counts, me, builder.binary("add", builder.load(counts, me), builder.const(1, ir.INT32)))
    region.ops += rest[1:]
    arrays = {name: np.zeros(n, np.int32) for name, n in (("out", N_INVOCATIONS * SLOTS), ("counts", N_INVOCATIONS))}
    arrays["src"] = np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
    interpreter.run(function, arrays, N_INVOCATIONS, {"bias": data.draw(st.integers(-3, 3))})
    came = arrays["counts"].reshape(-1, GROUP)
    assert (came == came[:, :1]).all(), f"{came}\n{ir.text(function)}"
