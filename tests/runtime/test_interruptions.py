"""Ctrl-C at any moment: the runtime goes on, what it holds is right or says why not, and nothing is leaked.

The interpreter looks for signals where functions begin and after calls. A profile function stands at these same places,
and raises there in place of the signal's handler: at each of them in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from faults import handled, interrupted, watched
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.arrays.expressions.call_plan import planned
from vkcompute.core.device_profile import current, emulated
from vkcompute.runtime.scheduling.command_queue import CommandQueue
from vkcompute.runtime.scheduling.placement import Placement
from vkcompute.runtime.scheduling.scheduler import Scheduler

pytestmark = [
    pytest.mark.usefixtures("clean_handles"),
    pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer of its own is at work"),
]

ADD = """
layout(local_size_x = 64) in;
layout(constant_id = 0) const int added = 1;
layout(binding = 0) readonly buffer A { int a[]; };
layout(binding = 1) writeonly buffer O { int o[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < o.length()) o[i] = a[i] + added; }
"""
LENGTH = 64


def held(array: vc.Array) -> set[int | str]:
    """The values of an array, or that its work was interrupted."""
    try:
        return set(array.numpy().tolist())
    except vc.VkComputeError as error:
        return {"interrupted" if "interrupted" in str(error) else repr(error)}


_successors, _copies = vc.elementwise("x + 1"), vc.elementwise("x + 0")


@planned
def stored(x: vc.Array, out: vc.Array) -> None:
    """Stores the successors, by two launches."""
    between = vnp.empty_like(x)
    _successors(x, out=between)
    _copies(between, out=out)


class World:
    """A runtime with a kernel, arrays and a graph, and what they hold."""

    def __init__(self, **options: Any) -> None:
        self.runtime = open_runtime(**options)
        self.kernel = self.runtime.kernel(vc.glsl(ADD))
        self.a, self.b, self.c = (self.runtime.zeros(LENGTH, np.int32) for _ in range(3))
        with self.runtime.record() as self.graph:
            self.kernel(self.a, self.b)
            self.kernel(self.b, self.c)
        kernel = self.kernel
        self.graphed = vc.graph(lambda x, out: kernel(x, out) and None)
        self.graphed(self.a, self.b)
        for _ in range(6):  # until the series of launches is one command
            stored(self.b, self.c)
        self.n = 0

    def reset(self) -> None:
        """Known contents, with work on its way."""
        self.n += 10
        self.a.fill(self.n)
        self.b.fill(0)
        self.c.fill(0)
        self.runtime.wait()
        self.kernel(self.a, self.b)

    def check(self, *, b: set[int], c: set[int]) -> None:
        """What arrays hold is one of these values, or a clear error; then all goes on."""
        assert self.runtime.recording() is None
        for array, allowed in ((self.b, b), (self.c, c)):
            assert held(array) <= {*allowed, "interrupted"}
        self.a.write(np.full(LENGTH, 5, np.int32))
        self.kernel(self.a, self.b)
        self.kernel(self.b, self.c)
        assert set(self.c.numpy().tolist()) == {7}
        self.graph.run(2)
        assert set(self.b.numpy().tolist()) == {6}
        assert set(self.c.numpy().tolist()) == {7}

    def close(self) -> None:
        self.runtime.close()
        self.__dict__.clear()


def sweep(world: World, use: Callable[[], object], b: Callable[[int], set[int]], c: Callable[[int], set[int]]) -> None:
    """Uses the world with Ctrl-C at every moment in turn."""
    for after in itertools.count():
        world.reset()
        with interrupted(after) as come:
            use()
        world.check(b=b(world.n), c=c(world.n))
        if not come:
            break
    assert after > 3


OPTIONS = [{}, {"staging": True, "timelines": (2, 1)}, {"submit_limit_s": 1e-9}]
USES: dict[str, Callable[[World], object]] = {
    "launch": lambda w: w.kernel(w.b, w.c),
    "flush": lambda w: w.runtime.flush(),
    "wait": lambda w: w.runtime.wait(),
    "result": lambda w: w.kernel(w.b, w.c).result(),
    "numpy": lambda w: w.b.numpy(),
    "write": lambda w: w.c.write(np.full(LENGTH, w.n + 2, np.int32)),
    "fill": lambda w: w.c.fill(w.n + 2),
    "copy": lambda w: w.c.copy_from(w.b),
    "run": lambda w: w.graph.run(),
    "done": lambda w: w.kernel(w.b, w.c).done(),
    "graphed": lambda w: w.graphed(w.b, w.c),
    "planned": lambda w: stored(w.b, w.c),
    "computed": lambda w: w.c.copy_from(w.b + 1),
}


@pytest.mark.rotates
@pytest.mark.queues
@pytest.mark.parametrize("options", OPTIONS, ids=["direct", "staging", "parts"])
@pytest.mark.parametrize("use", USES)
def test_ctrl_c_at_every_moment(use: str, options: dict[str, Any]) -> None:
    with watched():
        world = World(**options)
        sweep(world, lambda: USES[use](world), lambda n: {n + 1}, lambda n: {0, n + 1, n + 2})
        world.close()


@pytest.mark.rotates
def test_ctrl_c_at_every_moment_of_a_first_call() -> None:
    with watched():
        world = World()
        kernel = world.kernel

        def first_call() -> None:
            vc.graph(lambda x, out: kernel(x, out) and None)(world.b, world.c)

        sweep(world, first_call, lambda n: {n + 1}, lambda n: {0, n + 2})
        world.close()


PLACES: dict[str, tuple[type, str, int]] = {
    "choose": (Placement, "choose", 1),
    "first flush": (CommandQueue, "flush", 1),
    "second flush": (CommandQueue, "flush", 2),
    "add task": (Scheduler, "_add_task", 1),
}


@pytest.mark.parametrize("options", OPTIONS, ids=["direct", "staging", "parts"])
@pytest.mark.parametrize("use", ["launch", "fill", "graph"])
@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_before_a_task_has_its_number_fails_no_other(
    monkeypatch: pytest.MonkeyPatch, place: str, use: str, options: dict[str, Any]
) -> None:
    world = World(**options)
    b = world.runtime.zeros(LENGTH, np.int32)
    world.b.fill(7)
    world.runtime.wait()
    other = world.kernel(world.b, b)
    with monkeypatch.context() as patch:
        owner, name, n_left = PLACES[place]
        proper = getattr(owner, name)

        def called(*args: Any) -> Any:
            nonlocal n_left
            n_left -= 1
            if not n_left:
                raise KeyboardInterrupt
            return proper(*args)

        patch.setattr(owner, name, called)
        with suppress(KeyboardInterrupt):  # not every use comes to every place
            {
                "launch": lambda: world.kernel(world.a, world.c),
                "fill": lambda: world.c.fill(3),
                "graph": world.graph.submit,
            }[use]()
    other.result()
    assert set(b.numpy().tolist()) == {8}
    world.close()


def test_ctrl_c_while_kernels_are_made() -> None:
    with watched():
        world, spirv = World(), vc.glsl(ADD)
        for after in range(0, 100_000, 7):
            world.reset()
            with interrupted(after) as come:
                kernel = world.runtime.kernel(spirv, constants={"added": after + 2})
                kernel(world.b, world.c)
            world.check(b={world.n + 1}, c={0, world.n + after + 3})
            kernel = None
            if not come:
                break
        world.close()


STORM = """
import random, signal, sys, time
import numpy as np
import vkcompute as vc
from vkcompute.core.device_profile import emulated

