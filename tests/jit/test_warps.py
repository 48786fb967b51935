"""Warps of 32 invocations on every device, against numpy and the simulator's model of a warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import module

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.errors import KernelError
from vkcompute.frontend.source import definition_of
from vkcompute.jit.compilation.build import specialize

WARP = 32


@vc.kernel
def scanned(x, out, n):  # an inclusive scan of each warp, as in CUDA's examples
    i = vc.global_id(0)
    if i >= n:
        return
    value, lane = x[i], vc.warp.local_id()
    step = 1
    while step < 32:
        below = vc.warp.shuffle_up(value, step)
        if lane >= step:
            value += below
        step *= 2
    out[i] = value


@vc.kernel
def block_sum(x, out, n):  # shared memory first, the last 32 sums by shuffles of one warp
    i, here = vc.global_id(0), vc.local_id(0)
    tile = vc.shared(vc.local_size(0), vc.float32)
    tile[here] = 0
    vc.barrier()
    if i >= n:
        return
    tile[here] = x[i]
    vc.barrier()
    step = vc.local_size(0) // 2
    while step >= 32:
        if here < step:
            tile[here] += tile[here + step]
        vc.barrier()
        step //= 2
    if here < 32:
        total = tile[here]
        for k in range(5):
            total += vc.warp.shuffle_down(total, 16 >> k)
        if here == 0:
            out[vc.group_id(0)] = total


@vc.kernel
def voted(x, out):
    i, warp = vc.global_id(0), vc.warp
    if x[i] == 0:
        return
    n = vc.int32(0)
    while n < x[i]:  # lanes leave at different times
        out[i, 0] += vc.popcount(warp.active_mask())
        n += 1
    if x[i] % 2 == 1:
        out[i, 1] = warp.ballot(x[i] > 2)
        out[i, 2] = warp.match_any(x[i])
        out[i, 3] = 2 * warp.any(x[i] == 5) + warp.all(x[i] < 5) + 4 * warp.elect() + 8 * warp.match_all(x[i])
    else:
        out[i, 1] = warp.ballot(x[i] > 2, 0x0F0F0F0F)
        out[i, 2] = warp.shuffle_xor(x[i], 0) + warp.broadcast(x[i], warp.local_id())


@vc.kernel
def lockstep(x, out):
    tile = vc.shared(64, vc.int32)
    here = vc.local_id(0)
    tile[here] = x[here]
    vc.warp.barrier()
    out[here] = tile[here ^ 31]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kernel", "signature", "n_barriers"),
    [
        (scanned, (("i", 1), ("i", 1), int), 2),
        (block_sum, (("f", 1), ("f", 1), int), 2),
        (voted, (("i", 1), ("i", 2)), 2),
        (lockstep, (("i", 1), ("i", 1)), 1),
    ],
)
@pytest.mark.parametrize("recomputes", [False, True])
def test_modules_depend_on_no_subgroup(kernel: Any, signature: Any, n_barriers: int, *, recomputes: bool) -> None:
    """So results are the same where a subgroup has 4, 32, 64 or 128 lanes, in any order.

    Where a driver computes values anew behind barriers, each value passes through a shuffle from its own lane.
    """
    options = CompileOptions((64, 1, 1), target=ir.Target(recomputes_across_barriers=recomputes))
    compiled = specialize(definition_of(kernel.__wrapped__), signature, options)
    words = np.frombuffer(compiled.spirv, np.uint32)
    assert np.count_nonzero(words == (4 << 16 | 224)) >= n_barriers  # OpControlBarrier
    groups = {name for name in compiled.module.interface.capabilities if "Group" in name}
    assert groups <= ({"GroupNonUniform", "GroupNonUniformShuffle"} if recomputes else set())


@pytest.mark.parametrize(("group", "n"), [(64, 256), (96, 250), (40, 200)])
def test_scans_of_warps(gpu: vc.Runtime, group: int, n: int) -> None:
    x = np.arange(256, dtype=np.int32) % 11
    out = gpu.zeros(256, np.int32)
    scanned[-(-n // group), group](gpu.array(x), out, n)
    for start in range(0, n, group):
        for first in range(start, min(start + group, n), WARP):
            stop = min(first + WARP, start + group, n)
            assert np.array_equal(out.numpy()[first:stop], np.cumsum(x[first:stop])), (start, first)


@pytest.mark.parametrize("n", [32, 100, 128, 200, 256])
def test_sums_of_blocks(gpu: vc.Runtime, n: int) -> None:
    x = np.arange(256, dtype=np.float32)
    out = gpu.full(2, -1)
    block_sum[2, 128](gpu.array(x), out, n)
    sums = np.where(np.arange(256) < n, x, 0).reshape(2, 128).sum(1)
    expected = np.where([True, n > 128], sums, -1)
    assert np.array_equal(out.numpy(), expected)


def model(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `voted` computes for the lanes of one warp."""
    out = np.zeros((x.size, 4), np.uint32)
    lanes = np.arange(x.size)
    odd = x % 2 == 1
    bits = 1 << lanes.astype(np.uint64)
    for lane in lanes[x > 0]:
        out[lane, 0] = sum((x > n).sum() for n in range(x[lane]))
        if odd[lane]:
            out[lane, 1] = bits[odd & (x > 2)].sum()
            out[lane, 2] = bits[x == x[lane]].sum()
            first, same = lane == lanes[odd][0], np.all(x[odd] == x[lane])
            out[lane, 3] = 2 * np.any(x[odd] == 5) + np.all(x[odd] < 5) + 4 * first + 8 * same
        else:
            out[lane, 1] = bits[~odd & (x > 2)].sum() & 0x0F0F0F0F
            out[lane, 2] = 2 * x[lane]
    return out


