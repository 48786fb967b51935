"""CSV files as arrays: a matrix of numbers, and optionally a column of labels."""

from __future__ import annotations

import contextlib
import csv
import math
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from vkcompute.cli import terminal
from vkcompute.cli.header import Header, not_utf8, quoted
from vkcompute.errors import DataError

# Numbers as numpy's parser reads them. Python's float() accepts more: 1_000, digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a file.

    Attributes:
        path: the file.
        names: column names of `numbers`, in order.
        numbers: shape (rows, columns), float64, all finite.
        labels: shape (rows,), cells of the target without outer blanks: int64 or float64 if all of them are written
            as Python writes such numbers, else text. None without a target.
    """

    path: str
    names: tuple[str, ...]
    numbers: npt.NDArray[np.float64]
    labels: npt.NDArray[Any] | None


def read(
    path: str, *, names: Sequence[str] | None = None, target: str | None = None, ignore: Collection[str] = ()
) -> Table:
    """Reads a CSV file with a header row, delimited by `,` `;` or tab. Skips blank lines.

    Args:
        names: columns of numbers, in the order of the result; None means all but `target` and `ignore`.
        target: the column of labels.
        ignore: columns to skip.

    Raises:
        DataError: a column is missing, a cell is not a finite number, a row has another number of cells than the
            header, or the file is not UTF-8 CSV. The message gives line and column.
        OSError: it cannot be read.
    """
    header = Header.read(path)
    label = None if target is None else header.column(target)
    ignored = set(header.columns(sorted(ignore)))
    if label in ignored:
        raise DataError(f"the column {target!r} is both the target and ignored; remove one of the two")
    if names is None:
        wanted = [index for index in range(len(header.names)) if index != label and index not in ignored]
        names = [header.names[index] for index in wanted]
    else:
        wanted = header.columns(names)
    if not wanted:
        raise DataError(f"{path} has no columns of numbers; its columns: {quoted(header.names)}")
    if "" in names:
        raise DataError(f"{path}: column {wanted[names.index('')] + 1} has no name; name it, or remove it")
    return _read(header, wanted, label)


def _read(header: Header, wanted: list[int], label: int | None) -> Table:
    texts: dict[str, int] = {}  # label -> code, in the order of first appearance

    def encode(cell: str) -> float:
        if _label_defect(text := cell.strip()) is not None:
            raise ValueError("no label")
        return texts.setdefault(text, len(texts))

    converters: dict[int | str, Any] = {index: _zero for index in range(len(header.names)) if index not in wanted}
    if label is not None:
        converters[label] = encode
    try:
        content = _parse(header, converters)
    except UnicodeDecodeError:
        raise not_utf8(header.path) from None
    except ValueError as error:
        _explain(header, wanted, label, str(error))
    if not content.size:
        raise DataError(f"{header.path} has a header, but no rows")
    if content.shape[1] != len(header.names):
        _explain(header, wanted, label, f"{content.shape[1]} cells in each row, {len(header.names)} in the header")
    if _has_quotes(header.path) and (n_rows := _count_rows(header)) != len(content):
        _explain(header, wanted, label, f"misplaced quotes: {n_rows} or {len(content)} rows")
    labels = None if label is None else _values(list(texts))[content[:, label].astype(np.intp)]
    whole = wanted == list(range(len(header.names)))
    numbers = content if whole else content[:, wanted]
    if not np.isfinite(numbers).all():
        _explain(header, wanted, label, "a number is not finite")
    return Table(header.path, tuple(header.names[index] for index in wanted), numbers, labels)


def _zero(_cell: str) -> float:
    return 0.0


def _parse(header: Header, converters: dict[int | str, Any]) -> npt.NDArray[np.float64]:
    """Parses all cells by numpy, which is fast, but reports errors without line and column."""
    with header.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no rows
        for _ in range(header.n_lines):
            file.readline()
        content: npt.NDArray[np.float64] = np.loadtxt(
            file,
            delimiter=header.delimiter,
            comments=None,
            quotechar='"',
            ndmin=2,
            converters=converters,
            encoding="utf-8",
        )
    return content


def _has_quotes(path: str) -> bool:
    with open(path, "rb") as file:
        return any(b'"' in block for block in iter(partial(file.read, 1 << 20), b""))


def _count_rows(header: Header) -> int:
    """The number of rows by strict rules, or -1. numpy accepts a quote that is not closed before the end."""
    with header.open() as file, contextlib.suppress(csv.Error):
        reader = csv.reader(file, delimiter=header.delimiter, strict=True)
        return sum(1 for row in _skip(reader, header.n_lines) if row)
    return -1


def _values(texts: list[str]) -> npt.NDArray[Any]:
    """Converts distinct labels to int64 or float64 if that keeps them as they are written; otherwise they stay text."""
    for dtype in (np.int64, np.float64):
        with contextlib.suppress(ValueError, OverflowError):
            numbers = np.array(texts).astype(dtype)
            distinct = len({*numbers.tolist()}) == len(texts)  # 0.0 equals -0.0
            if distinct and list(map(str, numbers.tolist())) == texts and np.isfinite(numbers).all():
                return numbers
    return np.array(texts)


def _explain(header: Header, wanted: list[int], label: int | None, otherwise: str) -> NoReturn:
    """Reads the file again, up to the first invalid cell, and raises DataError with its line and column."""
    line = header.n_lines
    with header.open() as file:
        reader = csv.reader(file, delimiter=header.delimiter, strict=True)
        try:
            for number, row in enumerate(filter(None, _skip(reader, header.n_lines)), start=1):
                # Quoted cells may span lines; line_num is the last of them.
                line = reader.line_num
                _check(header, row, f"{header.path}, line {line} (row {number})", wanted, label)
        except csv.Error as error:
            why = "a quote is not closed" if str(error) == "unexpected end of data" else error
            raise DataError(f"{header.path}, line {line + 1}: not CSV: {why}") from None
        except UnicodeDecodeError:
            raise not_utf8(header.path) from None
    raise DataError(f"{header.path} cannot be read: {otherwise}")


def _skip(reader: Any, n_lines: int) -> Any:
    while reader.line_num < n_lines:
        next(reader)
    return reader


def _check(header: Header, row: list[str], position: str, wanted: list[int], label: int | None) -> None:
    if len(row) != len(header.names):
        raise DataError(f"{position} has {terminal.count(len(row), 'cell')}; the header has {len(header.names)}")
    for index in () if _all_finite([row[index] for index in wanted]) else wanted:
        if (defect := _defect(row[index])) is not None:
            raise DataError(f"{position}, column {header.names[index]!r}: {defect}")
    if label is not None and (defect := _label_defect(row[label].strip())) is not None:
        raise DataError(f"{position}, column {header.names[label]!r}: {defect}")


def _label_defect(text: str) -> str | None:
    """The reason why a cell is no label; None if it is one."""
    if "\0" in text:
        return "the label contains a NUL character; remove it"  # which numpy ignores at the end of a text
    return _defect(text) if text.lower() in ("", "nan", "+nan", "-nan") else None


def _all_finite(cells: list[str]) -> bool:
    """A quick test for finite numbers. True is certain; False may be wrong."""
    text = "".join(cells)
    try:
        return math.isfinite(sum(map(float, cells))) and text.isascii() and "_" not in text
    except ValueError:
        return False


def _defect(cell: str) -> str | None:
    """The reason why a cell is not a finite number; None if it is one."""
    cell = cell.strip()
    if not cell:
        return "the cell is empty; fill it in, or remove the row"
    if not _NUMBER.fullmatch(cell):
        shown = cell if len(cell) <= _MAX_SHOWN else cell[:_MAX_SHOWN] + "..."
        return f"{shown!r} is not a number{_about_commas(cell)}"
    if not math.isfinite(float(cell)):
        return f"{cell[:_MAX_SHOWN]} is not finite; replace it, or remove the row"
    return None


def _about_commas(cell: str) -> str:
    """The remedy for a number with commas; empty for another cell."""
    if len(cell) > _MAX_SHOWN:
        return ""
    if _THOUSANDS.fullmatch(cell):
        decimal = "" if cell.count(",") > 1 or "." in cell else f", or {cell.replace(',', '.')} if it is a decimal one"
        return f"; write {cell.replace(',', '')} if the comma separates thousands{decimal}"
    return "; write a decimal point, not a comma" if _DECIMAL_COMMA.fullmatch(cell) else ""
