"""Random kernels on each software driver, simulated, and by Numba: counts results that are the same, and finds others.

python benchmarks/programs.py --programs 20000 --driver lavapipe --only integers,files

Program `n` depends on the seed and on `n` only. tests/jit/random_checks.py has the kinds: kernels of all types and
statements; kernels with barriers, atomic and subgroup operations; kernels of CUDA's shapes, with early returns, warps
in branches, views and records; kernels of integers beside Python ints and with long chains; functions of elements and
reductions of views; and helpers whose files change. Python computes what is expected; "numba" compares Python with
Numba, and runs no kernel. "blocks" compares block programs with their interpreter, floats to bounds of their errors. A
child process per core checks the programs. One that ends with an error is reported with its program in build/programs,
and a new child continues behind it. The status is 1 after an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [
    str(ROOT / "tests" / "jit"),  # has another module `host` than this folder
    str(ROOT / "tests" / "blocks"),
    str(ROOT / "tests"),
    str(HERE),
    str(ROOT),
]  # checks this checkout

from host import SimulatedRuntime  # noqa: E402
from mutations import Campaign, environments  # noqa: E402
from random_block_programs import blocks  # noqa: E402
from random_checks import CHECKS  # noqa: E402

import vkcompute as vc  # noqa: E402

ALL_CHECKS = {**CHECKS, "blocks": blocks}
BATCH = 250  # programs per child: drivers keep some memory per pipeline
_FOUND = ROOT / "build" / "programs"
_KINDS = {"simulated": ("integers", "programs", "groups", "warps", "files"), "numba": ("numba",)}


def check_all(where: str, kinds: Sequence[str], seed: int, numbers: Sequence[int]) -> None:
    """Checks programs in this process; one line on stdout per program, before and after it."""
    is_device = where not in _KINDS
    runtime = vc.Runtime() if is_device else SimulatedRuntime()
    with runtime, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            os.write(1, b"%d\n" % number)
            kind = kinds[number % len(kinds)]
            random = Random(f"{seed} {number}")
            try:
                outcome = ALL_CHECKS[kind](runtime, (lambda k: k) if is_device else (lambda k: k.simulate), random)
            except Exception as error:
                _FOUND.mkdir(parents=True, exist_ok=True)
                (_FOUND / f"{where}-{kind}-{seed}-{number}.txt").write_text(str(error))
                raise
            os.write(1, f"{kind}: {outcome}\n".encode())


class Programs(Campaign):
    """Random programs in one place, and their outcomes."""

    def __init__(self, env: dict[str, str], folder: Path, seed: int, where: str, kinds: Sequence[str]) -> None:
        super().__init__(env, folder, seed)
        self._where, self._kinds = where, kinds

    def command(self, numbers: range) -> list[str]:
        command = [sys.executable, __file__, "--child", self._where, "--only", ",".join(self._kinds)]
        return [*command, "--seed", str(self._seed), "--numbers", str(numbers.start), str(numbers.stop)]


def main() -> int:
    """Runs the programs. Returns 1 if an error was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--programs", type=int, default=10_000, help="number of programs per place (default: 10000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first program (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--only", default="integers,programs,groups,warps,formulas,files", help="kinds (default: all)")
    parser.add_argument(
        "--driver", action="append", default=[], choices=("lavapipe", "swiftshader", "simulated", "numba")
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="children at a time (default: cores)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = options.only.split(",")
    if options.child:
        check_all(options.child, kinds, options.seed, range(*options.numbers))
        return 0
    n_found = 0
    places = dict(environments(options.driver))
    places |= {name: dict(os.environ) for name in _KINDS if not options.driver or name in options.driver}
    for where, env in places.items():
        mine = [kind for kind in _KINDS.get(where, kinds) if kind in (*kinds, "numba")]
        if not mine:
            continue
        stop, start = options.first + options.programs, time.monotonic()
        with tempfile.TemporaryDirectory(prefix="programs-") as folder:
            result = Programs(
                env | {"VKCOMPUTE_CACHE_DIR": folder, "NUMBA_OPT": "0"}, Path(folder), options.seed, where, mine
            )
            with ThreadPoolExecutor(options.processes) as pool:
                batches = [range(at, min(at + BATCH, stop)) for at in range(options.first, stop, BATCH)]
                list(pool.map(result.run, batches))
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(result.outcomes.items()))
        print(f"{where}: {counts}, {len(result.culprits)} wrong, {time.monotonic() - start:.0f} s", flush=True)
        for number, reason in sorted(result.culprits.items()):
            print(f"  {_FOUND}/{where}-{mine[number % len(mine)]}-{options.seed}-{number}.txt: {reason}")
        n_found += len(result.culprits)
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
