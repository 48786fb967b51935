"""Pairs of small programs on two threads, with switches on purpose: their results beside those of running one by one.

python benchmarks/switches.py --schedules 40 --only recording,flush+wait

tests/switched_programs.py has the programs, and tests/switching.py switches: at the start and the return of functions
of the package. A pair runs with one switch or two, which a seed chooses; `--every` tries each place for one switch.
Programs with context managers are also interrupted at the start of each function, as by Ctrl-C. The status is 1 if
results differ from those of both orders, if threads wait for each other, or if a block goes on after an interrupt.
"""

from __future__ import annotations

import argparse
import contextvars
import itertools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def _schedules(n_events: tuple[int, int], n: int, every: bool, random: Random) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the numbers of the events at which each of two programs hands over."""
    if every:
        yield from (([at], []) for at in range(1, n_events[0] + 1))
    for _ in range(n):
        back = [random.randint(1, n_events[1])] if n_events[1] and random.random() < 0.5 else []
        yield [random.randint(1, max(n_events[0], 1))], back


class Campaign:
    """The runs on two runtimes.

    Args:
        package: the folder of the package that is examined.
    """

    def __init__(self, package: str) -> None:
        import switched_programs
        import switching

        import vkcompute as vc

        self._switching, self._programs, self._package = switching, switched_programs, package
        self._vc: Any = vc
        self._runtimes: tuple[Any, ...] = ()
        self._open()
        self.counts: Counter[str] = Counter()

    def _open(self) -> None:
        """Opens new runtimes in the place of those before."""
        for runtime in self._runtimes:
            runtime.close()
        self._runtimes = self._vc.default_runtime(), self._vc.Runtime()

    def _run(self, names: Sequence[str], switches: Any) -> Any:
        """Runs a pair with switches; one after the other without any."""
        world = self._programs.World(*self._runtimes)
        programs = [self._programs.PROGRAMS[name](world) for name in names]
        run = self._switching.run
        outcome = self._programs.as_output(world, lambda: run(programs, switches, self._package))
        wrong = "" if outcome.problem else world.check()
        return outcome._replace(problem=outcome.problem or wrong)

    def pair(self, names: tuple[str, str], n: int, every: bool, random: Random) -> list[str]:
        """Returns what is wrong with a pair of programs."""
        orders = [self._run(names, ([], []))]
        back = self._run(names[::-1], ([], []))
        expected = [orders[0].results, back.results[::-1]]
        if problem := orders[0].problem or back.problem:
            return [f"{' and '.join(names)}, one after the other: {problem}"]
        messages = []
        for switches in _schedules(orders[0].n_events, n, every, random):
            outcome = self._run(names, switches)
            self.counts["runs"] += 1
            if outcome.problem or outcome.results not in expected:
                said = outcome.problem or f"{outcome.results}, not {' or '.join(map(str, expected))}"
                messages.append(f"{' and '.join(names)}, switches at {switches}: {said}")
                self.counts["threads that wait for each other"] += "Deadlock" in said or "hangs" in said
                self.counts["differences"] += 1
                if "hangs" in said:
                    break
        return messages

    def interrupts(self, name: str) -> list[str]:
        """Interrupts a program with a context manager at each function's start; returns what is wrong then."""
        for after in itertools.count():
            world = self._programs.World(*self._runtimes)
            run = self._programs.BLOCKS[name](world)
            context = contextvars.copy_context()
            if not context.run(self._switching.interrupt, run, after, self._package):
                return []  # it has no such moment
            self.counts["interrupts"] += 1
            try:
                wrong = context.run(world.check)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                self.counts["differences"] += 1
                self._open()  # the state of the others is lost
                return [f"{name}, interrupted after {after} functions' starts: {wrong}"]
        raise AssertionError("a program ends")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the campaign, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--schedules", type=int, default=6, help="random schedules per pair (default: %(default)s)")
    parser.add_argument("--every", action="store_true", help="one switch at each place, too")
    parser.add_argument("--only", help="comma-separated programs, for their pairs with all, and pairs, as flush+wait")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules (default: %(default)s)")
    parser.add_argument("--code", type=Path, default=ROOT, help="the checkout to examine (default: this one)")
    options = parser.parse_args(arguments)
    sys.path[:0] = [str(options.code), str(ROOT / "tests")]
    os.environ.setdefault("VKCOMPUTE_DEVICE", "cpu")
    import switching

    switching.install()
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda dropped: None  # Python drops what is raised while it closes a generator
    campaign, start_s = Campaign(str(options.code / "vkcompute")), time.perf_counter()
    from switched_programs import BLOCKS, PROGRAMS

    chosen = options.only.split(",") if options.only else [*BLOCKS, *PROGRAMS]
    n_wrong = 0
    for name in [block for block in BLOCKS if block in chosen]:
        n_wrong += _report(campaign.interrupts(name))
    for pair in itertools.product(PROGRAMS, PROGRAMS):
        if {*pair, "+".join(pair)} & {*chosen}:
            random = Random(f"{options.seed} {pair}")
            n_wrong += _report(campaign.pair(pair, options.schedules, options.every, random))
    counts = ", ".join(f"{n} {what}" for what, n in campaign.counts.items() if n)
    print(f"{counts or 'nothing ran'}, in {time.perf_counter() - start_s:.0f} s", flush=True)
    return n_wrong > 0


def _report(messages: Sequence[str]) -> int:
    for each in messages[:1]:
        more = f" ({len(messages)} like it)" if len(messages) > 1 else ""
        print(f"{each[:400]}{more}", flush=True)
    return len(messages)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that wait for each other never end
