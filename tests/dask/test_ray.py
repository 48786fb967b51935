"""Ray's functions and actors take and return device arrays; each actor is on its device. Skipped without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray")

import vkcompute as vc  # noqa: E402
import vkcompute.numpy as vnp  # noqa: E402

pytestmark = pytest.mark.devices


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    paths = {"PYTHONPATH": str(Path(__file__).parent)}  # actors import the class from this module
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths})
    yield
    ray.shutdown()


class Sum:
    """A running sum on the default runtime of an actor's process."""

    def __init__(self) -> None:
        self.total = vnp.zeros(10)

    def add(self, x: vc.Array) -> vc.Array:
        self.total += x
        return self.total

    def device(self) -> str:
        return self.total.runtime.device.physical.name


def test_a_function_takes_and_returns_arrays(cluster: None) -> None:
    doubled = ray.remote(lambda x: x[1:] * 2)
    x = vnp.arange(10, dtype=np.float32)
    for given in (x, ray.put(x)):
        result = ray.get(doubled.remote(given))
        assert type(result) is vc.Array
        assert result.tolist() == [2 * n for n in range(1, 10)]


def test_each_actor_is_on_its_device(cluster: None) -> None:
    devices = vc.devices()
    on = [{"env_vars": {"VKCOMPUTE_DEVICE": str(device.index)}} for device in devices]
    actors: list[Any] = [ray.remote(Sum).options(runtime_env=item, num_cpus=0.5).remote() for item in on]
    assert ray.get([actor.device.remote() for actor in actors]) == [device.name for device in devices]
    x = ray.put(vnp.arange(10, dtype=np.float32))
    for n in (1, 2):
        for result in ray.get([actor.add.remote(x) for actor in actors]):
            assert result.tolist() == [n * k for k in range(10)]
    vc.default_runtime().close()
