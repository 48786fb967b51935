"""Work that cannot be submitted or recorded: who fails with it, who does not, and how data become good again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from faults import OUT_OF_DEVICE_MEMORY, Faults, watched
from hang_limit import hang_limit_s
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.core import vk

pytestmark = [pytest.mark.queues, pytest.mark.usefixtures("clean_handles")]

ADD = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { int a[]; };
layout(binding = 1) readonly buffer B { int b[]; };
layout(binding = 2) writeonly buffer O { int o[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < o.length()) o[i] = a[i] * 3 + b[i]; }
"""
BUMP = """
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] = a[i] * 2 + 1; }
"""
N_ARRAYS, LENGTH = 4, 100


class Injected(RuntimeError):
    """What a refused command raises."""


class Machine:
    """A runtime whose calls fail on demand, and arrays on it."""

    def __init__(self, faults: Faults, **options: Any) -> None:
        self.faults = faults
        self.runtime = open_runtime(**{"submit_limit_s": None, **options})  # or a first launch is several submits
        self.add, self.bump = self.runtime.kernel(vc.glsl(ADD)), self.runtime.kernel(vc.glsl(BUMP))
        self.arrays = [self.runtime.full(LENGTH, i, np.int32) for i in range(N_ARRAYS)]
        self.runtime.wait()

    def submits_fail(self, after: int = 0) -> None:
        """The next submit after so many fails, and so does its second try."""
        self.faults.arm("vkQueueSubmit", after, OUT_OF_DEVICE_MEMORY, times=2)


