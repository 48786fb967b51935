"""The command line: `python -m vkcompute.gpu_report`."""

from __future__ import annotations

import argparse
import datetime
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vkcompute.cli import interruption
from vkcompute.gpu_report.parts import BY_NAME, PARTS, Part
from vkcompute.gpu_report.process import PartRun
from vkcompute.gpu_report.report import OUTCOMES, Report

MINUTES = 8.0
_BAR = 24  # characters
_SENDING = "send it as docs/gpu_reports.md says"


def main(argv: Sequence[str] | None = None) -> int:
    """Makes a report.

    Returns:
        The exit status: 0, or 1 if a result is wrong or a process crashed, 2 without a device, 130 after Ctrl-C.
    """
    options = _parser().parse_args(argv)
    if options.list:
        print("\n".join(f"{part.name:12s} {part.title}" for part in PARTS))
        return 0
    path = options.out or Path(f"gpu-report-{datetime.datetime.now():%Y-%m-%d-%H%M%S}.json")
    parts = [BY_NAME[name] for name in options.only] if options.only else PARTS
    if BY_NAME["device"] not in parts:
        parts = [BY_NAME["device"], *parts]
    try:
        report = Report(path, parts)
    except (OSError, ValueError) as error:
        print(f"gpu_report: {error}", file=sys.stderr)
        return 2
    print(f"writes {path} after each step; Ctrl-C ends the report, and leaves the file complete", flush=True)
    try:
        with interruption.signals_as_exceptions():
            status = _make(report, parts, options.device, options.minutes * 60)
    except (KeyboardInterrupt, interruption.Stopped):
        status, report.data["state"] = 130, "stopped"
    report.save()
    print(f"\n{report.data['state']} after {report.seconds:.0f} s: {path}; {_SENDING}")
    return status


def _parser() -> argparse.ArgumentParser:
    text = """Checks a GPU and measures it, in eight minutes at most, and writes a report. Parts run in the order of
    their worth, so that a short time gives the most important ones. Nothing is installed, downloaded or sent."""
    parser = argparse.ArgumentParser(prog="python -m vkcompute.gpu_report", description=text)
    parser.add_argument("--device", metavar="X", help="index, or part of the name (default: the best)")
    parser.add_argument("--minutes", type=_minutes, default=MINUTES, help=f"time limit (default: {MINUTES:g})")
    parser.add_argument("--only", type=_names, metavar="PARTS", help="some parts, with commas")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the report (default: gpu-report-DATE-TIME.json)")
    parser.add_argument("--list", action="store_true", help="list the parts")
    return parser


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"the limit is more than 0 minutes; got {text}")
    return value


_minutes.__name__ = "number of minutes"


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part is called {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    return names


def _make(report: Report, parts: Sequence[Part], device: str | None, limit_s: float) -> int:
    """Runs the parts until the time ends. Returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="vkcompute-report-") as cache:
        # Caches of earlier runs would change the times, and the user's own stays as it is.
        env = os.environ | {"VKCOMPUTE_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for part, most_s in _rounds(report, parts):
            left_s, entry = limit_s - report.seconds, report.part(part.name)
            if left_s <= 0:
                break
            PartRun(part, entry, device, report.save, env).run(min(left_s, most_s), _Status(part))
            if part.name == "device" and not report.data["device"] and not _described(report, entry):
                report.data["state"] = "finished"
                print(f"no device: {entry['items'][-1].get('text', '') if entry['items'] else ''}", file=sys.stderr)
                return 2
            print(_line(report, entry), flush=True)
    report.data["state"] = "finished"
    outcomes = {item["outcome"] for part in report.data["parts"] for item in part["items"]}
    return 1 if outcomes & {"wrong", "failed", "crashed", "hung"} else 0


def _rounds(report: Report, parts: Sequence[Part]) -> Iterator[tuple[Part, float]]:
    """Yields the parts with their limits in seconds; then those whose limits have cut them, without a limit."""
    for part in parts:
        yield part, part.limit_s
    for part in parts:
        if report.part(part.name)["state"] == "cut":
            yield part, math.inf


def _described(report: Report, entry: dict[str, Any]) -> bool:
    """Copies the device's name from the first part into the report; False if there is none."""
    chosen = next((item["figures"] for item in entry["items"] if item["name"] == "chosen" and "figures" in item), None)
    if chosen is None:
        return False
    report.data["device"] = {name: chosen[name] for name in ("name", "kind", "driver", "api_version", "is_software")}
    mark = ", a software driver" if chosen["is_software"] else ""
    print(f"{chosen['name']} ({chosen['kind']}{mark}), {chosen['driver']}")
    return True


def _line(report: Report, entry: dict[str, Any]) -> str:
    """Returns a line for a part that has ended, with a bar of the whole."""
    states = [part["state"] for part in report.data["parts"]]
    total, done = len(states), len(states) - states.count("waiting")
    filled = round(_BAR * done / total)
    counts = {name: sum(item["outcome"] == name for item in entry["items"]) for name in OUTCOMES}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    parts += [f"{len(entry['left'])} not run"] * bool(entry["left"])
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:2d}/{total} {_clock(report.seconds)}"
    lines = [f"{bar}  {entry['name']}: {', '.join(parts) or entry['state']} ({entry['seconds']:.0f} s)"]
    for item in entry["items"]:
        if item["outcome"] not in ("right", "missing"):
            first = item.get("text", "").splitlines() or [""]
            lines.append(f"    {item['outcome']}: {item['name']}: {first[0][:100]}")
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class _Status:
    """Shows the item that runs on the terminal's last line, if standard error is a terminal."""

    def __init__(self, part: Part) -> None:
        self._head = part.name
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, name: str) -> None:
        if self._is_shown:
            print(f"\r\x1b[K{self._head}: {name[:50]}\r", end="", file=sys.stderr, flush=True)
