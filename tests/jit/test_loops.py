"""Loops that a driver would end: right results from parts of launches, or an error. The limit is lowered, or passed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "ir"))
import interpreter
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import check, module
from random_kernels import N, Program

import vkcompute as vc
from vkcompute import ir
from vkcompute.core.quirks import quirks_of
from vkcompute.jit import loops
from vkcompute.jit.compile import optimized
from vkcompute.jit.source import read

LONG = 70_000
Limit = Callable[[int], None]


def limit_to(gpu: vc.Runtime, patch: pytest.MonkeyPatch, n: int) -> None:
    """Takes the driver to end loops after `n` passes."""
    gpu.memo.clear()
    patch.setattr(loops, "quirks_of", lambda physical: replace(quirks_of(physical), max_loop_iterations=n))


@pytest.fixture
def limited(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Sets the passes after which loops are taken to end."""
    yield partial(limit_to, gpu, monkeypatch)
    gpu.memo.clear()


@vc.kernel
def count(out, n):
    i = vc.global_id(0)
    s = 0
    for k in range(n):
        s += k % 3 + i
    if i < out.size:
        out[i] = s


def counted(n: int, size: int) -> Any:
    return np.array([sum(k % 3 for k in range(n)) + i * n for i in range(size)], np.int32)


def test_seventy_thousand(gpu: vc.Runtime) -> None:
    out = gpu.zeros(20, np.int32)
    count(out, LONG)
    assert np.array_equal(out.numpy(), counted(LONG, 20))


def test_long_and_short_launches_take_turns(gpu: vc.Runtime) -> None:
    out = gpu.zeros(20, np.int32)
    for n in (3, LONG, 5, 5, LONG, 1000, 1100, 65_534, 65_535, 65_536):
        count(out, n)
        assert np.array_equal(out.numpy(), counted(n, 20))


@vc.vectorize
def steps(n):
    k = vc.uint32(0)
    while k * k != n:
        k += 1
    return k


def test_functions_of_elements(gpu: vc.Runtime) -> None:
    roots = np.array([0, 7, 65_000, LONG, 400], np.uint32)
    assert np.array_equal(steps(gpu.tensor(roots * roots)).numpy(), roots)


@vc.kernel(check_bounds=True)
def checked(x, out, n):
    s = 0
    for k in range(n):
        s += x[k]
        if k % 20_000 == 3:
            print(k, s)
    out[vc.global_id(0)] = s


def test_reports_come_from_all_parts(gpu: vc.Runtime, capfd: pytest.CaptureFixture[str]) -> None:
    x, out = gpu.full(LONG, 2, np.int32), gpu.zeros(1, np.int32)
    checked[1, 1](x, out, LONG)
    assert out.numpy().tolist() == [2 * LONG]
    assert capfd.readouterr().out.splitlines() == [f"{k} {2 * k + 2}" for k in (3, 20_003, 40_003, 60_003)]
    with pytest.raises(vc.KernelError, match=r"index \(?70000.* is outside of x"):
        checked[1, 1](x, out, LONG + 1).result()


def test_five_million(gpu: vc.Runtime) -> None:
    @vc.kernel
    def long(out, n):
        s = vc.uint32(vc.global_id(0))
        for _ in range(n):
            s = s * 1664525 + 1013904223
        out[vc.global_id(0)] = s

    n, out, expected = 5_000_000, gpu.zeros(4, np.uint32), np.arange(4, dtype=np.uint32)
    long[1, 4](out, n)
    factor, add = 1, 0
    for bit in bin(n)[2:]:  # the generator's own power: n steps are one of the same form
        factor, add = factor * factor % 2**32, (factor * add + add) % 2**32
        if bit == "1":
            factor, add = factor * 1664525 % 2**32, (1664525 * add + 1013904223) % 2**32
    assert np.array_equal(out.numpy(), expected * np.uint32(factor) + np.uint32(add))


def test_three_hundred_times_three_hundred_and_a_loop_after(gpu: vc.Runtime) -> None:
    @vc.kernel
    def nested(out, n):
        i = vc.global_id(0)
        s = 0
        for _ in range(n):
            for k in range(n):
                s += 1
        for k in range(7):
            out[i] += s + k

    out = gpu.zeros(10, np.int32)
    nested[1, 10](out, 300)
    assert out.numpy().tolist() == [7 * 90_000 + 21] * 10


def test_constant_ranges(gpu: vc.Runtime) -> None:
    @vc.kernel
    def nested(out):
        s = 0
        for _ in range(300):
            for k in range(300):
                s += k & 1
        out[vc.global_id(0)] = s

    out = gpu.zeros(3, np.int32)
    nested[1, 3](out)
    assert out.numpy().tolist() == [45_000] * 3


