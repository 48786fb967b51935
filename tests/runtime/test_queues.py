"""Work over several queues. On a device with one, several timelines share it: the same waits between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtimes import open_runtime

import vkcompute as vc
from shaders import MULTIPLY
from vkcompute.core import vk
from vkcompute.core.device_profile import DeviceProfile
from vkcompute.core.physical import QueueFamily
from vkcompute.core.queue_plan import QueuePlan
from vkcompute.runtime.scheduling.placement import DATA, ONLY, PINNED, RECORDED

pytestmark = pytest.mark.queues


@pytest.fixture(scope="module", params=[False, True], ids=["direct", "staging"])
def many(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A runtime with at least three compute queues and two transfer queues."""
    with open_runtime(timelines=(3, 2), staging=request.param) as runtime:
        yield runtime


def test_chains_cross_queues_by_hand(many: vc.Runtime) -> None:
    kernel = many.kernel(MULTIPLY)
    a, b = many.full(1000, 1.0), many.full(1000, 2.0)
    compute = [queue.index for queue in many.scheduler.placement.compute]
    for i in range(20):  # each launch needs the result of the one before, which another queue runs
        kernel(a, b, a, queue=compute[i % len(compute)])
    assert np.array_equal(a.numpy(), np.full(1000, 2.0**20, np.float32))


def test_independent_chains_go_to_different_queues_and_meet_again(many: vc.Runtime) -> None:
    chains = [many.full(1 << 16, float(i + 1)) for i in range(6)]
    for _ in range(10):
        for chain in chains:
            vc.multiply(chain, 2.0, chain)
    used = {writer for chain in chains for writer in many.scheduler.history(chain.buffer).last_writers(0, 1)}
    total = many.full(1 << 16, 1.0)
    for chain in chains:
        vc.multiply(total, chain, total)
    assert np.array_equal(total.numpy(), np.full(1 << 16, 720 * 2.0**60, np.float32))
    assert len(used) == len(many.scheduler.placement.compute)


def test_uploads_and_downloads_larger_than_the_staging_slots(many: vc.Runtime) -> None:
    host = np.random.default_rng(0).integers(0, 1 << 20, 9 << 20, np.int32)  # 36 MiB
    a = many.array(host)
    vc.multiply(a, 3, a)
    assert np.array_equal(a.numpy(), host * 3)
    a.write(host)
    vc.multiply(a, 5, a)
    assert np.array_equal(a.numpy(), host * 5)


def test_staged_transfers_run_on_transfer_queues() -> None:
    with open_runtime(timelines=(1, 1), staging=True) as gpu:
        a = gpu.array(np.ones(100, np.float32))
        (writer,) = gpu.scheduler.history(a.buffer).last_writers(0, 1)
        assert gpu.scheduler.queues[writer].device_queue.role == "transfer"


def test_kernels_are_not_sent_to_transfer_queues(many: vc.Runtime) -> None:
    kernel, a = many.kernel(MULTIPLY), many.full(10, 1.0)
    for queue in ("transfer", many.scheduler.placement.transfer[0].index):
        with pytest.raises(ValueError, match="only copies; a kernel needs a compute queue"):
            kernel(a, a, a, queue=queue)


@pytest.mark.parametrize(
    ("queue", "error", "says"),
    [
        (99, ValueError, r"queue 99 does not exist; .* has queues 0 to \d+$"),
        (-1, ValueError, r"queue -1 does not exist; .* has queues 0 to \d+$"),
        ("graphics", ValueError, r"an index, \"compute\" or \"transfer\"; got 'graphics'"),
        (1.0, TypeError, r"an index, \"compute\" or \"transfer\"; got 1\.0"),
        (True, TypeError, "got True"),
        ([0], TypeError, r"got \[0\]"),
        (np.arange(3), TypeError, r"got array"),
    ],
)
def test_what_names_no_queue(many: vc.Runtime, queue: Any, error: type[Exception], says: str) -> None:
    kernel, a = many.kernel(MULTIPLY), many.full(10, 1.0)
    with pytest.raises(error, match=says):
        kernel(a, a, a, queue=queue)


@pytest.mark.parametrize("runtime", [1, (3, 2)], ids=["one queue", "many"])
def test_a_kernel_refuses_to_be_a_transfer_on_any_device(runtime: Any) -> None:
    with open_runtime(timelines=runtime) as gpu:
        kernel, a = gpu.kernel(MULTIPLY), gpu.full(10, 1.0)
        with pytest.raises(ValueError, match="only copies"):
            kernel(a, a, a, queue="transfer")


