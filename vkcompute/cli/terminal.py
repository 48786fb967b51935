"""Text for a terminal: labelled fields and tables that keep within its width."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from vkcompute.cli.stderr import one_line

_NARROWEST, _WIDEST = 40, 100


def width() -> int:
    """Columns to write in: the terminal's, within reason; 80 where there is none."""
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


def show(text: str) -> None:
    """Prints text for people: what the output's encoding lacks is escaped, since it is no reason to fail."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def fit(text: str, columns: int) -> str:
    """`text` on one line of at most `columns` columns, its end cut off where it is longer."""
    text = one_line(text)
    return text if len(text) <= columns else text[: columns - 3] + "..."


def field(label: str, value: str | Iterable[str], *, indent: int = 4, label_columns: int = 13) -> str:
    """A label and its value beside it, continued on further lines below itself. Items of an iterable stay whole."""
    items = value.split(" ") if isinstance(value, str) else value
    # A no-break space holds the words of one item together while lines are broken.
    text = " ".join(one_line(item).replace(" ", "\xa0") for item in items)
    head = " " * indent + label.ljust(label_columns)
    lines = textwrap.wrap(text, width(), initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return "\n".join(lines or [head.rstrip()]).replace("\xa0", " ")


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: int = 0) -> str:
    """Rows in columns two spaces apart. The columns of `right` are aligned right; the widest gives way for the width.

    All rows have the same length.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    room = width() - indent - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 3:
        widest = widths.index(max(widths))
        widths[widest] = max(3, widths[widest] - (sum(widths) - room))
    lines = []
    for row in cells:
        fitted = [fit(cell, columns) for cell, columns in zip(row, widths, strict=True)]
        aligned = [
            cell.rjust(columns) if place in right else cell.ljust(columns)
            for place, (cell, columns) in enumerate(zip(fitted, widths, strict=True))
        ]
        lines.append((" " * indent + "  ".join(aligned)).rstrip())
    return "\n".join(lines)


def nbytes(count: int) -> str:
    """A number of bytes in words: "16 bytes", "128 MiB", "2.0 GiB"."""
    size = float(count)
    units = ["TiB", "GiB", "MiB", "KiB", "bytes"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    unit = units[-1]
    return f"{size:g} {unit}" if size == int(size) else f"{size:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 row", "1,000 rows", "2 classes"."""
    plural = noun if number == 1 else noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {plural}"


def listed(items: Sequence[str]) -> list[str]:
    """Items for `field`, with commas between them."""
    return [f"{item}," for item in items[:-1]] + list(items[-1:])