def test_a_chain_of_seventy_thousand(gpu: vc.Runtime) -> None:
    @vc.kernel
    def follow(following, out):
        i = vc.global_id(0)
        if i >= out.size:  # what lies behind the chain may lead anywhere
            return
        at, n = i, 0
        while following[at] != at:
            at = following[at]
            n += 1
        out[i] = n

    chain = gpu.tensor(np.r_[0, np.arange(LONG)].astype(np.int32))
    out = gpu.zeros(LONG + 1, np.int32)
    follow(chain, out)
    assert np.array_equal(out.numpy(), np.arange(LONG + 1))


def test_invocations_that_take_turns(gpu: vc.Runtime) -> None:
    """Each stays within the limit, and all that run in step together do not."""

    @vc.kernel
    def turns(out, n):
        i = vc.global_id(0)
        s = 0
        for k in range(8):
            j = 0
            while j < (n if k == i % 8 else 0):
                j += 1
                s += 1
        out[i] = s

    out = gpu.zeros(16, np.int32)
    turns[1, 16](out, 10_000)
    assert out.numpy().tolist() == [10_000] * 16


def test_effects_happen_once(gpu: vc.Runtime, limited: Limit) -> None:
    limited(7)

    @vc.kernel
    def effects(x, total, out):
        i = vc.global_id(0)
        vc.atomic_add(total, 0, 1)
        for k in range(i + 5):
            vc.atomic_add(total, 1, k)
            out[i] += x[(i + k) % 16]
            if out[i] % 11 == 3:
                break
        else_ = out[i] * 2
        vc.atomic_add(total, 2, 1)
        out[i] = else_

    x = np.random.default_rng(3).integers(0, 50, 16).astype(np.int32)
    total, out = gpu.zeros(3, np.int32), gpu.zeros(16, np.int32)
    effects[1, 16](gpu.tensor(x), total, out)
    expected, sums = np.zeros(16, np.int32), [16, 0, 16]
    for i in range(16):
        for k in range(i + 5):
            sums[1] += k
            expected[i] += x[(i + k) % 16]
            if expected[i] % 11 == 3:
                break
        expected[i] *= 2
    assert total.numpy().tolist() == sums
    assert np.array_equal(out.numpy(), expected)


@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000), limit=st.integers(2, 30))
def test_random_programs_in_parts(gpu: vc.Runtime, random: Random, seed: int, limit: int) -> None:
    kernel = vc.kernel(module(Program(random).text()).kernel)
    data = np.random.default_rng(seed)
    x = data.integers(-(2**31) + 1, 2**31, N).astype(np.int32)
    y = data.integers(0, 2**32, N).astype(np.uint32)
    z = (data.integers(-32, 33, N) * 0.25).astype(np.float32)
    out = np.full((N, 6), -7, np.int32), np.full(N, 7, np.uint32), np.full((N, 4), -7, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        limit_to(gpu, patch, limit)
        try:
            check(gpu, kernel, x, y, z, *out, local_size=(N, 1, 1), rtol=0, atol=0)
        except (OverflowError, pytest.skip.Exception):  # a Python int is beyond int32; 64 bits where there are none
            return


@pytest.mark.pure
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000))
def test_bounds_of_random_programs(random: Random, seed: int) -> None:
    """What `ir.most_passes` says of them is not less than what a driver that runs invocations in step does."""
    function = module(Program(random).text()).kernel
    data = np.random.default_rng(seed)
    signature = ("i", 1), ("I", 1), ("f", 1), ("i", 2), ("I", 1), ("f", 2)
    built = optimized(function, read(function), signature, (N, 1, 1), False, False, False)[0]
    lengths = {push.name: 6 if "out" in push.name and "1" in push.name else N for push in built.pushes}
    lengths["fo.shape[1]"] = 4
    assume(not {*lengths}.difference({"x.shape[0]", "out.shape[0]", "out.shape[1]", "fo.shape[0]", "fo.shape[1]"}))
    given_: dict[Any, Any] = {push: (lengths[push.name],) * 2 for push in built.pushes}
    most = ir.most_passes(built, given_ | {("global_id", 0): (0, N - 1)})
    arrays = {
        "x": data.integers(-(2**31) + 1, 2**31, N).astype(np.int32),
        "y": data.integers(0, 2**32, N).astype(np.uint32),
        "z": (data.integers(-32, 33, N) * 0.25).astype(np.float32),
        "out": np.full(N * 6, -7, np.int32),
        "uo": np.full(N, 7, np.uint32),
        "fo": np.full(N * 4, -7, np.float32),
    }
    traces = interpreter.run(built, arrays, N, {push.name: lengths[push.name] for push in built.pushes})
    if most is not None:
        assert most >= interpreter.passes_in_step(built.body, traces), ir.text(built)


