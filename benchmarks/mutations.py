"""Damaged SPIR-V on each software driver: counts the modules that are refused, are compiled, or kill the process.

python benchmarks/mutations.py --modules 100000 --driver swiftshader

Module `n` depends on the seed and on `n` only: one of the corpus, with flipped bits, other ids, words or opcodes, or
with instructions dropped, doubled or moved. A child process per core passes the modules to `Runtime.kernel`. A child
that dies, or compiles one module for longer than a minute, has found a culprit. That module is saved, and a new child
continues behind it. The status is 1 if there is a culprit.

The corpus: the shaders of tests/spirv and of the benchmarks, plain and optimized; all modules that the examples load,
with those from kernels in Python, of Kompute and of PyShader.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pickle
import random
import runpy
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "spirv")]  # measures this checkout

import drivers  # noqa: E402
from spirv_sources import SOURCES  # noqa: E402

import vkcompute as vc  # noqa: E402
from vkcompute.core import vk  # noqa: E402

LIMIT_S = 60.0
BATCH = 2000  # modules per child: bounds the memory of drivers, which keep some per pipeline
_HEADER_WORDS = 5
_BOUND = 3  # index of the id bound in the header
_CULPRITS = ROOT / "build" / "mutations"


def corpus() -> list[list[int]]:
    """The words of each valid module. Runs the examples on a device."""
    texts = [*SOURCES.values(), *(path.read_text() for path in sorted((HERE / "shaders").glob("*.comp")))]
    modules = [vc.glsl(text, target="vulkan1.1", optimize=optimize) for text in texts for optimize in (False, True)]
    modules += _loaded_by_examples()
    return [np.frombuffer(item, np.uint32).tolist() for item in dict.fromkeys(modules)]


def _loaded_by_examples() -> list[bytes]:
    modules: list[bytes] = []

    def record(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def create(device: Any, info: Any, *rest: Any) -> Any:
            modules.append(bytes(vk.ffi.buffer(info.pCode, info.codeSize)))
            return function(device, info, *rest)

        return create if name == "vkCreateShaderModule" else function

    vk.interceptors.append(record)
    sys.path.append(str(ROOT / "examples"))
    arguments = sys.argv
    with contextlib.redirect_stdout(io.StringIO()):
        for path in sorted((ROOT / "examples").glob("*.py")):
            sys.argv = [str(path)]
            runpy.run_path(str(path), run_name="__main__")
    sys.argv = arguments
    vk.interceptors.remove(record)
    return modules


def mutated(modules: Sequence[list[int]], seed: int, number: int) -> bytes:
    """Module `number` of a seed."""
    chance = random.Random(seed << 32 | number)
    words = list(chance.choice(modules))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if len(words) > _HEADER_WORDS:
            chance.choice(_CHANGES)(words, chance)
    return np.array(words, np.uint32).tobytes()


def _starts(words: list[int]) -> list[int]:
    """Indices of the instructions' first words, and of the end."""
    starts, at = [], _HEADER_WORDS
    while at < len(words):
        starts.append(at)
        at += max(1, words[at] >> 16)
    return [*starts, len(words)]


def _flip(words: list[int], chance: random.Random) -> None:
    words[chance.randrange(_HEADER_WORDS, len(words))] ^= 1 << chance.randrange(32)


def _operand(words: list[int], chance: random.Random) -> int:
    """Index of an operand of an instruction, each instruction as probable as any other."""
    starts = _starts(words)
    at = chance.randrange(len(starts) - 1)
    first, end = starts[at], starts[at + 1]
    return chance.randrange(min(first + 1, end - 1), end)


def _other_id(words: list[int], chance: random.Random) -> None:
    words[_operand(words, chance)] = chance.randrange(1, max(2, words[_BOUND]))


def _operand_of_another(words: list[int], chance: random.Random) -> None:
    """Copies an operand from another instruction with the same opcode."""
    starts = _starts(words)[:-1]
    at = chance.choice(starts)
    first = words[at]
    others = [other for other in starts if words[other] == first]
    if first >> 16 > 1 and len(others) > 1:
        place = chance.randrange(1, first >> 16)
        words[at + place] = words[chance.choice(others) + place]


def _other_word(words: list[int], chance: random.Random) -> None:
    choices = (chance.choice(words), chance.randrange(8), chance.randrange(1 << 32))
    words[_operand(words, chance)] = chance.choice(choices)


def _other_opcode(words: list[int], chance: random.Random) -> None:
    at = chance.choice(_starts(words)[:-1])
    other = chance.choice((words[chance.choice(_starts(words)[:-1])], chance.randrange(410)))
    words[at] = words[at] & ~0xFFFF | other & 0xFFFF


def _other_order(words: list[int], chance: random.Random) -> None:
    """Drops, doubles or moves an instruction."""
    starts = _starts(words)
    at, kind = chance.randrange(len(starts) - 1), chance.randrange(3)
    part = words[starts[at] : starts[at + 1]]
    target = starts[at] if kind == 1 else chance.choice(starts)
    if kind != 1:
        del words[starts[at] : starts[at + 1]]
        target -= len(part) * (target > starts[at])
    if kind:
        words[target:target] = part


