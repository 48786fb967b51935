"""Logs of both dialects, as compilers wrote them, and what the user is shown of them."""

from __future__ import annotations

import pytest

import vkcompute as vc
from vkcompute.compilers.diagnostics import Diagnostic, error, parse
from vkcompute.compilers.preprocessor import MAIN, SourceFile, TranslationUnit

pytestmark = pytest.mark.pure

GLSLANG = """stdin
WARNING: 0:2: 'x' : something of no matter
ERROR: 1000:7: 'bar' : no matching overloaded function found 
ERROR: 0:3: 'foo' : undeclared identifier 
ERROR: 0:3: '' :  syntax error, unexpected IDENTIFIER
ERROR: 0:3: 'foo' : undeclared identifier 
ERROR: 0:3: '' : compilation terminated 
ERROR: 5 compilation errors.  No code generated.


ERROR: Linking compute stage: No function definition (body) found: 
    foo(

SPIR-V is not generated for failed compile or link
"""  # noqa: W291 - as it is written

GLSLC = """<stdin>:2: warning: 'x' : something of no matter
1000:7: error: 'bar' : no matching overloaded function found
0:3: error: 'foo' : undeclared identifier
0:3: error: '' :  syntax error, unexpected IDENTIFIER
0:3: error: 'foo' : undeclared identifier
<stdin>: error: Linking compute stage: No function definition (body) found:
<stdin>:     foo(
1 warning generated.
5 errors generated.
"""

EXPECTED = [
    Diagnostic(MAIN, 0, 0, "Linking compute stage: No function definition (body) found: foo("),
    Diagnostic(MAIN, 3, 0, "'foo' : undeclared identifier"),
    Diagnostic(MAIN, 3, 0, "syntax error, unexpected IDENTIFIER"),
    Diagnostic(1000, 7, 0, "'bar' : no matching overloaded function found"),
]

MAIN_TEXT = "void main() {\n\n\tfloat x = foo + 1;\n}\n"
UNIT = TranslationUnit(
    "", {MAIN: SourceFile("a.comp", MAIN_TEXT), 1000: SourceFile("lib/b.glsl", "\n" * 6 + "bar(); bar();")}, {}
)


@pytest.mark.parametrize("log", [GLSLANG, GLSLC])
def test_both_dialects_say_the_same(log: str) -> None:
    assert parse(log) == EXPECTED


def test_what_is_shown() -> None:
    assert str(error(UNIT, GLSLANG, "glslang")) == (
        "a.comp does not compile (glslang):\n"
        "a.comp: Linking compute stage: No function definition (body) found: foo(\n"
        "a.comp:3: 'foo' : undeclared identifier\n"
        "    \tfloat x = foo + 1;\n"
        "    \t          ^\n"
        "a.comp:3: syntax error, unexpected IDENTIFIER\n"
        "    \tfloat x = foo + 1;\n"
        "lib/b.glsl:7: 'bar' : no matching overloaded function found\n"
        "    bar(); bar();"  # which of the two is not known: no caret
    )


def test_the_column_of_the_compiler_wins() -> None:
    log = "ERROR: 1000:7:8: 'bar' : no matching overloaded function found\n"
    assert str(error(UNIT, log, "glslang")).split("\n")[1:] == [
        "lib/b.glsl:7:8: 'bar' : no matching overloaded function found",
        "    bar(); bar();",
        "           ^",
    ]


@pytest.mark.parametrize("place", ["0:0", "0:99", "0:2", "77:1", "1000:7:99", "1000:7:0"])
def test_a_place_that_does_not_exist_is_no_obstacle(place: str) -> None:
    text = str(error(UNIT, f"ERROR: {place}: 'x' : message", "glslang"))
    assert "message" in text
    assert "^" not in text


def test_many_errors_are_cut_short() -> None:
    log = "".join(f"ERROR: 0:{line}: 'x' : message {line}\n" for line in range(57, 0, -1))
    lines = str(error(UNIT, log, "glslang")).split("\n")
    assert lines[-1] == "... and 37 more"
    assert [line for line in lines if "message" in line] == [f"a.comp:{i}: 'x' : message {i}" for i in range(1, 21)]


def test_an_include_that_fails_is_shown_alone() -> None:
    unit = TranslationUnit(
        "", {MAIN: SourceFile("a.comp", '#include "b"\nfoo();')}, {"vkcompute_include_error_0": "cannot find b"}
    )
    log = "ERROR: 0:1: '#error' : vkcompute_include_error_0  \nERROR: 0:2: 'foo' : undeclared identifier\n"
    assert str(error(unit, log, "glslang")).split("\n")[1:] == ["a.comp:1: cannot find b", '    #include "b"']


@pytest.mark.parametrize("log", ["", "Segmentation fault", "INTERNAL ERROR: no more\n"])
def test_a_log_without_errors_is_shown_as_it_is(log: str) -> None:
    text = str(error(UNIT, log, "glslang"))
    assert text.startswith("a.comp: glslang failed without naming an error")
    assert log.strip() in text


@pytest.mark.parametrize(
    ("text", "language", "place"),
    [
        ("// add\n  __kernel void add(__global float *a) {}\n", "OpenCL C", ":2:3: .*which has no __kernel;"),
        ("kernel void f(global int *a)\n{ a[get_global_id(0)] = 1; }\n", "OpenCL C", ":1:1: .*no kernel void;"),
        ('#include <cuda_runtime.h>\nextern "C" __global__ void f(int *a) {}\n', "CUDA C", ":2:12: .*no __global__;"),
        ("/* a\n */ __device__ int f() { return blockIdx.x; }\n", "CUDA C", ":2:5: .*no __device__;"),
    ],
)
def test_another_language_is_named(text: str, language: str, place: str) -> None:
    with pytest.raises(vc.CompileError, match=rf"<glsl>{place}") as raised:
        vc.glsl(text)
    message = str(raised.value)
    assert f"this is {language}, not GLSL" in message
    assert message.endswith("^")
    assert "syntax error" not in message


def test_words_of_other_languages_are_allowed_where_glsl_allows_them() -> None:
    assert vc.glsl("// __global__ __kernel\nvoid main() { uint get_global_id = 0; uint blockIdx = get_global_id; }")
    with pytest.raises(vc.CompileError, match="undeclared"):
        vc.glsl("/* __global__ */ void main() { x = 0; } // blockIdx")
