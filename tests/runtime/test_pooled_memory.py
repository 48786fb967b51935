"""Results in the memory of earlier results: what is kept, when it is freed, and that nobody sees another's data."""

from __future__ import annotations

import gc
import itertools
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from faults import interrupted, watched
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from vkcompute.core.lifetime import live_counts

MIB = 1 << 20
N = 1000
add = vc.elementwise("x + y")


@vc.kernel
def double(x: Any, out: Any) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = 2 * x[i]


@pytest.fixture
def own() -> Iterator[vc.Runtime]:
    with open_runtime() as gpu:
        yield gpu


def test_what_is_kept_is_told_and_trimmed(own: vc.Runtime) -> None:
    x, before = own.array(np.ones(N, np.float32)), own.memory()
    for _ in range(3):
        y = add(x, x)
    assert own.memory().pooled >= 4 * N
    del y
    kept = own.memory()
    assert kept.used <= before.used + 4096, "the first result, of whose work nobody knows"
    assert kept.pooled >= 2 * 4 * N
    own.trim()
    assert own.memory()[:2] == before[:2]
    assert own.memory().pooled == 0
    assert add(x, x).numpy().tolist() == [2] * N


def test_a_closed_runtime_is_not_trimmed() -> None:
    gpu = vc.Runtime()
    gpu.close()
    with pytest.raises(vc.ClosedError):
        gpu.trim()


