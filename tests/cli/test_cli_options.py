"""Parsing of arguments."""

from __future__ import annotations

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkcompute.cli.options import Parser, byte_count, number, whole
from vkcompute.cli.stderr import UsageError

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("1024", 1024), ("512k", 512 << 10), ("8M", 8 << 20), ("8MiB", 8 << 20), ("1 GB", 1 << 30), (" 64KB ", 64 << 10)],
)
def test_byte_counts(text: str, nbytes: int) -> None:
    assert byte_count(text) == nbytes


@pytest.mark.parametrize("text", ["", "0", "-1", "3", "1023", "1.5M", "8X", "M", "8 M M", "1e6", "\uff18M"])
def test_no_byte_counts(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        byte_count(text)


@given(st.floats() | st.floats().map(abs), st.booleans())
def test_numbers_keep_their_bounds(value: float, inclusive: bool) -> None:
    read = number(0, inclusive=inclusive, below=1)
    inside = (value >= 0 if inclusive else value > 0) and value < 1
    if inside:
        assert read(repr(value)) == value
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            read(repr(value))


@pytest.mark.parametrize("text", ["nan", "inf", "x", ""])
def test_numbers_without_upper_bound_are_finite(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        number(-math.inf, inclusive=False)(text)


def test_whole_numbers() -> None:
    assert whole(1)("1") == 1
    for text in ("0", "1.0", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match=text):
            whole(1)(text)


@pytest.mark.parametrize("text", ["-2", "-2.5", "-.5", "-1e5", "-1.5E-3", "-inf"])
def test_negative_numbers_are_no_options(text: str) -> None:
    parser = Parser()
    parser.add_argument("value")
    assert parser.parse_args([text]).value == text


def test_options_are_not_abbreviated() -> None:
    parser = Parser()
    parser.add_argument("--output")
    with pytest.raises(UsageError):
        parser.parse_args(["--out", "x"])
