"""Clusters of worker processes on the loopback interface: results, memory, copies, faults, and what is left over.

One cluster serves all tests that do not end it. With several drivers at once, it has unlike devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import math
import os
import signal
import sys
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import vkcompute as vc  # noqa: E402
import vkcompute.dask  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402
from vkcompute.dask.cluster import chosen, disabled_features  # noqa: E402
from vkcompute.dask.store import DeviceStore  # noqa: E402
from vkcompute.dask.worker import AlikeDevices, LaunchThreadPoolExecutor, memory_limit  # noqa: E402
from vkcompute.dtypes import TABLE  # noqa: E402

pytestmark = pytest.mark.devices
MIB = 1 << 20


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    devices = chosen(None)
    if len(devices) < 2 and os.environ.get("VKCOMPUTE_TEST_ALL_ICDS"):
        pytest.skip("runs with all drivers at once")
    settings = {"array.backend": "vkcompute", "distributed.admin.tick.limit": "60s", "distributed.comm.retry.count": 0}
    with (
        dask.config.set(settings),
        vkcompute.dask.LocalCluster(
            workers_per_device=2 if len(devices) < 2 else 1,
            device_memory=f"{16 if len(devices) < 2 else 8}MiB",
            dashboard_address="127.0.0.1:0" if importlib.util.find_spec("bokeh") else None,
            silence_logs=logging.WARNING,
        ) as cluster,
        vkcompute.dask.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=hang_limit_s())
        yield client
        processes = list(client.run(os.getpid).values())
    until_gone(processes)


def workers_of(client: Any) -> dict[str, Any]:
    """Asks the scheduler for its workers, by address: `scheduler_info` may return a cache that has none."""
    result: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return result


def until_gone(processes: list[int]) -> None:
    """Waits until processes have ended."""
    end = time.monotonic() + hang_limit_s()
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
    workers = workers_of(client).values()
    assert [(worker["nthreads"], worker["resources"]) for worker in workers] == [(1, {"GPU": 1.0})] * len(workers)
    assert {"device", "device_memory", "device_busy_s", "device_spilled"} <= set(next(iter(workers))["metrics"])
    names = client.run(lambda: vc.default_runtime().device.name)
    assert len(set(names.values())) == len(chosen(None))
    computed = client.submit(lambda: vc.default_runtime().device.name, resources={"GPU": 1}).result()
    assert computed in names.values()


def test_the_dashboard_shows_each_device(client: Any) -> None:
    """The document of the page of workers, as a browser gets it: its tables and their rows."""
    pytest.importorskip("bokeh")
    from bokeh.client import pull_session
    from bokeh.models import DataTable

    client.gather(client.map(lambda n: vnp.ones(n).sum().item(), range(1, 9), pure=False))

    async def report(dask_worker: Any) -> None:
        await dask_worker.heartbeat()

    client.run(report)
    with contextlib.closing(pull_session(url=client.dashboard_link.replace("/status", "/workers"))) as session:
        tables = list(session.document.select({"type": DataTable}))
        shown = {column.field for table in tables for column in table.columns}
        rows = tables[0].source.data
    assert {"device", "device_memory", "device_busy_s", "device_spilled"} <= shown
    assert {*rows["device"][1:]} == {*client.run(lambda: vc.default_runtime().device.name).values()}
    assert rows["device_busy_s"][0] > 0  # of all workers
    assert rows["device_memory"][0] > 0


def test_every_device_of_unlike_ones_takes_chunks(client: Any) -> None:
    """Tasks wait for each other's start, so that no worker can take all of them."""
    event = distributed.Event("both", client=client)

    def part(number: int, n: int) -> Any:
        distributed.Variable(f"started-{number}").set(True)
        distributed.Event("both").wait(hang_limit_s())
        return float((vnp.arange(n, dtype=np.float32) + number).sum()), distributed.get_worker().address

    futures = [client.submit(part, number, 1000, pure=False) for number in (0, 1)]
    for number in (0, 1):
        distributed.Variable(f"started-{number}", client=client).get(timeout=hang_limit_s())
    event.set()
    results = client.gather(futures)
    assert [value for value, _ in results] == [499500.0, 500500.0]
    assert len({address for _, address in results}) == 2


def test_the_slower_device_takes_fewer_chunks(client: Any) -> None:
    """The first task of a worker waits until the other worker has done all others: both are busy until the end."""
    slow = next(iter(workers_of(client)))

    def part(number: int) -> tuple[str, float]:
        worker = distributed.get_worker()
        if worker.address == slow:
            distributed.Variable("waits").set(number)
            distributed.Event("others are done").wait(hang_limit_s())
        return worker.address, float((vnp.arange(1000, dtype=np.float32) + number).sum())

    futures = client.map(part, range(30), pure=False)
    waiting = distributed.Variable("waits", client=client).get(timeout=hang_limit_s())
    others = distributed.as_completed(futures)
    done = [next(others) for _ in range(26)]  # the rest may be queued at the worker that waits
    assert futures[waiting] not in done
    distributed.Event("others are done", client=client).set()
    results = client.gather(futures)
    assert [value for _, value in results] == [499500.0 + 1000 * number for number in range(30)]
    assert 0 < sum(address == slow for address, _ in results) <= 4


