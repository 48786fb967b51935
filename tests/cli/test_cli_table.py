"""CSV files: what can be read is read exactly, what cannot is named by line and column."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.cli import table
from vkcompute.errors import DataError

pytestmark = pytest.mark.pure

Write = Callable[[str | bytes], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes "data.csv"; gives its path."""

    def to_file(content: str | bytes) -> str:
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return to_file


finite = st.floats(allow_nan=False, allow_infinity=False)
labels = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1).filter(
    lambda text: not any(c.isdecimal() for c in text) and text.lower().strip("+-") not in ("nan", "inf", "infinity")
)


@given(
    rows=st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(finite, min_size=n, max_size=n), min_size=1)),
    target=st.data(),
    delimiter=st.sampled_from(",;\t"),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    bom=st.booleans(),
    place=st.integers(0, 4),
)
def test_what_csv_writes_is_read_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[float]],
    target: st.DataObject,
    delimiter: str,
    newline: str,
    quoting: Literal[0, 1, 2],
    bom: bool,
    place: int,
) -> None:
    wanted = target.draw(st.lists(labels, min_size=len(rows), max_size=len(rows)))
    names = [f"x {i}" for i in range(len(rows[0]))]
    place = min(place, len(names))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow([*names[:place], "the target", *names[place:]])
    for row, label in zip(rows, wanted, strict=True):
        writer.writerow([*row[:place], label, *row[place:]])
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(b"\xef\xbb\xbf" * bom + text.getvalue().encode())
    content = table.read(str(path), target="the target")
    assert content.names == tuple(names)
    np.testing.assert_array_equal(content.numbers, np.array(rows))
    assert content.labels is not None
    assert content.labels.tolist() == wanted


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        ("1 0 1", "i", [1, 0, 1]),
        ("0.0 1.5 1e-07", "f", [0, 1.5, 1e-07]),
        ("-1 +1 1", "U", ["-1", "+1", "1"]),
        ("1 0.0 1.0", "U", ["1", "0.0", "1.0"]),
        ("no yes no", "U", ["no", "yes", "no"]),
        ("1 b 1.0", "U", ["1", "b", "1.0"]),
        ("9007199254740992 9007199254740993", "i", [9007199254740992, 9007199254740993]),
        ("12345678901234567890 1 1", "U", ["12345678901234567890", "1", "1"]),
        ("01 1", "U", ["01", "1"]),
        ("0.0 -0.0", "U", ["0.0", "-0.0"]),
        ("0.1 0.10000000000000001", "U", ["0.1", "0.10000000000000001"]),
        ("inf 1.0", "U", ["inf", "1.0"]),
        ("1_0 1 1", "U", ["1_0", "1", "1"]),
    ],
)
def test_labels_take_the_type_that_all_of_them_have(write: Write, cells: str, kind: str, values: list[object]) -> None:
    content = table.read(write("x,y\n" + "".join(f"0,{cell}\n" for cell in cells.split())), target="y").labels
    assert content is not None
    assert content.dtype.kind == kind
    assert content.tolist() == values


@given(st.lists(st.text("0123456789.e+-inf_ ", min_size=1).filter(lambda text: text.strip()), min_size=1, max_size=3))
def test_labels_are_what_the_file_says(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_text("x,y\n" + "".join(f"0,{cell}\n" for cell in cells))
    content = table.read(str(path), target="y").labels
    assert content is not None
    assert list(map(str, content.tolist())) == [cell.strip() for cell in cells]
    assert len(np.unique(content)) == len({cell.strip() for cell in cells})


def test_columns_by_name_in_the_order_asked_for_whatever_the_others_hold(write: Write) -> None:
    path = write('id,b,a,note\nq7,1,2,\nq8,3,4,"x,y"\n')
    content = table.read(path, names=["a", "b"])
    assert content.names == ("a", "b")
    assert content.numbers.tolist() == [[2, 1], [4, 3]]
    assert content.labels is None
    assert table.read(path, target="id", ignore=["note"]).names == ("b", "a")


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n\n3,4\n",
        "\n\n a , b \n1,2\n3,4",
        '"a",b\n"1",2\n3,"4"\n',
        "a,b\n 1 ,\t2\n3, 4\n",
        "a;b\n1;2\n3;4\n",
        "a\tb\n1\t2\n3\t4\n",
    ],
)
def test_harmless_differences(write: Write, text: str) -> None:
    assert table.read(write(text), names=["a", "b"]).numbers.tolist() == [[1, 2], [3, 4]]


