"""Simulated launches, for `NUMBA_ENABLE_CUDASIM=1`: Python runs the kernel, with its prints, debugger and errors.

Threads of a block run one at a time, in turns: until they wait or end. Numbers are Python's and NumPy's, as in Numba's
own simulator. Blocks run in sequence, unless the kernel waits for its grid.
"""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

XYZ = tuple[int, int, int]
WARP = 32
_OURS = __name__.rpartition(".")[0]
_ALL = 0xFFFFFFFF
_THREAD: contextvars.ContextVar[Thread | None] = contextvars.ContextVar("thread", default=None)


class _Stopped(BaseException):
    """Ends a thread of a launch that has failed."""


class Block:
    """Threads that share memory.

    Attributes:
        memory: the shared arrays, by the place of their call, or by their dtype if the launch gives their size.
        dynamic: the bytes whose number the launch gives.
    """

    def __init__(self, index: XYZ, n_threads: XYZ, n_blocks: XYZ, dynamic_bytes: int) -> None:
        self.index, self.n_threads, self.n_blocks = index, n_threads, n_blocks
        self.memory: dict[Any, Any] = {}
        self.dynamic: Any = np.zeros(dynamic_bytes, np.uint8)
        self.threads = [Thread(self, position, number) for number, position in enumerate(_positions(n_threads))]


class Thread:
    """A run of the kernel.

    Attributes:
        position: along x, y and z, in the block; `number` counts along x first.
        request: what it waits for: a barrier or an operation, its place, and a value; None while it runs.
        result: of the operation.
        ended: True after its end.
    """

    def __init__(self, block: Block, position: XYZ, number: int) -> None:
        self.block, self.position, self.number = block, position, number
        self.request: tuple[str, Any, Any] | None = None
        self.result: Any = None
        self.ended = False
        self._error: BaseException | None = None
        self._stops = False
        self._resumed, self._turn = threading.Semaphore(0), threading.Semaphore(0)
        self._work: threading.Thread | None = None

    def start(self, kernel: Callable[[], object]) -> None:
        """Makes it ready to run."""
        trace = sys.gettrace()

        def work() -> None:
            self._resumed.acquire()
            if trace is not None:
                sys.settrace(trace)  # of a debugger
            _THREAD.set(self)
            try:
                if not self._stops:
                    kernel()
            except _Stopped:
                pass
            except BaseException as error:
                self._error = error
            self.ended, self.request = True, None
            self._turn.release()

        self._work = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        self._work.start()

    def run(self) -> None:
        """Runs it until it waits or ends.

        Raises:
            Exception: the kernel raised it; the message begins with the thread and the block.
        """
        self.request = None
        self._resumed.release()
        self._turn.acquire()
        if self._error is not None:
            error, where = self._error, f"tid={[*self.position]} ctaid={[*self.block.index]}"
            if isinstance(error, Exception):
                error.args = (f"{where}: {error}",)
            raise error

    def wait(self, kind: str, value: Any = None) -> Any:
        """Waits for others, and returns the result of an operation with them."""
        self.request = kind, _place(), value
        self._turn.release()
        self._resumed.acquire()
        if self._stops:
            raise _Stopped
        return self.result

    def stop(self) -> None:
        """Ends it where it waits."""
        self._stops = True
        if self._work is not None and not self.ended:
            self._resumed.release()
            self._work.join(1)


