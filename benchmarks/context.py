"""The context of a benchmark run: device, peers, sizes, folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Case, Contender, Unavailable
from peers import Target
from peers.worker import Remote, Work

import vkcompute as vc

_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Sizes:
    """Sizes of the benchmarks.

    Attributes:
        small, large: elements of the multiplies.
        rows, iterations: of the logistic regressions.
        tasks: numbers of consecutive launches, for the scheduler's overhead.
        gib: total size of the streaming multiply's two input files, in GiB.
        repeat: samples per contender.
        loops: most runs per sample.
    """

    small: int
    large: int
    rows: tuple[int, ...]
    iterations: int
    tasks: tuple[int, ...]
    gib: float
    repeat: int
    loops: int


SIZES = {
    "full": Sizes(1 << 20, 1 << 26, (5, 1_000, 100_000, 1_000_000), 100, (100, 1_000, 10_000, 100_000), 4.0, 25, 500),
    "quick": Sizes(1 << 20, 1 << 23, (5, 1_000, 100_000), 100, (100, 1_000, 10_000), 0.25, 7, 500),
    "smoke": Sizes(1 << 12, 5_000_000, (5, 100), 10, (100, 300), 1 / 256, 2, 4),
}


@dataclass(frozen=True)
class Context:
    """A benchmark run.

    Attributes:
        runtime: the device under test.
        target: the same device, for peers.
        peers: names of the peers.
        folder: a folder for temporary files.
    """

    runtime: vc.Runtime
    target: Target
    peers: Sequence[str]
    sizes: Sizes
    folder: Path

    def remote(self, task: str, n: int, burst: int | None = None, loops: int | None = None) -> list[Contender]:
        """Contenders of all peers for a product of `n` elements; see `Remote`."""
        return [Remote(peer, self.target, Work.multiply(task, n), burst, loops) for peer in self.peers]


Cases = Iterator[Case]


def run_python(command: Sequence[str], more_env: Mapping[str, str] | None = None) -> bytes:
    """Runs Python in a new process that can import vkcompute. Returns its standard output.

    Raises:
        Unavailable: the process fails; the message is its last line on stderr.
    """
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, **(more_env or {})}
    whole = [sys.executable, *command]
    done = subprocess.run(whole, env=env, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(lines[-1] if lines else f"its process ended with status {done.returncode}")
    return done.stdout


def count_of(n: int) -> str:
    """A number of elements as text: multiples of 2**20 as "64 Mi", others in full."""
    return f"{n >> 20} Mi" if n >= 1 << 20 and n % (1 << 20) == 0 else f"{n:,}"