def test_which_queue_and_why(many: vc.Runtime) -> None:
    kernel, a = many.kernel(MULTIPLY), many.full(10, 1.0)
    many.wait()
    pinned = kernel(a, a, a, queue=np.int64(1))
    follows = kernel(a, a, a)
    assert pinned.queue is follows.queue is many.device.queues[1]
    assert (pinned.placement, follows.placement) == (PINNED, DATA)
    assert (pinned.queue.role, pinned.queue.index, pinned.queue.family) == ("compute", 1, many.device.queues[1].family)
    with many.record() as graph:
        recorded = kernel(a, a, a)
    assert (recorded.queue, recorded.placement) == (None, RECORDED)
    assert graph.submit().queue in many.device.queues


@vc.kernel
def steps(x: vc.int32[:], n: int) -> None:
    i = vc.global_id(0)
    if i < x.size:
        for _ in range(n):
            x[i] = x[i] + 1


@vc.kernel
def told(x: vc.int32[:]) -> None:
    i = vc.global_id(0)
    if i < x.size:
        x[i] = x[i] + 1
        print(x[i])


@vc.kernel
def meeting(x: vc.int32[:], n: int) -> None:
    i = vc.global_id(0)
    for k in range(n):
        vc.barrier()
        if k == 3:
            break
        x[i] = x[i] + 1


OF_PYTHON: dict[str, Callable[[Any, int], vc.Future]] = {
    "its own grid": lambda x, queue: steps[None, None, queue](x, 1),
    "again, by the plan that was kept": lambda x, queue: [steps[None, None, queue](x, 1) for _ in range(3)][-1],
    "an int that no plan is kept for": lambda x, queue: steps[None, None, queue](x, np.int64(1)),
    "a grid": lambda x, queue: steps[2, 64, queue](x, 1),
    "groups alone": lambda x, queue: steps[2, None, queue](x, 1),
    "a local size alone": lambda x, queue: steps[None, 32, queue](x, 1),
    "loops that are watched": lambda x, queue: meeting[10, 10, queue](x, 70_000),
    "prints": lambda x, queue: told[None, None, queue](x),
}


@pytest.mark.parametrize("launch", OF_PYTHON.values(), ids=OF_PYTHON)
def test_kernels_in_python_take_a_queue_in_brackets(many: vc.Runtime, launch: Callable[[Any, int], vc.Future]) -> None:
    compute = many.scheduler.placement.compute
    arrays = [many.zeros(100, np.int32) for _ in compute]
    for queue, x in zip(compute, arrays, strict=True):
        many.wait()
        before = queue.task
        done = launch(x, queue.index)
        assert (done.queue, done.placement) == (queue.device_queue, PINNED)
        assert queue.task > before


def test_the_results_are_the_same_on_every_queue(many: vc.Runtime) -> None:
    compute = [queue.index for queue in many.scheduler.placement.compute]
    x = many.zeros(100, np.int32)
    for i in range(30):  # each launch needs the result of the one before, which another queue runs
        steps[None, None, compute[i % len(compute)]](x, i)
    assert x.numpy().tolist() == [sum(range(30))] * 100


@pytest.mark.parametrize(
    ("queue", "error", "says"),
    [
        (99, ValueError, "queue 99 does not exist"),
        ("graphics", ValueError, "got 'graphics'"),
        ("transfer", ValueError, "only copies; a kernel needs a compute queue"),
        (True, TypeError, "a queue is one of runtime.device.queues, by its index; got True"),
        (1.0, TypeError, "got 1.0"),
        ([0], TypeError, r"got \[0\]"),
    ],
)
def test_what_is_no_queue_for_a_kernel_in_python(
    many: vc.Runtime, queue: Any, error: type[Exception], says: str
) -> None:
    x = many.zeros(100, np.int32)
    steps[None, None, 0](x, 1)
    with pytest.raises(error, match=says):
        steps[None, None, queue](x, 1)
    assert x.numpy().tolist() == [1] * 100


def test_a_graph_refuses_queues_of_kernels_in_python(many: vc.Runtime) -> None:
    x = many.zeros(100, np.int32)
    with pytest.raises(ValueError, match="a graph runs as a whole on one queue"), many.record():
        steps[None, None, 1](x, 1)


def test_a_simulation_has_no_queues() -> None:
    x = np.zeros(100, np.int32)
    steps.simulate[None, None, 1](x, 2)
    assert x.tolist() == [2] * 100


def test_queues_of_kernels_are_named_in_brackets_or_by_keyword(many: vc.Runtime) -> None:
    x, kernel = many.zeros(100, np.int32), many.kernel(MULTIPLY)
    a = many.full(100, 1.0)
    for launch in (lambda: steps(x, 1, queue=1), lambda: steps[None, None, 1](x, 1)):
        future = launch()
        assert future.queue is many.device.queues[1]
        assert future.placement == PINNED
    for launch in (lambda: kernel(a, a, a, queue=1), lambda: kernel[1, None, 1](a, a, a)):
        assert launch().queue is many.device.queues[1]


