"""Writes the table of docs/drivers.md from the record of benchmarks/compilers.py."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from page_tables import replaced, table

ROOT = Path(__file__).resolve().parent.parent
PAGE, RECORD = ROOT / "docs" / "drivers.md", ROOT / "benchmarks" / "results" / "compilers.json"
START, END = "<!-- table: scripts/compilers_table.py -->", "<!-- end of the table -->"
Row = dict[str, Any]
_MOST_NAMES = 3
_NEED = re.compile(r"^(?:capability \w+|a mode for floats) needs the (?:feature|property) (\w+).*$")


def rows() -> list[Row]:
    """Returns the rows of the compilers that were there; devices of one name have the GPU that was asked for."""
    named = {name: row for name, row in json.loads(RECORD.read_text()).items() if "absent" not in row}
    counted = Counter(row["device"] for row in named.values())
    return [
        row | {"device": f"{row['device']} ({name})" if counted[row["device"]] > 1 else row["device"]}
        for name, row in named.items()
    ]


def page(text: str, rows: Sequence[Row]) -> str:
    """Returns the page with the table of these rows."""
    head = "compiler", "device", "compiled", "for such a device", "of those spill", "refused"
    return replaced(text, START, END, "\n\n".join([START, table(head, [_cells(row) for row in rows]), END]))


def _cells(row: Row) -> tuple[str, ...]:
    n_compiled = row["kernels"] - sum(map(len, row["refused"].values()))
    kind = row.get("kind", "gpu")
    own = [name for name in row["spills"] or () if kind == "gpu" or name.endswith(f", {kind}")]
    spills = "not told" if row["spills"] is None else _some(own) or "none"
    return (
        row["driver"],
        row["device"],
        f"{n_compiled} of {row['kernels']}",
        "{} of {}".format(*row["own"]) if "own" in row else "not told",
        spills,
        _refusals(row["refused"]) or "none",
    )


def _some(names: Sequence[str]) -> str:
    """Returns the first names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _refusals(refused: Mapping[str, Sequence[str]]) -> str:
    """Returns what is missing, with the number of kernels that need it; a kernel may need several."""
    counted: Counter[str] = Counter()
    for why, names in refused.items():
        for sentence in why.split("; "):
            counted[_NEED.sub(r"\1", sentence)] += len(names)
    return "; ".join(f"{n}: {why}" for why, n in counted.most_common())


def main() -> int:
    """Writes the page; returns the exit status."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