def interrupt(*_):
    raise KeyboardInterrupt

def forget(unraisable):  # in a finalizer, Python drops what is raised
    assert unraisable.exc_type is KeyboardInterrupt, unraisable

sys.unraisablehook = forget
signal.signal(signal.SIGALRM, interrupt)
rng = random.Random(1)
with emulated(staging=STAGING, timelines=2):
    runtime = vc.Runtime()
kernel = runtime.kernel(vc.glsl(SOURCE))
a, b, c = (runtime.zeros(64, np.int32) for _ in range(3))
with runtime.record() as graph:
    kernel(a, b)
    kernel(b, c)
graph.run(3)
n_interrupted, end = 0, time.monotonic() + 8
for n in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-3))
        for _ in range(20):
            a.fill(n)
            kernel(a, b)
            kernel(b, c)
            runtime.flush()
            c.numpy()
            a.write(np.full(64, n + 1, np.int32))
            graph.run()
            runtime.wait()
    except KeyboardInterrupt:
        n_interrupted += 1
    except vc.VkComputeError as error:
        assert "interrupted" in str(error), error
    signal.setitimer(signal.ITIMER_REAL, 0)
    a.fill(n)
    graph.run()
    assert set(c.numpy().tolist()) == {n + 2}, (n, c.numpy())
    if time.monotonic() > end:
        break
