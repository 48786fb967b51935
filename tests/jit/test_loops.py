"""Loops that a driver cuts: right results or an error, never a wrong result. The limit is lowered, or reached."""

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

import vkcompute as vc
from vkcompute import ir
from vkcompute.compiled import loops
from vkcompute.compiled.specialization import CompileOptions
from vkcompute.core.quirks import quirks_of
from vkcompute.frontend.source import definition_of
from vkcompute.gpu_report.random_programs.kernels import N, RandomProgram
from vkcompute.jit.compilation.build import build, optimized
from vkcompute.jit.frontend.compiler import Compiler

LONG = 70_000
Limit = Callable[[int], None]
Array = np.ndarray[Any, Any]


def limit_to(gpu: vc.Runtime, patch: pytest.MonkeyPatch, n: int) -> None:
    """Takes the driver to cut loops after `n` iterations."""
    gpu._kernels.clear()
    patch.setattr(loops, "quirks_of", lambda physical: replace(quirks_of(physical), max_loop_iterations=n))


@pytest.fixture
def limited(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    """Sets the iterations after which loops are taken to be cut. Drivers do not do so: results stay right."""
    yield partial(limit_to, gpu, monkeypatch)
    gpu._kernels.clear()


def cuts(gpu: vc.Runtime) -> bool:
    """True if the driver cuts loops of LONG iterations."""
    return quirks_of(gpu.device.physical).max_loop_iterations is not None


def right_or_cut(gpu: vc.Runtime, launch: Callable[[], vc.Future], out: Any, expected: Any, place: str) -> None:
    """Compares results; where the driver cuts loops, expects the error that names this place, from all who read."""
    if not cuts(gpu):
        launch()
        assert np.array_equal(out.numpy(), expected)
        return
    match = rf"(?s)test_loops.py:\d+:\d+: \w+ reaches 65,535 iterations in this loop.*use Mesa 25 or later.*{place}"
    future, copy = launch(), gpu.empty(out.shape, out.dtype)
    copied(out, copy)
    for use in (future.result, out.numpy, copy.numpy):
        with pytest.raises(vc.KernelError, match=match):
            use()
    out.fill(3)
    assert (out.numpy() == 3).all()


@vc.kernel
def copied(x, out):
    out[vc.global_id(0)] = x[vc.global_id(0)]


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


@pytest.mark.parametrize("guarded", [False, True])
def test_a_launch_that_is_certain_to_reach_the_limit_is_refused(gpu: vc.Runtime, guarded: bool) -> None:
    @vc.kernel
    def early(out, n):
        i = vc.global_id(0)
        if i >= out.size:
            return
        s = 0
        for k in range(n):
            s += k % 3 + i
        out[i] = s

    out, kernel = gpu.full(20, 4, np.int32), early if guarded else count
    if cuts(gpu):
        with pytest.raises(vc.KernelError, match=r"(?s)(early|count) reaches 65,535 iterations in this loop.*in range"):
            kernel(out, LONG)
        assert (out.numpy() == 4).all()
    else:
        kernel(out, LONG)
        assert np.array_equal(out.numpy(), counted(LONG, 20))


def test_long_and_short_launches_take_turns(gpu: vc.Runtime) -> None:
    out = gpu.zeros(20, np.int32)
    for n in (3, LONG, 5, 5, LONG, 1000, 1100, 65_534, 65_535, 65_536, 7):
        try:
            count(out, n).result()
        except vc.KernelError:
            assert cuts(gpu)
            assert n >= 65_535
            continue
        assert np.array_equal(out.numpy(), counted(n, 20))


@vc.vectorize
def steps(n):
    k = vc.uint32(0)
    while k * k != n:
        k += 1
    return k


@pytest.mark.parametrize("most", [65_000, LONG])
def test_functions_of_elements(gpu: vc.Runtime, most: int) -> None:
    roots = np.array([0, 7, 60_000, most, 400], np.uint32)
    result = steps(gpu.array(roots * roots))
    if cuts(gpu) and most == LONG:
        with pytest.raises(vc.KernelError, match=r"(?s)steps reaches 65,535 iterations in this.*while k \* k != n"):
            result.numpy()
    else:
        assert np.array_equal(result.numpy(), roots)


@vc.kernel(check_bounds=True)
def checked(x, out):
    s, k = 0, 0
    while x[k] > 0:  # to the end
        s += x[k]
        if k % 20_000 == 3:
            print(k, s)
        k += 1
    out[vc.global_id(0)] = s


@pytest.mark.parametrize("n", [50_000, LONG])
def test_prints_and_failed_indices(gpu: vc.Runtime, capfd: pytest.CaptureFixture[str], n: int) -> None:
    x, out = gpu.full(n + 1, 2, np.int32), gpu.zeros(1, np.int32)
    x[n:].fill(0)
    future = checked[1, 1](x, out)
    if n == LONG and cuts(gpu):
        with pytest.raises(vc.KernelError, match=r"(?s)checked reaches 65,535 iterations in this loop.*to the end"):
            future.result()
        return
    assert out.numpy().tolist() == [2 * n]
    assert capfd.readouterr().out.splitlines() == [f"{k} {2 * k + 2}" for k in range(3, n, 20_000)]


@pytest.mark.parametrize("n", [200, 300])
def test_nested_loops_and_a_loop_after(gpu: vc.Runtime, n: int) -> None:
    @vc.kernel
    def nested(out, n):
        i = vc.global_id(0)
        s = 0
        for _ in range(n):  # the outer one
            for k in range(n):
                s += 1
        for k in range(7):
            out[i] += s + k

    out = gpu.zeros(10, np.int32)
    if n == 300 and cuts(gpu):
        with pytest.raises(vc.KernelError, match=r"(?s)nested reaches .* in this loop.*the outer one"):
            nested[1, 10](out, n)
    else:
        nested[1, 10](out, n)
        assert out.numpy().tolist() == [7 * n * n + 21] * 10


def test_constant_ranges(gpu: vc.Runtime) -> None:
    @vc.kernel
    def nested(out):
        s = 0
        for _ in range(300):
            for k in range(300):
                s += k & 1
        out[vc.global_id(0)] = s

    out = gpu.zeros(3, np.int32)
    if cuts(gpu):
        with pytest.raises(vc.KernelError, match="nested reaches 65,535 iterations in this loop"):
            nested[1, 3](out)
    else:
        nested[1, 3](out)
        assert out.numpy().tolist() == [45_000] * 3


@pytest.mark.parametrize("n", [50_000, LONG])
def test_a_chain(gpu: vc.Runtime, n: int) -> None:
    @vc.kernel
    def follow(following, out):
        i = vc.global_id(0)
        if i >= out.size:  # what is behind the chain may lead anywhere
            return
        at, n = following.size - 1 - i, 0
        while following[at] != at:  # along the chain
            at = following[at]
            n += 1
        out[i] = n

    chain = gpu.array(np.r_[0, np.arange(n)].astype(np.int32))
    out, lengths = gpu.zeros(100, np.int32), n - np.arange(100)
    if n == LONG:
        right_or_cut(gpu, lambda: follow(chain, out), out, lengths, "along the chain")
    else:
        follow(chain, out)
        assert np.array_equal(out.numpy(), lengths)


def test_invocations_that_take_turns(gpu: vc.Runtime) -> None:
    """Each stays within the limit, and all that run in step together do not."""

    @vc.kernel
    def turns(out, n):
        i = vc.global_id(0)
        s = 0
        for k in range(8):
            j = 0
            while j < (n if k == i % 8 else 0):  # in turn
                j += 1
                s += 1
        out[i] = s

    out = gpu.zeros(16, np.int32)
    right_or_cut(gpu, lambda: turns[1, 16](out, 20_000), out, [20_000] * 16, "in turn")


def test_a_loop_that_ends_by_returns_alone(gpu: vc.Runtime) -> None:
    @vc.kernel
    def first(x, out):
        i = vc.global_id(0)
        k = 0
        if i % 2 == 0:
            while True:  # until it returns
                if k == x[i]:
                    out[i] = k
                    return
                k += 1
        out[i] = -1

    for n in (9, LONG, 5):
        x, out = np.full(16, n, np.int32), gpu.zeros(16, np.int32)
        expected = np.where(np.arange(16) % 2, -1, n)
        if n == LONG:
            right_or_cut(gpu, lambda x=x, out=out: first[1, 16](gpu.array(x), out), out, expected, "until it returns")  # type: ignore[misc]
        else:
            first[1, 16](gpu.array(x), out)
            assert np.array_equal(out.numpy(), expected)


def test_loops_of_a_remainder_count(gpu: vc.Runtime) -> None:
    """Of 30,000 iterations, with two through the loop of a remainder in each, the driver cuts some."""

    @vc.kernel
    def walk(x, out):
        i = vc.global_id(0)
        k, s = 0, 1.0
        while k < x[i]:  # whose remainder loops
            s = s * 1e20 % 1.5 + 1.0
            k += 1
        out[i] = k

    x, out = gpu.full(16, 30_000, np.int32), gpu.zeros(16, np.int32)
    right_or_cut(gpu, lambda: walk[1, 16](x, out), out, [30_000] * 16, "whose remainder loops")


@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000), limit=st.integers(2, 30))
def test_random_programs_with_detection(gpu: vc.Runtime, random: Random, seed: int, limit: int) -> None:
    """What detects cut loops changes no result. A launch is refused only if it does reach the limit."""
    kernel = vc.kernel(module(RandomProgram(random).text()).kernel)
    data = np.random.default_rng(seed)
    x = data.integers(-(2**31) + 1, 2**31, N).astype(np.int32)
    y = data.integers(0, 2**32, N).astype(np.uint32)
    z = (data.integers(-32, 33, N) * 0.25).astype(np.float32)
    out = np.full((N, 6), -7, np.int32), np.full(N, 7, np.uint32), np.full((N, 4), -7, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        limit_to(gpu, patch, limit)
        try:
            check(gpu, kernel, x, y, z, *out, local_size=(N, 1, 1), rtol=0, atol=0)
        except vc.KernelError as error:
            if f"reaches {limit} iterations" not in str(error):
                raise
        except (OverflowError, pytest.skip.Exception):  # a Python int is beyond int32; 64 bits where there are none
            return


@pytest.mark.pure
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 1000))
def test_bounds_of_random_programs(random: Random, seed: int) -> None:
    """`ir.most_iterations` is not less than what a driver that runs invocations in step does."""
    mine = module(RandomProgram(random).text())
    function = mine.kernel
    data = np.random.default_rng(seed)
    signature = ("i", 1), ("I", 1), ("f", 1), ("i", 2), ("I", 1), ("f", 2)
    built = optimized(build(Compiler, definition_of(function), signature, CompileOptions((N, 1, 1))).function)
    lengths = {push.name: 6 if "out" in push.name and "1" in push.name else N for push in built.pushes}
    lengths["fo.shape[1]"] = 4
    assume(not {*lengths}.difference({"x.shape[0]", "out.shape[0]", "out.shape[1]", "fo.shape[0]", "fo.shape[1]"}))
    given_: dict[Any, Any] = {push: (lengths[push.name],) * 2 for push in built.pushes}
    most = ir.most_iterations(built, given_ | {("global_id", 0): (0, N - 1)})
    arrays = {
        "x": data.integers(-(2**31) + 1, 2**31, N).astype(np.int32),
        "y": data.integers(0, 2**32, N).astype(np.uint32),
        "z": (data.integers(-32, 33, N) * 0.25).astype(np.float32),
        "out": np.full(N * 6, -7, np.int32),
        "uo": np.full(N, 7, np.uint32),
        "fo": np.full(N * 4, -7, np.float32),
        "TABLE": mine.TABLE,
        "WAVES": mine.WAVES.ravel(),
    }
    traces = interpreter.run(built, arrays, N, {push.name: lengths[push.name] for push in built.pushes})
    if most is not None:
        assert most >= interpreter.iterations_in_step(built.body, traces), ir.text(built)


