"""Text keeps within the terminal's width and loses nothing that fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_done import Done
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.cli import checkup, doctor, terminal

pytestmark = pytest.mark.pure

ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b31m\u202e"
WORDS = st.text(st.characters(codec="ascii", exclude_categories=["C", "Z"]), min_size=1, max_size=25)


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(("columns", "width"), [("1", 40), ("60", 60), ("80", 80), ("500", 100)])
def test_width(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.width() == width


@given(st.lists(WORDS, max_size=40))
def test_a_field_keeps_its_items_whole_and_in_order(items: list[str]) -> None:
    lines = terminal.field("label", items).split("\n")
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).split() == ["label", *items]


def test_items_of_several_words_are_not_torn() -> None:
    items = [f"item {i} of many" for i in range(30)]
    text = terminal.field("label", items)
    assert all(item in text for item in items)


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.text(), min_size=n, max_size=n), min_size=1)))
def test_a_table_fits(rows: list[list[str]]) -> None:
    lines = terminal.table(rows, right=(0,)).split("\n")
    assert len(lines) == len(rows)
    assert max(map(len, lines)) <= 80


def test_a_table_that_fits_is_shown_whole_and_aligned() -> None:
    rows = [("name", "size"), ("alpha", "1"), ("b", "1000")]
    assert terminal.table(rows, right=(1,)) == "name   size\nalpha     1\nb      1000"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (128 << 20, "128 MiB"),
        (1 << 31, "2 GiB"),
        ((1 << 50), "1024 TiB"),
    ],
)
def test_bytes_in_words(count: int, words: str) -> None:
    assert terminal.nbytes(count) == words


@pytest.mark.parametrize(
    ("number", "noun", "words"), [(1, "row", "1 row"), (1000, "row", "1,000 rows"), (2, "class", "2 classes")]
)
def test_counts(number: int, noun: str, words: str) -> None:
    assert terminal.count(number, noun) == words


def test_no_command_writes_control_sequences_that_are_not_its_own(
    vk: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.comp").write_text(f"#version 450\nvoid main() {{ foo{ESCAPES}; }}\n")
    (tmp_path / f"a\nb{ESCAPES}.comp").write_text("#version 450\nvoid main() { foo }\n")
    (tmp_path / "kernel.py").write_text(f"raise ValueError({ESCAPES!r} + '\\nnext')\n")
    (tmp_path / "data.csv").write_text(f"x,{ESCAPES}\n1,{ESCAPES}\n")
    monkeypatch.setenv("VKCOMPUTE_CACHE_DIR", str(tmp_path / f"cache\n{ESCAPES}"))
    finding = checkup.Finding("FAILED", *[f"{ESCAPES}\nok"] * 3)
    monkeypatch.setattr(doctor, "CHECKS", (lambda: [finding],))
    commands = (
        ["compile", "text.comp"],
        ["compile", f"a\nb{ESCAPES}.comp"],
        ["compile", "kernel.py", "--statistics", "--verbose"],
        ["compile", "none.comp", "-D", ESCAPES],
        ["cache"],
        ["cache", "path"],
        ["cache", ESCAPES],
        ["doctor"],
        ["doctor", "--json"],
        ["multiply", f"{ESCAPES}.npy", "2", "-o", "out.npy"],
        ["logreg", "train", "data.csv", "--target", "x"],
        ["logreg", "predict", "data.csv", "--model", ESCAPES],
        [ESCAPES],
    )
    for command in commands:
        done = vk(*command)
        assert all(c.isprintable() or c in "\n\t" for c in done.out + done.err), command
        if "--verbose" not in command and command != ["compile", "text.comp"]:
            assert not [line for line in (done.out + done.err).splitlines() if line.startswith(("b\\x1b", "ok\\x1b"))]