runtime.close()
print("interrupted", n_interrupted)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")
@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
def test_a_storm_of_signals(staging: bool, run_python: Callable[..., Any]) -> None:
    done = run_python(STORM.replace("SOURCE", repr(ADD)).replace("STAGING", str(staging)))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 10


@pytest.mark.parametrize("options", OPTIONS, ids=["direct", "staging", "parts"])
def test_ctrl_c_while_a_runtime_is_closed(options: dict[str, Any]) -> None:
    """Whoever closes it again ends what is left, once."""
    spirv = vc.glsl(ADD)
    with watched():
        for after in range(0, 100_000, 11):
            runtime = open_runtime(**options)
            kernel, (a, b) = runtime.kernel(spirv), (runtime.zeros(LENGTH, np.int32) for _ in range(2))
            with runtime.record() as graph:
                kernel(a, b)
            graph.submit()
            del a
            with interrupted(after) as come:
                runtime.close()
            with interrupted(after + 5):
                runtime.close()
            runtime.close()
            assert runtime.closed
            if not come:
                break
        assert after > 100


@pytest.mark.parametrize("options", OPTIONS, ids=["direct", "staging", "parts"])
def test_ctrl_c_while_arrays_come_and_go(options: dict[str, Any]) -> None:
    """Memory that no array has is free again."""
    with watched(), open_runtime(**options) as runtime:
        memory = runtime.device.memory
        memory.block_bytes = nbytes = 1 << 20  # SwiftShader writes all of a new block
        for after in itertools.count():
            kept = [runtime.empty(n, np.uint8) for n in (1000, 2000, 3000)]
            del kept[1]
            runtime.wait()
            with interrupted(after) as come:
                kept += [runtime.empty(500, np.uint8), runtime.empty(nbytes, np.uint8)]
                kept.pop(0)
                runtime.flush()
                kept.append(runtime.empty(1500, np.uint8))
                kept.clear()
                runtime.flush()
            kept.clear()
            runtime.flush()
            runtime.device.collect(wait=True)
            assert memory.used_bytes == 0, after
            for block in memory.blocks:
                assert block.ranges.largest_free == block.nbytes, after
            memory.drop_empty(0)
            if not come:
                break
        assert after > 50


LONG = """
import signal, threading, time
import numpy as np
import vkcompute as vc

WORK = '''
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { uint a[]; };
void main() {
    uint x = a[gl_GlobalInvocationID.x];
    for (int i = 0; i < 60000; i++) x = x * 1664525u + 1013904223u;
    a[gl_GlobalInvocationID.x] = x;
}
'''
runtime = vc.Runtime()
kernel, a = runtime.kernel(vc.glsl(WORK)), runtime.zeros(1 << 11, np.uint32)
kernel(a).result()
started = time.perf_counter()
kernel(a).result()
once_s = time.perf_counter() - started
n = 1 + int(4 / once_s)
for _ in range(n):
    last = kernel(a)
runtime.flush()

def interrupted(wait):
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        wait()
    except KeyboardInterrupt:
        return True
    return False

write = lambda: a.write(np.zeros(a.size, np.uint32))
if not runtime.device.memory.unified:  # then a copy on the device waits, not the call
    write = a.numpy
waits = [last.result, runtime.wait, a.numpy, write, runtime.close, runtime.close]
print([interrupted(wait) for wait in waits], runtime.device.queues[0].poll() < last._queue.device_queue.last_value)
runtime.close()
print(runtime.closed)
"""


