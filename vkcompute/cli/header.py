"""The header row of a CSV file: column names and delimiter."""

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
_MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Header:
    """The first row that is not blank.

    Attributes:
        path: the file.
        names: column names in order, distinct; one may be empty.
        delimiter: "," or ";" or a tab.
        n_lines: lines up to the end of the header.
    """

    path: str
    names: tuple[str, ...]
    delimiter: str
    n_lines: int

    @classmethod
    def read(cls, path: str) -> Header:
        """Reads the header.

        Raises:
            DataError: the file is empty, not UTF-8 or not CSV, or columns have equal names.
            OSError: it cannot be read.
        """
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            # The file is read more than once; a pipe would lose its beginning.
            raise DataError(f"{path} is a folder, a pipe or a device; write the data to a regular file")
        try:
            names, delimiter, n_lines = _first_row(path)
        except UnicodeDecodeError:
            raise not_utf8(path) from None
        if not names:
            raise DataError(f"{path} is empty; it needs a header with column names, and rows of data")
        stripped = tuple(name.strip() for name in names)
        repeated = [name for name, times in Counter(stripped).items() if times > 1]
        if repeated:
            raise DataError(f"{path}: several columns are named {quoted(repeated)}; rename all but one")
        return cls(path, stripped, delimiter, n_lines)

    def open(self) -> TextIO:
        """Opens the file as text, with line ends unchanged, as the csv module requires."""
        return open(self.path, encoding="utf-8-sig", newline="")

    def column(self, name: str) -> int:
        """The index of a column.

        Raises:
            DataError: no such column; the message has the closest name, and all names.
        """
        if name in self.names:
            return self.names.index(name)
        folded = {name.casefold(): name for name in self.names}
        near = difflib.get_close_matches(name.casefold(), folded, n=1)
        hint = f"did you mean {folded[near[0]]!r}? " if near else ""
        raise DataError(f"{self.path} has no column {name!r}; {hint}its columns: {quoted(self.names)}")

    def columns(self, names: Sequence[str]) -> list[int]:
        """The indices of several columns.

        Raises:
            DataError: some do not exist; the message lists them.
        """
        missing = [name for name in names if name not in self.names]
        if len(missing) > 1:
            raise DataError(f"{self.path} has no columns {quoted(missing)}; its columns: {quoted(self.names)}")
        return [self.column(name) for name in names]


def _first_row(path: str) -> tuple[list[str], str, int]:
    """The cells of the first row that is not blank, the delimiter, and the lines up to the row's end.

    Picks the delimiter that gives most cells.
    """
    best: tuple[list[str], str, int] = [], ",", 0
    problem = ""
    for delimiter in _DELIMITERS:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                row = next((row for row in reader if any(cell.strip() for cell in row)), [])
            except csv.Error as error:  # with this delimiter, misplaced quotes
                problem = problem or str(error)
                continue
        if len(row) > len(best[0]):
            best = row, delimiter, reader.line_num
    if not best[0] and problem:
        raise DataError(f"{path}: the header is not CSV: {problem}")
    return best


def quoted(names: Sequence[str]) -> str:
    """Quoted names with commas; beyond _MAX_SHOWN only the number of the others."""
    shown = ", ".join(repr(name) for name in names[:_MAX_SHOWN])
    return shown + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")


def not_utf8(path: str) -> DataError:
    """The error for a file that is not UTF-8, with the position of the first invalid byte."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if (index := _undecodable(line)) is not None:
                byte = f"byte {index + 1} of line {number} is {line[index]:#04x}"
                return DataError(f"{path} is not UTF-8 text ({byte}); save it as UTF-8")
    return DataError(f"{path} is not UTF-8 text; save it as UTF-8")


def _undecodable(line: bytes) -> int | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