@vc.kernel
def until(x, out):
    i = vc.global_id(0)
    while out[i] < x[i]:  # until it is there
        out[i] += 1


@pytest.mark.parametrize("n", [90, LONG])
def test_a_loop_with_barriers(gpu: vc.Runtime, n: int) -> None:
    x, out = np.arange(8, dtype=np.int32), gpu.zeros(8, np.int32)
    expected = (x[::-1] * n + np.arange(n).sum()).astype(np.int32)

    @vc.kernel
    def waiting(x, most, out):
        tile = vc.shared(8, vc.int32)
        i = vc.local_id(0)
        s, k = 0, 0
        while k < most[0]:  # the barriers' loop
            tile[i] = x[i] + k
            vc.barrier()
            s += tile[7 - i]
            vc.barrier()
            k += 1
        out[i] = s

    def launch() -> vc.Future:
        return waiting[1, 8](gpu.array(x), gpu.full(1, n, np.int32), out)

    if n == LONG:
        right_or_cut(gpu, launch, out, expected, "the barriers' loop")
    else:
        launch()
        assert np.array_equal(out.numpy(), expected)


def test_a_loop_that_may_be_long_and_is_not(gpu: vc.Runtime, limited: Limit) -> None:
    limited(50)
    x, out = gpu.full(5, 40, np.int32), gpu.zeros(5, np.int32)
    until[1, 5](x, out)
    assert out.numpy().tolist() == [40] * 5