_CHANGES: Sequence[Callable[[list[int], random.Random], None]] = (
    *[_flip] * 4,
    *[_other_id] * 4,
    *[_operand_of_another] * 4,
    *[_other_word] * 3,
    *[_other_opcode] * 2,
    _other_order,
)


def compile_all(folder: Path, seed: int, numbers: Sequence[int]) -> None:
    """Compiles modules on the device of this process; one line on stdout per module, before and after it."""
    modules = pickle.loads((folder / "corpus").read_bytes())
    with vc.Runtime() as runtime:
        for number in numbers:
            data = mutated(modules, seed, number)
            os.write(1, b"%d\n" % number)
            try:
                runtime.kernel(data)
                outcome = b"accepted\n"
            except vc.VulkanError:
                outcome = b"refused by the driver\n"
            except (vc.SpirvError, vc.MissingFeature, ValueError) as error:
                outcome = b"refused\n" if isinstance(error, vc.SpirvError) else b"beyond the device\n"
            os.write(1, outcome)


class Campaign:
    """Modules on one driver, and their outcomes.

    Attributes:
        outcomes: number of modules per outcome.
        culprits: number of each module that killed its process -> reason.
    """

    def __init__(self, env: dict[str, str], folder: Path, seed: int) -> None:
        self._env, self._folder, self._seed = env, folder, seed
        self.outcomes: Counter[str] = Counter()
        self.culprits: dict[int, str] = {}
        self._lock = threading.Lock()

    def run(self, numbers: range) -> None:
        """Compiles modules in child processes, one after the other."""
        while numbers:
            done, reason = self._child(numbers)
            if reason:
                with self._lock:
                    self.culprits[numbers[done]] = reason
                done += 1
            numbers = numbers[done:]

    def command(self, numbers: range) -> list[str]:
        """The command line of a child that compiles these modules."""
        command = [sys.executable, __file__, "--child", str(self._folder), "--seed", str(self._seed)]
        return [*command, "--numbers", str(numbers.start), str(numbers.stop)]

    def _child(self, numbers: range) -> tuple[int, str]:
        """Runs one child; returns the number of modules that it finished, and why it died, or ""."""
        command = self.command(numbers)
        log = self._folder / f"{numbers.start}.log"
        with (
            log.open("w") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self._env) as child,
        ):
            said, late = _lines(child)
            if late:
                child.kill()
            status = child.wait()
        outcomes = [line for line in said if not line.isdigit()]
        with self._lock:
            self.outcomes.update(outcomes)
        if not status:
            return len(outcomes), ""
        if not said:
            raise SystemExit(f"mutations.py: a child cannot start:\n{log.read_text()}")
        last = (log.read_text().strip().splitlines() or [""])[-1][:200]
        return len(outcomes), f"longer than {LIMIT_S:.0f} s" if late else f"status {status}: {last}"


def _lines(child: subprocess.Popen[bytes]) -> tuple[list[str], bool]:
    """The lines that a child writes, and whether it was silent for too long."""
    assert child.stdout is not None
    parts: list[bytes] = []
    while select.select([child.stdout], [], [], LIMIT_S)[0]:
        part = os.read(child.stdout.fileno(), 1 << 16)
        if not part:
            return b"".join(parts).decode().split("\n")[:-1], False
        parts.append(part)
    return b"".join(parts).decode().split("\n")[:-1], True


def environments(wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The environment of each driver that is installed."""
    for name, manifest in (("lavapipe", drivers.lavapipe()), ("swiftshader", drivers.swiftshader())):
        if manifest and (not wanted or name in wanted):
            yield name, drivers.only(str(manifest))


def main() -> int:
    """Runs the campaign. Returns 1 if a module killed its process, 2 if no driver is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--modules", type=int, default=100_000, help="number of modules (default: 100000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first module (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--driver", action="append", default=[], choices=("lavapipe", "swiftshader"))
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="children at a time (default: cores)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        compile_all(options.child, options.seed, range(*options.numbers))
        return 0
    result = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        try:
            modules = corpus()
        except (vc.NoDevice, vc.NoVulkanLoader) as error:
            print(f"mutations.py: {error}", file=sys.stderr)
            return 2
        (folder / "corpus").write_bytes(pickle.dumps(modules))
        print(f"{len(modules)} valid modules; {options.modules:,} damaged ones per driver", flush=True)
        for driver, env in environments(options.driver):
            start, campaign = time.monotonic(), Campaign(env, folder, options.seed)
            stop = options.first + options.modules
            with ThreadPoolExecutor(options.processes) as pool:
                list(
                    pool.map(
                        campaign.run, (range(at, min(at + BATCH, stop)) for at in range(options.first, stop, BATCH))
                    )
                )
            counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(campaign.outcomes.items()))
            print(f"{driver}: {counts}, {len(campaign.culprits)} killed, {time.monotonic() - start:.0f} s", flush=True)
            for number, reason in sorted(campaign.culprits.items()):
                _CULPRITS.mkdir(parents=True, exist_ok=True)
                path = _CULPRITS / f"{driver}-{options.seed}-{number}.spv"
                path.write_bytes(mutated(modules, options.seed, number))
                print(f"  {path}: {reason}")
            result += len(campaign.culprits)
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