def test_comment_signs_are_data(write: Write) -> None:
    assert table.read(write("#a,b\n1,2\n"), names=["#a"]).numbers.tolist() == [[1]]


def test_one_column_of_numbers(write: Write) -> None:
    assert table.read(write("a\n1\n2\n")).numbers.tolist() == [[1], [2]]


WRONG_CELLS = {
    "text": ("a,b,t\n1,2,x\n3,four,y\n", "line 3 (row 2), column 'b': 'four' is not a number"),
    "text in quotes": ('a,b,t\n1,2,x\n"th,ree",4,y\n', "line 3 (row 2), column 'a': 'th,ree' is not a number"),
    "after a blank line": ("a,b,t\n1,2,x\n\n3,four,y\n", "line 4 (row 2), column 'b': 'four'"),
    "a header of two lines": ('"a\n",b,t\n1,2,x\n3,four,y\n', "line 4 (row 2), column 'b': 'four'"),
    "a label of two lines": ('a,b,t\n1,2,"x\nx"\n3,four,y\n', "line 4 (row 2), column 'b': 'four'"),
    "underscore": ("a,b,t\n1,2,x\n1_000,4,y\n", "line 3 (row 2), column 'a': '1_000' is not a number"),
    "hexadecimal": ("a,b,t\n1,0x2,x\n", "line 2 (row 1), column 'b': '0x2' is not a number"),
    "other digits": ("a,b,t\n1,\uff12,x\n", "line 2 (row 1), column 'b': '\uff12' is not a number"),
    "two numbers": ("a,b,t\n1,2 3,x\n", "line 2 (row 1), column 'b': '2 3' is not a number"),
    "NUL": ("a,b,t\n1,2,x\n1,\0,x\n", "line 3"),
    "decimal comma": ("a;b;t\n1;2,5;x\n", "'2,5' is not a number; write a decimal point"),
    "thousands": (
        'a,b,t\n1,"1,094",x\n',
        "'1,094' is not a number; write 1094 if the comma separates thousands, or 1.094 if it is a decimal one",
    ),
    "millions": ('a,b,t\n1,"-1,234,567.5",x\n', "write -1234567.5 if the comma separates thousands"),
    "a long cell": ("a,b,t\n1," + "q" * 999 + ",x\n", "column 'b': '" + "q" * 40 + "...' is not a number"),
    "empty": ("a,b,t\n1,2,x\n3,,y\n", "line 3 (row 2), column 'b': the cell is empty"),
    "blank": ("a,b,t\n1,2,x\n  ,4,y\n", "line 3 (row 2), column 'a': the cell is empty"),
    "empty label": ("a,b,t\n1,2,x\n3,4,\n", "line 3 (row 2), column 't': the cell is empty"),
    "nan": ("a,b,t\n1,2,x\n3,NaN,y\n", "line 3 (row 2), column 'b': NaN is not finite"),
    "inf": ("a,b,t\n1,2,x\n-inf,4,y\n", "line 3 (row 2), column 'a': -inf is not finite"),
    "too large": ("a,b,t\n1,2,x\n3,1e999,y\n", "line 3 (row 2), column 'b': 1e999 is not finite"),
    "nan label among numbers": ("a,b,t\n1,2,0\n3,4,nan\n", "line 3 (row 2), column 't': nan is not finite"),
    "too few cells": ("a,b,t\n1,2,x\n3,4\n", "line 3 (row 2) has 2 cells; the header has 3"),
    "too many cells": ("a,b,t\n1,2,x\n3,4,y,\n", "line 3 (row 2) has 4 cells; the header has 3"),
    "too few in every row": ("a,b,t\n1,2\n3,4\n", "line 2 (row 1) has 2 cells; the header has 3"),
    "too many in every row": ("a,t\n1,2,3\n3,4,5\n", "line 2 (row 1) has 3 cells; the header has 2"),
    "one cell": ("a,b,t\n1,2,x\n#\n", "line 3 (row 2) has 1 cell; the header has 3"),
    "a quote without end, ignored": ('a,note,t\n1,2,x\n3,"4,y\n5,6,x\n', "line 3: not CSV: a quote is not closed"),
    "a quote without end, ignored, last": ('a,t,note\n1,x,2\n3,y,"4\n5,x,6\n', "line 3: not CSV: a quote is"),
    "a label with NUL": ("a,t\n1,x\n1,x\0\n", "line 3"),
    "a quote without end": ('a,b,t\n1,2,x\n3,"4,y\n5,6,x\n', "line 3: not CSV"),
}


