"""Work over several queues. On a device with one, several timelines share it: the same waits between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core.device import QueuePlan
from vkcompute.core.physical import QueueFamily


@pytest.fixture(scope="module", params=[False, True], ids=["direct", "staging"])
def many(request: pytest.FixtureRequest) -> Iterator[vc.Runtime]:
    """A runtime with at least three compute queues and two transfer queues."""
    with vc.Runtime(timelines=(3, 2), staging=request.param) as runtime:
        yield runtime


def test_chains_cross_queues_by_hand(many: vc.Runtime) -> None:
    kernel = many.kernel("multiply")
    a, b = many.full(1000, 1.0), many.full(1000, 2.0)
    compute = [lane.index for lane in many.scheduler.compute]
    for i in range(20):  # each launch needs the result of the one before, which another queue runs
        kernel(a, b, a, queue=compute[i % len(compute)])
    assert np.array_equal(a.numpy(), np.full(1000, 2.0**20, np.float32))


def test_independent_chains_go_to_different_queues_and_meet_again(many: vc.Runtime) -> None:
    chains = [many.full(1 << 16, float(i + 1)) for i in range(6)]
    for _ in range(10):
        for chain in chains:
            vc.multiply(chain, 2.0, chain)
    used = {many.scheduler.uses(chain.buffer).last_writer(0) for chain in chains}
    total = many.full(1 << 16, 1.0)
    for chain in chains:
        vc.multiply(total, chain, total)
    assert np.array_equal(total.numpy(), np.full(1 << 16, 720 * 2.0**60, np.float32))
    assert len(used) == len(many.scheduler.compute)


def test_uploads_and_downloads_larger_than_the_staging_slots(many: vc.Runtime) -> None:
    host = np.random.default_rng(0).integers(0, 1 << 20, 9 << 20, np.int32)  # 36 MiB
    a = many.tensor(host)
    vc.multiply(a, 3, a)
    assert np.array_equal(a.numpy(), host * 3)
    a.write(host)
    vc.multiply(a, 5, a)
    assert np.array_equal(a.numpy(), host * 5)


def test_staged_transfers_run_on_transfer_queues() -> None:
    with vc.Runtime(timelines=(1, 1), staging=True) as gpu:
        a = gpu.tensor(np.ones(100, np.float32))
        writer = gpu.scheduler.uses(a.buffer).last_writer(0)
        assert writer is not None
        assert gpu.scheduler.lanes[writer].queue.role == "transfer"


def test_kernels_are_not_sent_to_transfer_queues(many: vc.Runtime) -> None:
    kernel, a = many.kernel("multiply"), many.full(10, 1.0)
    for queue in ("transfer", many.scheduler.transfer[0].index):
        with pytest.raises(ValueError, match="only copies; a kernel needs a compute queue"):
            kernel(a, a, a, queue=queue)
    with pytest.raises(ValueError, match=r"queue 99 does not exist; .* has queues 0 to"):
        kernel(a, a, a, queue=99)
    with pytest.raises(ValueError, match='a queue is an index, "compute" or "transfer"; got \'graphics\''):
        kernel(a, a, a, queue="graphics")


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
