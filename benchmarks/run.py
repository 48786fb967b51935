"""Benchmarks vkcompute, numpy and the installed peers in one run.

All results are compared with numpy's. Times are medians, with minimum and quartiles; the last column is relative to
the baseline. Each benchmark is a file of this folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import shlex
import sys
import tempfile
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]  # measures this checkout

from context import SIZES, Context  # noqa: E402
from goals import goals  # noqa: E402
from machine import describe, versions  # noqa: E402
from measure import Case, Row, as_note, race  # noqa: E402
from peers import NAMES, Target  # noqa: E402
from table import WIDTH, as_json, headline, introduction, line, record_path, summary  # noqa: E402

import vkcompute as vc  # noqa: E402

BENCHMARKS = (
    "multiply",
    "launch",
    "scheduling",
    "start",
    "logistic",
    "streaming",
    "overlap",
    "devices",
    "python_kernels",
    "numba_kernels",
    "triton_programs",
    "algorithms",
    "selections",
    "networks",
    "kompute",
)
Results = list[tuple[Case, list[Row]]]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", help="index or part of the name (default: the best)")
    parser.add_argument("--only", type=_list_of(BENCHMARKS), default=BENCHMARKS, help=f"some of {','.join(BENCHMARKS)}")
    parser.add_argument("--peers", type=_list_of(NAMES), default=NAMES, help=f"some of {','.join(NAMES)}, or none")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="smaller arrays, fewer samples")
    size.add_argument("--smoke", action="store_const", dest="size", const="smoke", help="tiny, to see if it runs")
    parser.add_argument("--repeat", type=_positive(int), help="samples per contender")
    parser.add_argument("--gib", type=_positive(float), help="total GiB of the streaming multiply's two inputs")
    parser.add_argument("--folder", type=Path, help="for the streaming multiply's files (default: a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--save", action="store_true", help="write the results to benchmarks/results/DEVICE-DATE.json")
    parser.set_defaults(size="full")
    return parser.parse_args()


def _list_of(known: tuple[str, ...]) -> Any:
    def names(text: str) -> tuple[str, ...]:
        given = tuple(text.split(",")) if text not in ("none", "") else ()
        unknown = [name for name in given if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is not one of {', '.join(known)}")
        return given

    return names


def _positive(kind: Any) -> Any:
    def number(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    number.__name__ = kind.__name__
    return number


def measured(context: Context, name: str) -> Results:
    """Measures all cases of a benchmark, and prints each."""
    results: Results = []
    try:
        for case in import_module(name).cases(context):
            print(headline(case), flush=True)
            rows = race(case, context.sizes.repeat, context.sizes.loops)
            baseline = next((row for row in rows if row.program == case.baseline), None)
            print("\n".join(line(row, baseline) for row in rows), flush=True)
            results.append((case, rows))
    except (vc.VkComputeError, OSError) as error:  # such as no space for files; the other benchmarks continue
        print("\n" + textwrap.fill(f"{name} cannot be measured: {as_note(error)}", WIDTH), flush=True)
    return results


def main() -> int:
    """Runs the benchmarks. Returns 2 if there is no device."""
    options = arguments()
    sizes = SIZES[options.size]
    sizes = dataclasses.replace(sizes, repeat=options.repeat or sizes.repeat, gib=options.gib or sizes.gib)
    try:
        runtime = vc.Runtime(options.device)
    except (vc.NoDevice, vc.NoVulkanLoader) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    with runtime, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        physical = runtime.device.physical
        target = Target(physical.index, physical.name)
        context = Context(runtime, target, options.peers, sizes, Path(folder))
        about = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
            "sizes": dataclasses.asdict(context.sizes),
            **describe(runtime),
            "versions": versions(options.peers),
        }
        print(introduction(about))
        results = [result for name in options.only for result in measured(context, name)]
    reached = goals(row for _, rows in results for row in rows)
    print(summary(reached))
    _write(options, about, as_json(about, results, reached))
    return 0


def _write(options: argparse.Namespace, about: dict[str, Any], text: str) -> None:
    paths = [options.json] if options.json else []
    if options.save:
        paths.append(record_path(HERE / "results", about["device"]["name"], about["date"][:10]))
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"\nwrote {path}")


if __name__ == "__main__":
    sys.exit(main())
