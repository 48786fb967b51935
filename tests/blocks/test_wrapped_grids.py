"""Grids longer than a device launches along x: exactly the programs that were asked for run, and know their number."""

from __future__ import annotations

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compiled import launches

MOST = 5
LENGTHS = [*range(1, 3 * MOST + 2), 23]


@pytest.fixture(autouse=True)
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a device for one that launches few workgroups along x."""
    monkeypatch.setattr(launches, "most_groups", lambda runtime: MOST)


@triton.jit
def census(total, ids):
    tl.atomic_add(total, 1)
    tl.atomic_max(total + 1, tl.program_id(0) + tl.program_id(1) + tl.program_id(2))
    tl.store(total + 2, tl.num_programs(0) + 1000 * tl.num_programs(1))
    tl.atomic_add(ids + tl.program_id(0), tl.sum(tl.arange(0, 256), axis=0))  # with barriers on large subgroups


@pytest.mark.parametrize("n_axes", [1, 3])
def test_programs_that_run(gpu: vc.Runtime, n_axes: int) -> None:
    for n in LENGTHS:
        total, ids = gpu.zeros(3, np.int32), gpu.zeros(n + MOST, np.int32)
        for _ in range(2):  # the second by a plan
            census[(n, 1, 1)[:n_axes]](total, ids)
        assert total.numpy().tolist() == [2 * n, n - 1, n + 1000]
        assert ids.numpy().tolist() == [2 * 255 * 128] * n + [0] * MOST


@vc.kernel(local_size=2)
def exchange(total, ids):
    shared = vc.shared(2, np.int32)
    shared[vc.local_id(0)] = vc.group_id(0) + 1
    vc.barrier()
    vc.atomic.add(total, 0, 1)
    if vc.local_id(0) == 0:
        total[1], total[2] = vc.num_groups(0), vc.num_groups(1)
    vc.atomic.add(ids, vc.global_id(0), shared[1 - vc.local_id(0)])


def test_workgroups_of_kernels_that_run(gpu: vc.Runtime) -> None:
    for n in LENGTHS:
        total, ids = gpu.zeros(3, np.int32), gpu.zeros(2 * (n + MOST), np.int32)
        for _ in range(2):
            exchange[n](total, ids)
        assert total.numpy().tolist() == [4 * n, n, 1]
        assert ids.numpy().tolist() == [2 * (i // 2 + 1) for i in range(2 * n)] + [0] * 2 * MOST


def test_recorded_launches_run_again(gpu: vc.Runtime) -> None:
    total, ids, sums = gpu.zeros(3, np.int32), gpu.zeros(40, np.int32), gpu.zeros(3, np.int32)
    with gpu.record() as graph:
        exchange[MOST + 2](total, ids)
        census[(MOST + 4,)](sums, ids)
    for _ in range(3):
        graph.run()
    assert total.numpy().tolist() == [3 * 2 * (MOST + 2), MOST + 2, 1]
    assert sums.numpy().tolist() == [3 * (MOST + 4), MOST + 3, MOST + 4 + 1000]


@vc.kernel(local_size=1)
def says(x):
    print(vc.group_id(0), "of", vc.num_groups(0), x[0])


def test_prints_are_those_of_the_grid(gpu: vc.Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    says[MOST + 2](gpu.array([3], np.int32)).result()
    assert capsys.readouterr().out.splitlines() == [f"{at} of {MOST + 2} 3" for at in range(MOST + 2)]


@vc.kernel(local_size=1)
def repeats(counts, turns):
    n = 0
    while n < turns[0]:
        n += 1
    vc.atomic.add(counts, 0, n)


def test_loops_of_unknown_length(gpu: vc.Runtime) -> None:
    counts = gpu.zeros(1, np.int32)
    repeats[MOST + 2](counts, gpu.array([7], np.int32))
    assert counts.numpy().tolist() == [7 * (MOST + 2)]


@vc.kernel(local_size=1)
def adds(total, a, b, c, d, e, s):
    i = vc.group_id(0)
    vc.atomic.add(total, 0, 1)
    if i < vc.num_groups(0):
        e[i] = a[i] + b[i] + c[i] + d[i] + s


def test_more_arrays_than_the_device_binds() -> None:
    """The indices at which packed arrays begin are push constants behind the number of workgroups."""
    with open_runtime(limits={"maxPushConstantsSize": 128, "maxPerStageDescriptorStorageBuffers": 4}) as runtime:
        n = 2 * MOST + 1
        total, result = runtime.zeros(1, np.int32), runtime.zeros(n + MOST)
        arrays = [runtime.array(np.arange(n + MOST, dtype=np.float32) * k) for k in range(1, 5)]
        for _ in range(2):
            adds[n](total, *arrays, result, 0.5)
        assert total.numpy().tolist() == [2 * n]
        assert result.numpy().tolist() == [10 * i + 0.5 for i in range(n)] + [0] * MOST
