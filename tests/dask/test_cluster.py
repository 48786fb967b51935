"""Clusters of worker processes on the loopback interface: results, memory, copies, faults, and what is left over.

One cluster serves all tests that do not end it. With several drivers at once, it has unlike devices.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import vkcompute as vc  # noqa: E402
import vkcompute.dask  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402
from vkcompute.dask.cluster import device_indices  # noqa: E402
from vkcompute.dask.store import DeviceStore  # noqa: E402
from vkcompute.dask.worker import LaunchThreadPoolExecutor, memory_limit  # noqa: E402

pytestmark = pytest.mark.devices
MIB = 1 << 20
PATIENCE_S = 180  # before a test gives up; none waits as long


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    indices = device_indices(None)
    if len(indices) < 2 and os.environ.get("VKCOMPUTE_TEST_ALL_ICDS"):
        pytest.skip("runs with all drivers at once")
    settings = {"array.backend": "vkcompute", "distributed.admin.tick.limit": "60s", "distributed.comm.retry.count": 0}
    with (
        dask.config.set(settings),
        vkcompute.dask.LocalCluster(
            workers_per_device=2 if len(indices) < 2 else 1,
            device_memory=f"{16 if len(indices) < 2 else 8}MiB",
            dashboard_address=None,
            silence_logs=logging.WARNING,
        ) as cluster,
        vkcompute.dask.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=PATIENCE_S)
        yield client
        processes = list(client.run(os.getpid).values())
    until_gone(processes)


def until_gone(processes: list[int]) -> None:
    """Waits until processes have ended."""
    end = time.monotonic() + PATIENCE_S
    while any(map(is_alive, processes)):
        assert time.monotonic() < end, "processes are left over"
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text() if Path("/proc").exists() else True


def test_results_are_those_of_numpy_wherever_a_chunk_is(client: Any) -> None:
    x = np.random.default_rng(1).standard_normal((60, 40)).astype(np.float32)
    made = da.from_array(x, chunks=(15, 20)).to_backend("vkcompute").persist()
    distributed.wait(made)
    assert set(client.who_has(made).values()) != set()
    total, product = dask.compute((made * 2 + 1).sum(axis=0), made.T @ made)
    assert type(total) is type(product) is vc.Array
    assert np.allclose(total.numpy(), (x * 2 + 1).sum(axis=0), rtol=1e-4, atol=1e-4)
    assert np.allclose(product.numpy(), x.T @ x, rtol=1e-4, atol=1e-4)
    back = client.submit(vnp.sin, client.scatter(vnp.asarray(x), broadcast=True)).result()
    assert np.allclose(back.numpy(), np.sin(x), atol=1e-5)


def test_workers_have_a_device_a_resource_and_metrics(client: Any) -> None:
    workers = client.scheduler_info()["workers"].values()
    assert [(each["nthreads"], each["resources"]) for each in workers] == [(1, {"GPU": 1.0})] * len(workers)
    assert {"device", "device_memory", "device_busy_s", "device_spilled"} <= set(next(iter(workers))["metrics"])
    names = client.run(lambda: vc.default_runtime().device.name)
    assert len(set(names.values())) == len(device_indices(None))
    found = client.submit(lambda: vc.default_runtime().device.name, resources={"GPU": 1}).result()
    assert found in names.values()


def test_every_device_of_unlike_ones_takes_chunks(client: Any) -> None:
    """Tasks wait for each other's start, so that no worker can take all of them."""
    event = distributed.Event("both", client=client)

    def part(number: int, n: int) -> Any:
        distributed.Variable(f"started-{number}").set(True)
        distributed.Event("both").wait(PATIENCE_S)
        return float((vnp.arange(n, dtype=np.float32) + number).sum()), distributed.get_worker().address

    futures = [client.submit(part, number, 1000, pure=False) for number in (0, 1)]
    for number in (0, 1):
        distributed.Variable(f"started-{number}", client=client).get(timeout=PATIENCE_S)
    event.set()
    results = client.gather(futures)
    assert [value for value, _ in results] == [499500.0, 500500.0]
    assert len({address for _, address in results}) == 2


def copied(runtime_profile: list[Any] = []) -> dict[str, list[int]]:  # noqa: B006
    """The bytes of each larger copy between host and device in this process since the last call."""
    found: dict[str, list[int]] = {"upload": [], "download": []}
    if runtime_profile:
        profile = runtime_profile.pop()
        profile.__exit__(None, None, None)
        for each in profile.host:
            if each.name in found and each.nbytes > 1000:
                found[each.name].append(each.nbytes)
    runtime_profile.append(vc.default_runtime().profile().__enter__())
    return found


def test_an_array_between_workers_is_copied_off_a_device_and_onto_the_other(client: Any) -> None:
    first, second = list(client.scheduler_info()["workers"])[:2]
    client.run(copied)
    x = client.submit(vnp.full, (1000, 100), 3.0, workers=first, pure=False)
    total = client.submit(lambda x: x.sum().item(), x, workers=second, allow_other_workers=False)
    assert total.result() == 300_000
    counts = client.run(copied)
    assert counts[first] == {"upload": [], "download": [400_000]}
    assert counts[second] == {"upload": [400_000], "download": []}


