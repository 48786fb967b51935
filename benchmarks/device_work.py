"""The device's work of host.py's calls, now and at the unit's commit, side by side.

On a software driver it is CPU time of the driver's threads: of the process, less that of the threads that run Python,
until the device is idle. Both commits are measured by turns, so that the machine's speed and its other work move both.
A ratio is that of the least times. The unit's commit is measured twice: its ratio to itself tells the noise of a row.
Of small arrays a launch is most of the work; of large ones, its elements.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]  # measures this checkout

from host import UNIT, asked, worktree  # noqa: E402
from machine import describe  # noqa: E402

import vkcompute as vc  # noqa: E402

RECORD = HERE / "results" / "device_work.json"
SIZES = {64: 24, 512: 6}
"""Square arrays, and the calls between two waits: of small ones, as many as keep the device busy."""
TURNS = 12
ROW_S = 4.0
"""Of a row that takes longer, no further turn begins."""
CALLS = (
    "elementwise(out=)", "elementwise, new result", "x + y", "five operations", "sum(x)", "sum(x, axis 1)", "mean(x)",
    "mean(x, axis 1)", "max(x)", "max(x, axis 1)", "argmax(x)", "argmax(x, axis 1)", "softmax", "log_softmax",
    "layer_norm", "rms_norm", "matmul", "linear", "linear, gelu", "where(mask, x, y)", "clip(x, -1, 1)",
    "x.astype(int32)", "copy", "transposed copy", "concatenate of two", "take(x, indices, 1)", "x[indices]",
    "x[rows, rows]", "x[mask] = 0", "x[indices] = y", "putmask(x, mask, y)", "cumsum(x, axis 1)", "var(x)",
    "var(x, axis 1)", "std(x)", "std(x, axis 1)", "sort(x)", "argsort(x)", "topk(5)", "conv2d", "attention",
    "max_pool2d", "rng.normal",
)  # fmt: skip
"""Calls of host.py, by their names: those whose host time has a goal."""


def measured(name: str, size: int, turns: int, sides: dict[str, Any]) -> dict[str, Any]:
    """Returns a row: the least microseconds of the device per call, now and before; None for a call that fails."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    start = time.monotonic()
    for turn in range(turns):
        if turn and time.monotonic() - start > ROW_S:
            break
        for side in [*sides][:: -1 if turn % 2 else 1]:
            if (us := sides[side](name)) is not None:
                times[side].append(us)
    return {"name": name, "size": size, **{side: min(of, default=None) for side, of in times.items()}}


def ratio(row: dict[str, Any], side: str = "now_us") -> float | None:
    """Returns the device's time now, or in the other measurement of before, in that of before."""
    return row[side] / row["before_us"] if row[side] is not None and row["before_us"] else None


def tabulated(records: dict[str, Any]) -> str:
    """Returns the ratios of the recorded devices, and their noise, as a table in Markdown."""
    rows = {(row["name"], device, row["size"]): row for device, record in records.items() for row in record["rows"]}
    columns = sorted({(device, size) for _, device, size in rows})
    lines = [["call", *[f"{device.partition(' ')[0]}, {size}" for device, size in columns]]]
    lines.append(["---"] * len(lines[0]))
    for name in dict.fromkeys(name for name, _, _ in rows):
        cells = [rows.get((name, *column)) for column in columns]
        lines.append([f"`{name}`", *["" if row is None else cell(row) for row in cells]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: dict[str, Any]) -> str:
    """Formats the ratio of a row, and that of the unit's commit to itself in parentheses."""
    now, again = ratio(row), ratio(row, "again_us")
    return "" if now is None or again is None else f"{now:.2f} ({again:.2f})"


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", help="calls whose name contains this text")
    parser.add_argument("--size", type=int, choices=SIZES, help="one of the sizes of arrays (default: all)")
    parser.add_argument("--smoke", action="store_true", help="one turn of a few calls, to see if it runs")
    parser.add_argument("--table", action="store_true", help="prints the record as a table, and measures nothing")
    parser.add_argument("--save", action="store_true", help=f"write the record, {RECORD.name}, for this device")
    return parser.parse_args()


def main() -> int:
    """Measures the calls at both commits, at all sizes."""
    options = arguments()
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if options.table:
        print(tabulated(records))
        return 0
    with vc.default_runtime() as gpu:
        about = describe(gpu)
    device = about["device"]["name"]
    kept = {(row["name"], row["size"]): row for row in records.get(device, {}).get("rows", [])}
    names = [name for name in (CALLS[:2] if options.smoke else CALLS) if (options.only or "") in name]
    for size in [options.size] if options.size else SIZES:
        with worktree() as folder, contextlib.ExitStack() as stack:
            if folder is None:
                raise SystemExit(f"device_work.py: git has no commit {UNIT} here")
            folders = {"now_us": HERE.parent, "before_us": folder, "again_us": folder}
            sides = {side: stack.enter_context(asked(path, size, SIZES[size])) for side, path in folders.items()}
            for name in names:
                row = kept[name, size] = measured(name, size, 1 if options.smoke else TURNS, sides)
                print(f"{size:<5} {name:<28} {cell(row):<15} {row['now_us']} {row['before_us']}", flush=True)
    if options.save:
        record = {**about, "rows": [*kept.values()]}
        RECORD.write_text(json.dumps({**records, device: record}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
