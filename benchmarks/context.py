"""What all benchmarks are given: the device, the peers, how large and how often."""

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
_PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Sizes:
    """How large the benchmarks are.

    Attributes:
        small, large: elements of the multiplies.
        rows: of the logistic regressions.
        iterations: of the logistic regressions.
        tasks: launches in a row, of the scheduler's cost.
        gib: of the two input files of the streaming multiply together, in GiB.
        repeat: samples per contender; slow cases take fewer.
    """

    small: int
    large: int
    rows: tuple[int, ...]
    iterations: int
    tasks: tuple[int, ...]
    gib: float
    repeat: int


SIZES = {
    "full": Sizes(1 << 20, 1 << 26, (5, 1_000, 100_000, 1_000_000), 100, (100, 1_000, 10_000, 100_000), 4.0, 25),
    "quick": Sizes(1 << 20, 1 << 23, (5, 1_000, 100_000), 100, (100, 1_000, 10_000), 0.25, 7),
    "smoke": Sizes(1 << 12, 5_000_000, (5, 100), 10, (100, 300), 1 / 256, 2),
}


@dataclass(frozen=True)
class Context:
    """One run.

    Attributes:
        runtime: the device under test, opened.
        target: the same device, for peers.
        peers: names of those that race.
        folder: for temporary files.
    """

    runtime: vc.Runtime
    target: Target
    peers: Sequence[str]
    sizes: Sizes
    folder: Path

    def remote(self, task: str, n: int, burst: int | None = None, loops: int | None = None) -> list[Contender]:
        """A contender for each peer: a product of `n` elements; see `Remote`."""
        return [Remote(peer, self.target, Work.multiply(task, n), burst, loops) for peer in self.peers]


Cases = Iterator[Case]


def run_python(command: Sequence[str], more_env: Mapping[str, str] | None = None) -> bytes:
    """What a Python process of its own prints; vkcompute is found there as an installed package is.

    Raises:
        Unavailable: it fails; with the last line that it says.
    """
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, **(more_env or {})}
    whole = [sys.executable, *command]
    done = subprocess.run(whole, env=env, capture_output=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(said[-1] if said else f"its process ended with status {done.returncode}")
    return done.stdout


def count_of(n: int) -> str:
    """A number of elements for a headline: 64 Mi of them are written so, others in full."""
    return f"{n >> 20} Mi" if n >= 1 << 20 and n % (1 << 20) == 0 else f"{n:,}"
