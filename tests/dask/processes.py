"""What happens to a cluster whose processes end: slow, as each start of a process imports Dask: `make clusters`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang_limit import hang_limit_s
from test_cluster import client, once, until_gone

import vkcompute as vc
import vkcompute.dask
import vkcompute.numpy as vnp

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.devices
__all__ = ["client"]


def test_a_lost_device_costs_nothing_but_time(client: Any, tmp_path: Path) -> None:
    flag = str(tmp_path / "lost")

    def block(x: Any) -> Any:
        if once(flag):
            from vkcompute.core import vk

            vc.default_runtime().close()
            vk.interceptors.append(lambda name, call: (lambda *_: -4) if name == "vkQueueSubmit" else call)
            return vnp.ones(x.shape)
        return x + 1

    x = da.ones((8, 100), chunks=(1, 100)).persist()
    assert float(x.map_blocks(block, meta=x._meta).sum().compute()) == 1600
    assert os.path.exists(flag)


def test_a_task_that_always_kills_its_worker_is_named(client: Any) -> None:
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    future = client.submit(lambda: os.kill(os.getpid(), signal.SIGKILL), key="the-killer", pure=False)
    with pytest.raises(distributed.KilledWorker, match="the-killer"):
        future.result()
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    client.wait_for_workers(2, timeout=hang_limit_s())
    assert float(da.ones(10, chunks=5).sum().compute()) == 10


STARTED = """
import os, sys
import vkcompute as vc
import vkcompute.numpy as vnp
import vkcompute.dask
if __name__ == "__main__":
    client = vkcompute.dask.Client(sys.argv[1])
    def waits():
        import distributed
        distributed.Event("never").wait(600)
    futures = client.map(lambda _: vnp.ones(1000), range(4), pure=False), client.submit(waits, pure=False)
    client.gather(futures[0])
    print("computing", flush=True)
    futures[1].result()
"""


def test_the_commands_of_dask_and_a_client_that_is_killed(tmp_path: Path) -> None:
    """The scheduler and the workers go on, forget the results of the client that is gone, and leave no process."""
    file = tmp_path / "scheduler.json"
    quiet = ["--no-dashboard", "--scheduler-file", str(file)]
    indices = [each.index for each in vc.devices()]
    commands = [["scheduler", "--host", "127.0.0.1", "--port", "0", *quiet]]
    commands += [
        ["worker", "--scheduler-file", str(file), "--no-dashboard", "--preload", "vkcompute.dask", "--name", f"at-{at}"]
        for at in indices
    ]
    started = []
    try:
        for command, device in zip(commands, ["", *map(str, indices)], strict=True):
            environ = os.environ | {"VKCOMPUTE_DEVICE": device} if device else dict(os.environ)
            words = [sys.executable, "-m", "dask", *command]
            started.append(
                subprocess.Popen(words, cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        end = time.monotonic() + hang_limit_s()
        while not file.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        refused = subprocess.run(  # Dask itself would start a worker without a device
            [sys.executable, "-m", "dask", *commands[-1], "--no-nanny"],
            env=os.environ | {"VKCOMPUTE_DEVICE": "no such"},
            capture_output=True,
            text=True,
            timeout=hang_limit_s(),
            check=False,
        )
        assert refused.returncode == 1
        assert "the worker ends: no device fits 'no such', from VKCOMPUTE_DEVICE" in refused.stderr
        script = tmp_path / "started.py"
        script.write_text(STARTED)
        with vkcompute.dask.Client(address) as client:
            client.wait_for_workers(len(indices), timeout=hang_limit_s())
            workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"].values()
            assert {worker["metrics"]["device"] for worker in workers} == {each.name for each in vc.devices()}
            assert all(worker["resources"] == {"GPU": 1} and worker["nthreads"] == 1 for worker in workers)
            processes = list(client.run(os.getpid).values())
            other = subprocess.Popen([sys.executable, str(script), address], stdout=subprocess.PIPE, text=True)
            assert other.stdout is not None
            with other.stdout as output:
                assert output.readline() == "computing\n"
            other.kill()
            other.wait()
            while len(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks)):
                assert time.monotonic() < end, "the results of the killed client are kept"
                time.sleep(0.05)
            distributed.Event("never", client=client).set()
            with dask.config.set({"array.backend": "vkcompute"}):
                assert float(client.compute(da.ones(1000, chunks=100).sum()).result()) == 1000
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait(hang_limit_s())
    until_gone(processes)


GONE = """
import os, signal, sys
import vkcompute.dask
if __name__ == "__main__":
    cluster = vkcompute.dask.LocalCluster([0], dashboard_address=None)
    client = vkcompute.dask.Client(cluster)
    print(*client.run(os.getpid).values(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_the_client_that_is_killed(client: Any, tmp_path: Path) -> None:
    script = tmp_path / "gone.py"
    script.write_text(GONE)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=hang_limit_s(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    until_gone(list(map(int, done.stdout.split())))


def test_a_cluster_restarts(client: Any) -> None:
    before = client.run(os.getpid)
    client.restart(timeout=hang_limit_s())
    client.wait_for_workers(2, timeout=hang_limit_s())
    assert not {*before.values()} & {*client.run(os.getpid).values()}
    assert float(da.ones(10, chunks=5).sum().compute()) == 10


def test_grid_search_by_joblib(client: Any) -> None:
    """Each worker trains on its device; slow, as the workers import scikit-learn."""
    selection = pytest.importorskip("sklearn.model_selection")
    joblib = pytest.importorskip("joblib")
    x = np.random.default_rng(3).standard_normal((120, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    search = selection.GridSearchCV(vc.LogisticRegression(), {"C": [1e-6, 1.0]}, cv=2)
    with joblib.parallel_backend("dask"):
        search.fit(x, y)
    assert search.best_params_ == {"C": 1.0}
    vc.default_runtime().close()
