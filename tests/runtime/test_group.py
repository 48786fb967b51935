"""Groups of devices: arrays divided by rows, launches on all, what is measured, and what goes wrong.

The two devices are different ones where there are two drivers, else one device opened twice.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice
from vkcompute.runtime.groups.group import GroupArray

pytestmark = pytest.mark.devices

# Each row is told its number in the whole array, and the sums of all rows of a table that everybody has.
ROWS = vc.glsl("""
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer X { int x[]; };
layout(binding = 1) readonly buffer W { int w[]; };
layout(binding = 2) writeonly buffer O { int o[]; };
layout(push_constant) uniform P { int first; int factor; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= o.length()) return;
    int sum = 0;
    for (uint k = 0; k < w.length(); ++k) sum += w[k] * x[i * w.length() + k];
    o[i] = sum * factor + first + int(i);
}
""")
DTYPES = ("bool", "int8", "uint16", "int32", "float16", "float32", "float64", "uint64")
SHARES = st.tuples(st.sampled_from([0.0, 0.001, 0.3, 1.0]), st.sampled_from([0.0, 0.01, 1.0])).filter(any)


def launch(group: vc.DeviceGroup, x: GroupArray, w: GroupArray, factor: int = 1) -> GroupArray:
    out = group.empty(x.shape[0], np.int32)
    group.kernel(ROWS)(x, w, out, lambda rows: rows.start, factor)
    return out


@given(st.integers(0, 500), st.integers(1, 5), SHARES, st.integers(0, 1 << 32))
def test_a_launch_equals_numpy_however_the_rows_are_divided(
    two_runtimes: list[vc.Runtime], n: int, d: int, shares: tuple[float, float], seed: int
) -> None:
    random = np.random.default_rng(seed)
    x, w = random.integers(-99, 99, (n, d), np.int32), random.integers(-99, 99, d, np.int32)
    with vc.DeviceGroup(two_runtimes) as group:
        group.weights = shares
        result = launch(group, group.array(x), group.replicate(w), 3)
    assert np.array_equal(result.numpy(), (x @ w) * 3 + np.arange(n))


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 9), min_size=1, max_size=3), SHARES)
def test_arrays_come_back_as_they_went(
    two_runtimes: list[vc.Runtime], dtype: str, shape: list[int], shares: tuple[float, float]
) -> None:
    host = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    with vc.DeviceGroup(two_runtimes) as group:
        group.weights = shares
        x = group.array(host)
        assert (x.shape, x.dtype) == (host.shape, host.dtype)
        assert [part.shape[0] for part in x.shards] == [len(rows) for rows in x.rows or ()]
        for result in (
            x,
            group.replicate(host),
            group.array(x),
            group.array(host.tolist() if host.size else host, dtype),
        ):
            assert result.numpy().dtype == host.dtype
            assert np.array_equal(result.numpy(), host)
        assert np.array_equal(group.zeros(shape[0], dtype).numpy(), np.zeros(shape[0], dtype))
        assert np.array_equal(np.asarray(x, np.float64), host.astype(np.float64))


def test_rows_go_where_the_shares_say(group: vc.DeviceGroup) -> None:
    assert group.weights == (2 / 3, 1 / 3)
    x = group.array(np.arange(9))
    assert x.rows == (range(6), range(6, 9))
    assert [part.numpy().tolist() for part in x.shards] == [[0, 1, 2, 3, 4, 5], [6, 7, 8]]
    assert [part.runtime for part in x.shards] == list(group.runtimes)
    group.weights = [0, 5]
    assert group.weights == (0.0, 1.0)
    assert group.array(x).rows == (range(0), range(9))
    assert x.rows == (range(6), range(6, 9)), "what is there stays as it is"
    assert group.replicate([1, 2]).rows is None


def test_arrays_are_overwritten_by_rows(group: vc.DeviceGroup) -> None:
    x, w = group.zeros((9, 2)), group.replicate(np.zeros(2, np.float32))
    x.write([1.0, 2.0])
    w.write([3.0, 4.0])
    assert np.array_equal(x.numpy(), np.tile(np.array([1, 2], np.float32), (9, 1)))
    assert [part.numpy().tolist() for part in w.shards] == [[3, 4], [3, 4]]
    with pytest.raises(ValueError, match=r"could not be broadcast|remapped"):
        x.write(np.zeros(3))
    with pytest.raises(TypeError, match=r"the data is complex128 and the array float32"):
        x.write(1j)


def test_without_rows_a_device_is_left_alone(group: vc.DeviceGroup) -> None:
    group.weights = (1, 0)
    w = group.replicate(np.ones(1, np.int32))
    x, out = group.array(np.ones((70, 1), np.int32)), group.empty(70, np.int32)
    future = group.kernel(ROWS)(x, w, out, 0, 1, grid=lambda rows: 1 + len(rows) // 32)
    assert len(future.futures) == 1
    future.result()
    assert np.array_equal(out.numpy(), 1 + np.arange(70))
    nothing = group.kernel(ROWS)(group.array(np.ones((0, 1), np.int32)), w, group.empty(0, np.int32), 0, 1)
    assert nothing.done()
    nothing.result()


def test_futures_of_all_devices(group: vc.DeviceGroup) -> None:
    x, w = group.array(np.ones((30_000, 200), np.int32)), group.replicate(np.ones(200, np.int32))
    out, kernel = group.empty(30_000, np.int32), group.kernel(ROWS)
    future = kernel(x, w, out, 0, factor=1)
    assert len(future.futures) == 2
    assert not concurrent.futures.wait(future.futures).not_done
    assert future.done()
    many = [kernel(x, w, out, 0, 1) for _ in range(20)]
    with pytest.raises(TimeoutError):
        many[-1].result(timeout_s=0)
    many[-1].result(hang_limit_s(60))

    async def awaited() -> None:
        await kernel(x, w, out, 0, 2)

    asyncio.run(awaited())
    assert out.numpy()[0] == 400


@pytest.mark.parametrize("read", ["numpy", "result", "done"])
def test_all_devices_have_their_work_before_one_is_awaited(monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    calls: list[str] = []

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: (calls.append(name), function(*args))[1]

    monkeypatch.setattr(vk, "interceptors", [wrap])
    with vc.DeviceGroup([vc.Runtime(submit_limit_s=None), vc.Runtime(submit_limit_s=None)]) as group:
        w = group.replicate(np.ones(200, np.int32))
        x, out = group.array(np.ones((100_000, 200), np.int32)), group.empty(100_000, np.int32)
        group.wait()
        future = group.kernel(ROWS)(x, w, out, 0, 1)
        calls.clear()
        {"numpy": out.numpy, "result": future.result, "done": future.done}[read]()
        waits = [i for i, name in enumerate(calls) if name == "vkWaitSemaphores"]
        submits = [i for i, name in enumerate(calls) if name == "vkQueueSubmit"]
        assert len(submits) == 2 or (read == "numpy" and len(submits) == 4), "and the copies, where results are staged"
        assert not waits or submits[1] < waits[0]
        for runtime in group.runtimes:
            runtime.close()


# -- the balance ------------------------------------------------------------------------------------------------------


def test_a_measured_group_works_on(group: vc.DeviceGroup) -> None:
    host = np.arange(40_000, dtype=np.int32).reshape(20_000, 2)
    w = group.replicate(np.array([1, 2], np.int32))
    x = group.array(host)
    for _ in range(3):
        with group.balance() as launched:
            out = launch(group, x, w)
        assert launched == [len(rows) for rows in x.rows or ()]
        assert sum(group.weights) == pytest.approx(1)
        assert min(group.weights) > 0
        assert np.array_equal(out.numpy(), host @ [1, 2] + np.arange(20_000))
        x = group.array(x)
        assert x.rows == group.split(20_000)
    assert np.array_equal(x.numpy(), host)


def timed(group: vc.DeviceGroup, monkeypatch: pytest.MonkeyPatch, ns_per_row: tuple[int, int]) -> None:
    """Has every launch of the group take as long as this says."""
    for index, runtime in enumerate(group.runtimes):

        class Known:
            def __init__(self, index: int = index) -> None:
                self.index = index

            def __enter__(self) -> Known:
                return self

            def __exit__(self, *_: object) -> None:
                self.tasks = [SimpleNamespace(ns=ns_per_row[self.index] * group.launched[self.index])]

        monkeypatch.setattr(runtime, "profile", Known)


def test_the_slow_device_gets_less_by_as_much_as_it_is_slower(
    group: vc.DeviceGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(group, monkeypatch, (10, 90))
    w = group.replicate(np.array([1], np.int32))
    with group.balance():
        for _ in range(3):
            launch(group, group.zeros((30, 1), np.int32), w)
    assert group.weights == pytest.approx((0.9, 0.1))
    timed(group, monkeypatch, (10, 10))
    with group.balance():
        launch(group, group.zeros((100, 1), np.int32), w)
    assert group.weights == pytest.approx((0.7, 0.3)), "the mean of both"
    group.weights = (1, 1)
    with group.balance() as launched:  # launches by hand are told
        launched[0] += 10
        launched[1] += 10
    assert group.weights == pytest.approx((0.5, 0.5))


def test_nothing_is_learned_from_a_block_that_fails(group: vc.DeviceGroup) -> None:
    x, w = group.zeros((30, 1), np.int32), group.replicate(np.array([1], np.int32))
    with pytest.raises(TypeError, match="takes 3 arrays"), group.balance():
        group.kernel(ROWS)(x, w) if launch(group, x, w) else None
    assert group.weights == (2 / 3, 1 / 3)
    with group.balance():
        pass
    assert group.weights == (2 / 3, 1 / 3)
    with group.balance(), pytest.raises(ValueError, match="being profiled already"), group.balance():
        pass


# -- misuse -----------------------------------------------------------------------------------------------------------


def test_arrays_that_do_not_go_together(group: vc.DeviceGroup, two_runtimes: list[vc.Runtime]) -> None:
    kernel, w = group.kernel(ROWS), group.replicate(np.ones(1, np.int32))
    x, out = group.zeros((9, 1), np.int32), group.empty(9, np.int32)
    with pytest.raises(ValueError, match="takes a sharded array"):
        kernel(w, w, w, 0, 1)
    with pytest.raises(ValueError, match=r"arrays of one launch are sharded alike; got \S+ and \S+ rows"):
        kernel(x, w, group.empty(10, np.int32), 0, 1)
    with pytest.raises(ValueError, match=r"an array of shape .* is not of <group of .* pass group\.array\(it\)"):
        kernel(x, two_runtimes[0].array(np.ones(1, np.int32)), out, 0, 1)
    with (
        vc.DeviceGroup(two_runtimes) as other,
        pytest.raises(ValueError, match=r"an array of shape .* is not of <group of "),
    ):
        kernel(x, other.replicate(np.ones(1, np.int32)), out, 0, 1)
    with pytest.raises(TypeError, match=r"takes 3 arrays \(x, w, o\); got 2"):
        kernel(x, w)
    with pytest.raises(TypeError, match="holds int32; the array is float32"):
        kernel(group.zeros((9, 1)), w, out, 0, 1)


def test_arrays_that_cannot_be_divided(group: vc.DeviceGroup) -> None:
    for make in (group.empty, group.zeros):
        for shape in ((), -1, (-2, 3)):
            with pytest.raises(
                ValueError, match="an array is sharded along its first axis, of 0 rows or more; got shape"
            ):
                make(shape)
    with pytest.raises(ValueError, match="an array is sharded along its first axis"):
        group.array(1.0)
    with pytest.raises(ValueError, match="weights are 2 finite numbers"):
        group.weights = (1,)
    assert group.replicate(1.0).numpy() == 1.0


def test_devices_that_make_no_group(gpu: vc.Runtime) -> None:
    for one in ("llvmpipe", 0, gpu):
        with pytest.raises(TypeError, match=r"a group is of several devices; got .*; pass a list"):
            vc.DeviceGroup(one)  # type: ignore[arg-type]
    for devices in ([], [gpu, gpu], [0, 0], [0, "0"], iter([0, 0])):
        with pytest.raises(ValueError, match="a group has at least one device, and each once; got"):
            vc.DeviceGroup(devices)
    with pytest.raises(vc.NoDevice, match="no device fits 'nobody'"):
        vc.DeviceGroup([0, "nobody"])
    closed = vc.Runtime()
    closed.close()
    with pytest.raises(vc.ClosedError):
        vc.DeviceGroup([gpu, closed])


# -- endings ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("clean_handles")
def test_a_group_closes_what_it_opened() -> None:
    mine = vc.Runtime()
    try:
        group = vc.DeviceGroup([mine])
        with group:
            x = group.array(np.arange(3))
            with x:
                pass
            with pytest.raises(vc.ClosedError):
                x.numpy()
        group.close()
        assert group.closed
        assert not mine.closed
        for use in (lambda: group.empty(3), lambda: group.replicate(1), lambda: group.kernel(ROWS), group.__enter__):
            with pytest.raises(vc.ClosedError, match="this DeviceGroup is closed"):
                use()
    finally:
        mine.close()
    with vc.DeviceGroup() as group:
        runtimes = group.runtimes
        assert len({runtime.device.physical.index for runtime in runtimes}) == len(runtimes)
    assert all(runtime.closed for runtime in runtimes)


@pytest.mark.usefixtures("clean_handles")
def test_all_devices_where_none_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhysicalDevice, "unfit", lambda _: ["it is too old"])
    with pytest.raises(vc.NoDevice, match=r"no device fits 0: \[0\] .* \(it is too old\)"):
        vc.DeviceGroup()


@pytest.mark.usefixtures("clean_handles")
def test_a_dropped_group_frees_everything() -> None:
    group = vc.DeviceGroup([0])
    launch(group, group.zeros((1000, 1), np.int32), group.replicate(np.ones(1, np.int32)))
    del group
    gc.collect()


@pytest.mark.usefixtures("clean_handles")
def test_what_cannot_be_opened_leaves_nothing_open() -> None:
    for devices in ([0, "nobody"], [0, 0]):
        with pytest.raises((vc.NoDevice, ValueError)):
            vc.DeviceGroup(devices)


def test_one_runtime_closed(gpu: vc.Runtime) -> None:
    with vc.Runtime() as second, vc.DeviceGroup([gpu, second]) as group:
        x, w = group.zeros((10, 1), np.int32), group.replicate(np.ones(1, np.int32))
        second.close()
        for use in (lambda: launch(group, x, w), group.wait, x.numpy, lambda: group.empty(3)):
            with pytest.raises(vc.ClosedError, match=r"this Runtime is closed|the runtime is closed"):
                use()
        group.close()
    assert gpu.array([1]).numpy() == 1


def test_a_failure_is_told_by_what_it_struck_and_once_all_devices_have_their_work(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing: list[int] = []

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: failing.pop() if name == "vkQueueSubmit" and failing else function(*args)

    with monkeypatch.context() as patch:
        patch.setattr(vk, "interceptors", [wrap])
        first = vc.Runtime()
    with first, vc.DeviceGroup([first, gpu]) as group:
        x, w = group.array(np.ones((10, 1), np.int32)), group.replicate(np.ones(1, np.int32))
        for ask in (group.flush, group.wait):
            good = launch(group, x, w)
            group.flush()
            failing += [-2, -2]  # it is tried twice
            struck = launch(group, x, w)
            group.runtimes[0].scheduler.submit()
            assert np.array_equal(good.numpy(), 1 + np.arange(10))
            future = launch(group, x, w)
            with pytest.raises(vc.VulkanError, match="OUT_OF_DEVICE_MEMORY"):
                ask()
            assert not gpu.device.queues[0].recording, "the other device has its work"
            with pytest.raises(vc.VulkanError, match="OUT_OF_DEVICE_MEMORY"):
                struck.numpy()
            assert np.array_equal(future.numpy(), 1 + np.arange(10))
            group.wait()


def test_one_device_lost(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: Counter[str] = Counter()

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: -4 if name == "vkQueueSubmit" and lost[name] else function(*args)

    with monkeypatch.context() as patch:
        patch.setattr(vk, "interceptors", [wrap])
        second = vc.Runtime()
    with second, vc.DeviceGroup([gpu, second]) as group:
        x, w = group.array(np.ones((10, 1), np.int32)), group.replicate(np.ones(1, np.int32))
        out = group.empty(10, np.int32)
        future = group.kernel(ROWS)(x, w, out, lambda rows: rows.start, 1)
        lost["vkQueueSubmit"] = 1
        with pytest.raises(vc.DeviceLost):
            future.result()
        with pytest.raises(vc.DeviceLost):
            out.numpy()
        assert np.array_equal(out.shards[0].numpy(), 1 + np.arange(5)), "the other device has done its part"
        lost.clear()


@pytest.mark.parametrize("both", [False, True])
def test_work_on_a_group_is_recorded_whole_or_refused(two_runtimes: list[vc.Runtime], *, both: bool) -> None:
    triple, one = vc.elementwise("x * 3"), two_runtimes[0]
    with vc.DeviceGroup(two_runtimes) as group:
        a, host = group.array(np.arange(4, dtype=np.float32)), np.zeros(4, np.float32)
        rest = two_runtimes[1:] if both else []
        graphs = []
        with contextlib.ExitStack() as recording:
            graphs = [recording.enter_context(item.record()) for item in (one, *rest)]
            if both:
                triple(a, out=a)
            else:
                for work in (
                    lambda: triple(a, out=a),
                    lambda: triple(a),
                    lambda: a.write(host),
                    lambda: group.zeros(4),
                ):
                    with pytest.raises(ValueError, match="recorded on all of its devices or on none; 1 of 2"):
                        work()
        assert a.numpy().tolist() == [0, 1, 2, 3]
        for graph in graphs:
            graph.run()
        assert a.numpy().tolist() == ([0, 3, 6, 9] if both else [0, 1, 2, 3])
