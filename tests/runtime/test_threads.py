"""Threads that do everything at once on one runtime, and threads with runtimes of their own."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import numpy as np
import pytest
from hang_limit import hang_limit_s
from machine import ADD, SCALE
from runtimes import open_runtime

import vkcompute as vc

pytestmark = pytest.mark.usefixtures("clean_handles")


def in_threads(n: int, work: Callable[[int], None]) -> None:
    """Run `work(number)` on n threads, and fail with what any of them raises."""
    failures: list[str] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(hang_limit_s(120))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert failures == []


class Worker:
    """One thread's array, and what numpy says it holds."""

    def __init__(self, gpu: vc.Runtime, seed: int) -> None:
        self.gpu, self.random = gpu, random.Random(seed)
        self.add, self.scale = gpu.kernel(vc.glsl(ADD)), gpu.kernel(vc.glsl(SCALE))
        self.n = self.random.randrange(100, 5000)
        self.x, self.expected = gpu.full(self.n, 1, np.int32), np.ones(self.n, np.int32)

    def launch(self) -> None:
        self.scale(self.x, 1, 2)
        self.expected += 2

    def launch_on_a_queue(self) -> None:
        queue = self.random.choice(self.gpu.scheduler.placement.compute)
        self.scale(self.x, 1, 1, queue=queue.index).result()
        self.expected += 1

    def be_told(self) -> None:
        self.scale(self.x, 1, 1).add_done_callback(lambda future: None)
        self.expected += 1

    def double(self) -> None:
        out = self.gpu.empty(self.n, np.int32)
        self.add(self.x, self.x.copy(), out, 1)
        self.x = out
        self.expected *= 2

    def check(self) -> None:
        assert np.array_equal(self.x.numpy(), self.expected)

    def fill(self) -> None:
        at = self.random.randrange(self.n)
        self.x[at:].fill(7)
        self.expected[at:] = 7

    def write(self) -> None:
        self.expected = np.arange(self.n, dtype=np.int32) * self.random.randrange(3)
        self.x.write(self.expected)

    def record(self) -> None:
        with self.gpu.record() as graph:
            self.scale(self.x, 3, 1)
        graph.submit(2)
        self.expected = 3 * (3 * self.expected + 1) + 1
        if self.random.random() < 0.5:
            graph.close()

    def collect(self) -> None:
        self.gpu.device.collect(wait=self.random.random() < 0.2)
        gc.collect(self.random.choice((0, 1)))


STEPS = [step for name, step in vars(Worker).items() if not name.startswith("_")]


@pytest.mark.parametrize("staging", [False, True], ids=["direct", "staging"])
@pytest.mark.parametrize("timelines", [1, (2, 2)], ids=["one timeline", "four timelines"])
def test_threads_do_everything_at_once(timelines: int | tuple[int, int], staging: bool) -> None:
    with open_runtime(timelines=timelines, staging=staging) as gpu:
        end = time.monotonic() + 0.8

        def work(seed: int) -> None:
            worker = Worker(gpu, seed)
            while time.monotonic() < end:
                worker.random.choice(STEPS)(worker)
            worker.check()

        in_threads(8, work)


@pytest.mark.parametrize("timelines", [1, 3], ids=["one timeline", "three timelines"])
def test_eight_threads_launch_on_the_same_arrays(timelines: int) -> None:
    """None of their launches is lost, and none is between another's reading and writing."""
    n_threads, n_launches, start = 8, 150, threading.Barrier(8)
    with open_runtime(timelines=timelines) as gpu:
        scale, add = gpu.kernel(vc.glsl(SCALE)), gpu.kernel(vc.glsl(ADD))
        x, total = gpu.zeros(5000, np.int32), gpu.zeros(5000, np.int32)

        def work(number: int) -> None:
            futures = []
            start.wait()
            for i in range(n_launches):
                queue = gpu.scheduler.placement.compute[(number + i) % timelines].index if i % 3 else None
                futures.append(scale(x, 1, 1, queue=queue))
                if i % 50 == number:
                    total.fill(0)  # between whatever others do
                    add(x, x, total, 1)
                    assert not np.any(total.numpy() % 2)
            for future in futures[:: 10 + number]:
                future.result(hang_limit_s(60))

        in_threads(n_threads, work)
        assert set(x.numpy().tolist()) == {n_threads * n_launches}


RUNTIMES = f"""
import threading

import numpy as np

import vkcompute as vc

right = []

def work(number):
    for i in range(3):
        with vc.Runtime() as gpu:
            x = gpu.full(1000, number, np.int32)
            for _ in range(20):
                gpu.kernel(vc.glsl({SCALE!r}))(x, 1, i)
            right.append(set(x.numpy().tolist()) == {{number + 20 * i}})

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(right.count(True))
"""


def test_threads_with_runtimes_of_their_own() -> None:
    """Without the validation layer: its calls race with the creation of another device (its issue 4391)."""
    environ = {name: value for name, value in os.environ.items() if name != "VKCOMPUTE_VALIDATION"}
    command = [sys.executable, "-W", "ignore", "-c", RUNTIMES]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=hang_limit_s())
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "12", "")


def test_threads_that_want_the_same_kernel_get_one() -> None:
    spirv, kernels, start = vc.glsl(SCALE), [], threading.Barrier(6)
    with vc.Runtime() as gpu:

        def work(_: int) -> None:
            start.wait()
            kernels.append(gpu.kernel(spirv))

        in_threads(6, work)
    assert len(kernels) == 6
    assert len(set(map(id, kernels))) == 1


def test_the_default_runtime_is_made_once() -> None:
    results: list[vc.Runtime] = []
    start = threading.Barrier(6)

    def work(_: int) -> None:
        start.wait()
        results.append(vc.default_runtime())

    in_threads(6, work)
    assert len(set(map(id, results))) == 1
    results[0].close()