def _place() -> tuple[Any, int]:
    """Returns the code and the instruction of the kernel, or of a function that it calls, that runs."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _positions(sizes: XYZ) -> Iterator[XYZ]:
    return ((x, y, z) for z, y, x in itertools.product(*map(range, sizes[::-1])))


def simulate(function: Callable[..., Any], args: Sequence[Any], n_blocks: XYZ, n_threads: XYZ, sharedmem: int) -> None:
    """Runs a kernel on arrays of the host."""
    blocks = (Block(index, n_threads, n_blocks, sharedmem) for index in _positions(n_blocks))
    waits_for_grid = "this_grid" in getattr(function, "__code__").co_names  # noqa: B009
    for together in [list(blocks)] if waits_for_grid else ([block] for block in blocks):
        threads = [thread for block in together for thread in block.threads]
        try:
            with np.errstate(all="ignore"):
                for thread in threads:
                    thread.start(partial(function, *args))
                _run(together, threads)
        finally:
            for thread in threads:
                thread.stop()


def _run(blocks: Sequence[Block], threads: Sequence[Thread]) -> None:
    """Runs threads to their end, and performs what they wait for."""
    ready = list(threads)
    while ready:
        for thread in ready:
            thread.run()
        ready = [lane for block in blocks for lane in _operations_of_warps(block)]
        for block in blocks if not ready else ():
            waiting = [thread for thread in block.threads if thread.request]
            if waiting and all(thread.request[0] != "grid" for thread in waiting if thread.request):
                ready += _voted(waiting)
        ready = ready or [thread for thread in threads if thread.request]


def _voted(waiting: list[Thread]) -> list[Thread]:
    """Gives the threads of a block that wait at a barrier the values of all."""
    votes = [thread.request[2] for thread in waiting if thread.request]
    for thread in waiting:
        thread.result = votes
    return waiting


def _operations_of_warps(block: Block) -> list[Thread]:
    """Gives the lanes of warps that wait at one place the values of all of them; returns these lanes."""
    performed: list[Thread] = []
    for first in range(0, len(block.threads), WARP):
        lanes = [t for t in block.threads[first : first + WARP] if t.request and t.request[0] == "warp"]
        places = [lane.request[1] for lane in lanes if lane.request]
        chosen = [lane for lane, place in zip(lanes, places, strict=True) if place == places[0]]
        values = {lane.number % WARP: lane.request[2] for lane in chosen if lane.request}
        for lane in chosen:
            lane.result = values
        performed += chosen
    return performed


# -- what kernels read and call ---------------------------------------------------------------------------------------


def current() -> Thread | None:
    """Returns the simulated thread that runs; None on the host."""
    return _THREAD.get()


def read(thread: Thread, name: str, axis: str = "x") -> int:
    """Returns a position or a size, by Numba's name."""
    at, block = "xyz".index(axis), thread.block
    return {
        "threadIdx": thread.position[at], "blockIdx": block.index[at], "blockDim": block.n_threads[at],
        "gridDim": block.n_blocks[at], "laneid": thread.number % WARP, "warpsize": WARP,
    }[name]  # fmt: skip


def _per_axis(one: Callable[[int], int], ndim: int) -> Any:
    values = tuple(one(axis) for axis in range(ndim))
    return values if ndim > 1 else values[0]


def _grid(thread: Thread, ndim: int) -> Any:
    block = thread.block
    return _per_axis(lambda at: block.index[at] * block.n_threads[at] + thread.position[at], ndim)


def _gridsize(thread: Thread, ndim: int) -> Any:
    return _per_axis(lambda at: thread.block.n_blocks[at] * thread.block.n_threads[at], ndim)


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(dtype if isinstance(dtype, (type, str)) else getattr(dtype, "dtype", dtype))