@pytest.mark.rotates
def test_ctrl_c_gets_out_of_every_wait(run_python: Callable[..., Any]) -> None:
    done = run_python(LONG)
    assert done.stdout.split("\n")[:2] == [f"{[True] * 6} True", "True"], done.stderr
    assert done.returncode == 0, done.stderr


HANDLERS: list[Callable[[World, vc.Array], object]] = [
    lambda w, own: w.kernel(own, own),
    lambda w, own: own.numpy(),
    lambda w, own: own.write(np.ones(LENGTH, np.int32)),
    lambda w, own: own.copy(),
    lambda w, _: w.other.run(),
    lambda w, _: w.runtime.wait(),
    lambda w, _: w.runtime.flush(),
    lambda w, own: w.kernel(own, own).done(),
    lambda w, own: [own + 1, w.kernel(own, own).done()],  # computes what still reads the array, by a launch within
    lambda w, _: w.runtime.zeros(10).close(),
]


@pytest.mark.rotates
@pytest.mark.parametrize("options", OPTIONS, ids=["direct", "staging", "parts"])
@pytest.mark.parametrize("use", USES)
def test_handlers_and_finalizers_that_use_the_runtime_do_no_harm(use: str, options: dict[str, Any]) -> None:
    """What they interrupt goes on as if they had not been there, also where they are rejected."""
    outcomes: set[str] = set()

    def handler() -> None:
        try:
            HANDLERS[after % len(HANDLERS)](world, own)
            outcomes.add("")
        except vc.VkComputeError as error:
            outcomes.add(str(error))

    with watched():
        world = World(**options)
        out, own = np.zeros(LENGTH, np.int32), world.runtime.zeros(LENGTH, np.int32)
        with world.runtime.record() as world.other:
            own.read(out)
        for after in itertools.count():
            world.reset()
            with handled(after, handler) as come:
                USES[use](world)
            c = {"flush": 0, "wait": 0, "numpy": 0, "copy": world.n + 1}.get(use, world.n + 2)
            assert (held(world.b), held(world.c)) == ({world.n + 1}, {c}), (after, outcomes)
            if not come:
                break
        assert after > 3
        own = world.other = None
        world.close()
    assert "" in outcomes
    assert all("signal handler or finalizer" in outcome for outcome in outcomes - {""})
    assert len(outcomes) < 3


def _opened_group(w: World) -> Any:
    return vc.DeviceGroup([w.runtime]).balance()


BLOCKS: dict[str, Callable[[World], Any]] = {
    "recording": lambda w: w.runtime.record(),
    "profile": lambda w: w.runtime.profile(),
    "balance": _opened_group,
    "runtime": lambda w: open_runtime(),
    "array": lambda w: w.runtime.zeros(5),
    "emulation": lambda w: emulated(staging=True),
}


@pytest.mark.parametrize("at", ["_finished", "_exit"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_ends_though_its_end_is_interrupted(kind: str, at: str) -> None:
    """The error is kept, as an interactive session does: its frames hold what the end of the block was called with."""
    world, kept = World(), []

    def fail(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == at:
            sys.setprofile(None)
            raise KeyboardInterrupt

    manager = BLOCKS[kind](world)
    try:
        with manager:
            world.kernel(world.a, world.b)
            sys.setprofile(fail)
    except KeyboardInterrupt as error:
        kept.append(error)
    finally:
        sys.setprofile(None)
    assert kept
    assert world.runtime.scheduler.recording() is None
    assert world.runtime.scheduler.recordings == ()
    assert world.runtime.scheduler.profile is None
    assert not current.get().staging
    assert getattr(manager, "closed", True)
    world.reset()
    world.check(b={world.n + 1}, c={0})
    kept.clear()
    world.close()


def test_asking_for_the_end_of_a_block_does_not_end_it() -> None:
    world = World()
    graph = world.runtime.record()
    assert hasattr(graph, "__exit__")
    with graph:
        assert callable(graph.__exit__)
        assert world.runtime.scheduler.recording() is graph
        world.kernel(world.a, world.b)
    graph.run()
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(world.runtime.profile())
        world.kernel(world.a, world.b)
        assert world.runtime.scheduler.profile is profile
    assert len(profile.tasks) == 1
    world.close()
