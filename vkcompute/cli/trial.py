"""Trials of what is not ours, in a process of their own: a broken loader, driver, layer or compiler may end it.

`main` writes the records of a trial, a line of JSON for each, and a last line that says that it has ended by itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

Record = dict[str, Any]

N = 100_003
END: Record = {"ended": True}
_LOADERS = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib")}
LOADERS = _LOADERS.get(sys.platform, ("libvulkan.so.1", "libvulkan.so"))
_ENTRIES = "vk_icdGetInstanceProcAddr", "vkGetInstanceProcAddr"


def main(answer: BinaryIO, name: str, *arguments: str) -> None:
    """Runs a trial."""
    write(answer, TRIALS[name](*arguments))


def write(answer: BinaryIO, records: Iterable[Record]) -> None:
    """Writes the records of a trial, each when it is there."""
    for record in chain(records, [END]):
        answer.write(json.dumps(record).encode() + b"\n")
        answer.flush()


def loader() -> Iterator[Record]:
    """Yields the names of the loader that are tried, then its path and its version; no path if there is none."""
    for name in LOADERS:
        yield {"name": name}
        try:
            library = ctypes.CDLL(name)
            number = ctypes.c_uint32()
            library.vkEnumerateInstanceVersion(ctypes.byref(number))
        except (OSError, AttributeError):
            continue
        version = f"{number.value >> 22}.{number.value >> 12 & 0x3FF}.{number.value & 0xFFF}"
        yield {"path": _path_of(name), "version": version}
        return


def _path_of(name: str) -> str:
    """Returns the file of a loaded library, where the system tells it."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return name
    return next((line.split()[-1] for line in lines if Path(line.split()[-1]).name.startswith(name)), name)


def manifests() -> Iterator[Record]:
    """Yields the drivers' manifests."""
    from vkcompute.core.manifests import find

    for manifest in find():
        yield {"path": str(manifest.path), "library": manifest.library, "problem": manifest.problem}


def library(name: str) -> Iterator[Record]:
    """Loads a library; yields the reason why it does not load, and whether it is a Vulkan driver."""
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        yield {"error": str(error), "is_driver": False}
        return
    yield {"error": "", "is_driver": any(hasattr(loaded, entry) for entry in _ENTRIES)}


def compiler() -> Iterator[Record]:
    """Yields the path of the GLSL compiler, or the reason why there is none."""
    from vkcompute.compilers import discovery
    from vkcompute.errors import NoCompiler

    try:
        yield {"path": discovery.find().path, "error": ""}
    except NoCompiler as error:
        yield {"path": "", "error": str(error).partition(";")[0]}


def cache() -> Iterator[Record]:
    """Yields the size of the cache, or the reason why it is not used."""
    from vkcompute import disk

    folder = disk.cache_folder()
    try:
        disk.require_usable_cache()
        size = sum(entry.nbytes for entry in disk.cache_entries())
    except OSError as error:
        at = "" if error.filename in (None, str(folder)) else f"{error.filename}: "
        yield {"folder": str(folder), "error": f"{at}{error.strerror}" if error.strerror else str(error)}
        return
    yield {"folder": str(folder), "error": "", "nbytes": size}


def devices() -> list[Record]:
    """Returns the layers, then the devices with the reasons against those that are not chosen."""
    from vkcompute.core.instance import Instance, layers
    from vkcompute.core.physical import enumerate_devices, verdicts
    from vkcompute.dtypes import emulated_dtypes

    wanted = os.environ.get("VKCOMPUTE_DEVICE") or None
    with Instance() as instance:
        records = [
            {
                "index": device.index,
                "name": device.name,
                "kind": device.kind,
                "usable": not device.unfit(),
                "driver": "" if device.unfit() else device.driver,
                "vulkan": ".".join(map(str, device.api_version)),
                "reasons": reasons,
                "lacks": [] if device.unfit() else _lacking(device.features),
                "emulated": [] if device.unfit() else emulated_dtypes(device.features),
            }
            for device, reasons in verdicts(enumerate_devices(instance), wanted)
        ]
        return [{"layers": layers()}, *records]


def _lacking(features: dict[str, bool]) -> list[str]:
    """Returns the dtypes that kernels cannot take."""
    from vkcompute.dtypes import TABLE, kernel_dtypes

    return [row.name for row in TABLE if row.name not in kernel_dtypes(features)]


def computations(index: str) -> Iterator[Record]:
    """Yields the outcome of each computation."""
    import numpy as np

    from vkcompute.jit.elementwise.reduction import reduce
    from vkcompute.pipelines.multiply import multiply
    from vkcompute.runtime.runtime import Runtime

    total = reduce("a + b", 0)
    with Runtime(int(index)) as gpu:
        x, digits = np.random.default_rng(0).random(N, np.float32), np.arange(N, dtype=np.int32) % 10
        trials: dict[str, Callable[[], bool]] = {
            "transfer": lambda: np.array_equal(gpu.array(x).numpy(), x),
            "multiply": lambda: np.array_equal(multiply(x, x, runtime=gpu), x * x),
            "kernel in Python": lambda: _kernel(gpu, x),
            "reduction": lambda: total(gpu.array(digits)).item() == digits.sum(),
        }
        for name, trial in trials.items():
            yield {"trial": name, "equal": bool(trial())}


def _kernel(gpu: Any, x: Any) -> bool:
    import numpy as np

    from vkcompute.jit.kernel import kernel
    from vkcompute.jit.library.ids import global_id

    def scaled(x: Any, out: Any, a: Any) -> None:
        i = global_id(0)
        if i < out.size:
            out[i] = a * x[i]

    out = gpu.empty(N)
    kernel(scaled)(gpu.array(x), out, 2.0)
    return np.array_equal(out.numpy(), 2 * x)


TRIALS: dict[str, Callable[..., Iterator[Record] | list[Record]]] = {
    trial.__name__: trial for trial in (loader, manifests, library, compiler, cache, devices, computations)
}
