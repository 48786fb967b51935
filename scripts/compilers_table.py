"""Writes the table of docs/drivers.md from the record of benchmarks/compilers.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE, RECORD = ROOT / "docs" / "drivers.md", ROOT / "benchmarks" / "results" / "compilers.json"
START, END = "<!-- table: scripts/compilers_table.py -->", "<!-- end of the table -->"


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Returns everything between the marks of the page."""
    lines = ["| compiler | device | compiled | spill | refused |", "| --- | --- | --- | --- | --- |"]
    for row in rows.values():
        refused = "; ".join(f"{len(names)}: {why}" for why, names in row["refused"].items()) or "none"
        n_compiled = row["kernels"] - sum(map(len, row["refused"].values()))
        spills = "not told" if row["spills"] is None else ", ".join(row["spills"]) or "none"
        cells = row["driver"], row["device"], f"{n_compiled} of {row['kernels']}", spills, refused
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join([START, "", *lines, "", END])


def written(page: str, rows: dict[str, dict[str, Any]]) -> str:
    """Returns the page with the table of these rows."""
    before, rest = page.split(START)
    return before + table(rows) + rest.split(END)[1]


def main() -> int:
    """Writes the page; returns the exit status."""
    rows = {name: row for name, row in json.loads(RECORD.read_text()).items() if "absent" not in row}
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