@pytest.fixture(params=[{}, {"staging": True}, {"timelines": (2, 1)}], ids=["direct", "staging", "queues"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Two queues and a third that only copies, one queue, or staged transfers."""
    with watched() as faults:
        machine = Machine(faults, **request.param)
        yield machine
        machine.runtime.close()
        machine.__dict__.clear()  # pytest holds it longer than the fixtures that count handles


def fails(use: Callable[[], object]) -> None:
    """It fails with the injected error."""
    with pytest.raises(vc.VulkanError, match="vkQueueSubmit") as error:
        use()
    assert error.value.result == "VK_ERROR_OUT_OF_DEVICE_MEMORY"
    error.value.__traceback__ = None


def test_a_failed_batch_and_what_depends_on_it(machine: Machine) -> None:
    a, b, c, d = machine.arrays
    add, bump, runtime = machine.add, machine.bump, machine.runtime
    with runtime.record() as reads_c, watched():
        add(c, c, d)
    with runtime.record() as makes_c:
        add(a, a, c)
        add(c, c, d)
    machine.submits_fail()
    futures = [add(a, b, c, queue=0), add(c, c, d, queue=0)]
    called: list[BaseException | None] = []
    for future in futures:
        fails(future.result)
        assert isinstance(future.exception(), vc.VulkanError)
        assert future.done()
        future.add_done_callback(lambda done: called.append(done.exception()))
    assert len(called) == 2
    assert all(isinstance(error, vc.VulkanError) for error in called)
    assert concurrent.futures.wait(futures, timeout=hang_limit_s()).not_done == set()
    fails(lambda: asyncio.run(awaited(futures[0])))
    for use in (lambda: bump(c), lambda: add(d, a, b), lambda: a.copy_from(c), reads_c.run, c.numpy, c[3].item):
        fails(use)
    fails(b.numpy)  # refused launches wrote nothing there
    fails(a.numpy)
    a.fill(5)
    makes_c.run()  # it writes c before it reads it
    assert c.numpy().tolist() == [20] * LENGTH
    assert d.numpy().tolist() == [80] * LENGTH
    b.write(np.arange(LENGTH))
    bump(b)
    assert b.numpy().tolist() == list(range(1, 2 * LENGTH, 2))
    runtime.wait()


async def awaited(future: vc.Future) -> None:
    await future


def test_what_does_not_depend_on_a_failed_batch_completes(machine: Machine) -> None:
    a, b, c, d = machine.arrays
    before = machine.bump(a)
    machine.runtime.flush()
    machine.submits_fail()
    failed = machine.add(a, a, c)
    fails(failed.result)
    after, overwrites_read = machine.bump(b), a.fill(7)
    after.result()
    before.result()
    assert b.numpy().tolist() == [3] * LENGTH
    assert overwrites_read.numpy().tolist() == [7] * LENGTH
    machine.add(a, b, d).result()
    assert d.numpy().tolist() == [24] * LENGTH


def test_parts_of_failed_data_are_good_again_one_by_one(machine: Machine) -> None:
    a, _, c, _ = machine.arrays
    machine.submits_fail()
    fails(machine.add(a, a, c).result)
    c[:50].fill(9)
    assert c[:50].numpy().tolist() == [9] * 50
    fails(c.numpy)
    fails(c[49:51].numpy)
    with pytest.raises(vc.VulkanError):
        c[50::2].copy_from(a[:25])  # what lies between stays what it is: nothing
    c[50:].write(np.arange(50))
    assert c.numpy().tolist() == [9] * 50 + list(range(50))


def test_a_second_try_succeeds(machine: Machine) -> None:
    a, _, c, _ = machine.arrays
    machine.faults.arm("vkQueueSubmit", 0, OUT_OF_DEVICE_MEMORY)
    machine.add(a, a, c).result()
    assert c.numpy().tolist() == [0] * LENGTH


def test_a_replay_that_cannot_be_submitted(machine: Machine) -> None:
    a, b, c, _ = machine.arrays
    with machine.runtime.record() as graph:
        machine.add(a, b, c)
    machine.bump(b)  # goes in the same submit
    machine.submits_fail()
    fails(lambda: graph.submit(3).result())
    fails(b.numpy)
    fails(c.numpy)
    fails(graph.run)  # it reads b
    b.fill(1)
    graph.run(2)
    assert c.numpy().tolist() == [1] * LENGTH


def test_a_run_with_arrays_that_cannot_be_submitted(machine: Machine) -> None:
    """Nothing lands, and the memory in between serves later runs."""
    a, b, c, _ = machine.arrays
    sent, fetched = np.zeros(LENGTH, np.int32), np.full(LENGTH, -1, np.int32)
    with machine.runtime.record() as graph:
        a.write(sent)
        machine.add(a, b, c)
        c.read(fetched)
    for i in range(5):
        machine.runtime.wait()
        sent[:] = 100 + i
        machine.submits_fail()
        future = graph.submit()
        assert isinstance(future.exception(), vc.VulkanError)
        assert future.done()
    assert set(fetched) == {-1}
    sent[:] = 5
    graph.run()
    assert set(fetched) == {5 * 3 + 1}
    for future in [graph.submit() for _ in range(5)]:
        future.result()


def test_barriers_of_a_failed_batch_are_not_relied_upon(machine: Machine) -> None:
    big = machine.runtime.zeros(1 << 20, np.int32)
    for _ in range(5):
        machine.bump(big)
        machine.runtime.flush()
        machine.submits_fail()
        machine.bump(machine.arrays[0])
        machine.bump(machine.arrays[0])
        fails(machine.arrays[0].numpy)
        machine.bump(big)
        machine.arrays[0].fill(0)
    assert np.all(big.numpy() == (1 << 10) - 1)


def test_a_failed_batch_is_told_of_once_by_waiting(machine: Machine) -> None:
    a, _, c, _ = machine.arrays
    machine.submits_fail()
    machine.add(a, a, c)
    fails(machine.runtime.flush)
    machine.runtime.flush()
    machine.runtime.wait()


def test_profiles_leave_out_what_failed(machine: Machine) -> None:
    a, b, c, _ = machine.arrays
    with machine.runtime.profile() as profile:
        machine.bump(a)
        machine.runtime.flush()
        machine.submits_fail()
        fails(machine.add(b, b, c).result)
        machine.bump(b)
    assert len(profile.tasks) == 2


OPERATIONS = st.one_of(
    st.tuples(st.just("add"), *[st.integers(0, N_ARRAYS - 1)] * 3, st.integers(0, 2)),
    st.tuples(st.just("bump"), st.integers(0, N_ARRAYS - 1), st.integers(0, 2)),
    st.tuples(st.just("copy"), *[st.integers(0, N_ARRAYS - 1)] * 2),
    st.tuples(st.just("fill"), st.integers(0, N_ARRAYS - 1), st.integers(0, 99)),
    st.tuples(st.just("write"), st.integers(0, N_ARRAYS - 1), st.integers(0, 99)),
    st.tuples(st.just("read"), st.integers(0, N_ARRAYS - 1)),
    st.tuples(st.just("graph"), *[st.integers(0, N_ARRAYS - 1)] * 3, st.integers(1, 2)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("fault"), st.sampled_from(["vkQueueSubmit", "vkEndCommandBuffer", "vkBeginCommandBuffer"])),
    st.tuples(
        st.just("refuse"), st.sampled_from(["vkCmdDispatch", "vkCmdDispatchBase", "vkCmdCopyBuffer", "vkCmdFillBuffer"])
    ),
)


class Program:
    """Runs operations on the device and notes how each of them ended; then a model says whether that may be."""

    machine: Machine

    def __init__(self) -> None:
        self.refused, self.n_faults = "", 0
        self.steps: list[tuple[Callable[..., Any], tuple[int, ...], int | None, Any]] = []

    def refuse(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An interceptor: the next command of this name raises."""

        def call(*args: Any) -> Any:
            if self.refused == name:
                self.refused = ""
                raise Injected(name)
            return function(*args)

        return call

    def run(self, operation: tuple[Any, ...]) -> None:
        """Runs one operation."""
        name, *args = operation
        arrays, machine = self.machine.arrays, self.machine
        if name == "fault":
            machine.faults.arm(args[0], 0, OUT_OF_DEVICE_MEMORY, times=1 if args[0] == "vkEndCommandBuffer" else 2)
            self.n_faults += 1
        elif name == "refuse":
            self.refused = args[0]
            self.n_faults += 1
        elif name == "flush":
            try:
                machine.runtime.flush()
            except (vc.VulkanError, Injected):
                assert self.n_faults
        elif name == "add":
            a, b, out, queue = args
            if out not in (a, b):
                queue %= len(machine.runtime.scheduler.placement.compute)
                self.note(lambda x, y: x * 3 + y, (a, b), out,
                          lambda: machine.add(arrays[a], arrays[b], arrays[out], queue=queue))  # fmt: skip
        elif name == "bump":
            a, queue = args[0], args[1] % len(machine.runtime.scheduler.placement.compute)
            self.note(lambda x: x * 2 + 1, (a,), a, lambda: machine.bump(arrays[a], queue=queue))
        elif name == "copy" and args[0] != args[1]:
            self.note(lambda x: x.copy(), (args[0],), args[1], lambda: arrays[args[1]].copy_from(arrays[args[0]]))
        elif name == "fill":
            self.note(lambda: np.full(LENGTH, args[1], np.int32), (), args[0], lambda: filled(arrays[args[0]], args[1]))
        elif name == "write":
            self.note(lambda: np.full(LENGTH, args[1], np.int32), (), args[0],
                      lambda: arrays[args[0]].write(np.full(LENGTH, args[1], np.int32)))  # fmt: skip
        elif name == "read":
            self.note(lambda x: x, (args[0],), None, lambda: arrays[args[0]].numpy())
        elif name == "graph":
            self.graph(*args)

    def graph(self, a: int, middle: int, out: int, times: int) -> None:
        """middle = 3 a + a; out = 3 middle + a: only `a` comes from outside."""
        if len({a, middle, out}) < 3:
            return
        arrays, add, runtime = self.machine.arrays, self.machine.add, self.machine.runtime
        try:
            with runtime.record() as graph:
                add(arrays[a], arrays[a], arrays[middle])
                add(arrays[middle], arrays[a], arrays[out])
        except (vc.VulkanError, Injected):
            assert self.n_faults
            return
        try:
            ended: Any = graph.submit(times)
        except (vc.VulkanError, Injected) as error:
            ended = error.with_traceback(None)
        self.steps.append((lambda x: x * 4, (a,), middle, ended))
        self.steps.append((lambda x: x * 13, (a,), out, ended))
        graph.close()

    def note(
        self, model: Callable[..., Any], sources: tuple[int, ...], target: int | None, use: Callable[[], Any]
    ) -> None:
        """Runs and notes."""
        try:
            ended = use()
        except (vc.VulkanError, Injected) as error:
            ended = error.with_traceback(None)
        self.steps.append((model, sources, target, ended))

    def check(self) -> None:
        """Every operation succeeded or failed as its sources allow; arrays hold what the successful ones wrote."""
        self.machine.faults.armed, self.refused = None, ""
        good: list[Any] = [np.full(LENGTH, i, np.int32) for i in range(N_ARRAYS)]
        for model, sources, target, ended in self.steps:
            failed = isinstance(ended, Exception)
            if isinstance(ended, vc.Future):
                failed = ended.exception() is not None
            poisoned = any(good[i] is None for i in sources)
            assert failed or not poisoned, "it succeeded on data that nobody wrote"
            assert not failed or self.n_faults, "it failed without a fault"
            value = None if failed else model(*(good[i] for i in sources))
            if isinstance(ended, np.ndarray) and target is None:
                assert np.array_equal(ended, value)
            elif target is not None:
                good[target] = value
        for array, expected in zip(self.machine.arrays, good, strict=True):
            if expected is None:
                with pytest.raises((vc.VulkanError, Injected)):
                    array.numpy()
            else:
                assert np.array_equal(array.numpy(), expected)
        with contextlib.suppress(vc.VulkanError, Injected):
            self.machine.runtime.wait()  # which tells of what nobody has been told


def filled(array: vc.Array, value: int) -> vc.Future | None:
    """Fills, and gives the future of it, which `fill` itself keeps."""
    array.fill(value)
    scheduler = array.runtime.scheduler
    writer = scheduler.history(array.buffer).last_writers(0, 4)
    ((queue, task),) = writer.items()
    return vc.Future(scheduler.tracker, scheduler.queues[queue], task)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"timelines": 3},
        {"staging": True, "timelines": (2, 1)},
        {"submit_limit_s": 1e-9},
        {"submit_limit_s": 1e-9, "timelines": (2, 1)},
    ],
    ids=str,
)
def test_random_programs_with_random_faults(options: dict[str, Any]) -> None:
    with watched() as faults:
        program = Program()
        vk.interceptors.append(program.refuse)  # of the list that `watched` puts back
        program.machine = machine = Machine(faults, **options)

        @settings(max_examples=60)
        @given(operations=st.lists(OPERATIONS, max_size=30))
        def run(operations: list[tuple[Any, ...]]) -> None:
            faults.armed, program.refused, program.steps, program.n_faults = None, "", [], 0
            for i, array in enumerate(machine.arrays):  # which makes all of them good again
                array.fill(i)
            machine.runtime.wait()
            for operation in operations:
                program.run(operation)
            program.check()

        run()
        machine.runtime.close()
        machine.__dict__.clear()
