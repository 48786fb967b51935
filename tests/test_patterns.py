"""Regular expressions on texts of the user end in time: with backtracking, a text of these would take an hour."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vkcompute.cli import options, table
from vkcompute.compilers import diagnostics, discovery, preprocessor
from vkcompute.jit.library import format_strings

pytestmark = pytest.mark.pure

N = 300_000
TEXTS: list[tuple[Callable[[str], object], str, str, str]] = [
    (preprocessor._directives, "", '"\\', ""),
    (preprocessor._directives, "", "/*", ""),
    (preprocessor._directives, "#pragma ", "<", ""),
    (preprocessor._directives, "#include ", '"', ""),
    (preprocessor._is_guarded, "", "//", "\n"),
    (preprocessor._is_guarded, "", "/**/", "/*"),
    (preprocessor._is_guarded, "#ifndef ", "A", ""),
    (preprocessor._is_guarded, "#ifndef A", "\n", ""),
    (diagnostics._other_language, "", "/*", ""),
    (diagnostics._other_language, "", "kernel void ", "[["),
    (diagnostics._other_language, "kernel", " ", ""),
    (diagnostics.parse, "a:", "1", " error"),
    (diagnostics.parse, "", " ", ""),
    (diagnostics.parse, "ERROR: ", ": compilation terminated", "."),
    (discovery._LIBRARY.search, ".so", ".1", "x"),
    (table._defect, "", "1", "x"),
    (table._defect, "1e", "1", "x"),
    (table._defect, "", "1,", ""),
    (options._NEGATIVE.match, "-", "1", "x"),
    (format_strings._FIELD.search, "%", "0", "y"),
    (format_strings._FIELD.search, "%", "1", "y"),
]


@pytest.mark.parametrize(("function", "head", "unit", "tail"), TEXTS)
def test_a_long_text_ends(function: Callable[[str], object], head: str, unit: str, tail: str) -> None:
    function(head + unit * N + tail)
