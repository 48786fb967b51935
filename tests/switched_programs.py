"""Small programs of public calls for `switching`, on arrays of their own, and on arrays that all of them only read."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute.core.device_profile import current, emulated

HOST = np.arange(6, dtype=np.float32)


@vc.kernel
def shown(x: Any) -> None:
    """Prints an element, and doubles all."""
    i = vc.global_id(0)
    if i == 1:
        print(f"x[1] = {x[i]}")
    if i < x.size:
        x[i] *= 2


class Stream:
    """A stream for `sys.stdout` whose writers take turns, as those of logging do."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.texts: list[str] = []

    def write(self, text: str) -> int:
        with self.lock:
            self.texts.append(text)
        return len(text)

    def flush(self) -> None:
        """Does nothing."""


class World:
    """Two runtimes, and arrays that programs share.

    Attributes:
        x, lazy, restored: an array in memory, one to be computed, and one that was unpickled.
        shared: an array that some programs write.
        stream: the standard output.
    """

    def __init__(self, gpu: vc.Runtime, other: vc.Runtime) -> None:
        self.gpu, self.other, self.stream = gpu, other, Stream()
        self.x, self.shared = gpu.array(HOST), gpu.zeros(6)
        self.restored = pickle.loads(pickle.dumps(self.x))
        self.lazy = self.x * 2 + 1

    @cached_property
    def large(self) -> tuple[Any, Any]:
        """Two expressions that are together too large for a kernel."""
        one, other = self.x, self.x
        for _ in range(30):
            one, other = one + 1.0, other + 2.0
        return one, other

    def check(self) -> str:
        """Returns what is wrong with the state that a program leaves, or ""."""
        if self.gpu.scheduler.recording() is not None or self.gpu.scheduler.recordings:
            return "the thread records for ever"
        if self.gpu.scheduler.profile is not None:
            return "a profile goes on for ever"
        if current.get().staging:
            return "emulation goes on for ever"
        with self.gpu.record() as graph:
            self.shared[...] = self.x + 1
        graph.run()
        result = self.x, self.lazy, self.restored, self.shared
        for array, host in zip(result, (HOST, HOST * 2 + 1, HOST, HOST + 1), strict=True):
            if not np.array_equal(array.numpy(), host):
                return f"an array is {array.numpy().tolist()}, not {host.tolist()}"
        return ""


Made = Callable[[World], Callable[[], Any]]
PROGRAMS: dict[str, Made] = {}


def program(made: Made) -> Made:
    """Registers a function that prepares a program, which is then run with switches."""
    PROGRAMS[made.__name__] = made
    return made


@program
def expression(w: World) -> Callable[[], Any]:
    return lambda: (w.x + w.lazy * w.restored).numpy().tolist()


@program
def large_expression(w: World) -> Callable[[], Any]:
    def run() -> Any:
        one, other = w.lazy, w.lazy
        for _ in range(30):
            one, other = one + 1.0, other + 2.0
        return (one + other).numpy().tolist()

    return run


@program
def sum_of_shared_operands(w: World) -> Callable[[], Any]:
    one, other = w.large
    return lambda: (one + other).numpy().tolist()


@program
def operands_of_a_sum(w: World) -> Callable[[], Any]:
    one, other = w.large
    return lambda: (one.numpy().tolist(), other.numpy().tolist())


@program
def shared_operand(w: World) -> Callable[[], Any]:
    def run() -> Any:
        costly = vnp.sqrt(w.lazy)
        return (costly + costly.T).numpy().tolist(), (costly * 2).numpy().tolist()

    return run


@program
def in_place(w: World) -> Callable[[], Any]:
    a = w.gpu.array(HOST)

    def run() -> Any:
        nonlocal a
        a += w.lazy
        a *= a
        return a.numpy().tolist()

    return run


@program
def in_place_of_a_view(w: World) -> Callable[[], Any]:
    a = w.gpu.array(HOST)

    def run() -> Any:
        a[1:] += a[:-1]
        return a.numpy().tolist()

    return run


@program
def assignment(w: World) -> Callable[[], Any]:
    a = w.gpu.zeros(6)

    def run() -> Any:
        a[...] = w.lazy * 2 + w.x
        a[::2] = w.lazy[::2]
        return a.numpy().tolist()

    return run


@program
def view(w: World) -> Callable[[], Any]:
    return lambda: w.lazy.reshape(2, 3).T.numpy().tolist()


@program
def mask(w: World) -> Callable[[], Any]:
    a = w.gpu.array(HOST)

    def run() -> Any:
        a[w.x > 2] = 9
        return a.numpy().tolist()

    return run


@program
def selection(w: World) -> Callable[[], Any]:
    return lambda: w.lazy[w.x > 2].numpy().tolist()


@program
def sort(w: World) -> Callable[[], Any]:
    return lambda: vnp.sort(-w.lazy).numpy().tolist()


@program
def reduction(w: World) -> Callable[[], Any]:
    return lambda: (w.lazy.sum().item(), (w.lazy - w.lazy.max()).min().item())


@program
def scan(w: World) -> Callable[[], Any]:
    return lambda: vnp.cumsum(w.lazy).numpy().tolist()


@program
def product(w: World) -> Callable[[], Any]:
    return lambda: (w.lazy.reshape(2, 3) @ w.x.reshape(3, 2)).numpy().tolist()