def test_results_beyond_the_limit_of_device_memory_go_to_the_host_and_come_back(client: Any) -> None:
    parts = [client.submit(vnp.full, MIB // 4, float(at), pure=False) for at in range(40)]  # 40 MiB for 16
    distributed.wait(parts)
    assert sum(client.run(lambda dask_worker: dask_worker.data.n_spilled).values()) >= 20
    assert all(n <= 8 * MIB for n in client.run(lambda dask_worker: dask_worker.data.device_bytes).values())
    totals = client.map(lambda x: x.sum().item(), parts)
    assert client.gather(totals) == [at * MIB / 4 for at in range(40)]
    assert sum(client.run(lambda dask_worker: dask_worker.data.n_restored).values()) >= 10


def test_an_error_names_its_task(client: Any) -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no such thing")

    future = client.submit(fails, 1, key="the-task")
    with pytest.raises(ValueError, match="no such thing") as raised:
        future.result()
    assert sys.version_info < (3, 11) or any("the-task" in note for note in raised.value.__notes__)
    with pytest.raises(vc.OutOfDeviceMemory, match="bytes"):
        client.submit(vnp.zeros, 2**44).result()
    with pytest.raises(IndexError, match="index 7 is out of bounds") as late:  # raised where the result is awaited
        client.submit(lambda: vnp.arange(3)[vnp.asarray([7])], key="late").result()
    assert "late" in str(getattr(late.value, "__notes__", "late"))
    assert client.submit(lambda: vnp.ones(3).sum().item(), pure=False).result() == 3


def test_training_on_workers(client: Any) -> None:
    """Each worker trains on its device; kernels and functions of elements are pickled by value."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((120, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    found = vc.LogisticRegression(max_iter=5).fit(da.from_array(x, chunks=(30, 4)), y)
    assert np.allclose(found.coef_, vc.LogisticRegression(max_iter=5).fit(x, y).coef_, rtol=1e-4)
    twice = vc.elementwise("2 * x")
    assert np.array_equal(
        da.from_array(x, chunks=50).to_backend("vkcompute").map_blocks(twice).compute().numpy(), 2 * x
    )
    vc.default_runtime().close()


def once(path: str) -> bool:
    """True for the first caller only."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def test_a_killed_worker_costs_nothing_but_time(client: Any, tmp_path: Path) -> None:
    flag = str(tmp_path / "killed")

    def block(x: Any) -> Any:
        if once(flag):
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    x = da.ones((8, 100), chunks=(1, 100)).persist()
    assert float(x.map_blocks(block, meta=x._meta).sum().compute()) == 1600
    assert os.path.exists(flag)


# -- without processes ------------------------------------------------------------------------------------------------


class Worker:
    """What the thread that launches needs of a worker."""

    scheduler_delay, nanny, address = 0.0, None, "nowhere"

    def __init__(self) -> None:
        self.data: Any = self
        self.spilled = 0

    def spill(self) -> None:
        self.spilled += 1

    @property
    def loop(self) -> Any:
        return self

    def add_callback(self, call: Any) -> None:
        call()


def message(**named: Any) -> dict[str, Any]:
    return {"start": 0.0, "stop": 0.0, "thread": 1, **named}


def test_a_task_out_of_memory_runs_again_after_results_went_to_the_host() -> None:
    worker, runs = Worker(), []

    def task() -> dict[str, Any]:
        runs.append(1)
        if len(runs) == 1:
            return message(op="task-erred", actual_exception=vc.OutOfDeviceMemory("full", 1, 0, 1))
        return message(op="task-finished", result=5)

    with LaunchThreadPoolExecutor(worker) as executor:
        assert executor.submit(task).result()["result"] == 5
    assert (len(runs), worker.spilled) == (2, 1)


def test_the_store_keeps_what_was_used_last(gpu: vc.Runtime) -> None:
    host: dict[Any, Any] = {}
    store = DeviceStore(host, 800)
    store["number"] = 5
    for name in "abc":
        store[name] = [gpu.full(100, ord(name), np.int32)]
        assert store["a"][0].numpy()[0] == ord("a")
    assert (store.device_bytes, set(host)) == (800, {"number", "b"})
    assert store["b"][0].numpy().tolist() == [ord("b")] * 100
    assert set(host) == {"number", "c"}
    assert set(store) == {"a", "b", "c", "number"}
    assert len(store) == 4
    store["a"] = 1
    del store["b"]
    assert store.device_bytes == 0
    assert (store["a"], store["number"], "b" in store) == (1, 5, False)
    with pytest.raises(KeyError):
        store["b"]


@pytest.mark.parametrize(("text", "expected"), [("0.5", 500), ("2KiB", 2048), ("1", 1000), (None, 600)])
def test_limits(text: str | None, expected: int) -> None:
    assert memory_limit(text, 1000) == expected


@pytest.mark.parametrize("text", ["-1", "many"])
def test_wrong_limits(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        memory_limit(text, 1000)


def test_a_cluster_of_no_such_device() -> None:
    with pytest.raises(vc.NoDevice, match="'no such'"):
        vkcompute.dask.LocalCluster(["no such"])
    with pytest.raises(ValueError, match="workers_per_device=0"):
        vkcompute.dask.LocalCluster(workers_per_device=0)
