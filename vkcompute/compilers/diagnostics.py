"""A compiler's errors, located in the user's own files.

glslang writes `ERROR: FILE:LINE: 'token' : message`; newer versions have an option for `FILE:LINE:COLUMN`. shaderc and
glslc write `FILE:LINE: error: 'token' : message`. FILE is the number of a `#line` directive, or the main text's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vkcompute.compilers.preprocessor import MAIN, SourceFile, TranslationUnit
from vkcompute.errors import CompileError

MAX_SHOWN = 20

_GLSLANG = re.compile(r"ERROR: (?:(?P<file>[^\s:]+):(?P<line>\d+):(?:(?P<column>\d+):)? )?(?P<message>.*)")
_SHADERC = re.compile(r"(?P<file>[^\s:]+):(?:(?P<line>\d+):)? error: (?P<message>.*)")
_CONTINUED = re.compile(r"(?:[^\s:]+:)?\s{4,}(\S.*)")  # the linker lists undefined names on lines of their own
_SUMMARY = re.compile(r"\d+ (?:compilation errors?|errors?)\b.*|.*: compilation terminated\s*")
_TOKEN = re.compile(r"'([^']+)' :")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_METAL = "[["  # of its attributes, after which `kernel void` is not OpenCL's
_OTHER_LANGUAGES = {
    re.compile(r"\b(?:__kernel|__global|kernel\s+void)\b"): (
        "OpenCL C",
        "gl_GlobalInvocationID is its get_global_id, and a buffer block its __global pointer",
    ),
    re.compile(r"\b__(?:global|device|shared)__\b"): (
        "CUDA C",
        "gl_WorkGroupID is its blockIdx, gl_LocalInvocationID its threadIdx, and a buffer block its pointer",
    ),
}
"""A word that no GLSL has -> the language that has it, and what GLSL has in place of its words."""


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One error. `line` and `column` count from 1, 0 is unknown; `file` is a key of `TranslationUnit.files`."""

    file: int
    line: int
    column: int
    message: str


def parse(log: str) -> list[Diagnostic]:
    """The errors of a compiler's log, by file and line, without duplicates, warnings and summaries."""
    diagnostics: list[Diagnostic] = []
    for text in log.splitlines():
        more = _CONTINUED.match(text)
        if more is not None and diagnostics:
            diagnostics[-1] = replace(diagnostics[-1], message=f"{diagnostics[-1].message} {more[1].strip()}")
            continue
        match = _GLSLANG.match(text) or _SHADERC.match(text)
        if match is None or _SUMMARY.fullmatch(match["message"]):
            continue
        number = match["file"] or ""
        file = int(number) if number.isdecimal() else MAIN
        column = match.groupdict().get("column")
        message = " ".join(match["message"].split())
        diagnostics.append(Diagnostic(file, int(match["line"] or 0), int(column or 0), message.removeprefix("'' : ")))
    return sorted(set(diagnostics))


def error(unit: TranslationUnit, log: str, compiler: str) -> CompileError:
    """The exception for a text that the compiler named `compiler` rejected with `log`."""
    diagnostics = _other_language(unit.files[MAIN].text) or parse(log)
    broken = [item for item in diagnostics if _include_failure(unit.failures, item)]
    diagnostics = broken or diagnostics  # a missing include causes further errors: show the cause only
    name = _name(unit.files[MAIN])
    if not diagnostics:
        return CompileError(f"{name}: {compiler} failed without naming an error; its output:\n{log.strip()[-2000:]}")
    shown = [_show(unit, item) for item in diagnostics[:MAX_SHOWN]]
    if broken:  # the preprocessor has this error, whatever the compiler
        compiler = str(_include_failure(unit.failures, broken[0])).partition(":")[0].partition("; ")[0]
    if len(diagnostics) > MAX_SHOWN:
        shown.append(f"... and {len(diagnostics) - MAX_SHOWN} more")
    return CompileError(f"{name} does not compile ({compiler}):\n" + "\n".join(shown))


def _other_language(text: str) -> list[Diagnostic]:
    """The error for a text in another language; empty for GLSL."""
    code = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for words, (language, in_glsl) in _OTHER_LANGUAGES.items():
        match = words.search(code)
        if match is not None and not (match[0].startswith("kernel") and _METAL in code):
            before = code[: match.start()]
            message = f"this is {language}, not GLSL, which has no {match[0]}; {in_glsl}; or write a Python kernel"
            return [Diagnostic(MAIN, before.count("\n") + 1, len(before) - before.rfind("\n"), message)]
    return []


def _include_failure(failures: Mapping[str, str], item: Diagnostic) -> str | None:
    return next((failures[word] for word in item.message.split() if word in failures), None)


def _show(unit: TranslationUnit, item: Diagnostic) -> str:
    file = unit.files.get(item.file, SourceFile(str(item.file), ""))
    message = _include_failure(unit.failures, item) or item.message
    if item.line == 0:
        return f"{_name(file)}: {message}"
    head = f"{_name(file)}:{item.line}:" + (f"{item.column}:" if item.column else "") + f" {message}"
    lines = file.text.split("\n")
    if item.line > len(lines) or not lines[item.line - 1].strip():
        return head
    source = lines[item.line - 1].rstrip()
    column = item.column or _column_of_token(source, item.message)
    if not 0 < column <= len(source):
        return f"{head}\n    {source}"
    indent = re.sub(r"[^\t]", " ", source[: column - 1])  # keep tabs, to align the caret
    return f"{head}\n    {source}\n    {indent}^"


def _name(file: SourceFile) -> str:
    """The name of a file on one line, so that it cannot pass for an error of its own."""
    return "\\n".join(file.name.splitlines())


def _column_of_token(source: str, message: str) -> int:
    """The column of the token that the message quotes; 0 if it does not occur exactly once."""
    quoted = _TOKEN.match(message)
    if quoted is None:
        return 0
    word = re.escape(quoted[1])
    columns = [match.start() + 1 for match in re.finditer(rf"(?<!\w){word}(?!\w)", source)]
    return columns[0] if len(columns) == 1 else 0