def test_with_one_queue_there_is_no_question() -> None:
    with vc.Runtime(queues=1) as gpu:
        a = gpu.full(10, 1.0)
        future = gpu.kernel(MULTIPLY)(a, a, a, queue=0)
        assert (len(gpu.device.queues), future.queue, future.placement) == (1, gpu.device.queues[0], ONLY)
        assert steps[None, None, 0](gpu.zeros(5, np.int32), 1).placement == ONLY


@pytest.mark.parametrize("given", [0, -1, (0, 1), (1, -1), (1, 2, 3), "some", 1.5, ()])
def test_what_is_no_number_of_queues(given: Any) -> None:
    with pytest.raises(ValueError, match=r"queues is an int from 1, or .*; got "):
        vc.Runtime(queues=given)


def test_where_others_need_the_processor_waits_sleep_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: (calls.append(name), function(*args))[1]

    monkeypatch.setattr(vk, "interceptors", [wrap])
    with vc.Runtime(queues=1) as runtime:
        x = runtime.full(1 << 20, 3.0)
        with runtime.record() as graph:
            for _ in range(20):  # longer than any thread takes to wake
                runtime.kernel(MULTIPLY)(x, x, y := runtime.empty(x.shape))

        queue = runtime.device.queues[0]

        def looked(n_asleep: int | None = None) -> bool:
            if n_asleep is not None:
                queue._n_sleeping_waits = n_asleep
            future = graph.submit()
            calls.clear()
            future.result()
            return "vkGetSemaphoreCounterValue" in calls

        for n_asleep in (0, -1):  # whatever this machine does at the moment; as two threads that count down leave it
            assert any(looked(n_asleep) for _ in range(100))  # unless the device was done before the first look
        monkeypatch.setattr("vkcompute.core.queue._yield_thread", lambda: time.sleep(0.003))
        for _ in range(100):
            looked()
            if queue._n_sleeping_waits > 0:  # at once, unless the device was done before the first look
                break
        else:
            pytest.fail("no wait found the processor needed by others")
        assert not looked()
        assert set(y.numpy().tolist()) == {9.0}


def test_every_queue_that_there_is() -> None:
    with vc.Runtime(queues="all") as gpu:
        families = gpu.device.physical.queue_families
        able = sum(family.count for family in families if family.compute or family.transfer)
        assert len(gpu.device.queues) == able
        kernel = gpu.kernel(MULTIPLY)
        a = gpu.full(100, 1.0)
        for queue in gpu.scheduler.placement.compute:
            kernel(a, a, a, queue=queue.index)
        assert np.array_equal(a.numpy(), np.ones(100, np.float32))


CHAOTIC = """
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform P { float k; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < c.length()) c[i] = k * a[i] * (1.0 - a[i]) + 0.25 * sin(b[(i * 7) % b.length()]);
}
"""
NUMBERS = st.integers(0, 3)
LAUNCHES = st.lists(
    st.tuples(NUMBERS, NUMBERS, NUMBERS, st.floats(3.5, 4.0, width=32), st.none() | NUMBERS), max_size=40
)


@pytest.fixture(scope="module", params=[False, True], ids=["direct", "staging"])
def few_and_many(request: pytest.FixtureRequest) -> Iterator[list[vc.Runtime]]:
    counts: list[Any] = [1, 3, (2, 2)]
    with ExitStack() as opened:
        yield [opened.enter_context(open_runtime(timelines=n, staging=request.param)) for n in counts]


@given(program=LAUNCHES)
def test_the_queues_change_no_bit(few_and_many: list[vc.Runtime], program: list[Any]) -> None:
    """Rounding errors grow at each step: another order of dependent launches shows in every bit."""
    program = [step for step in program if step[2] not in step[:2]]
    results = []
    for gpu in few_and_many:
        kernel = gpu.kernel(vc.glsl(CHAOTIC))
        arrays = [gpu.array(np.random.default_rng(i).random(100, np.float32)) for i in range(4)]
        for a, b, out, k, pin in program:
            queue = None if pin is None else pin % len(gpu.scheduler.placement.compute)
            kernel(arrays[a], arrays[b], arrays[out], k, queue=queue)
        results.append([array.numpy().tobytes() for array in arrays])
    assert results[0] == results[1] == results[2]


def family(index: int, count: int, flags: str) -> QueueFamily:
    """G, C and T for graphics, compute and transfer."""
    names = {"G": "GRAPHICS", "C": "COMPUTE", "T": "TRANSFER"}
    return QueueFamily(
        index, count, "G" in flags, "C" in flags, bool(set(flags) & set("GCT")), 64, tuple(names[f] for f in flags)
    )