def test_results_are_the_same_wherever_a_chunk_ran(client: Any) -> None:
    """Integers, random numbers and arithmetic are equal to the bit; sums and functions, to rounding."""

    def chunk(x: Any) -> dict[str, Any]:
        numbers = vnp.random.default_rng(5)
        parts = {"ints": numbers.integers(0, 999, 5000, np.int32), "random": numbers.random(5000, np.float32)}
        parts |= {"product": x * 2.5 + 1, "total": x.sum(axis=0), "order": vnp.argsort(x[:, 0]), "sin": vnp.sin(x)}
        return {name: part.numpy() for name, part in parts.items()}

    x = np.random.default_rng(2).standard_normal((300, 7)).astype(np.float32)
    workers = list(workers_of(client))[:2]
    first, second = client.gather(
        [client.submit(chunk, vnp.asarray(x), workers=worker, pure=False) for worker in workers]
    )
    for name in ("ints", "random", "product", "order"):
        assert np.array_equal(first[name], second[name]), name
    for name in ("total", "sin"):
        assert np.allclose(first[name], second[name], rtol=1e-5, atol=1e-5), name
    vc.default_runtime().close()


def copied(runtime_profile: list[Any] = []) -> dict[str, list[int]]:  # noqa: B006
    """The bytes of each larger copy between host and device in this process since the last call."""
    results: dict[str, list[int]] = {"upload": [], "download": []}
    if runtime_profile:
        profile = runtime_profile.pop()
        profile.__exit__(None, None, None)
        for each in profile.host:
            if each.name in results and each.nbytes > 1000:
                results[each.name].append(each.nbytes)
    runtime_profile.append(vc.default_runtime().profile().__enter__())
    return results


def test_an_array_between_workers_is_copied_off_a_device_and_onto_the_other(client: Any) -> None:
    first, second = list(workers_of(client))[:2]
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


