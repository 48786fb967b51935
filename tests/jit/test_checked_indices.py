"""Indices that are checked: which access fails first, what it says, and that nothing else changes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from faults import OUT_OF_DEVICE_MEMORY, watched
from hang_limit import hang_limit_s
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.core.lifetime import live_counts

N = 200
Ints = npt.NDArray[np.int32]


@vc.kernel(check_bounds=True)
def accesses(at, rows, columns, kept, x, table, out):
    i = vc.global_id(0)
    if i < at.size:
        result = x[at[i]]  # the first access
        table[rows[i], columns[i]] = result  # the second
        result += table[rows[i], columns[i]]  # the third
        old = vc.atomic.add(kept, at[i], 1)  # the fourth
        out[i] = result if old >= 0 else -1


class Model:
    """What `accesses` does, one invocation after the other. Where indices are bad, it lists them."""

    def __init__(self, x: Ints, table: Ints, kept: Ints) -> None:
        self.x, self.table, self.kept = x, table.copy(), kept.copy()
        self.bad: list[tuple[int, int, tuple[int, ...], tuple[int, ...]]] = []

    def inside(self, i: int, access: int, index: tuple[int, ...], shape: tuple[int, ...]) -> bool:
        """Notes an access (its invocation, its number in it, index and shape) if it is bad."""
        fits = all(0 <= k < n for k, n in zip(index, shape, strict=True))
        if not fits:
            self.bad.append((i, access, index, shape))
        return fits

    def run(self, at: Ints, rows: Ints, columns: Ints) -> list[int]:
        out = []
        for i in range(len(at)):
            result = int(self.x[at[i]]) if self.inside(i, 1, (int(at[i]),), self.x.shape) else 0
            cell = int(rows[i]), int(columns[i])
            if self.inside(i, 2, cell, self.table.shape):
                self.table[cell] = result
            result += int(self.table[cell]) if self.inside(i, 3, cell, self.table.shape) else 0
            if self.inside(i, 4, (int(at[i]),), self.kept.shape):
                self.kept[at[i]] += 1
            out.append(result)
        return out


def seen(array: vc.Array) -> Any:
    """What the memory holds, although the work that wrote it failed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array.runtime.scheduler, "failure_of", lambda ranges: None)
        return array.numpy()


def indices(low: int, high: int, n: int) -> st.SearchStrategy[list[int]]:
    """Mostly good ones, so that some programs have a single failure."""
    good = st.integers(low, high - 1)
    return st.lists(st.one_of(good, good, good, st.integers(-(2**31), 2**31 - 1)), min_size=n, max_size=n)


