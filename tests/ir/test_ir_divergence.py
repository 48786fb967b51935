"""All invocations of a workgroup reach each barrier of random programs that is accepted, with the same results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import interpreter
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import N_INVOCATIONS, N_SOURCE, SLOTS, functions

from vkcompute import ir
from vkcompute.ir.function import Op, Region, walk

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


def is_uniform(function: ir.Function) -> bool:
    """Whether its barriers are, apart from invocations that returned."""
    return ir.Divergence(function).level == 0


def barrier_at(function: ir.Function, region: Region, at: int) -> bool:
    """Puts a barrier there, if it would be reached by all."""
    with inserting(function, region, at) as builder:
        builder.barrier()
    uniform = is_uniform(function)
    if not uniform:
        del region.ops[at]
    return uniform


def with_barriers(function: ir.Function, data: st.DataObject) -> None:
    """Puts barriers at some places where they are accepted, the last ones first."""
    regions = [function.body, *(region for op in walk(function.body) for region in op.regions)]
    places = [(region, at) for region in regions for at, op in enumerate(region.ops) if op.code != "unreachable"]
    places = [place for place in places if place[0] is not function.body or place[1] >= N_IDS]
    chosen = data.draw(st.sets(st.sampled_from(range(len(places))), min_size=1, max_size=4)) if places else set()
    chosen |= {number for number, (region, _) in enumerate(places) if region is function.body and number % 4 == 3}
    for place in sorted(chosen, reverse=True):
        barrier_at(function, *places[place])


@pytest.mark.pure
@given(function=functions(), data=st.data())
def test_all_invocations_reach_the_barriers_also_those_that_returned(
    function: ir.Function, data: st.DataObject
) -> None:
    function.local_size = (GROUP, 1, 1)
    mixed(function, data)
    with_barriers(function, data)
    pushes, lengths = {"bias": data.draw(st.integers(-3, 3))}, {"src": N_SOURCE, "out": N_INVOCATIONS * SLOTS}

    def run() -> tuple[dict[str, np.ndarray[Any, Any]], list[Counter[Op]]]:
        arrays = {name: np.zeros(length, np.int32) for name, length in lengths.items()}
        arrays["src"] += np.arange(N_SOURCE, dtype=np.int32) * 40503 - 7
        return arrays, interpreter.barriers_of(function, arrays, N_INVOCATIONS, pushes)

    expected, _ = run()
    before = ir.text(function)
    ir.move_returns_out(function)
    assert is_uniform(function), before
    function = ir.predicate(function, ir.Divergence(function))
    ir.verify(function)
    arrays, reached = run()
    assert np.array_equal(arrays["out"], expected["out"]), f"{before}\n{ir.text(function)}"
    for group in (reached[:GROUP], reached[GROUP:]):
        assert all(counts == group[0] for counts in group), f"{before}\n{ir.text(function)}"
