"""Cuts reports of this machine's devices by Ctrl-C and by a kill, and reads what is left of them.

python scripts/cut_reports.py --driver lavapipe      writes a row per cut to benchmarks/results/report_cuts.json

A report must be a file that is read at any time. Ctrl-C ends it with status 130, and a kill leaves the file as it was
after the last item.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import drivers

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from vkcompute.gpu_report.report import read  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "report_cuts.json"
CUTS = ((30, signal.SIGINT), (120, signal.SIGKILL), (300, signal.SIGINT))
"""Seconds after the start, and the signal."""
_END_S = 30
"""Until a report that was cut must have ended."""


def cut(driver: str, seconds: float, number: signal.Signals) -> dict[str, Any]:
    """Starts a report, cuts it, and returns what is read from its file."""
    manifest = drivers.lavapipe() if driver == "lavapipe" else drivers.swiftshader()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        command = [sys.executable, "-m", "vkcompute.gpu_report", "--out", str(path)]
        started = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, env=drivers.only(str(manifest)), stdout=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        status = process.wait(_END_S)
        data = read(path)
    parts = [part["state"] for part in data["parts"]]
    return {
        "driver": driver,
        "device": data["device"]["name"],
        "cut_s": seconds,
        "by": number.name,
        "ended_s": round(time.monotonic() - started, 1),
        "status": status,
        "state": data["state"],
        "items": sum(len(part["items"]) for part in data["parts"]),
        "parts": {state: parts.count(state) for state in sorted({*parts})},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Cuts reports, and records what they have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--driver", choices=("lavapipe", "swiftshader"), action="append", required=True)
    parser.add_argument("--seconds", type=int, choices=[seconds for seconds, _ in CUTS], help="one of the cuts")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit it as ignored
    for driver in arguments.driver:
        for seconds, number in CUTS:
            if arguments.seconds not in (None, seconds):
                continue
            rows = json.loads(RECORD.read_text()) if RECORD.exists() else []
            row = cut(driver, seconds, number)
            kept = [one for one in rows if (one["driver"], one["cut_s"]) != (driver, seconds)]
            RECORD.write_text(json.dumps([*kept, row], indent=1) + "\n")
            print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