@settings(max_examples=20)
@given(data=st.data(), n=st.integers(1, 90), local=st.sampled_from([1, 8, 32]))
def test_the_first_bad_access_of_the_model_is_what_is_told(
    gpu: vc.Runtime, data: st.DataObject, n: int, local: int
) -> None:
    columns_of = np.arange(n, dtype=np.int32)  # each invocation has its own cells, so that the order does not matter
    at = np.array(data.draw(indices(0, n, n)), np.int32)
    rows = np.array(data.draw(indices(0, 3, n)), np.int32)
    bad_column = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    columns = np.where(bad_column, columns_of + n, columns_of).astype(np.int32) if any(rows < 0) else columns_of
    x, table, kept = np.arange(10, n + 10, dtype=np.int32), np.zeros((3, n), np.int32), np.zeros(n, np.int32)
    model = Model(x, table, kept)
    expected = model.run(at, rows, columns)
    arrays = [gpu.array(host) for host in (at, rows, columns, kept, x, table)]
    out = gpu.zeros(n, np.int32)
    future = accesses[-(-n // local), local](*arrays, out)
    error = future.exception()
    if not model.bad:
        assert error is None
        assert out.numpy().tolist() == expected
        return
    assert isinstance(error, vc.KernelError)
    i, access, index, shape = min(model.bad)
    told = str(error)
    assert re.search(rf"index \(?{', '.join(map(str, index))}\)? is outside of ", told), told
    assert f"whose shape is {shape}, in invocation ({i}, 0, 0) of accesses" in told
    assert f"# the {['first', 'second', 'third', 'fourth'][access - 1]}" in told
    assert (f"the first of {len(model.bad)} failures" in told) == (len(model.bad) > 1)
    with pytest.raises(vc.KernelError, match="is outside of"):
        out.numpy()
    assert seen(out).tolist() == expected
    assert np.array_equal(seen(arrays[5]), model.table)
    assert np.array_equal(seen(arrays[3]), model.kept)
    assert np.array_equal(arrays[4].numpy(), x), "what was only read is as good as before"


@vc.kernel(check_bounds=True)
def spread(out, width):
    x, y = vc.global_id(0), vc.global_id(1)
    if x >= width:
        out[vc.global_id(2), y, x] = 1


def test_the_first_in_the_order_of_the_grid(gpu: vc.Runtime) -> None:
    """Of a million failures too, whatever comes first on the device."""
    out = gpu.zeros((2, 3, 4))
    with pytest.raises(
        vc.KernelError, match=r"index \(0, 0, 5\) is outside of out, whose shape is \(2, 3, 4\)"
    ) as told:
        spread[(4, 3, 2), (4, 1, 1)](out, 5).result()
    assert "in invocation (5, 0, 0) of spread, the first of 66 failures" in str(told.value)
    with pytest.raises(vc.KernelError, match=r"index \(0, 0, 7\).* in invocation \(7, 0, 0\).*first of 1048569"):
        spread[(1 << 14, 1, 1), 64](out, 7).result()


def shifted(x, i):
    return x[i + 1]  # in the function


@vc.kernel(check_bounds=True)
def of_many_kinds(x, flags, wide, out, far):
    tile = vc.shared((2, 64), vc.float32)
    i = vc.local_id(0)
    tile[1, i] = x[i]
    vc.barrier()
    if flags[i]:
        out[i] = tile[1, 63 - i] + x[-1] + x[far]
        wide[i] += vc.int64(shifted(x, i))


@vc.kernel(check_bounds=True)
def of_a_shared_array(out, k):
    tile = vc.shared(8, vc.int32)
    i = vc.local_id(0)
    old = vc.atomic.compare_exchange(tile, i + k, 0, 5)
    out[i] = old


def test_shared_arrays_helpers_flags_and_wide_indices(gpu: vc.Runtime) -> None:
    x, odd = np.arange(64, dtype=np.float32), np.arange(64) % 2 == 0

    def run(flags: Any, far: int) -> vc.Array:
        wide, out = gpu.zeros(64, np.int64), gpu.zeros(64)
        of_many_kinds[1, 64](gpu.array(x), gpu.array(flags), wide, out, far).result()
        return out

    assert np.array_equal(run(odd, 3).numpy(), np.where(odd, 63 - np.arange(64) + 63 + 3, 0))
    with pytest.raises(vc.KernelError, match=r"index 64 is outside of x.* in invocation \(63, 0, 0\)") as told:
        run(np.full(64, True), 3)
    assert "# in the function" in str(told.value)
    assert "in this call of shifted" in str(told.value)
    with pytest.raises(vc.KernelError, match=r"index -1 is outside of x.* the first of 32 failures"):
        run(odd, -1)
    with pytest.raises(vc.KernelError, match=r"index 1099511627776 is outside of x"):
        run(odd, 1 << 40)
    with pytest.raises(
        vc.KernelError, match=r"index 8 is outside of tile, whose shape is \(8,\), in inv.* \(5, 0, 0\)"
    ):
        of_a_shared_array[1, 8](gpu.zeros(8, np.int32), 3).result()


@vc.kernel(check_bounds=True)
def copy(x, out, shift):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i + shift]


@pytest.fixture(params=[{}, {"staging": True}, {"timelines": (3, 1)}], ids=["direct", "staging", "lanes"])
def runtime(request: pytest.FixtureRequest, clean_handles: None) -> Iterator[vc.Runtime]:
    with open_runtime(**request.param) as runtime:
        yield runtime


def fails(use: Callable[[], object]) -> None:
    """It raises what the launch has reported."""
    with pytest.raises(vc.KernelError, match=rf"index {N} is outside of x") as told:
        use()
    told.value.__traceback__ = None


@contextlib.contextmanager
def unseen(runtime: vc.Runtime) -> Iterator[None]:
    """What fails is not known to before the end: else what depends on it would be refused where the device is quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime.scheduler.callbacks, "run_finished", lambda: None)
        yield


def test_who_is_told(runtime: vc.Runtime) -> None:
    x = runtime.array(np.arange(N, dtype=np.float32))
    out, after, other = runtime.zeros(N), runtime.zeros(N), runtime.zeros(N)
    with unseen(runtime):
        future = copy(x, out, 1)
        follows = copy(out, after, 0)
        elsewhere = copy(x, other, 0)
        copied = runtime.zeros(N)
        copied.copy_from(after)
    for use in (follows.result, copied.numpy, after.numpy, out.numpy, future.result, lambda: copy(out, other, 0)):
        fails(use)
    assert future.done()
    assert future.failed
    elsewhere.result()
    fails(other.numpy)  # the refused launch was to write it
    called: list[BaseException | None] = []
    future.add_done_callback(lambda done: called.append(done.exception()))
    assert concurrent.futures.wait([future], timeout=hang_limit_s()).not_done == set()
    assert isinstance(called[0], vc.KernelError)
    fails(lambda: asyncio.run(awaited(future)))
    copy(x, out, 0)
    other.write(np.zeros(N, np.float32))
    assert out.numpy().tolist() == list(range(N))
    runtime.wait()
    assert not runtime.scheduler.callbacks


async def awaited(future: vc.Future) -> None:
    await future


def test_callbacks_are_told_by_the_watcher(runtime: vc.Runtime) -> None:
    x, out = runtime.zeros(N), runtime.zeros(N)
    told, called = threading.Event(), []
    future = copy(x, out, 1)
    future.add_done_callback(lambda done: (called.append(done.exception()), told.set()))
    assert told.wait(hang_limit_s(60))
    assert isinstance(called[0], vc.KernelError)


def test_waiting_tells_once_what_nobody_was_told_of(runtime: vc.Runtime) -> None:
    x, out = runtime.zeros(N), runtime.zeros(N)
    with unseen(runtime):
        copy(x, out, 1)
        copy(out, x, 0)
    fails(runtime.wait)
    runtime.wait()
    runtime.flush()
    fails(x.numpy)


def test_what_nobody_asked_for_is_warned_of_at_the_end(clean_handles: None) -> None:
    runtime = vc.Runtime()
    copy(runtime.zeros(N), runtime.zeros(N), 1)
    with pytest.warns(RuntimeWarning, match=f"index {N} is outside"):
        runtime.close()


def test_graphs_report_each_run(runtime: vc.Runtime) -> None:
    x, out, fetched = runtime.array(np.arange(N, dtype=np.float32)), runtime.zeros(N), np.zeros(N, np.float32)
    with runtime.record(shift=0, x=x) as graph:
        part = graph.empty(N)
        copy(graph["x"], part, graph["shift"])
        copy(part, out, 0)
        out.read(fetched)
    graph.run()
    assert fetched.tolist() == list(range(N))
    fails(lambda: graph.run(shift=1))
    fails(out.numpy)
    futures = [graph.submit(shift=n % 2) for n in range(7)]
    for n, future in enumerate(futures):
        if n % 2:
            fails(future.result)
        else:
            future.result()
    fails(lambda: graph.run(times=4, shift=1))
    graph.submit(shift=1)
    fails(out.numpy)
    graph.run(times=4, x=runtime.full(N, 5.0))
    assert set(out.numpy()) == {5.0}
    with runtime.record(shift=0) as outer:
        graph.run(shift=outer["shift"], times=3)
    outer.run()
    with pytest.raises(vc.KernelError, match=f"index {N} is outside"):
        outer.run(shift=1)
    graph.submit(shift=1)
    with pytest.raises(vc.KernelError):
        runtime.wait()
    graph.close()
    outer.close()


def test_profiles_of_what_reports(runtime: vc.Runtime) -> None:
    x, out = runtime.zeros(N), runtime.zeros(N)
    with runtime.record() as graph:
        copy(x, out, 1)
    with runtime.profile() as profile:
        fails(copy(x, out, 1).result)
        copy(x, out, 0).result()
        fails(graph.submit().result)
    assert [task.name for task in profile.tasks] == ["copy"], "and not what failed"
    fails(graph.run)
    graph.close()


def test_streams_and_groups(group: vc.DeviceGroup) -> None:
    x = np.arange(10 * N, dtype=np.float32)
    out = np.zeros_like(x)
    gpu = group.runtimes[0]
    gpu.stream(x, lambda a, b: copy(a, b, 0), out, chunk_bytes=4 * N)
    assert np.array_equal(out, x)
    with pytest.raises(vc.KernelError, match=f"index {N} is outside"):
        gpu.stream(x, lambda a, b: copy(a, b, 1), out, chunk_bytes=4 * N)
    a, b = group.array(x), group.empty(x.shape)
    group.kernel(copy)(a, b, 0).result()
    assert np.array_equal(b.numpy(), x)
    future = group.kernel(copy)(a, b, 1)
    for use in (future.result, b.numpy):
        with pytest.raises(vc.KernelError, match="is outside of x"):
            use()
    with pytest.raises(vc.KernelError, match="is outside of x"):  # of the other device
        group.wait()
    group.wait()


def test_threads_see_their_own_failures(runtime: vc.Runtime) -> None:
    x = runtime.array(np.arange(N, dtype=np.float32))

    def work(thread: int) -> int:
        out, failures = runtime.zeros(N), 0
        for n in range(40):
            future = copy(x, out, (n + thread) % 2)
            try:
                (future.result if n % 3 else out.numpy)()
            except vc.KernelError:
                failures += 1
                assert (n + thread) % 2
            else:
                assert not (n + thread) % 2
        return failures

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [20] * 4
    assert not runtime.scheduler.callbacks


def test_nothing_grows(runtime: vc.Runtime) -> None:
    """Neither with launches that nobody waits for, nor with those that fail."""
    x, out = runtime.zeros(N), runtime.zeros(N)

    def held() -> tuple[dict[str, int], int]:
        for shift in (0, 1):
            copy(x, out, shift).exception()
        for _ in range(300):
            copy(x, out, 0)
            assert len(runtime.scheduler.callbacks) <= 64
        runtime.wait()
        for _ in range(30):
            assert copy(x, out, 1).exception() is not None
        runtime.device.collect(wait=True)
        return live_counts(), runtime.device.memory.used_bytes

    before = held()
    assert [held() for _ in range(3)] == [before] * 3


def test_reports_are_read_while_nobody_waits(runtime: vc.Runtime) -> None:
    """However long the row of what depends on a launch, it is not kept for longer than the launch takes."""
    x, out = runtime.zeros(N), runtime.zeros(N)
    with runtime.record() as graph:
        x.copy_from(out)
        out.copy_from(x)
    for depend in (graph.submit, lambda: x.copy_from(out)):
        copy(x, out, 0)
        for _ in range(20_000):
            depend()
            if not runtime.scheduler.callbacks:
                break
        assert not runtime.scheduler.callbacks


def test_launches_that_are_not_submitted_report_nothing(clean_handles: None) -> None:
    with watched() as faults, vc.Runtime() as runtime:
        x, out = runtime.zeros(N), runtime.zeros(N)
        copy(x, out, 0).result()
        faults.arm("vkQueueSubmit", 0, OUT_OF_DEVICE_MEMORY, times=2)
        with pytest.raises(vc.VulkanError, match="vkQueueSubmit"):
            copy(x, out, 1).result()
        copy(x, out, 0).result()
        assert not runtime.scheduler.callbacks
        with pytest.raises(ValueError, match="grid"):
            copy[(1, 1 << 31), 1](x, out, 0)
        runtime.wait()
        assert not runtime.scheduler.callbacks


def test_kernels_that_need_no_report_have_none(gpu: vc.Runtime) -> None:
    @vc.kernel(check_bounds=False)
    def plain(x, out, shift):
        out[vc.global_id(0)] = x[vc.global_id(0) + shift]

    x = gpu.zeros(64)
    plain(x, gpu.zeros(64), 0).result()
    (known,) = plain._launch._compiled._specializations._known.values()
    assert known[0].sites == ()
    assert len(known[0].module.interface.bindings) == 2


def test_the_environment_turns_it_on(run_python: Callable[..., Any], tmp_path: Any) -> None:
    (tmp_path / "unsafe.py").write_text(
        "import vkcompute as vc\n"
        "@vc.kernel\n"
        "def unsafe(x, out):\n"
        "    out[vc.global_id(0)] = x[vc.global_id(0) + 1]\n"
        "@vc.kernel(check_bounds=False)\n"
        "def unchecked(x, out):\n"
        "    if vc.global_id(0) < 64:\n"
        "        out[vc.global_id(0)] = x[vc.global_id(0)]\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import vkcompute as vc\nfrom unsafe import unchecked, unsafe\n"
        "with vc.Runtime() as gpu:\n"
        "    unchecked(gpu.zeros(64), gpu.zeros(64)).result()\n"
        "    print(unchecked._launch._options.check_bounds, unsafe(gpu.zeros(64), gpu.zeros(64)).exception())\n"
    )
    done = run_python(code, env={**os.environ, "VKCOMPUTE_CHECK_BOUNDS": "1"})
    assert "index 64 is outside of x" in done.stdout, done.stderr
    assert done.stdout.startswith("False")


def test_how_it_is_asked_for() -> None:
    @vc.kernel()
    def bare(x):
        x[0] = 1

    assert repr(bare) == "<Python kernel bare>"
    for wrong in (0, -1, 1.5, True, 10**9):
        with pytest.raises(ValueError, match="print_limit is an int from 1"):
            vc.kernel(print_limit=wrong)(shifted)  # type: ignore[arg-type]