def test_memory_that_is_kept_is_given_up_before_arrays_move() -> None:
    with open_runtime(memory_limit_bytes=8 * MIB) as gpu, warnings.catch_warnings():
        warnings.simplefilter("error", vc.SpillWarning)
        for number, size in enumerate((MIB, MIB // 2, 3 * MIB // 2, MIB // 4, 5 * MIB // 4) * 3):
            x = gpu.full(size // 4, float(number))
            for _ in range(3):
                y = add(x, x)
            assert y[-1].item() == 2 * number
            del x, y
        whole = gpu.full(7 * MIB // 4, 3.0)
        assert whole[-1].item() == 3
        assert gpu.memory().spilled == 0


def test_ten_thousand_steps_take_no_more_memory(own: vc.Runtime) -> None:
    step = vc.elementwise("w - 0.5 * g")
    w, g = own.array(np.zeros(64, np.float32)), own.array(np.ones(64, np.float32))
    seen = []
    for number in range(10_000):
        w = step(w, add(g, g))
        if number % 2000 == 1999:
            own.wait()
            gc.collect()
            seen.append((own.device.memory.allocated_bytes, own.memory().used, live_counts()["Buffer"]))
    assert w.numpy().tolist() == [-10_000] * 64
    assert seen == seen[:1] * 5


def test_the_host_writes_after_the_last_use_of_the_memory(own: vc.Runtime) -> None:
    x = own.array(np.ones(N, np.float32))
    for number in range(20):
        add(x, x)
        y = add(x, x)
        y.write(np.full(N, number, np.float32))
        assert y.numpy().tolist() == [number] * N


def test_an_exported_view_keeps_its_memory(own: vc.Runtime) -> None:
    x, seen = own.array(np.ones(N, np.float32)), []
    add(x, x)
    for number in range(10):
        y = add(x, np.float32(number))
        try:
            seen.append(np.from_dlpack(y))
        except BufferError:
            pytest.skip("the memory is not host-visible")
        del y
        add(x, np.float32(100))
    own.wait()
    assert [set(item.tolist()) for item in seen] == [{number + 1} for number in range(10)]


def test_a_graph_keeps_the_memory_of_its_arrays(own: vc.Runtime) -> None:
    x, out = own.array(np.ones(N, np.float32)), own.zeros(N)
    for _ in range(3):
        y = add(x, x)
    with own.record() as graph:
        add(y, x, out=out)
    del y
    for _ in range(5):
        add(x, np.float32(50))
        graph.run()
        assert set(out.numpy().tolist()) == {3}


def test_a_failed_owner_leaves_no_error_behind(own: vc.Runtime) -> None:
    x = own.array(np.ones(N, np.float32))
    add(x, x)
    y = add(x, x)
    own.scheduler.placement.latest.fail(vc.VkComputeError("as if it could not be launched"))
    with pytest.raises(vc.VkComputeError, match="as if"):
        y.numpy()
    location = y.buffer.location
    del y
    z = add(x, x)
    assert z.buffer.location == location or len(own.scheduler.queues) > 1, "it may be behind another queue"
    assert z.numpy().tolist() == [2] * N


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "double", "drop", "write", "export", "graph", "trim", "assign", "read"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    min_size=5,
    max_size=60,
)


@pytest.mark.queues
@pytest.mark.parametrize(
    "options", [{}, {"timelines": (3, 1), "submits_early": True}, {"staging": True, "timelines": 2}], ids=str
)
@settings(max_examples=12)
@given(operations=OPERATIONS)
def test_random_programs_on_results_that_come_and_go(
    options: dict[str, Any], operations: list[tuple[str, int, int, int]]
) -> None:
    with open_runtime(**options) as gpu:
        sizes = 256, 1000, 70_000
        arrays = [gpu.array(np.arange(size, dtype=np.float32) % 7) for size in sizes]
        right = [np.arange(size, dtype=np.float32) % 7 for size in sizes]
        exported: list[tuple[np.ndarray, np.ndarray]] = []
        for kind, one, other, queue in operations:
            at = one % len(arrays)
            x, expected = arrays[at], right[at]
            if kind == "add":
                alike = [k for k, array in enumerate(right) if array.size == expected.size]
                with_ = alike[other % len(alike)]
                arrays.append(add(x, arrays[with_]))
                right.append(expected + right[with_])
            elif kind == "double":
                out = add(x, x)  # in a pooled range, and overwritten on a queue of choice
                double(x, out, queue=queue % len(gpu.scheduler.placement.compute))
                arrays.append(out)
                right.append(2 * expected)
            elif kind == "drop" and at > 2:
                del arrays[at], right[at]
            elif kind == "write":
                right[at] = expected * 0 + other
                x.write(right[at])
            elif kind == "assign":
                right[at] = expected + 1
                x[...] = x + 1
            elif kind == "export" and not options.get("staging"):
                try:
                    exported.append((np.from_dlpack(x + 0), expected.copy()))
                except BufferError:
                    continue
            elif kind == "graph":
                with gpu.record() as graph:
                    y = x + x
                    x[...] = y
                graph.run()
                right[at] = expected * 2
            elif kind == "trim":
                gpu.trim()
            elif kind == "read":
                np.testing.assert_array_equal(x.numpy(), expected)
        for x, expected in zip(arrays, right, strict=True):
            np.testing.assert_array_equal(x.numpy(), expected)
        for seen, expected in exported:
            np.testing.assert_array_equal(seen, expected)


def test_threads_share_the_pool(own: vc.Runtime) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        x = own.array(np.full(N, number, np.float32))
        for step in range(100):
            y = add(add(x, x), np.float32(step))
            if step % 10 == 0 and (seen := set(y.numpy().tolist())) != {2 * number + step}:
                wrong.append((number, step, seen))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.rotates
@pytest.mark.parametrize("options", [{}, {"timelines": 2}], ids=str)
def test_ctrl_c_at_any_moment_loses_no_memory(options: dict[str, Any]) -> None:
    with watched(), open_runtime(**options) as gpu:
        memory = gpu.device.memory
        x = gpu.array(np.ones(64, np.float32))
        for _ in range(3):
            add(x, x)
        gpu.wait()
        x.close()
        gpu.trim()
        before = gpu.memory()
        for after in itertools.count(0, 3):
            x = gpu.array(np.ones(64, np.float32))
            kept = [add(x, x), add(x, x)]
            with interrupted(after) as come:
                kept.append(add(x, x))
                kept.pop(0)
                kept.append(add(x, x))
                kept.clear()
                add(x, x)
            kept.clear()
            assert set(add(x, x).numpy().tolist()) == {2}
            x.close()
            gpu.wait()
            gpu.trim()
            assert gpu.memory()[:2] == before[:2], after
            assert all(block.ranges.largest_free == block.nbytes for block in memory.blocks)
            if not come:
                break
        assert after > 50
