"""Runs PyTorch's own test files on the device `vk`, and sorts the failures by their causes.

    python scripts/torch_tests.py FOLDER test_view_ops test_torch [--every 20 --start 3] [--for-s 500] [--reasons]
    python scripts/torch_tests.py FOLDER --host

FOLDER has PyTorch's test files, which its wheels lack: the folder `test` of its sources. Only the tests that PyTorch
makes for a device run. Results are lines of a file, which a later run continues. A test that ended the process has the
state "crashed". With `--host`, the tests that did not pass run on the CPU: what fails there, too, does not count.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Rows = dict[tuple[str, str], tuple[str, str]]
"""Outcome and text of tests, by device and name; names are without the device."""
_CLASSES = {"vk": ("PRIVATEUSE1", "VK"), "cpu": ("CPU",)}
"""Ends of the names of PyTorch's classes of tests for a device; one file has both."""
_PASSED = "passed", "skipped", "xfailed"


def plain(name: str, device: str) -> str:
    """Returns the name of a test without its device: "test_view_ops.py::TestViewOps::test_view_float32"."""
    file, *parts = name.split("::")
    parts = [re.sub(rf"({'|'.join(_CLASSES[device])})$", "", part) for part in parts]
    return "::".join(
        [Path(file).name, *(re.sub(rf"_({device}|privateuse1)(?=_|$)", "", part, count=1) for part in parts)]
    )


class Recording:
    """A plugin of pytest that chooses the tests of a device, and writes their outcomes."""

    def __init__(self, options: argparse.Namespace, rows: Rows) -> None:
        self.options, self.out = options, options.out.open("a")
        self.device = "cpu" if options.host else "vk"
        self.known = {name for device, name in rows if device == self.device}
        self.wanted = set(failed(rows)) if options.host else None
        self.end = time.monotonic() + options.for_s

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Drops tests of other devices, tests that are not chosen, and tests that are known from an earlier run."""
        of_device = [item for item in items if item.cls and item.cls.__name__.endswith(_CLASSES[self.device])]
        items[:] = [item for item in of_device[self.options.start :: self.options.every] if self._is_wanted(item)]

    def _is_wanted(self, item: Any) -> bool:
        name = plain(item.nodeid, self.device)
        return name not in self.known and (self.wanted is None or name in self.wanted)

    def pytest_runtest_setup(self, item: Any) -> None:
        """Limits the time of a test; ends the run after its time."""
        if time.monotonic() > self.end:
            item.session.shouldstop = "the time is over"
            raise KeyboardInterrupt
        self._write(item.nodeid, "crashed", "")
        signal.signal(signal.SIGALRM, _expired)
        signal.alarm(self.options.limit_s)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Ends the limit."""
        signal.alarm(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Writes the outcome of a test."""
        if report.when == "call" or not report.passed:
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            self._write(report.nodeid, outcome, "" if report.passed else _text(report))

    def pytest_collectreport(self, report: Any) -> None:
        """Writes a file that cannot be imported."""
        if report.failed:
            self._write(report.nodeid, "not collected", str(report.longrepr)[-1500:])

    def _write(self, name: str, outcome: str, text: str) -> None:
        self.out.write(json.dumps([self.device, plain(name, self.device), outcome, text]) + "\n")
        self.out.flush()


def _text(report: Any) -> str:
    """Returns the message of an outcome, and the last lines of ours in the traceback."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:200]
    message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or str(report.longrepr)[-800:]
    lines = re.findall(r"^(\S*vkcompute/\S+:\d+): ", str(report.longrepr), re.MULTILINE)
    return f"{message[:1500]} @ {' '.join(Path(line).name for line in lines[-2:])}"


def _expired(*_: object) -> None:
    raise TimeoutError("the test takes too long")


def read(path: Path) -> Rows:
    """Returns the results of a file; the last one of a test counts."""
    rows: Rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        device, name, outcome, text = json.loads(line)
        rows[device, name] = outcome, text
    return rows


def failed(rows: Rows) -> Iterator[str]:
    """Yields the tests that did not pass on the device, and are not known to fail on the CPU."""
    for (device, name), (outcome, _) in rows.items():
        if device == "vk" and outcome not in _PASSED:
            on_host = rows.get(("cpu", name))
            if on_host is None or on_host[0] in _PASSED:
                yield name


def cause(text: str) -> str:
    """Returns an error without the numbers that differ between tests."""
    message = text.partition(" @ ")[0]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Warning)\b", line)] or lines
    return re.sub(r"0x\w+|\d+(\.\d+)?(e-?\d+)?", "#", " ".join([*telling[:1], *lines[-1:]]))[:160]