@pytest.mark.pure
@pytest.mark.parametrize(
    ("families", "expected"),
    [
        # lavapipe, SwiftShader, and most phones: one queue for everything
        ([family(0, 1, "GCT")], [(0, 0, "compute")]),
        # NVIDIA: 16 for everything, 2 to copy, 8 to compute
        (
            [family(0, 16, "GCT"), family(1, 2, "T"), family(2, 8, "CT")],
            [(0, 0, "compute"), (2, 0, "compute"), (2, 1, "compute"), (2, 2, "compute"),
             (1, 0, "transfer"), (1, 1, "transfer")],
        ),
        # AMD: 1 for everything, 4 to compute, 1 to copy
        (
            [family(0, 1, "GCT"), family(1, 4, "CT"), family(2, 1, "T")],
            [(0, 0, "compute"), (1, 0, "compute"), (1, 1, "compute"), (1, 2, "compute"), (2, 0, "transfer")],
        ),
        # a device for computing only
        (
            [family(0, 2, "T"), family(1, 2, "CT")],
            [(1, 0, "compute"), (1, 1, "compute"), (0, 0, "transfer"), (0, 1, "transfer")],
        ),
    ],
)  # fmt: skip
def test_queue_plans_of_known_devices(families: list[QueueFamily], expected: list[tuple[int, int, str]]) -> None:
    assert QueuePlan.of(families).queues == tuple(expected)


VIDEO = QueueFamily(3, 2, False, False, True, 0, ("TRANSFER",), others=True)
NVIDIA = [family(0, 16, "GCT"), family(1, 2, "T"), family(2, 8, "CT"), VIDEO]


@pytest.mark.pure
def test_plans_of_all_queues_and_of_some() -> None:
    everything = QueuePlan.of(NVIDIA, 1 << 30, 1 << 30).queues
    assert len({(f, i) for f, i, _ in everything}) == len(everything) == 16 + 2 + 8 + 2
    assert [f for f, _, role in everything if role == "transfer"] == [1, 1, 3, 3], "those that only copy come first"
    assert QueuePlan.of(NVIDIA, 1, 0).queues == ((0, 0, "compute"),)
    assert QueuePlan.of(NVIDIA, 10, 3).queues[-4:] == (
        (0, 1, "compute"),
        (1, 0, "transfer"),
        (1, 1, "transfer"),
        (3, 0, "transfer"),
    )


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kind", "timelines", "compute", "transfer"),
    [("discrete", (1, 0), 4, 2), ("integrated", (1, 0), 4, 0), ("cpu", (1, 0), 4, 0), ("integrated", (1, 1), 4, 1),
     ("discrete", (20, 3), 20, 3), ("discrete", (99, 9), 24, 4)],
)  # fmt: skip
def test_usual_plans(kind: str, timelines: tuple[int, int], compute: int, transfer: int) -> None:
    """Memory that is the host's needs no copy engine; who asks for more timelines gets real queues first."""
    profile = DeviceProfile(timelines=timelines)
    stub: Any = SimpleNamespace(kind=kind, queue_families=NVIDIA, profile=profile)
    roles = [role for _, _, role in QueuePlan.default(stub).queues]
    assert (roles.count("compute"), roles.count("transfer")) == (compute, transfer)


PACED = """
import time
import numpy as np
import vkcompute as vc

@vc.kernel
def ones(x):
    x[vc.global_id(0)] += 1

def took(work):
    start = time.perf_counter()
    work()
    gpu.wait()
    return time.perf_counter() - start

with vc.Runtime(submit_limit_s=0.05) as gpu:
    data = np.arange(1 << 20, dtype=np.float32)
    out = np.zeros(1 << 16, np.float32)
    gpu.stream(data[: 1 << 16], lambda up, down: vc.multiply(up, 2, down), out, chunk_bytes=1 << 16)
    assert np.array_equal(out, 2 * data[: 1 << 16])
    x, y = gpu.zeros(200, np.int32), gpu.zeros(200, np.int32)
    for _ in range(3):  # at once, then in parts, as it is found to be long
        assert took(lambda: ones[200, 1](x)) >= 0.2, "workgroups take a ms each"
    assert took(lambda: [ones[200, 1, 0](x), ones[200, 1, 1](y)]) >= 0.4, "queues that compute share an engine"
    assert took(lambda: x.copy_from(y)) < 0.2 <= took(lambda: gpu.array(data).numpy()), "25 ns per byte, up or down"
    assert x.numpy().tolist() == [1] * 200
"""


@pytest.mark.skipif("MANY_QUEUES_DRIVER" not in os.environ, reason="the driver of many queues only")
def test_engines_take_their_time(tmp_path: Path) -> None:
    program = tmp_path / "paced.py"
    program.write_text(PACED)
    env = os.environ | {"MANY_QUEUES_PACE": "25600,1000000"}
    done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