@pytest.mark.parametrize("n", [99, LONG])
def test_graphs_that_do_not_know_how_long_it_takes(gpu: vc.Runtime, limited: Limit, n: int) -> None:
    if not cuts(gpu):
        limited(40)
    x, out = gpu.full(5, n, np.int32), gpu.zeros(5, np.int32)
    with gpu.record() as graph:
        until[1, 5](x, out)
    if n == LONG and cuts(gpu):
        with pytest.raises(vc.KernelError, match=r"(?s)until reaches 65,535 iterations in this.*until it is there"):
            graph.run().result()
        with pytest.raises(vc.KernelError, match="until reaches"):
            out.numpy()
    else:
        graph.run()
        assert out.numpy().tolist() == [n] * 5
    for _ in range(2):
        x.fill(99)
        out.fill(0)
        graph.run()
        assert out.numpy().tolist() == [99] * 5


def test_graphs_refuse_a_launch_that_is_certain_to_reach_the_limit(gpu: vc.Runtime, limited: Limit) -> None:
    limited(40)
    out = gpu.zeros(20, np.int32)
    with gpu.record() as graph:
        count(out, 30)
        with pytest.raises(vc.KernelError, match="count reaches 40 iterations in this loop"):
            count(out, 500)
    graph.run()
    assert np.array_equal(out.numpy(), counted(30, 20))


