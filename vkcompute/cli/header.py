"""The header row of a CSV file: the names of its columns, and what separates them."""

from __future__ import annotations

import csv
import difflib
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from vkcompute.errors import DataError

_DELIMITERS = ",;\t"
_MANY_NAMES = 20


@dataclass(frozen=True, slots=True)
class Header:
    """What the first row of a file that is not blank says.

    Attributes:
        path: of the file.
        names: of the columns, in order; they differ from each other, and one may be empty.
        delimiter: "," or ";" or a tab.
        n_lines: lines of the file up to the end of the header.
    """

    path: str
    names: tuple[str, ...]
    delimiter: str
    n_lines: int

    @classmethod
    def read(cls, path: str) -> Header:
        """Reads it.

        Raises:
            DataError: the file is empty, not UTF-8 or not CSV, or two columns have one name.
            OSError: it cannot be read.
        """
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            # It is read more than once, which would lose the beginning of a pipe's content.
            raise DataError(f"{path} is a folder, a pipe or a device; write the data to a regular file")
        try:
            names, delimiter, n_lines = _first_row(path)
        except UnicodeDecodeError:
            raise not_utf8(path) from None
        if not names:
            raise DataError(f"{path} is empty; a header with the names of the columns and rows of data are needed")
        stripped = tuple(name.strip() for name in names)
        twice = [name for name, times in Counter(stripped).items() if times > 1]
        if twice:
            raise DataError(f"{path}: several columns are named {listed(twice)}; give each a name of its own")
        return cls(path, stripped, delimiter, n_lines)

    def open(self) -> TextIO:
        """The file as text, lines as `csv` wants them."""
        return open(self.path, encoding="utf-8-sig", newline="")

    def column(self, name: str) -> int:
        """The place of the column called `name`.

        Raises:
            DataError: there is none; the message has the nearest name and all of them.
        """
        if name in self.names:
            return self.names.index(name)
        folded = {each.casefold(): each for each in self.names}
        near = difflib.get_close_matches(name.casefold(), folded, n=1)
        hint = f"did you mean {folded[near[0]]!r}? " if near else ""
        raise DataError(f"{self.path} has no column {name!r}; {hint}its columns: {listed(self.names)}")

    def columns(self, names: Sequence[str]) -> list[int]:
        """The places of several.

        Raises:
            DataError: some are absent; the message names all of these.
        """
        absent = [name for name in names if name not in self.names]
        if len(absent) > 1:
            raise DataError(f"{self.path} has no columns {listed(absent)}; its columns: {listed(self.names)}")
        return [self.column(name) for name in names]


def _first_row(path: str) -> tuple[list[str], str, int]:
    """The cells of the first row that is not blank, the delimiter that gives most of them, and the lines to its end."""
    best: tuple[list[str], str, int] = [], ",", 0
    refused = ""
    for delimiter in _DELIMITERS:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                row = next((row for row in reader if any(cell.strip() for cell in row)), [])
            except csv.Error as error:  # with this delimiter quotes stand where none may
                refused = refused or str(error)
                continue
        if len(row) > len(best[0]):
            best = row, delimiter, reader.line_num
    if not best[0] and refused:
        raise DataError(f"{path}: the header is not CSV: {refused}")
    return best


def listed(names: Sequence[str]) -> str:
    """Names with quotes and commas; of very many, the first ones and the number of the others."""
    shown = ", ".join(repr(name) for name in names[:_MANY_NAMES])
    return shown + (f" and {len(names) - _MANY_NAMES} more" if len(names) > _MANY_NAMES else "")


def not_utf8(path: str) -> DataError:
    """The error for a file that is not UTF-8, with the line of the first wrong byte."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if (place := _undecodable(line)) is not None:
                byte = f"byte {place + 1} of line {number} is {line[place]:#04x}"
                return DataError(f"{path} is not UTF-8 text ({byte}); save it as UTF-8")
    return DataError(f"{path} is not UTF-8 text; save it as UTF-8")


def _undecodable(line: bytes) -> int | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
