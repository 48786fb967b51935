"""Writes the table of docs/drivers.md from the record of benchmarks/compilers.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page_tables import replaced, table

ROOT = Path(__file__).resolve().parent.parent
PAGE, RECORD = ROOT / "docs" / "drivers.md", ROOT / "benchmarks" / "results" / "compilers.json"
START, END = "<!-- table: scripts/compilers_table.py -->", "<!-- end of the table -->"
Row = dict[str, Any]


def rows() -> list[Row]:
    """Returns the rows of the compilers that were there."""
    return [row for row in json.loads(RECORD.read_text()).values() if "absent" not in row]


def page(text: str, rows: Sequence[Row]) -> str:
    """Returns the page with the table of these rows."""
    head = "compiler", "device", "compiled", "spill", "refused"
    return replaced(text, START, END, "\n\n".join([START, table(head, [_cells(row) for row in rows]), END]))


def _cells(row: Row) -> tuple[str, ...]:
    refused = "; ".join(f"{len(names)}: {why}" for why, names in row["refused"].items()) or "none"
    n_compiled = row["kernels"] - sum(map(len, row["refused"].values()))
    spills = "not told" if row["spills"] is None else ", ".join(row["spills"]) or "none"
    return row["driver"], row["device"], f"{n_compiled} of {row['kernels']}", spills, refused


def main() -> int:
    """Writes the page; returns the exit status."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
