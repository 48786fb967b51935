"""What is kept of accesses finds a race exactly where comparing each with all before it does; and nothing else runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import module

import vkcompute as vc
from vkcompute.errors import KernelError
from vkcompute.jit.simulator.memory import ATOMIC, READ, WRITE, Access, ElementAccesses

# (workgroup, phase, invocation, kind) of accesses to one element; sorted, they come as a simulation has them
_ACCESSES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.sampled_from([READ, READ, WRITE, ATOMIC])),
    max_size=9,
)


def conflict(one: Any, other: Any) -> bool:
    """Whether two accesses race, by the definition."""
    (group, phase, invocation, kind), (its_group, its_phase, its_invocation, its_kind) = one, other
    if (group, invocation) == (its_group, its_invocation) or {kind, its_kind} in ({READ}, {ATOMIC}):
        return False
    return group != its_group or phase == its_phase


@pytest.mark.pure
@given(accesses=_ACCESSES)
def test_few_accesses_stand_for_all(accesses: list[tuple[int, int, int, int]]) -> None:
    accesses = sorted(accesses, key=lambda each: each[:3])
    touched, groups = ElementAccesses(), [SimpleNamespace(synchronizes=False) for _ in range(3)]
    who = {(g, i): SimpleNamespace(group=groups[g], n_fences=0) for g in range(3) for i in range(3)}
    for n, (group, phase, invocation, kind) in enumerate(accesses):
        access: Any = Access(who[group, invocation], phase, n, 1)  # type: ignore[arg-type]
        result = touched.add(8, kind, access)
        expected = [m for m in range(n) if conflict(accesses[n], accesses[m])]
        assert (result is not None) == bool(expected)
        if result is not None:
            assert (result[1].call in expected, result[0]) == (True, accesses[result[1].call][3])  # type: ignore[index]
            break


_PLACES = ["here", "3 - here", "here ^ 1", "0", "here // 2", "(here + 1) % 4", "n & 3"]
_STATEMENTS = [
    "tile[{}] = n", "n += tile[{}]", "tile[{}] += 1", "vc.atomic.add(tile, {}, 2)",
    "n ^= vc.atomic.max(tile, {}, here)", "out[{} + 4 * group] = n + 1", "n += out[{} + 4 * group]",
    "vc.barrier()", "vc.barrier()", "vc.barrier()", "if here < 2: n += 3", "if n > 5: tile[{}] = 1",
    "vc.atomic.add(sums, {}, 1)", "n += x[{}]",
]  # fmt: skip


@given(data=st.data())
def test_what_has_no_race_is_the_same_in_any_order(gpu: vc.Runtime, data: st.DataObject) -> None:
    lines = [
        data.draw(st.sampled_from(_STATEMENTS)).format(data.draw(st.sampled_from(_PLACES)))
        for _ in range(data.draw(st.integers(2, 8)))
    ]
    text = ["import vkcompute as vc", "def kernel(x, out, sums):", "    here, group = vc.local_id(0), vc.group_id(0)"]
    text += ["    tile = vc.shared(4, vc.int32)", "    n = here", "    tile[here] = here", "    vc.barrier()"]
    text += [f"    {line}" for line in [*lines, "vc.barrier()", "out[here + 4 * group] = n + tile[here] * 100"]]
    kernel = vc.kernel(module("\n".join(text) + "\n").kernel)
    x, out, sums = np.arange(4, dtype=np.int32), np.zeros(8, np.int32), np.zeros(4, np.int32)
    arrays = [gpu.array(host) for host in (x, out, sums)]
    try:
        kernel.simulate[2, 4](x, out, sums)
    except KernelError as error:
        if "a race" not in str(error):
            raise
        return
    if not any("n ^= vc.atomic" in line for line in lines):  # what these give depends on the order
        kernel[2, 4](*arrays)
        assert np.array_equal(arrays[1].numpy(), out)
        assert np.array_equal(arrays[2].numpy(), sums)