@program
def recording(w: World) -> Callable[[], Any]:
    a, out = w.gpu.array(HOST), w.gpu.zeros(6)

    def run() -> Any:
        nonlocal a
        with w.gpu.record() as graph:
            a += 10
            y = a * 2
            out[...] = y + w.lazy
        graph.run(2)
        return out.numpy().tolist()

    return run


@program
def recording_of_unpickled(w: World) -> Callable[[], Any]:
    mine, out = pickle.loads(pickle.dumps(w.x)), w.gpu.zeros(6)

    def run() -> Any:
        nonlocal mine
        with w.gpu.record() as graph:
            mine += 1
            out[...] = mine + w.restored
        graph.run(2)
        assert mine.numpy().tolist() == (HOST + 2).tolist(), "two runs add up"
        return out.numpy().tolist()

    return run


@program
def recording_with_host_arrays(w: World) -> Callable[[], Any]:
    a, up, down = w.gpu.zeros(6), HOST.copy(), np.zeros(6, np.float32)

    def run() -> Any:
        with w.gpu.record() as graph:
            a.write(up)
            (a + w.lazy).read(down)
        graph.run()
        return down.tolist()

    return run


@program
def download(w: World) -> Callable[[], Any]:
    a, down = w.gpu.array(HOST), np.zeros(6, np.float32)
    with w.gpu.record() as graph:
        a += 1
        a.read(down)
    graph.run()

    def run() -> Any:
        graph.submit()
        graph.run()
        return down.tolist()

    return run


@program
def pickled(w: World) -> Callable[[], Any]:
    return lambda: pickle.loads(pickle.dumps(w.lazy)).numpy().tolist()


@program
def unpickled(w: World) -> Callable[[], Any]:
    mine = pickle.loads(pickle.dumps(w.x))

    def run() -> Any:
        total = mine + w.restored
        w.gpu.flush()
        return total.numpy().tolist()

    return run


@program
def printing_kernel(w: World) -> Callable[[], Any]:
    a = w.gpu.array(HOST)

    def run() -> Any:
        shown(a)
        shown(a).result()
        return a.numpy().tolist()

    return run


@program
def user_of_the_stream(w: World) -> Callable[[], Any]:
    def run() -> Any:
        with w.stream.lock:
            w.gpu.wait()
            return (w.x * 3).numpy().tolist()

    return run


@program
def flush(w: World) -> Callable[[], Any]:
    return w.gpu.flush


@program
def wait(w: World) -> Callable[[], Any]:
    return w.gpu.wait


@program
def empty_recording(w: World) -> Callable[[], Any]:
    def run() -> None:
        with w.gpu.record():
            pass

    return run


@program
def write(w: World) -> Callable[[], Any]:
    a = w.gpu.zeros(6)

    def run() -> Any:
        y = a + w.x
        a.write(HOST)
        return y.numpy().tolist(), a.numpy().tolist()

    return run


@program
def copy(w: World) -> Callable[[], Any]:
    a = w.gpu.zeros(6)

    def run() -> Any:
        y = a + 1
        a.copy_from(w.lazy)
        return y.numpy().tolist(), a.numpy().tolist()

    return run


@program
def close(w: World) -> Callable[[], Any]:
    def run() -> Any:
        lazy = w.lazy + 1
        with w.x + 2 as other:
            again = lazy * other
        lazy.close()
        return again.numpy().tolist()

    return run


@program
def other_runtime(w: World) -> Callable[[], Any]:
    a = w.other.array(HOST)

    def run() -> Any:
        nonlocal a
        a += 1
        return (w.gpu.array(a) + w.lazy).numpy().tolist()

    return run


@program
def shared_update(w: World) -> Callable[[], Any]:
    def run() -> None:
        w.shared.fill(7)

    return run


@program
def shared_read(w: World) -> Callable[[], Any]:
    return lambda: (w.shared * 2).numpy().tolist()


@program
def random(w: World) -> Callable[[], Any]:
    generator = vnp.random.default_rng(1)
    return lambda: generator.random(4).numpy().tolist()


@program
def collect(w: World) -> Callable[[], Any]:
    def run() -> None:
        w.gpu.device.collect()
        gc.collect(0)

    return run


BLOCKS: dict[str, Made] = {
    f"interrupted_{name}": PROGRAMS[name] for name in ("recording", "recording_with_host_arrays", "close")
}
"""Programs with context managers, to interrupt."""


def block(made: Made) -> Made:
    """Registers a program with a context manager."""
    BLOCKS[f"interrupted_{made.__name__}"] = made
    return made


@block
def profile(w: World) -> Callable[[], Any]:
    def run() -> None:
        with w.gpu.profile():
            w.shared.fill(1)

    return run


@block
def group_balance(w: World) -> Callable[[], Any]:
    group = vc.DeviceGroup([w.gpu, w.other])

    def run() -> None:
        with group.balance():
            w.shared.fill(1)

    return run


@block
def emulation(w: World) -> Callable[[], Any]:
    def run() -> None:
        with emulated(staging=True):
            w.shared.fill(1)

    return run


def as_output(w: World, run: Callable[[], Any]) -> Any:
    """Returns `run()`, with the world's stream as the standard output."""
    result, sys.stdout = sys.stdout, w.stream  # type: ignore[assignment]
    try:
        return run()
    finally:
        sys.stdout = result
