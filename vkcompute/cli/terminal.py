"""Text output within the terminal's width: labelled fields and tables."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from vkcompute.cli.stderr import one_line, printable
from vkcompute.representation import nbytes as nbytes

_MIN_COLUMNS, _MAX_COLUMNS = 40, 100


def width() -> int:
    """The terminal's width, limited to 40 to 100 columns; 80 without a terminal."""
    return max(_MIN_COLUMNS, min(shutil.get_terminal_size().columns, _MAX_COLUMNS))


def write(text: str) -> None:
    """Prints text. Characters that are unprintable, or that the output's encoding lacks, are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(printable(text).encode(encoding, "backslashreplace").decode(encoding))


def truncate(text: str, columns: int) -> str:
    """The text on one line, truncated to `columns` columns."""
    text = one_line(text)
    return text if len(text) <= columns else text[: columns - 3] + "..."


def field(label: str, value: str | Iterable[str], *, indent: int = 4, label_columns: int = 13) -> str:
    """A label and its value, wrapped and aligned. Items of an iterable are not broken."""
    items = value.split(" ") if isinstance(value, str) else value
    # No-break spaces keep the words of an item on one line.
    text = " ".join(one_line(item).replace(" ", "\xa0") for item in items)
    head = " " * indent + label.ljust(label_columns)
    lines = textwrap.wrap(text, width(), initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return "\n".join(lines or [head.rstrip()]).replace("\xa0", " ")


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: int = 0) -> str:
    """Rows of equal length as columns, two spaces apart. The widest columns are truncated to the terminal's width.

    Columns whose indices are in `right` are right-aligned.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = width() - indent - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 3:
        widest = widths.index(max(widths))
        widths[widest] = max(3, widths[widest] - (sum(widths) - room))
    lines = []
    for row in cells:
        fitted = [truncate(cell, columns) for cell, columns in zip(row, widths, strict=True)]
        aligned = [
            cell.rjust(columns) if index in right else cell.ljust(columns)
            for index, (cell, columns) in enumerate(zip(fitted, widths, strict=True))
        ]
        lines.append((" " * indent + "  ".join(aligned)).rstrip())
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 row", "1,000 rows", "2 classes"."""
    plural = noun if number == 1 else noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {plural}"


def with_commas(items: Sequence[str]) -> list[str]:
    """Appends a comma to each item but the last, for `field`."""
    return [f"{item}," for item in items[:-1]] + list(items[-1:])
