"""A streaming multiply in its own process: stream_once.py {numpy,vkcompute} DEVICE A.npy B.npy OUT.npy

Prints a line of JSON: seconds, and peaks in bytes. RssAnon is anonymous resident memory, without mapped files. Only
Linux reports it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

_EVERY_S = 0.002
_STATUS = Path("/proc/self/status")


def rss_anon() -> int:
    """Anonymous resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")), 0)


class Peaks(threading.Thread):
    """A thread that samples values until stopped.

    Attributes:
        highest: the maximum of each value.
    """

    def __init__(self, figures: dict[str, Callable[[], int]]) -> None:
        super().__init__(daemon=True)
        self._figures, self._end = figures, threading.Event()
        self.highest = dict.fromkeys(figures, 0)

    def run(self) -> None:
        """Takes a sample every two milliseconds."""
        while not self._end.wait(_EVERY_S):
            self.take()

    def take(self) -> None:
        """Takes a sample."""
        for name, figure in self._figures.items():
            self.highest[name] = max(self.highest[name], figure())

    def stop(self) -> dict[str, int]:
        """Takes the last sample. Returns the maxima that are not 0."""
        self._end.set()
        self.join()
        self.take()
        return {name: value for name, value in self.highest.items() if value}


def by_numpy(a: str, b: str, out: str) -> dict[str, float]:
    """Multiplies memory-mapped files by numpy."""
    peaks = Peaks({"rss_anon_peak_bytes": rss_anon})
    peaks.start()
    start = perf_counter()
    left, right = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
    result = np.lib.format.open_memmap(out, "w+", left.dtype, left.shape)
    np.multiply(left, right, out=result)
    result.flush()
    return {"seconds": perf_counter() - start, **peaks.stop()}


def by_vkcompute(device: int, a: str, b: str, out: str) -> dict[str, float]:
    """Multiplies files by `vkcompute.multiply_files`."""
    import vkcompute as vc

    with vc.Runtime(device) as runtime:
        memory = runtime.device.memory
        peaks = Peaks({"rss_anon_peak_bytes": rss_anon, "device_peak_bytes": lambda: memory.allocated_bytes})
        peaks.start()
        start = perf_counter()
        vc.multiply_files(a, b, out, runtime=runtime)
        return {"seconds": perf_counter() - start, **peaks.stop()}


if __name__ == "__main__":
    who, index, *files = sys.argv[1:]
    print(json.dumps(by_numpy(*files) if who == "numpy" else by_vkcompute(int(index), *files)))