def test_graphs_with_an_input_that_loops_count_to(gpu: vc.Runtime) -> None:
    out = gpu.zeros(20, np.int32)
    with gpu.record(n=5) as graph:
        count(out, graph["n"])
    for n in (7, LONG, 40):
        if n == LONG and cuts(gpu):
            with pytest.raises(vc.KernelError, match="count reaches 65,535 iterations in this loop"):
                graph.run(n=n).result()
        else:
            graph.run(n=n)
            assert np.array_equal(out.numpy(), counted(n, 20))


@vc.kernel
def counts_if(out, n, k, shift):
    i, s = vc.global_id(0), 0
    if k > 5:
        for j in range(n):
            s += j - j + 1
    out[i] = s + shift


def test_numbers_that_no_loop_counts_to(gpu: vc.Runtime, limited: Limit) -> None:
    """Verdicts are kept for the numbers on which they depend, whatever the others are."""
    limited(100)
    out = gpu.empty(16, np.int32)
    for shift, (n, k) in enumerate([(10, 6), (10, 0), (1000, 0), (1000, 6), (20, 6), (1000, 9), (30, 0), (40, 7)]):
        if n > 100 and k > 5:
            with pytest.raises(vc.KernelError, match="reaches 100 iterations"):
                counts_if(out, n, k, shift).result()
        else:
            counts_if(out, n, k, shift)
            assert out.numpy().tolist() == [n * (k > 5) + shift] * 16