def test_votes_of_the_lanes_that_reach_them(gpu: vc.Runtime) -> None:
    x = np.random.default_rng(5).integers(0, 7, 3 * 48).astype(np.int32)
    x[:16], x[48:80] = 3, 0
    out = gpu.zeros((x.size, 4), np.uint32)
    voted[3, 48](gpu.array(x), out)
    parts = [x[start : start + n] for group in range(0, x.size, 48) for start, n in ((group, 32), (group + 32, 16))]
    assert np.array_equal(out.numpy(), np.concatenate([model(part) for part in parts]))


def test_barriers_of_warps(gpu: vc.Runtime) -> None:
    x, out = np.arange(64, dtype=np.int32), gpu.zeros(64, np.int32)
    lockstep[1, 64](gpu.array(x), out)
    assert np.array_equal(out.numpy(), x ^ 31)


@pytest.mark.pure
@vc.kernel
def volatile_sum(x, out, n):  # the shape of older CUDA reductions, whose last steps have no barrier
    tile = vc.shared(128, vc.float32, volatile=True)
    i, here = vc.global_id(0), vc.local_id(0)
    tile[here] = x[i] if i < n else 0.0
    vc.barrier()
    if here < 64:
        tile[here] += tile[here + 64]
    vc.barrier()
    if here < 32:
        tile[here] += tile[here + 32]
        if n > 3:
            tile[here] += tile[here + 16]
        for k in range(4):
            tile[here] += tile[here + (8 >> k)]
    if here == 0:
        out[vc.group_id(0)] = tile[0]


@pytest.mark.parametrize("n", [7, 200, 256])
def test_volatile_shared_arrays_are_in_lockstep(gpu: vc.Runtime, n: int) -> None:
    x, out = np.arange(256, dtype=np.float32), gpu.zeros(2)
    volatile_sum[2, 128](gpu.array(x), out, n)
    assert np.array_equal(out.numpy(), np.where(np.arange(256) < n, x, 0).reshape(2, 128).sum(1))


def test_the_simulator_finds_code_that_relies_on_lockstep() -> None:
    text = """
import vkcompute as vc
def kernel(out):
    tile = vc.shared(64, vc.int32)
    here = vc.local_id(0)
    tile[here] = here
    {}
    if here < 32:
        out[here] = tile[here ^ 1]
"""
    for line, races in (("vc.warp.barrier()", False), ("vc.barrier()", False), ("pass", True)):
        kernel = vc.kernel(module(text.format(line)).kernel)
        if races:
            with pytest.raises(KernelError, match=r"tile\[1\] is read, and no invocation|a race"):
                kernel.simulate[1, 64](np.zeros(64, np.int32))
        else:
            kernel.simulate[1, 64](np.zeros(64, np.int32))


STATEMENTS = [
    "v += vc.warp.shuffle(v, {lane})",
    "v ^= vc.warp.shuffle_xor(v, 0)",
    "v += vc.int32(vc.warp.ballot(v % 3 == 1) & 255)",
    "v += vc.popcount(vc.warp.match_any(v % 4))",
    "v = v * 3 + vc.warp.any(v % 5 == 0)",
    "out[i] += vc.int32(vc.warp.active_mask() & 1023)",
    "if x[i] == {n}: return",
]
CONTROL = ["if v % {m} == 1:", "if here < {here}:", "for k in range(v % 4):", "if n > 1:"]


@st.composite
def bodies(draw: st.DrawFn, depth: int = 0) -> list[str]:
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        numbers = {"lane": "vc.warp.local_id()", "n": draw(st.integers(0, 9)), "m": draw(st.integers(2, 4))}
        numbers["here"] = draw(st.sampled_from([20, 32, 40]))
        if depth < 2 and draw(st.booleans()):
            head = draw(st.sampled_from(CONTROL))
            lines.append(head.format(**numbers))
            inner = draw(bodies(depth + 1))
            lines += [f"    {line}" for line in inner]
        else:
            lines.append(draw(st.sampled_from(STATEMENTS)).format(**numbers))
    return lines


@pytest.mark.device_only
@settings(max_examples=8, deadline=None)
@given(lines=bodies())
def test_random_control_flow_around_warps(gpu: vc.Runtime, lines: list[str]) -> None:
    head = (
        "import vkcompute as vc\ndef kernel(x, out, n):\n    i, here = vc.global_id(0), vc.local_id(0)\n    v = x[i]\n"
    )
    text = head + "".join(f"    {line}\n" for line in [*lines, "out[i] += v"])
    kernel = vc.kernel(module(text).kernel)
    x = np.random.default_rng(1).integers(0, 50, 96).astype(np.int32)
    expected, out = np.zeros(96, np.int32), gpu.zeros(96, np.int32)
    kernel.simulate[2, 48](x.copy(), expected, 2)
    kernel[2, 48](gpu.array(x), out, 2)
    assert np.array_equal(out.numpy(), expected), text