@pytest.mark.parametrize("case", WRONG_CELLS)
def test_a_wrong_cell_is_named_by_line_and_column(write: Write, case: str) -> None:
    text, says = WRONG_CELLS[case]
    path = write(text)
    with pytest.raises(DataError) as caught:
        table.read(path, target="t", ignore=["note"] if ",note" in text else [])
    assert f"{path}, " in str(caught.value)
    assert says in str(caught.value)


WRONG_FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": ("\n  \n\n", "is empty"),
    "header only": ("a,b,t\n", "has a header, but no rows"),
    "no such column": ("a,b,target\n1,2,x\n", "no column 't'; its columns: 'a', 'b', 'target'"),
    "other case": ("a,b,T\n1,2,x\n", "no column 't'; did you mean 'T'?"),
    "twice": ("a,b,a,t\n1,2,3,x\n", "several columns are named 'a'"),
    "unnamed": (",b,t\n1,2,x\n", "column 1 has no name"),
    "nothing but the target": ("t\nx\n", "no columns of numbers"),
    "quotes in the header": ('a"b",t\n"x"y,2\n', ""),
    "not UTF-8": (b"a,b,t\n1,2,x\n3,4,\xe9t\xe9\n", "byte 5 of line 3 is 0xe9"),
    "not UTF-8 in the header": (b"a,\xff,t\n1,2,x\n", "byte 3 of line 1 is 0xff"),
    "UTF-16": ("a,b,t\n1,2,x\n".encode("utf-16"), "byte 1 of line 1 is 0xff"),
    "a multi-byte character cut off": (b"a,b,t\n1,2,x\n3,4,\xc3", "byte 5 of line 3 is 0xc3"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_file_that_will_not_do(write: Write, case: str) -> None:
    content, says = WRONG_FILES[case]
    path = write(content)
    with pytest.raises(DataError) as caught:
        table.read(path, target="t")
    assert path in str(caught.value)
    assert says in str(caught.value)


def test_of_many_columns_the_first_are_listed(write: Write) -> None:
    path = write(",".join(f"x{i}" for i in range(200)) + "\n")
    with pytest.raises(DataError, match=r"did you mean 'x1\d?'\?.*'x19' and 180 more"):
        table.read(path, target="X1_")


def test_every_missing_column_is_named(write: Write) -> None:
    with pytest.raises(DataError, match="no columns 'c', 'd'; its columns: 'a', 'b'"):
        table.read(write("a,b\n1,2\n"), names=["c", "a", "d"])


def test_the_target_cannot_be_ignored(write: Write) -> None:
    with pytest.raises(DataError, match="'b' is both the target and ignored"):
        table.read(write("a,b\n1,2\n"), target="b", ignore=["b"])


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder, a pipe or a device"):
        table.read(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        table.read(str(tmp_path / "none.csv"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe"):
        table.read(str(tmp_path / "pipe"))


@given(st.binary(max_size=80) | st.text(alphabet='ab1.,;\t"\n\r -e\0', max_size=80).map(str.encode))
def test_any_bytes_give_numbers_or_a_data_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(b"a,b\n" + content)
    try:
        result = table.read(str(path), target="b")
    except DataError:
        return
    assert result.labels is not None
    assert result.numbers.shape == (len(result.labels), 1)
    assert np.isfinite(result.numbers).all()
    # Python's own reader is the oracle of which cell is which.
    rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8"), newline="")) if row]
    assert [float(row[0]) for row in rows] == result.numbers[:, 0].tolist()
