"""More arrays than the device holds: those least recently used are on the host, and come back when they are used."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import OUT_OF_DEVICE_MEMORY, interrupted, watched
from hypothesis import given
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
import vkcompute.numpy as vnp
from vkcompute.core import host_memory
from vkcompute.core.host_memory import HostMemory
from vkcompute.core.memory_pool import MIB
from vkcompute.runtime.memory.transfers import Transfers

pytestmark = [pytest.mark.usefixtures("clean_handles"), pytest.mark.filterwarnings("ignore::vkcompute.SpillWarning")]
LIMIT = 4 * MIB
N = MIB // 8  # float32 of half a MiB


@pytest.fixture(scope="module", autouse=True)
def _small_slots() -> Iterator[None]:
    """Staging memory that is small beside the limit."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("core.staging", "runtime.memory.transfers", "runtime.scheduling.residency"):
            patch.setattr(f"vkcompute.{module}.SLOT_BYTES", 40_000)
        yield


@pytest.fixture(params=[False, True], ids=["direct", "staging"])
def small(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A device of 4 MiB."""
    with open_runtime(memory_limit_bytes=LIMIT, staging=request.param) as runtime:
        yield runtime


@vc.kernel
def add_to(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = out[i] + x[i]


@vc.kernel
def difference(x: Any, y: Any, z: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] - y[i] - z[i]


def filled(gpu: vc.Runtime, n: int) -> list[vc.Array]:
    return [gpu.array(np.full(N, i, np.float32)) for i in range(n)]


def test_the_least_recently_used_move_and_come_back(small: vc.Runtime) -> None:
    assert small.memory() == (0, LIMIT, 0, 0, 0)
    first = filled(small, 4)
    for x in first[1:]:  # the oldest one is then the first
        add_to(x, x)
    rest = filled(small, 5)
    moved = [x.buffer.host is not None for x in (*first, *rest)]
    assert moved[0], "the least recently used"
    assert not moved[-1]
    seen = small.memory()
    assert seen.spilled == sum(moved) * MIB // 2
    assert seen.used + seen.spilled >= 9 * MIB // 2
    assert seen.used <= LIMIT + 40_000, "a staging slot may exceed the limit"
    assert seen.peak >= seen.used
    add_to(first[0], rest[0])
    assert [int(x[-1].item()) for x in (*first, *rest)] == [0, 2, 4, 6, 0, 1, 2, 3, 4]
    assert all((x.numpy() == x[0].item()).all() for x in (*first, *rest))
    first.clear()
    rest.clear()
    del x
    gc.collect()
    assert small.memory().spilled == 0


def test_one_warning_at_the_callers_line() -> None:
    with open_runtime(memory_limit_bytes=LIMIT) as gpu:
        with warnings.catch_warnings(record=True) as result:
            warnings.simplefilter("always")
            kept = filled(gpu, 20)
        assert [item.category for item in result] == [vc.SpillWarning]
        assert result[0].filename == __file__
        assert "memory()" in str(result[0].message)
        assert kept[3][0].item() == 3


def test_a_warning_that_is_an_error_is_raised_at_the_callers_line() -> None:
    with open_runtime(memory_limit_bytes=LIMIT) as gpu, warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = [gpu.full(N, 1.0)]
        with pytest.raises(vc.SpillWarning):
            kept.extend(gpu.full(N, 1.0) for _ in range(20))
        assert all(x[-1].item() == 1 for x in kept)


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_limit_of_host_memory(by_environment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays beyond both memories raise an error; those before it stay usable, in turns."""
    options: dict[str, Any] = {} if by_environment else {"spill_limit_bytes": 3 * MIB}
    monkeypatch.setenv("VKCOMPUTE_SPILL_LIMIT_BYTES", str(3 * MIB) if by_environment else "1")
    with open_runtime(memory_limit_bytes=LIMIT, **options) as gpu:
        kept: list[vc.Array] = []
        with pytest.raises(
            vc.OutOfDeviceMemory, match=rf"host memory, and take {3 * MIB} at most; free arrays, or open"
        ):
            kept.extend(gpu.full(N, float(i)) for i in range(100))
        assert 0 < gpu.memory().spilled <= 3 * MIB
        for _ in range(2):  # those that come back move others to the host, where the limit is reached
            assert [x[0].item() for x in kept] == list(range(len(kept)))
    monkeypatch.setenv("VKCOMPUTE_SPILL_LIMIT_BYTES", "2GiB")
    with pytest.raises(ValueError, match="VKCOMPUTE_SPILL_LIMIT_BYTES is a number of bytes, 0 or more; got '2GiB'"):
        vc.Runtime()


@pytest.mark.parametrize("available", [0, 200 * MIB])
def test_host_memory_is_left_to_others(available: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of it, which a process that fills it would take from all programs."""
    state = HostMemory(8192 * MIB, available)
    monkeypatch.setattr("vkcompute.runtime.scheduling.residency.host_memory", lambda: state)
    with open_runtime(memory_limit_bytes=LIMIT) as gpu:
        kept: list[vc.Array] = []
        with pytest.raises(vc.OutOfDeviceMemory, match=rf"has {available} of {8192 * MIB} bytes available, of which"):
            kept.extend(gpu.full(N, float(i)) for i in range(20))
        assert gpu.memory().spilled == 0


@pytest.mark.pure
def test_the_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(host_memory, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(host_memory, "CGROUP_MOUNT", tmp_path / "mount")
    (tmp_path / "meminfo").write_text("MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:  6000 kB\nPages: 4\n")
    assert host_memory.host_memory() == (8000 << 10, 6000 << 10)
    for text, folder, files, expected in (
        ("0::/a/b", "mount/a", ("memory.max", "memory.current", "inactive_file"), (500, 350)),
        (
            "4:cpu,memory:/c",
            "mount/memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            (500, 350),
        ),
        ("0::/", "mount/d", ("memory.max", "memory.current", "inactive_file"), (8000 << 10, 6000 << 10)),
    ):
        (tmp_path / folder).mkdir(parents=True)
        for name, content in zip(files, ("500", "200", "memory.stat"), strict=True):
            (tmp_path / folder / name).write_text(content)
        (tmp_path / folder / "memory.stat").write_text(f"file 100\n{files[2]} 50\n")
        (tmp_path / "cgroup").write_text(f"3:pids:/x\n{text}\n")
        assert host_memory.host_memory() == expected
    (tmp_path / "meminfo").unlink()
    assert host_memory.host_memory().total >= 0


def test_what_can_never_fit_moves_nothing(small: vc.Runtime) -> None:
    kept = filled(small, 4)
    with pytest.raises(vc.OutOfDeviceMemory):
        small.empty(LIMIT)
    assert small.memory().spilled == 0
    assert kept[2][0].item() == 2


def test_a_launch_whose_arrays_do_not_fit_together(small: vc.Runtime) -> None:
    x, y = (small.full(5 * N, value) for value in (1.0, 2.0))
    with pytest.raises(vc.OutOfDeviceMemory, match="one launch or graph uses are on the device at the same time"):
        add_to(x, y)
    assert (x[-1].item(), y[-1].item()) == (1, 2)


def test_a_fused_expression_that_does_not_fit_is_computed_in_parts(small: vc.Runtime) -> None:
    kept = [small.full(5 * N // 4, float(i)) for i in range(7)]
    total = kept[0] + 0
    for x in kept[1:]:
        total = total + x * 2
    assert total.numpy().tolist() == [42.0] * (5 * N // 4)
    assert vnp.sum(kept[5] * kept[6] + kept[4] * kept[3] - kept[2] * kept[1] + 1).item() == 41 * (5 * N // 4)


def test_views_expressions_and_writes(small: vc.Runtime) -> None:
    x = small.array(np.arange(N, dtype=np.float32))
    view, every = x[10:20], x[:40:2]
    lazy = x + 1
    others = filled(small, 12)
    assert x.buffer.host is not None
    assert view.reshape(2, 5).T.shape == (5, 2), "views need no memory"
    assert x[3:4].numpy().tolist() == [3], "read from the host"
    assert x.buffer.host is not None
    x.write(np.zeros(N, np.float32))
    np.testing.assert_array_equal(lazy.numpy(), np.arange(1, N + 1))
    every.fill(5)
    others += filled(small, 12)
    view += 1
    assert x[8:14].numpy().tolist() == [5, 0, 6, 1, 6, 1]
    others[3][...] = x
    assert others[3][:3].numpy().tolist() == [5, 0, 5]


@triton.jit
def added(x_ptr: Any, y_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))


def test_repeated_launches_that_bind_an_array_twice(small: vc.Runtime) -> None:
    arrays, expected = filled(small, 10), np.arange(10.0)
    for _ in range(3):
        for at in range(9):
            added[(N // 1024,)](arrays[at], arrays[at + 1], BLOCK=1024)  # wide accesses have bindings of their own
            add_to(arrays[at], arrays[at])
            difference(arrays[at + 1], arrays[at], arrays[at], arrays[at])
            expected[at] = expected[at + 1] - 4 * (expected[at] + expected[at + 1])
    assert [x.numpy().tolist() for x in arrays] == [[item] * N for item in expected]


@triton.jit
def added_to_all(x_ptrs: Any, y_ptr: Any, z_ptr: Any, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pointer = tl.load(x_ptrs + tl.program_id(0)).to(tl.pointer_type(tl.float32)) + at
    tl.store(pointer, tl.load(pointer) + tl.load(y_ptr + at) + tl.load(z_ptr + at))


def test_tables_of_pointers_keep_their_arrays_in_place(small: vc.Runtime) -> None:
    moving, expected = filled(small, 10), [float(at) for at in range(10)]
    table = triton.PointerTable(moving[:3])
    for _ in range(3):
        added_to_all[(3, N // 1024)](table, moving[6], moving[7], BLOCK=1024)
        for x in moving:
            x += 1
        added_to_all[(3, N // 1024)](table, moving[7], moving[5], BLOCK=1024)
        expected[:3] = [item + expected[6] + expected[7] for item in expected[:3]]
        expected = [item + 1 for item in expected]
        expected[:3] = [item + expected[7] + expected[5] for item in expected[:3]]
    assert [set(x.tolist()) for x in moving] == [{item} for item in expected]
    assert small.memory().spilled


def test_an_array_on_a_queue_that_idles_is_the_least_recently_used() -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=True, timelines=(2, 1)) as gpu:
        x = gpu.full(N, 1.0)
        gpu.wait()
        others = filled(gpu, 9)  # by the transfer queue
        assert x.buffer.host is not None
        assert [others[at][0].item() for at in (8, 0)] == [8, 0]


def test_graphs_keep_their_arrays_in_place(small: vc.Runtime) -> None:
    x, y = small.full(N, 1.0), small.zeros(N)
    others = filled(small, 20)
    assert x.buffer.host is not None
    with small.record(x=x) as graph:
        add_to(graph["x"], y)
        add_to(x, y)
    others += filled(small, 20)
    assert x.buffer.host is None
    graph.run(3)
    graph.run(x=others[7])
    others[0] += 1
    graph.run()
    assert y[5].item() == 3 * 2 + 8 + 2
    with small.record() as outer:
        graph.run()
        others[2].copy_from(y)
    outer.run()
    assert others[2][0].item() == 18
    outer.close()
    graph.close()
    del graph, outer
    gc.collect()
    others += filled(small, 8)
    assert x.buffer.host is not None


def test_numpy_views_keep_their_arrays_in_place() -> None:
    with open_runtime(memory_limit_bytes=LIMIT) as gpu:
        if not gpu.device.memory.unified:
            pytest.skip("the host does not see the memory of the device")
        x = gpu.full(N, 1.0)
        others = filled(gpu, 20)
        host = np.from_dlpack(x)
        others += filled(gpu, 20)
        host[:] = 3
        assert x[4].item() == 3
        assert (host == 3).all()
        del host
        others += filled(gpu, 8)
        assert x.buffer.host is not None
        assert x[4].item() == 3


def test_unwritten_memory_moves_without_a_copy(small: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError

    kept = [small.empty(N) for _ in range(7)]
    monkeypatch.setattr(Transfers, "download", refuse)
    kept += [small.empty(N) for _ in range(7)]
    assert small.memory().spilled == 0


def test_no_memory_on_the_host(small: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("host")

    kept = filled(small, 6)
    with monkeypatch.context() as patch:
        patch.setattr("vkcompute.runtime.scheduling.residency.np.empty", full)
        with pytest.raises(vc.OutOfDeviceMemory, match="the host has no memory either"):
            kept.extend(small.empty(N) for _ in range(20))
    kept += filled(small, 20)
    assert all((x.numpy() == i).all() for i, x in enumerate([*kept[:6], *kept[-20:]], 0) if i < 6)


def test_an_upload_that_fails_loses_nothing(small: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise vc.VulkanError("VK_ERROR_UNKNOWN", "vkQueueSubmit")

    kept = filled(small, 20)
    out = small.zeros(N)
    with monkeypatch.context() as patch:
        patch.setattr(Transfers, "upload", fail)
        with pytest.raises(vc.VulkanError):
            add_to(kept[0], out)
        with pytest.raises(vc.VulkanError):
            kept[1] += 1
    assert kept[0].buffer.host is not None
    add_to(kept[2], out)
    assert [x[-1].item() for x in kept] == [*range(20)]
    assert out[0].item() == 2


def test_the_driver_has_no_memory() -> None:
    with watched() as faults, open_runtime() as gpu:
        gpu.device.memory.block_bytes = MIB
        kept = [gpu.full(MIB, float(i)) for i in range(4)]
        assert [x[-1].item() for x in kept] == [0, 1, 2, 3]
        faults.arm("vkAllocateMemory", 0, OUT_OF_DEVICE_MEMORY, times=2)
        kept.append(gpu.full(MIB, 4.0))
        assert gpu.memory().spilled > 0
        assert [x[-1].item() for x in kept] == [0, 1, 2, 3, 4]
        kept.clear()


def test_interrupted_moves_lose_nothing(small: vc.Runtime) -> None:
    kept = filled(small, 9)
    for after in range(0, 4000, 97):
        out = small.zeros(N)  # what an interrupted launch was to write has failed
        with interrupted(after) as come:
            add_to(kept[after % 9], out)
            kept[(after + 4) % 9].copy()
        small.wait()
        if not come:
            break
    assert [x[3].item() for x in kept] == [*range(9)]


def test_failed_results_stay_failed() -> None:
    with watched() as faults, open_runtime(memory_limit_bytes=LIMIT) as gpu:
        kept = filled(gpu, 3)
        add_to(kept[0], kept[1])
        faults.arm("vkQueueSubmit", 0, OUT_OF_DEVICE_MEMORY, times=2)
        with pytest.raises(vc.VulkanError):
            gpu.wait()
        kept += filled(gpu, 20)
        with pytest.raises(vc.VulkanError):
            kept[1].numpy()
        assert kept[2][0].item() == 2
        kept[1].fill(4)
        assert kept[1][0].item() == 4
        kept.clear()


@pytest.mark.parametrize("staging", [False, True])
def test_threads(staging: bool) -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=staging) as gpu:
        check_threads(gpu)
        gc.collect()


def check_threads(small: vc.Runtime) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            pairs = [(host, small.array(host)) for host in rng.integers(0, 9, (5, N)).astype(np.float32)]
            for _ in range(12):
                (a, x), (b, y) = (pairs[at] for at in rng.choice(5, 2, replace=False))
                add_to(x, y)
                b += a
                at = rng.integers(5)
                pairs[at] = pairs[at][0] * 2, pairs[at][1] * 2
                host, array = pairs[rng.integers(5)]
                np.testing.assert_array_equal(array.numpy(), host)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert small.memory().peak > LIMIT // 2


class Programs:
    """Random programs on arrays that do not fit, and the same on the host."""

    def __init__(self, gpu: vc.Runtime, draw: Any) -> None:
        self.gpu, self.draw = gpu, draw
        self.pairs: list[tuple[np.ndarray[Any, Any], vc.Array]] = []

    def pick(self) -> tuple[np.ndarray[Any, Any], vc.Array]:
        return self.pairs[self.draw(st.integers(0, len(self.pairs) - 1))]

    def run(self, steps: list[str]) -> None:
        self.make()
        for step in steps:
            getattr(self, step)()
        for host, array in self.pairs:
            np.testing.assert_array_equal(array.numpy(), host)

    def make(self) -> None:
        n = self.draw(st.integers(1, 9)) * N // 8
        value = self.draw(st.integers(0, 9))
        host = (np.arange(n) % 7 + value).astype(np.int32)
        self.pairs.append((host, self.gpu.array(host)))

    def view(self) -> None:
        host, array = self.pick()
        start, step = self.draw(st.integers(0, len(host) // 2)), self.draw(st.sampled_from([1, 2, -1]))
        stop = len(host) if step == 1 else start + 900  # the validation layer compares all regions of a copy
        self.pairs.append((host[start:stop][::step], array[start:stop][::step]))

    def lazy(self) -> None:
        (a, x), (b, y) = self.pick(), self.pick()
        n = min(len(a), len(b))
        self.pairs.append((a[:n] * 3 + b[:n], x[:n] * 3 + y[:n]))

    def change(self) -> None:
        (a, x), (b, y) = self.pick(), self.pick()
        n = min(len(a), len(b))
        a[:n] += b[:n].copy()
        x[:n] += y[:n]

    def fill(self) -> None:
        (host, array), value = self.pick(), self.draw(st.integers(0, 99))
        host[:] = value
        array.fill(value)

    def write(self) -> None:
        host, array = self.pick()
        host[:] = host[::-1].copy()
        array.write(host)

    def kernel(self) -> None:
        (a, x), (b, y) = self.pick(), self.pick()
        n = min(len(a), len(b), N)
        if np.shares_memory(a[:n], b[:n]):
            return
        b[:n] += a[:n]
        add_to(x[:n], y[:n])

    def read(self) -> None:
        host, array = self.pick()
        np.testing.assert_array_equal(array.numpy(), host)

    def sum(self) -> None:
        host, array = self.pick()
        assert array.sum().item() == host.sum()

    def drop(self) -> None:
        if len(self.pairs) > 1:
            del self.pairs[self.draw(st.integers(0, len(self.pairs) - 1))]


_STEPS = ["make", "make", "view", "lazy", "change", "fill", "write", "kernel", "read", "sum", "drop"]


@pytest.mark.rotates
@given(st.data(), st.lists(st.sampled_from(_STEPS), min_size=20, max_size=40), st.booleans(), st.integers(1, 3))
def test_random_programs(data: st.DataObject, steps: list[str], staging: bool, timelines: int) -> None:
    with open_runtime(memory_limit_bytes=LIMIT, staging=staging, timelines=timelines) as gpu:
        Programs(gpu, data.draw).run(steps)