def test_memory_exhausted_on_one_worker(client: Any) -> None:
    first, second = list(workers_of(client))[:2]

    def limit(on: bool) -> None:
        memory = vc.default_runtime().device.memory
        memory.limit_bytes = max(64 * MIB, memory.allocated_bytes) if on else None

    held = client.map(lambda at: vnp.full(MIB // 4, float(at)), range(8), workers=first, pure=False)
    distributed.wait(held)
    client.run(limit, True, workers=[first])
    fits = client.submit(lambda: vnp.ones(14 * MIB).sum().item(), workers=first, pure=False)  # if the results go
    assert fits.result() == 14 * MIB
    too_large = client.submit(lambda: vnp.ones(64 * MIB).sum(), workers=first, key="too-large")
    with pytest.raises(vc.OutOfDeviceMemory, match="bytes") as raised:
        too_large.result()
    assert "too-large" in str(getattr(raised.value, "__notes__", "too-large"))
    assert [float(x.sum()) for x in client.gather(held)] == [at * MIB / 4 for at in range(8)]
    client.run(limit, False, workers=[first])
    totals = client.map(lambda _: vnp.ones(MIB).sum().item(), range(2), workers=[first, second], pure=False)
    assert client.gather(totals) == [MIB, MIB]
    vc.default_runtime().close()


def test_an_error_names_its_task(client: Any) -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no such thing")

    future = client.submit(fails, 1, key="the-task")
    with pytest.raises(ValueError, match="no such thing") as raised:
        future.result()
    assert sys.version_info < (3, 11) or any("the-task" in note for note in raised.value.__notes__)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fails"  # the user's line
    with pytest.raises(vc.OutOfDeviceMemory, match="bytes"):
        client.submit(vnp.zeros, 2**44).result()
    with pytest.raises(IndexError, match="index 7 is out of bounds") as late:  # raised where the result is awaited
        client.submit(lambda: vnp.arange(3)[vnp.asarray([7])], key="late").result()
    assert "late" in str(getattr(late.value, "__notes__", "late"))
    assert client.submit(lambda: vnp.ones(3).sum().item(), pure=False).result() == 3


def test_training_on_workers(client: Any) -> None:
    """Each worker trains on its device."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((120, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    model = vc.LogisticRegression().fit(da.from_array(x, chunks=(30, 4)), y)
    assert np.allclose(model.coef_, vc.LogisticRegression().fit(x, y).coef_, rtol=1e-3)
    vc.default_runtime().close()


PROGRAM = """
SHIFT = np.float32([1, 2, 3])

def shifted(v):
    return v + SHIFT[1]

def shift(x, out, scale):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = scale * shifted(x[i])
"""


def test_kernels_and_functions_of_elements_on_blocks(client: Any) -> None:
    """Those of the main module are pickled by value, with the functions and constants that they use."""
    v, parent = np.arange(40, dtype=np.float32), os.getpid()
    x = da.from_array(v, chunks=10).to_backend("vkcompute")
    assert np.array_equal(x.map_blocks(vc.elementwise("2 * x")).compute().numpy(), 2 * v)
    main = {"__name__": "__main__", "vc": vc, "np": np}
    exec(PROGRAM, main)
    shift: Any = vc.kernel(main["shift"], source=PROGRAM)  # type: ignore[call-overload]

    def block(x: Any, scale: float) -> Any:
        assert os.getpid() != parent
        out = vnp.empty_like(x)
        shift(x, out, scale)
        return out

    assert np.array_equal(x.map_blocks(block, scale=3.0, meta=x._meta).compute().numpy(), 3 * (v + 2))
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


def test_results_of_a_cpu_go_to_disk_with_the_memory_of_its_process(gpu: vc.Runtime, tmp_path: Path) -> None:
    """Dask evicts while the process exceeds its limit, which the device's arrays are part of."""
    spill = pytest.importorskip("distributed.spill")
    host = spill.SpillBuffer(str(tmp_path), target=10**9)
    store = DeviceStore(host, 10**6, in_process=True)
    assert not store.fast
    for at in range(3):
        store[at] = gpu.full(100, at, np.int32)
    while store.fast:
        assert store.evict() > 0
    assert (store.device_bytes, len(host.slow)) == (0, 3)
    assert [store[at].numpy()[99] for at in range(3)] == [0, 1, 2]
    apart = DeviceStore(spill.SpillBuffer(str(tmp_path / "apart"), target=10**9), 10**6)
    apart["x"] = gpu.zeros(100)
    assert not apart.fast  # the memory of a GPU is none of the process
    assert not hasattr(DeviceStore({}, 10**6), "fast")  # without a limit of memory


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
    with pytest.raises(ValueError, match="devices names at least one"):
        vkcompute.dask.LocalCluster([])
    with pytest.raises(TypeError, match="keyword argument 'worker_per_device'; did you mean workers_per_device"):
        vkcompute.dask.LocalCluster(worker_per_device=2)  # before a process starts
    for number in (0, "2", True):
        with pytest.raises(ValueError, match=f"workers_per_device is an int of at least 1; got {number!r}"):
            vkcompute.dask.LocalCluster(workers_per_device=number)  # type: ignore[arg-type]
    for amount in ("many", -1, 0, 0.0, -0.5, math.inf):
        with pytest.raises(ValueError, match=f"device_memory is bytes, .* got {amount!r}"):
            vkcompute.dask.LocalCluster(device_memory=amount)


def test_dtypes_of_results_depend_on_no_worker(client: Any) -> None:
    def computed() -> list[str]:
        ints, floats = vnp.ones(3, dtype=np.int32), vnp.ones(3, dtype=np.float32)
        return [str(array.dtype) for array in (ints + floats, (ints > 0).sum(), vnp.argmax(floats), ints * 2**20)]

    client.wait_for_workers(2)
    result = client.run(computed)
    assert len(result) == 2
    assert len({tuple(item) for item in result.values()}) == 1


@pytest.mark.pure
def test_unlike_devices_compute_without_what_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = [replace(row, features=row.native) if row.name == "float64" else row for row in TABLE]
    monkeypatch.setattr("vkcompute.dask.cluster.TABLE", refusing)  # as with VKCOMPUTE_FLOAT64=refuse
    has = {"shaderFloat64": True}
    wide = types.SimpleNamespace(name="Wide", features=has)
    narrow = types.SimpleNamespace(name="Narrow", features={**has, "shaderFloat64": False})
    assert disabled_features([wide, wide]) == disabled_features([narrow]) == []
    with pytest.warns(vc.UnlikeDevicesWarning, match="with float64, since Narrow lacks"):
        assert disabled_features([wide, narrow]) == ["shaderFloat64"]


@pytest.mark.pure
@pytest.mark.parametrize(("dtypes", "warned"), [("int32, float32", False), ("int32", True)])
def test_a_worker_beside_unlike_ones_warns(dtypes: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def identity() -> dict[str, Any]:
        return {"workers": {"tcp://a": {"metrics": {"device_dtypes": "int32, float32"}}, "tcp://b": {"metrics": {}}}}

    metrics = {"device_dtypes": lambda _: dtypes, "device": lambda _: "Narrow"}
    worker = types.SimpleNamespace(metrics=metrics, scheduler=types.SimpleNamespace(identity=identity))
    with caplog.at_level(logging.WARNING, "distributed.vkcompute"):
        asyncio.run(AlikeDevices().setup(worker))
    assert ("VKCOMPUTE_DISABLE_FEATURES" in caplog.text) == warned


def test_a_device_is_named_by_itself_or_in_a_list() -> None:
    name = vc.devices()[0].name
    assert [[item.index for item in chosen(given)] for given in (name, [name], 0)] == [[0]] * 3