def summarize(rows: Rows, *, shows_reasons: bool) -> None:
    """Prints the counts of outcomes by file, and the causes of failures."""
    bad = set(failed(rows))
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for (device, name), (outcome, _) in rows.items():
        if device == "vk":
            kind = outcome if outcome in _PASSED or name in bad else "also on the CPU"
            counts[name.partition("::")[0]][kind] += 1
    for file, outcomes in counts.items():
        print(f"{file}: {', '.join(f'{n} {outcome}' for outcome, n in outcomes.most_common())}")
    by_cause = collections.defaultdict(list)
    for name in bad if shows_reasons else ():
        outcome, text = rows["vk", name]
        by_cause[outcome if outcome == "crashed" else cause(text)].append(name)
    for why, names in sorted(by_cause.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(names):5} {why}", *sorted(names)[:3], sep="\n        ")


def run_file(options: argparse.Namespace) -> None:
    """Runs the tests of one file in this process."""
    os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = "privateuse1"
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu" if options.host else "vk"
    os.environ.setdefault("VKCOMPUTE_TORCH_FALLBACK", "silent")
    import pytest

    import vkcompute.torch  # noqa: F401

    os.chdir(options.folder)
    sys.path.insert(0, str(options.folder))
    arguments = ["-q", "-p", "no:cacheprovider", "--noconftest", "--tb=short", "-c", os.devnull, "--rootdir", "."]
    plugin = Recording(options, read(options.out))
    pytest.main([*arguments, "-k", options.kexpr, f"{options.names[0]}.py"], plugins=[plugin])


def run_files(options: argparse.Namespace) -> None:
    """Runs each file in processes of its own: a test that ends one is left out by the next."""
    end = time.monotonic() + options.for_s
    for name in options.names:
        returncode = -1
        while returncode < 0 and (left := end - time.monotonic()) > 0:
            named = [f"--{key}={getattr(options, key)}" for key in ("every", "start", "out", "kexpr")]
            more = [f"--limit-s={options.limit_s}", f"--for-s={left:.0f}", *["--host"][: options.host], "--child"]
            command = [sys.executable, "-X", "faulthandler", __file__, str(options.folder), name, *named, *more]
            returncode = subprocess.run(command, check=False).returncode


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=lambda text: Path(text).resolve(), help="PyTorch's test files")
    parser.add_argument("names", nargs="*", help="files without .py; with --host, those with failures")
    parser.add_argument("--every", type=int, default=1, help="run each N-th test")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--kexpr", default="", help="names of tests, as pytest's -k")
    parser.add_argument("--limit-s", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--for-s", type=float, default=1e6, help="seconds after which the run ends")
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), default=Path("build/torch/tests.jsonl"))
    parser.add_argument("--host", action="store_true", help="run what did not pass on the CPU")
    parser.add_argument("--reasons", action="store_true", help="print the causes of failures")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_intermixed_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    options = parsed(arguments)
    options.out = options.out.resolve()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.child:
        run_file(options)
        return
    if options.host and not options.names:
        options.names = sorted({name.partition(".py")[0] for name in failed(read(options.out))})
    run_files(options)
    summarize(read(options.out), shows_reasons=options.reasons)


if __name__ == "__main__":
    main()
