"""The command line: `python -m vkcompute.gpu_report`."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vkcompute import disk
from vkcompute.cli import interruption, stderr, terminal
from vkcompute.gpu_report.parts import BY_NAME, PARTS, Part
from vkcompute.gpu_report.process import PartRun
from vkcompute.gpu_report.report import Report
from vkcompute.gpu_report.structure import OUTCOMES
from vkcompute.gpu_report.temporary import temporary_folder

MINUTES = 8.0
_BAR = 24  # characters
_MAX_TEXT = 300
_SENDING = "Send it with an issue: https://github.com/vkcompute/vkcompute/issues"
_BAD_INPUT, _BY_CTRL_C = 2, 130
_SLOW_S = 10.0  # a driver that answers takes less


def main(argv: Sequence[str] | None = None) -> int:
    """Makes a report.

    Returns:
        The exit status: 0 if all that has run is right, and 1 if a result is wrong or a process crashed. It is 2
        without a device or a file, 130 after Ctrl-C, and 141 if the reader of the output has ended.
    """
    options = _parser().parse_args(argv)
    try:
        if options.list:
            _say(*(f"{part.name:12s} {part.title}" for part in PARTS))
            return 0
        return _reported(options)
    except (OSError, ValueError) as error:
        return stderr.report(error)


def _reported(options: argparse.Namespace) -> int:
    """Makes a report, and keeps the file complete if that is stopped."""
    parts = [BY_NAME[name] for name in options.only] if options.only else PARTS
    if BY_NAME["device"] not in parts:
        parts = [BY_NAME["device"], *parts]
    report = _created(options.out, parts)
    try:
        with interruption.signals_as_exceptions():
            _say(f"writes {report.path} after each step; Ctrl-C ends the report, and leaves the file complete")
            report.list_items(parts)
            status = _make(report, parts, options.device, options.minutes)
    except BaseException as error:
        report.data["state"] = "stopped"
        report.save()
        if not isinstance(error, (KeyboardInterrupt, interruption.Stopped)):
            raise
        status = _BY_CTRL_C
    if status == _BAD_INPUT and not _tells_a_fault(report):  # the corrected command may name the same file
        report.path.unlink(missing_ok=True)
        return status
    report.save()
    _say("", *_closing(report, options.minutes))
    return status


def _tells_a_fault(report: Report) -> bool:
    """Returns whether a report without a device tells more than that none fits."""
    chosen = report.part("device")["items"][:1]
    return bool(chosen) and chosen[0]["outcome"] != "missing"


def _created(out: Path | None, parts: Sequence[Part]) -> Report:
    """Creates a report with its file.

    Raises:
        ValueError: it exists.
        OSError: it cannot be created.
    """
    if out is not None:
        disk.require_regular(out)
        report = Report(out, parts)
        try:
            report.create()
        except FileExistsError:
            raise ValueError(f"--out {out} exists; name another file, or delete it") from None
        return report
    stem, number = f"gpu-report-{datetime.datetime.now():%Y-%m-%d-%H%M%S}", 1
    report = Report(Path(f"{stem}.json"), parts)
    while True:
        with contextlib.suppress(FileExistsError):  # of another report that began in this second
            report.create()
            return report
        number += 1
        report.path = Path(f"{stem}-{number}.json")


def _parser() -> argparse.ArgumentParser:
    text = """Checks a GPU and measures it, in eight minutes at most, and writes a report. Parts run in the order of
    their worth, so that a short time gives the most important ones. Nothing is installed, downloaded or sent."""
    parser = argparse.ArgumentParser(prog="python -m vkcompute.gpu_report", description=text)
    parser.add_argument("--device", type=_device, metavar="X", help="index, or part of the name (default: the best)")
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


def _device(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty text names no device; leave --device out for the best one")
    return text


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        near = dict.fromkeys(match for name in unknown for match in get_close_matches(name, BY_NAME, 1))
        hint = f"; did you mean {', '.join(near)}?" if near else ";"
        raise argparse.ArgumentTypeError(
            f"no part is called {', '.join(map(repr, unknown))}{hint} --list has the parts"
        )
    return [*dict.fromkeys(names)]


def _make(report: Report, parts: Sequence[Part], device: str | None, minutes: float) -> int:
    """Runs the parts until the time ends. Returns the exit status."""
    with temporary_folder() as cache:
        # Caches of earlier runs would change the times, and the user's own stays as it is.
        env = os.environ | {"VKCOMPUTE_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for part, most_s in _rounds(report, parts):
            left_s, entry = minutes * 60 - report.seconds, report.part(part.name)
            if left_s <= 0 and part.name != "device":
                break
            limited = part.on(is_software=bool(report.data["device"] and report.data["device"]["is_software"]))
            PartRun(limited, entry, device, report.save, env).run(min(left_s, most_s), _Status(part))
            if part.name == "device" and not report.data["device"] and not _described(report, entry):
                report.data["state"] = "cut" if entry["state"] == "cut" else "no device"
                print(_wrapped(f"no device: {_missing_device(entry, minutes)}"), file=sys.stderr, flush=True)
                return _BAD_INPUT
            _say(*_lines(report, entry))
    report.data["state"] = (
        "cut" if {"waiting", "cut"} & {part["state"] for part in report.data["parts"]} else "finished"
    )
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
    _say(f"{chosen['name']} ({chosen['kind']}{mark}), {chosen['driver']}")
    return True


def _missing_device(entry: dict[str, Any], minutes: float) -> str:
    """Returns why the first part has not told the device."""
    first = entry["items"][0] if entry["items"] else {}
    if first and first["outcome"] != "hung":
        return str(first.get("text", ""))
    if entry["seconds"] >= _SLOW_S:
        return (
            f"a driver has not answered within {entry['seconds']:.0f} s, and may hang; name another one by "
            "VK_DRIVER_FILES, or restart the machine"
        )
    return f"the time ended before its driver has answered; give more than --minutes {minutes:g}"


def _lines(report: Report, entry: dict[str, Any]) -> Iterator[str]:
    """Yields a line for a part that has ended, with a bar of the whole; and one for each fault."""
    states = [part["state"] for part in report.data["parts"]]
    total, done = len(states), len(states) - states.count("waiting")
    filled = round(_BAR * done / total)
    counts = {name: sum(item["outcome"] == name for item in entry["items"]) for name in OUTCOMES}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    parts += [f"{len(entry['left'])} not run"] * bool(entry["left"])
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:2d}/{total} {_clock(report.seconds)}"
    yield f"{bar}  {entry['name']}: {', '.join(parts) or entry['state']} ({entry['seconds']:.0f} s)"
    for item in entry["items"]:
        if item["outcome"] not in ("right", "missing"):
            first = (item.get("text", "").splitlines() or [""])[0]
            yield f"    {item['outcome']}: {item['name']}: {textwrap.shorten(first, _MAX_TEXT, placeholder=' …')}"


def _closing(report: Report, minutes: float) -> Iterator[str]:
    """Yields what has ended the report, what has not run, and what to do with the file."""
    data, states = report.data, [part["state"] for part in report.data["parts"]]
    ends = {"cut": f"ended after its {minutes:g} minutes", "no device": "ended without a device"}
    counts = {"not run": states.count("waiting"), "not complete": sum(state in ("cut", "failed") for state in states)}
    rest = ", ".join(f"{count} part{'s' * (count > 1)} {what}" for what, count in counts.items() if count)
    end = ends.get(data["state"], f"{data['state']} after {report.seconds:.0f} s")
    yield f"{end}{': ' * bool(rest)}{rest}; {report.path}"
    if data["device"]:
        yield _SENDING


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _say(*lines: str) -> None:
    """Prints lines within the terminal's width."""
    for line in lines:
        terminal.write(_wrapped(line))
    stderr.flush()


def _wrapped(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(
        line, terminal.width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


class _Status:
    """Shows the item that runs on the terminal's last line, if standard error is a terminal."""

    def __init__(self, part: Part) -> None:
        self._head = part.name
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, name: str) -> None:
        if self._is_shown:
            line = terminal.truncate(f"{self._head}: {name}", terminal.width() - 1) if name else ""
            print(f"\r\x1b[K{line}\r", end="", file=sys.stderr, flush=True)
