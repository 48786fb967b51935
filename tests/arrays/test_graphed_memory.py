"""The device memory that recordings of graphed functions keep: large arguments, and one memory for all results."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
import vkcompute.numpy as vnp
from vkcompute import nn
from vkcompute.runtime.graphs.ports import LARGE_BYTES
from vkcompute.runtime.graphs.recording_cache import _MAX_KEPT

pytestmark = pytest.mark.device_only

N = LARGE_BYTES // 4
N_CALLS = 3
"""The first call copies a large argument, the second one binds it."""


@pytest.fixture
def gpu() -> Iterator[vc.Runtime]:
    """Returns a runtime of its own, whose memory nobody else changes."""
    with contextlib.closing(open_runtime()) as runtime:
        yield runtime


def call(gpu: vc.Runtime, function: Callable[[Any], Any], value: float) -> None:
    """Calls with a large array that is dropped afterwards."""
    x = gpu.full(N, value)
    for _ in range(N_CALLS):
        assert function(x).numpy()[-1] == 2 * value + 1


def used(gpu: vc.Runtime) -> int:
    """Returns the bytes in use; those that results leave are none."""
    gc.collect()
    gpu.wait()
    memory = gpu.memory()
    return memory.used - memory.pooled


@pytest.mark.parametrize("release", ["trim", "clear", "the end of the function"])
def test_large_arguments_are_released(gpu: vc.Runtime, release: str) -> None:
    function: Any = vc.graph(lambda x: x * 2 + 1)
    before = used(gpu)
    call(gpu, function, 1)
    assert used(gpu) >= before + LARGE_BYTES
    if release == "trim":
        gpu.trim()
    elif release == "clear":
        function.clear()
    else:
        del function
    assert used(gpu) < before + LARGE_BYTES
    if release == "trim":
        call(gpu, function, 3)


def test_recordings_keep_few_large_arguments(gpu: vc.Runtime) -> None:
    function = vc.graph(lambda x: x * 2 + 1)
    kept, before = [], used(gpu)
    for number in range(4 * _MAX_KEPT):
        call(gpu, function, number)
        kept.append(used(gpu) - before)
    assert max(kept[_MAX_KEPT + 1 :]) <= max(kept[: _MAX_KEPT + 1]) <= 16 * LARGE_BYTES


def test_small_arguments_are_not_kept(gpu: vc.Runtime) -> None:
    function = vc.graph(lambda x: x * 2 + 1)
    sizes = []
    for number in range(16):
        x = gpu.full(N // 8, number)
        assert np.all(function(x).numpy() == 2 * number + 1)
        sizes.append(used(gpu))
    assert sizes[3:] == sizes[3:4] * 13


AT = np.arange(64, dtype=np.int32)[::-1].copy()
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "cumsum": lambda x, at: vnp.cumsum(x, axis=1) * 0.1,
    "sort": lambda x, at: vnp.sort(x) + 1,
    "fft": lambda x, at: vnp.fft.fft(x).real * 0.1,
    "roll": lambda x, at: vnp.roll(x, 3, axis=1),
    "copy": lambda x, at: x.T.copy(),
    "topk": lambda x, at: x + nn.topk(x, 5)[0].sum(),
    "x[at]": lambda x, at: x[at],
    "argsort": lambda x, at: vnp.take_along_axis(x, vnp.argsort(x), 1),
    "std": lambda x, at: x - vnp.std(x, axis=0),
}


def replay_calls(replay: Callable[[], Any]) -> int:
    """Returns the number of calls that Python makes in a replay."""
    n_calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        replay()
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.mark.parametrize("name", STEPS)
def test_a_replay_of_many_launches_takes_the_host_as_long_as_one_of_few(gpu: vc.Runtime, name: str) -> None:
    """All results of a recording share its memory, whichever function makes them."""
    step, at = STEPS[name], gpu.array(AT)
    x = gpu.array(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32))
    counts = []
    for n_steps in (1, 40):

        def several(x: Any, at: Any, n_steps: int = n_steps) -> Any:
            for _ in range(n_steps):
                x = step(x, at)
            return x

        graphed = vc.graph(several)
        for _ in range(4):
            result = graphed(x, at)
            gpu.wait()
        np.testing.assert_array_equal(result.numpy(), several(x, at).numpy())
        counts.append(10**6)
        for _ in range(6):  # in some, a watcher of reports has more to do
            counts[-1] = min(counts[-1], replay_calls(lambda graphed=graphed: graphed(x, at)))
            gpu.wait()
    assert counts[1] < counts[0] + 20
