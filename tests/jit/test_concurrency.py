"""Kernels in several processes and threads: what is sent to workers, first launches at once, one cache for all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hang_limit import hang_limit_s
from oracle import module

import vkcompute as vc

RunPython = Callable[..., subprocess.CompletedProcess[str]]

SENT = """
import multiprocessing
import numpy as np
import vkcompute as vc

@vc.kernel
def saxpy(x, y, out, a):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = a * x[i] + y[i]

@vc.vectorize
def weighted(a, b):
    return a + 2 * b

def sum_of(a, b):
    return a + b

def work(data, kernel, expression, function, reduction):
    with vc.Runtime() as gpu:
        x = gpu.array(data)
        y = gpu.empty(data.shape)
        kernel(x, x, y, 3.0)
        return y.numpy(), expression(x, 2.0).numpy(), function(x, y).numpy(), reduction(y).item()

if __name__ == "__main__":
    made = saxpy, vc.elementwise("x / k", "x, k"), weighted, vc.reduce(sum_of, 0)
    data = np.arange(100, dtype=np.float32)
    array = vc.default_runtime().array(data)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for y, halves, sums, total in pool.starmap(work, [(data, *made)] * 3, 1):
            assert (y == 4 * data).all() and (halves == data / 2).all() and (sums == data + 2 * y).all()
            assert total == y.sum()
        y, halves, sums, total = pool.apply(work, (array, *made))
        assert (y == 4 * data).all() and total == y.sum()
"""


@pytest.mark.device_only
def test_workers_that_are_spawned_compute_with_what_they_are_sent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # which workers import anew
    script.write_text(SENT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=hang_limit_s(), check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


SIMULATING = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks with threads
import numpy as np
import kernel_module
x = np.zeros(10, np.int32)
kernel_module.add.simulate(x, 1)  # imports, and what functools guards up to Python 3.11, have locks of their own
def forever():
    while True:
        kernel_module.add.simulate(x, 1)
threading.Thread(target=forever, daemon=True).start()
for _ in range(20):
    time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        import faulthandler
        faulthandler.dump_traceback_later(20, exit=True)
        y = np.zeros(10, np.int32)
        kernel_module.add.simulate(y, 2)
        os._exit(int(y.tolist() != [2] * 10))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("done", flush=True)
os._exit(0)
"""
ADD = """
import vkcompute as vc

@vc.kernel
def add(x, n):
    i = vc.global_id(0)
    if i < x.size:
        x[i] += n
"""


@pytest.mark.pure
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_simulates_though_a_thread_of_its_parent_did(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "kernel_module.py").write_text(ADD)
    done = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SIMULATING}")
    assert (done.stdout, done.stderr) == ("done\n", "")


TYPES = [(x, out) for x in (np.int32, np.uint32, np.float32) for out in (np.int32, np.uint32, np.float32)]
MANY = """
import vkcompute as vc

def twice(v):
    return v + v

@vc.kernel
def doubled(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = twice(x[i])

apply = vc.vectorize(twice)
"""


@pytest.mark.device_only
@pytest.mark.parametrize("same", [True, False], ids=["same types", "a type each"])
def test_threads_launch_a_kernel_for_the_first_time_at_once(gpu: vc.Runtime, same: bool) -> None:
    for turn in range(3):
        computed = module(f"{MANY}# {turn}, {same}\n")
        together = threading.Barrier(8)

        def work(types: tuple[type, type], computed=computed, together=together) -> None:
            data = np.arange(1000).astype(types[0])
            x, out = gpu.array(data), gpu.empty(1000, types[1])
            together.wait(hang_limit_s(60))
            for _ in range(5):
                computed.doubled(x, out).result()
                assert np.array_equal(out.numpy(), data + data)
                assert np.array_equal(computed.apply(x).numpy(), data + data)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, TYPES[:1] * 8 if same else TYPES[:8]))


CACHED = """
import contextlib, importlib, shutil, sys, threading, time
import numpy as np
import vkcompute as vc
from vkcompute import disk
disk.LIMIT_NBYTES, disk.PRUNING_DIGITS = 20_000, "0123456789abcdef"
kernels, mode = importlib.import_module("kernels"), sys.argv[1]
with vc.Runtime() as gpu:
    x, out = gpu.array(np.arange(64, dtype=np.int32)), gpu.zeros(64, np.int32)
    for turn in range(4):
        for name in kernels.NAMES:
            kernel = vc.kernel(getattr(kernels, name))
            kernel(x, out)
            assert (out.numpy() == np.arange(64) + int(name[1:])).all(), name
            if mode == "delete" and turn % 2:
                shutil.rmtree(disk.cache_folder(), ignore_errors=True)
            if mode == "spoil":
                with contextlib.suppress(FileNotFoundError):  # another process deletes the folder
                    for path in list((disk.cache_folder() / "python").glob("[0-9a-f]*")):
                        with contextlib.suppress(OSError):
                            path.write_bytes(path.read_bytes()[:-1])
print("done")
"""
KERNEL = """
def k{n}(x, out):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i] + {n}
"""


@pytest.mark.rotates
@pytest.mark.device_only
def test_processes_share_a_cache_that_is_filled_pruned_deleted_and_spoilt(tmp_path: Path) -> None:
    names = [f"k{n}" for n in range(24)]
    text = "import vkcompute as vc\n" + "".join(KERNEL.format(n=n) for n in range(24)) + f"NAMES = {names}\n"
    (tmp_path / "kernels.py").write_text(text)
    env = os.environ | {"VKCOMPUTE_CACHE_DIR": str(tmp_path / "cache")}
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", CACHED, mode], env=env | {"PYTHONPATH": path}, stdout=-1, stderr=-1, text=True
        )
        for mode in ("plain", "delete", "spoil", "plain")
    ]
    for worker in workers:
        assert worker.communicate(timeout=hang_limit_s()) == ("done\n", "")
