"""Clusters of this machine, with a worker process per device, and their clients."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from difflib import get_close_matches
from inspect import signature
from typing import Any

import distributed
from dask.utils import parse_bytes
from distributed import Nanny, Scheduler, SpecCluster, Worker
from distributed.worker_memory import parse_memory_limit

from vkcompute.core.features import DISABLED
from vkcompute.core.instance import Instance
from vkcompute.core.physical import PhysicalDevice, choose, enumerate_devices, gpus
from vkcompute.dask.worker import LIMIT
from vkcompute.dtypes import TABLE
from vkcompute.errors import UnlikeDevicesWarning, warn_caller

_log = logging.getLogger("distributed.vkcompute")


def chosen(devices: int | str | Sequence[int | str] | None) -> list[PhysicalDevice]:
    """Returns devices, given by index or part of a name; by default all GPUs, else all CPUs.

    Raises:
        NoDevice: one is not there.
    """
    with Instance() as instance:
        physical_devices = enumerate_devices(instance)
        for physical in physical_devices:
            assert physical.features  # read while the instance is open
        if isinstance(devices, (int, str)):
            devices = [devices]
        if devices is not None:
            return [choose(physical_devices, device) for device in devices]
        usable = [physical for physical in physical_devices if not physical.unfit()]
        return gpus(usable) or usable or [choose(physical_devices)]


def disabled_features(devices: Sequence[PhysicalDevice]) -> list[str]:
    """Returns the features of dtypes that only some of the devices have, and warns of them.

    Results depend on the worker otherwise: int32 beside float32 gives float64 on a device that has it.
    """
    names = {name for row in TABLE for name in row.features}
    mixed = sorted(name for name in names if len({device.features[name] for device in devices}) == 2)
    if mixed:
        lacking = sorted({device.name for device in devices if not all(device.features[name] for name in mixed)})
        without = [row.name for row in TABLE if not {*mixed}.isdisjoint(row.features)]
        warn_caller(
            f"no worker computes with {', '.join(without)}, since {' and '.join(lacking)} lacks them and results may "
            f"not depend on the worker; name alike devices to have them, as LocalCluster([0])",
            UnlikeDevicesWarning,
        )
    return mixed


class LocalCluster(SpecCluster):
    """A scheduler, and a worker process per device of this machine, which its nanny restarts if it ends.

    Args:
        devices: indices or parts of names, or one of them; by default every GPU, or every software device if there is
            no GPU.
        workers_per_device: processes per device; more than one overlap their work on the host.
        device_memory: the most bytes of results on a device, as "2GiB" or a fraction of its memory; the workers of a
            device share it. Results beyond it go to host memory, and then to disk.
        memory_limit: of a worker's host memory, as of distributed.LocalCluster; by default an equal part.
        dashboard_address: of the dashboard, which needs bokeh; None for none.
        host, scheduler_port: where the scheduler listens.
        named: other arguments of `distributed.Nanny`, and of `SpecCluster`: name, asynchronous, loop, silence_logs.

    Raises:
        NoDevice: there is no device, or none of these.
        TypeError: Dask has no such argument.
        ValueError: the number of workers is below 1, `devices` is empty, or `device_memory` is no amount of memory.
    """

    def __init__(
        self,
        devices: int | str | Sequence[int | str] | None = None,
        *,
        workers_per_device: int = 1,
        device_memory: str | float | None = None,
        memory_limit: str | float | None = "auto",
        dashboard_address: str | None = ":8787",
        host: str = "127.0.0.1",
        scheduler_port: int = 0,
        **named: Any,
    ) -> None:
        if not isinstance(workers_per_device, int) or isinstance(workers_per_device, bool) or workers_per_device < 1:
            raise ValueError(f"workers_per_device is an int of at least 1; got {workers_per_device!r}")
        physical_devices = chosen(devices)
        if not physical_devices:
            raise ValueError("devices names at least one; got none; None takes every GPU")
        indices = [physical.index for physical in physical_devices for _ in range(workers_per_device)]
        _require_arguments(named)
        limit = _shared(device_memory, workers_per_device)
        cluster: dict[str, Any] = {
            key: named.pop(key) for key in ("name", "asynchronous", "loop", "security") if key in named
        }
        cluster["silence_logs"] = named.pop("silence_logs", logging.WARNING)
        options = {
            "host": host,
            "nthreads": 1,
            "memory_limit": parse_memory_limit(memory_limit, 1, len(indices), logger=_log),
            "preload": ["vkcompute.dask"],
            "silence_logs": cluster["silence_logs"],
            **named,
        }
        disabled = ",".join(filter(None, (os.environ.get(DISABLED), *disabled_features(physical_devices))))
        env = {DISABLED: disabled, **(options.pop("env", None) or {}), LIMIT: limit}
        dashboard = {"dashboard": dashboard_address is not None, "dashboard_address": dashboard_address or ":0"}
        super().__init__(
            workers={
                at: {"cls": Nanny, "options": {**options, "env": {**env, "VKCOMPUTE_DEVICE": str(index)}}}
                for at, index in enumerate(indices)
            },
            scheduler={"cls": Scheduler, "options": {"host": host, "port": scheduler_port, **dashboard}},
            **cluster,
        )


def _require_arguments(named: dict[str, Any]) -> None:
    """Refuses arguments that Dask would only refuse in the processes that it starts, with another error here."""
    known = {name for class_ in (Nanny, Worker, SpecCluster) for name in signature(class_.__init__).parameters}
    for name in named.keys() - known:
        near = get_close_matches(name, {*known, *signature(LocalCluster.__init__).parameters}, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TypeError(f"LocalCluster got an unexpected keyword argument {name!r}{hint}")


def _shared(given: str | float | None, n_workers: int) -> str:
    """Returns a worker's part of a device's memory, as text."""
    value = 0.6 if given is None else given
    fraction = value if isinstance(value, float) and value <= 1 else None
    try:
        amount = fraction if fraction is not None else parse_bytes(value)
    except (ValueError, OverflowError):
        amount = 0
    if not amount > 0 or (fraction is None and amount < n_workers):
        rule = "device_memory is bytes, as '2GiB', at least 1 per worker, or a fraction of the device's memory, as 0.5"
        raise ValueError(f"{rule}; got {given!r} for {n_workers} per device")
    return str(fraction / n_workers) if fraction is not None else f"{amount // n_workers}B"


class Client(distributed.Client):
    """A client of a cluster; without an address, of a new LocalCluster, which it closes.

    Args:
        address: of a scheduler, or a cluster.
        named: arguments of `distributed.Client`.
    """

    def __init__(self, address: Any = None, **named: Any) -> None:
        self._own_cluster = LocalCluster() if address is None else None
        super().__init__(self._own_cluster or address, **named)

    def close(self, *args: Any, **named: Any) -> Any:
        """Closes the connection, and the cluster if it was made for this client."""
        result = super().close(*args, **named)
        cluster, self._own_cluster = self._own_cluster, None
        if cluster is not None:
            cluster.close()
        return result