def _shared(thread: Thread, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    memory, kind = thread.block.memory, _dtype(dtype)
    if isinstance(shape, int) and shape == 0:
        whole = len(thread.block.dynamic) // kind.itemsize * kind.itemsize
        return thread.block.dynamic[:whole].view(kind)
    key = _place()
    if key not in memory:
        memory[key] = fielded(np.zeros(shape, kind))
    return memory[key]


def _local(thread: Thread, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    return fielded(np.zeros(shape, _dtype(dtype)))


def fielded(array: Any) -> Any:
    """Returns an array whose records have their fields as attributes."""
    return array.view(np.recarray) if array.dtype.names else array


def _changed(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Returns an operation on an element, which returns the old one."""

    def operate(thread: Thread, array: Any, index: Any, value: Any) -> Any:
        old = array[index]
        with np.errstate(all="ignore"):
            array[index] = change(old, np.asarray(value).astype(array.dtype)[()])
        return old

    return operate


def _cas(thread: Thread, array: Any, index: Any, old: Any, value: Any) -> Any:
    seen = array[index]
    if seen == old:
        array[index] = value
    return seen


def _shuffled(lane: Callable[[int, int], int]) -> Callable[..., Any]:
    """Returns a shuffle by a function of the own lane and an argument."""

    def shuffle(thread: Thread, mask: int, value: Any, argument: int) -> Any:
        own = thread.number % WARP
        values = thread.wait("warp", value)
        return values.get(lane(own, int(argument)), value)

    return shuffle


def _ballot(thread: Thread, mask: int, predicate: Any) -> dict[int, bool]:
    votes = thread.wait("warp", bool(predicate))
    return {lane: vote for lane, vote in votes.items() if int(mask) >> lane & 1}


def _bits(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))


def _match(thread: Thread, mask: int, value: Any) -> dict[int, Any]:
    return {lane: other for lane, other in thread.wait("warp", value).items() if int(mask) >> lane & 1}


def _match_all(thread: Thread, mask: int, value: Any) -> Any:
    values = _match(thread, mask, value)
    alike = all(other == value for other in values.values())
    return (_bits(values) if alike else np.uint32(0)), alike


def _width(x: Any) -> int:
    return np.asarray(x).dtype.itemsize * 8


def _word(x: Any) -> int:
    return int(x) & ((1 << _width(x)) - 1)


def _reversed(thread: Thread, x: Any) -> Any:
    return int(f"{_word(x):0{_width(x)}b}"[::-1], 2)


NAMES: dict[str, Callable[..., Any]] = {
    "grid": _grid, "gridsize": _gridsize, "shared.array": _shared, "local.array": _local,
    "const.array_like": lambda t, ndarray: fielded(ndarray),
    "syncthreads": lambda t: t.wait("block") and None,
    "syncthreads_count": lambda t, predicate: sum(map(bool, t.wait("block", predicate))),
    "syncthreads_and": lambda t, predicate: int(all(t.wait("block", predicate))),
    "syncthreads_or": lambda t, predicate: int(any(t.wait("block", predicate))),
    "cg.this_grid": lambda t: _Grid(), "syncwarp": lambda t, mask=_ALL: t.wait("warp") and None,
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), lambda t: None),
    "nanosleep": lambda t, ns: None,
    "shfl_sync": _shuffled(lambda own, lane: lane), "shfl_up_sync": _shuffled(lambda own, delta: own - delta),
    "shfl_down_sync": _shuffled(lambda own, delta: own + delta),
    "shfl_xor_sync": _shuffled(lambda own, mask: own ^ mask),
    "all_sync": lambda t, mask, predicate: all(_ballot(t, mask, predicate).values()),
    "any_sync": lambda t, mask, predicate: any(_ballot(t, mask, predicate).values()),
    "eq_sync": lambda t, mask, predicate: len({*_ballot(t, mask, predicate).values()}) <= 1,
    "ballot_sync": lambda t, mask, predicate: _bits(k for k, vote in _ballot(t, mask, predicate).items() if vote),
    "match_any_sync": lambda t, mask, value: _bits(k for k, other in _match(t, mask, value).items() if other == value),
    "match_all_sync": _match_all, "activemask": lambda t: _bits(t.wait("warp")),
    "lanemask_lt": lambda t: np.uint32((1 << t.number % WARP) - 1),
    "popc": lambda t, x: _word(x).bit_count(), "clz": lambda t, x: _width(x) - _word(x).bit_length(),
    "ffs": lambda t, x: (_word(x) & -_word(x)).bit_length(), "brev": _reversed,
    "fma": lambda t, a, b, c: a * b + c, "cbrt": lambda t, a: np.cbrt(a), "selp": lambda t, a, b, c: b if a else c,
    "atomic.add": _changed(lambda old, x: old + x), "atomic.sub": _changed(lambda old, x: old - x),
    "atomic.and_": _changed(lambda old, x: old & x), "atomic.or_": _changed(lambda old, x: old | x),
    "atomic.xor": _changed(lambda old, x: old ^ x), "atomic.exch": _changed(lambda old, x: x),
    "atomic.max": _changed(lambda old, x: x if x > old else old),
    "atomic.min": _changed(lambda old, x: x if x < old else old),
    "atomic.nanmax": _changed(np.fmax), "atomic.nanmin": _changed(np.fmin),
    "atomic.inc": _changed(lambda old, x: 0 if old >= x else old + 1),
    "atomic.dec": _changed(lambda old, x: x if old == 0 or old > x else old - 1), "atomic.cas": _cas,
    "atomic.compare_and_swap": lambda t, array, old, value: _cas(t, array, (0,) * array.ndim, old, value),
}  # fmt: skip
"""Name of a function of kernels in `cuda` -> what it does, given the thread."""


class _Grid:
    """The group of all threads of a launch."""

    def sync(self) -> None:
        """Waits for all threads of the grid."""
        thread = current()
        assert thread is not None
        thread.wait("grid")
