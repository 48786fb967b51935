"""What happens to a cluster whose processes end: slow, as each start of a process imports Dask: `make clusters`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cluster import PATIENCE_S, client, once, until_gone

import vkcompute as vc
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
    client.wait_for_workers(2, timeout=PATIENCE_S)
    assert float(da.ones(10, chunks=5).sum().compute()) == 10


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
        [sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -signal.SIGKILL
    until_gone(list(map(int, done.stdout.split())))


def test_a_cluster_restarts(client: Any) -> None:
    before = client.run(os.getpid)
    client.restart(timeout=PATIENCE_S)
    client.wait_for_workers(2, timeout=PATIENCE_S)
    assert not {*before.values()} & {*client.run(os.getpid).values()}
    assert float(da.ones(10, chunks=5).sum().compute()) == 10


def test_grid_search_by_joblib(client: Any) -> None:
    """Each worker trains on its device; slow, as the workers import scikit-learn."""
    selection = pytest.importorskip("sklearn.model_selection")
    joblib = pytest.importorskip("joblib")
    x = np.random.default_rng(3).standard_normal((120, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    search = selection.GridSearchCV(vc.LogisticRegression(max_iter=20), {"learning_rate": [0.001, 1.0]}, cv=2)
    with joblib.parallel_backend("dask"):
        search.fit(x, y)
    assert search.best_params_ == {"learning_rate": 1.0}
    vc.default_runtime().close()
