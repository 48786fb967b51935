"""CSV files as arrays: a matrix of numbers, and a column of labels where one is asked for."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from vkcompute.cli import page
from vkcompute.cli.header import Header, listed, not_utf8
from vkcompute.errors import DataError

# What numpy's parser reads as a number. Python's float() takes more: 1_000, digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LONG_CELL = 40


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a file.

    Attributes:
        path: of the file.
        names: of the columns of `numbers`, in order.
        numbers: float64, (rows, columns), all finite.
        labels: of shape (rows,), the cells of the target: int64 or float64 if all are numbers, else text; None where
            no target was asked for.
    """

    path: str
    names: tuple[str, ...]
    numbers: npt.NDArray[np.float64]
    labels: npt.NDArray[Any] | None


def read(
    path: str, *, names: Sequence[str] | None = None, target: str | None = None, ignore: Collection[str] = ()
) -> Table:
    """Reads a CSV file with a header row; `,` `;` or tab separate its cells. Blank lines are skipped.

    Args:
        names: the columns of numbers, in the order wanted; None takes all but `target` and `ignore`.
        target: the column of labels.
        ignore: columns that are not looked at.

    Raises:
        DataError: a column is missing, a cell is empty, not a number or not finite, a row has too few or too many
            cells, or the file is no CSV in UTF-8 with rows. The message gives line and column.
        OSError: it cannot be read.
    """
    header = Header.read(path)
    label = None if target is None else header.column(target)
    ignored = set(header.columns(sorted(ignore)))
    if label in ignored:
        raise DataError(f"the column {target!r} is the target, and is to be ignored too; it can be one of them")
    if names is None:
        wanted = [place for place in range(len(header.names)) if place != label and place not in ignored]
        names = [header.names[place] for place in wanted]
    else:
        wanted = header.columns(names)
    if not wanted:
        raise DataError(f"{path} has no columns of numbers; its columns: {listed(header.names)}")
    if "" in names:
        raise DataError(f"{path}: column {wanted[names.index('')] + 1} has no name; name it, or take it out")
    return _read(header, wanted, label)


def _read(header: Header, wanted: list[int], label: int | None) -> Table:
    texts: dict[str, int] = {}  # of the labels, in the order of their first appearance

    def encode(cell: str) -> float:
        if not (text := cell.strip()):
            raise ValueError("an empty label")
        return texts.setdefault(text, len(texts))

    converters: dict[int | str, Any] = {place: _zero for place in range(len(header.names)) if place not in wanted}
    if label is not None:
        converters[label] = encode
    try:
        content = _parse(header, converters)
    except UnicodeDecodeError:
        raise not_utf8(header.path) from None
    except ValueError as error:
        _explain(header, wanted, label, str(error))
    if not content.size:
        raise DataError(f"{header.path} has a header and no rows")
    if content.shape[1] != len(header.names):
        _explain(header, wanted, label, f"{content.shape[1]} cells in each row, {len(header.names)} in the header")
    labels = None if label is None else _values(list(texts))[content[:, label].astype(np.intp)]
    whole = wanted == list(range(len(header.names)))
    numbers = content if whole else content[:, wanted]
    if not np.isfinite(numbers).all() or (labels is not None and labels.dtype.kind == "f" and np.isnan(labels).any()):
        _explain(header, wanted, label, "a number is not finite")
    return Table(header.path, tuple(header.names[place] for place in wanted), numbers, labels)


def _zero(_cell: str) -> float:
    return 0.0


def _parse(header: Header, converters: dict[int | str, Any]) -> npt.NDArray[np.float64]:
    """All cells, by numpy's parser, which is fast and says little about what is wrong."""
    with header.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there are no rows
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


def _values(texts: list[str]) -> npt.NDArray[Any]:
    """Labels as ints if all of them are written so, as floats if all are numbers, else as they are."""
    if not all(_NUMBER.fullmatch(text) for text in texts):
        return np.array(texts)
    numbers = np.array([float(text) for text in texts])
    written_as_ints = all(text.lstrip("+-").isdecimal() for text in texts)
    return numbers.astype(np.int64) if written_as_ints and (np.abs(numbers) < 2**53).all() else numbers


def _explain(header: Header, wanted: list[int], label: int | None, otherwise: str) -> NoReturn:
    """Reads the file once more, slowly, up to the first cell that is wrong, and raises DataError for it."""
    line = header.n_lines
    with header.open() as file:
        reader = csv.reader(file, delimiter=header.delimiter, strict=True)
        try:
            for number, row in enumerate(filter(None, _skip(reader, header.n_lines)), start=1):
                # Quoted cells may span lines; the reader counts to the last of them.
                line = reader.line_num
                _check(header, row, f"{header.path}, line {line} (row {number})", wanted, label)
        except csv.Error as error:
            raise DataError(f"{header.path}, line {line + 1}: not CSV: {error}") from None
        except UnicodeDecodeError:
            raise not_utf8(header.path) from None
    raise DataError(f"{header.path} cannot be read: {otherwise}")


def _skip(reader: Any, n_lines: int) -> Any:
    while reader.line_num < n_lines:
        next(reader)
    return reader


def _check(header: Header, row: list[str], where: str, wanted: list[int], label: int | None) -> None:
    if len(row) != len(header.names):
        raise DataError(f"{where} has {page.count(len(row), 'cell')}; the header has {len(header.names)}")
    for place in () if _plausible([row[place] for place in wanted]) else wanted:
        if (wrong := _wrong(row[place])) is not None:
            raise DataError(f"{where}, column {header.names[place]!r}: {wrong}")
    if label is not None:
        cell = row[label].strip()
        if not cell or (_NUMBER.fullmatch(cell) and math.isnan(float(cell))):
            raise DataError(f"{where}, column {header.names[label]!r}: {_wrong(cell)}")


def _plausible(cells: list[str]) -> bool:
    """Whether all cells are finite numbers; quick, and wrong only in that it may say no."""
    text = "".join(cells)
    try:
        return math.isfinite(sum(map(float, cells))) and text.isascii() and "_" not in text
    except ValueError:
        return False


def _wrong(cell: str) -> str | None:
    """Why a cell holds no number to compute with; None if it does."""
    cell = cell.strip()
    if not cell:
        return "the cell is empty; fill it in, or leave the row out"
    if not _NUMBER.fullmatch(cell):
        shown = cell if len(cell) <= _LONG_CELL else cell[:_LONG_CELL] + "..."
        comma = "; a decimal comma is not read, write a point" if _DECIMAL_COMMA.fullmatch(cell) else ""
        return f"{shown!r} is not a number{comma}"
    if not math.isfinite(float(cell)):
        return f"{cell[:_LONG_CELL]} is not finite; replace it, or leave the row out"
    return None
