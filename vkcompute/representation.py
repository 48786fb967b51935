"""Objects as text and as HTML, which notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LEFT = "text-align:left"


def nbytes(count: int) -> str:
    """A number of bytes as text: "16 bytes", "128 MiB", "2.0 GiB"."""
    size = float(count)
    units = ["TiB", "GiB", "MiB", "KiB", "bytes"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    unit = units[-1]
    return f"{size:g} {unit}" if size == int(size) else f"{size:.1f} {unit}"


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A title and a table with a row per fact: its name and its value. All are escaped."""
    rows = [
        f'<tr><th style="{_LEFT}">{escape(name)}</th><td style="{_LEFT}">{escape(str(value))}</td></tr>'
        for name, value in facts
    ]
    return f"<div><strong>{escape(title)}</strong><table>{''.join(rows)}</table></div>"


def html_rows(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with headings. All cells are escaped."""
    head = "".join([f'<th style="{_LEFT}">{escape(heading)}</th>' for heading in headings])
    body = ["".join([f'<td style="{_LEFT}">{escape(str(cell))}</td>' for cell in row]) for row in rows]
    return f"<table><tr>{head}</tr>{''.join([f'<tr>{row}</tr>' for row in body])}</table>"