@pytest.mark.parametrize("limit", [1, 2, 3, 50, 10**9])
def test_values_of_all_types_are_carried(gpu: vc.Runtime, limited: Limit, limit: int) -> None:
    limited(limit)

    @vc.kernel
    def carried(x, out, n):
        i = vc.global_id(0)
        a, b, c, d, e, f = x[i], False, vc.uint32(7), 0.5, (i, 2.0), vc.int32(-3)
        for k in range(n):
            a, b, c = a * 3 + k, not b, c ^ vc.uint32(k)
            d, e, f = d * 0.5 + 1.0, (e[1] > 3.0, e[1] + 0.25), -f
        out[i, 0] = a
        out[i, 1] = 1 if b else 2
        out[i, 2] = vc.int32(c)
        out[i, 3] = vc.int32(d * 1024.0)
        out[i, 4] = vc.int32(e[0]) + vc.int32(e[1] * 4.0)
        out[i, 5] = f

    x = np.arange(9, dtype=np.int32) * 1001 - 5
    check(gpu, carried, x, np.zeros((9, 6), np.int32), 10, local_size=(9, 1, 1))


@vc.kernel
def waiting(x, out, n):
    tile = vc.shared(8, vc.int32)
    i = vc.local_id(0)
    s = 0
    for k in range(n):  # the barriers' loop
        tile[i] = x[i] + k
        vc.barrier()
        s += tile[7 - i]
        vc.barrier()
    out[i] = s


@vc.kernel
def until(x, out):
    i = vc.global_id(0)
    while out[i] < x[i]:
        out[i] += 1


@pytest.mark.parametrize("n", [90, LONG])
def test_a_loop_with_barriers_is_right_or_an_error(gpu: vc.Runtime, n: int) -> None:
    x, out = np.arange(8, dtype=np.int32), gpu.zeros(8, np.int32)
    limit = quirks_of(gpu.device.physical).max_loop_iterations
    if limit is not None and n > limit:
        future = waiting[1, 8](gpu.tensor(x), out, n)
        with pytest.raises(
            vc.KernelError, match=r"(?s)test_loops.py:\d+:5: waiting was ended in .* the barriers' loop"
        ):
            future.result()
        with pytest.raises(vc.KernelError, match="waiting was ended"):
            out.numpy()
    else:
        waiting[1, 8](gpu.tensor(x), out, n)
        assert np.array_equal(out.numpy(), (x[::-1] * n + np.arange(n).sum()).astype(np.int32))


def test_a_loop_with_barriers_that_may_be_long_and_is_not(gpu: vc.Runtime, limited: Limit) -> None:
    limited(3)
    out, x = gpu.zeros(8, np.int32), np.arange(8, dtype=np.int32)
    waiting[1, 8](gpu.tensor(x), out, 50)
    assert np.array_equal(out.numpy(), x[::-1] * 50 + sum(range(50)))


def test_graphs_record_the_parts(gpu: vc.Runtime, limited: Limit) -> None:
    limited(40)
    out = gpu.zeros(20, np.int32)
    with gpu.record() as graph:
        count(out, 500)
        count(out, 300)
    for _ in range(2):
        out.fill(0)
        graph.run()
        assert np.array_equal(out.numpy(), counted(300, 20))


@pytest.mark.parametrize("n", [99, LONG])
def test_graphs_that_do_not_know_how_long_it_takes(gpu: vc.Runtime, limited: Limit, n: int) -> None:
    limit = quirks_of(gpu.device.physical).max_loop_iterations
    limited(limit or 40)
    x, out = gpu.full(5, n, np.int32), gpu.zeros(5, np.int32)
    with gpu.record() as graph:
        until[1, 5](x, out)
    if limit is not None and n > limit:
        with pytest.raises(vc.KernelError, match=r"until was ended in this loop.*a graph has recorded it"):
            graph.run().result()
        out.fill(0)
    else:
        graph.run()
        assert out.numpy().tolist() == [n] * 5
    until[1, 5](x, out)
    assert out.numpy().tolist() == [n] * 5


def test_graphs_with_an_input_that_loops_count_to(gpu: vc.Runtime, limited: Limit) -> None:
    limited(60)
    out = gpu.zeros(20, np.int32)
    with gpu.record(n=5) as graph:
        count(out, graph["n"])
    for n in (7, 40):
        graph.run(n=n)
        assert np.array_equal(out.numpy(), counted(n, 20))


@vc.kernel
def climb(x, out):
    n = 0
    while x[0] < 100:
        out[0] = x[0] + 3
        n += 1
        out[1] = n


@pytest.mark.parametrize("limit", [2, 7, 10**6])
def test_what_reads_what_it_writes_does_not_begin_again(gpu: vc.Runtime, limited: Limit, limit: int) -> None:
    limited(limit)
    both = gpu.zeros(2, np.int32)
    climb[1, 1](both, both)
    assert both.numpy().tolist() == [102, 34]


def test_kept_state_that_is_too_large_is_an_error(gpu: vc.Runtime, limited: Limit) -> None:
    limited(2)
    out = gpu.zeros(3, np.int32)
    with pytest.raises(vc.KernelError, match=r"count may go through .* bytes per invocation.* a binding has at most"):
        count[(2**16 - 1, 8), 256](out, 100)
