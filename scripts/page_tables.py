"""Tables of pages, between marks in them."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def replaced(page: str, start: str, end: str, text: str) -> str:
    """Returns a page with `text`, which has both marks, in place of what is between them."""
    head, _, rest = page.partition(start)
    return f"{head}{text}{rest.partition(end)[2]}"
