"""The device memory that recordings of graphed functions keep: large arguments that were given repeatedly."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from runtimes import open_runtime

import vkcompute as vc
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
