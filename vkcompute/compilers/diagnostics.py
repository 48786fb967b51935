"""What a GLSL compiler complains of, shown in the user's own files.

glslang writes `ERROR: FILE:LINE: 'token' : message` (newer versions `FILE:LINE:COLUMN` when asked), shaderc and glslc
write `FILE:LINE: error: 'token' : message`; FILE is the number of a `#line` directive, or the name of the main text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vkcompute.compilers.source import MAIN, SourceFile, Unit
from vkcompute.errors import CompileError

MAX_SHOWN = 20

_GLSLANG = re.compile(r"ERROR: (?:(?P<file>[^\s:]+):(?P<line>\d+):(?:(?P<column>\d+):)? )?(?P<message>.*)")
_SHADERC = re.compile(r"(?P<file>[^\s:]+):(?:(?P<line>\d+):)? error: (?P<message>.*)")
_CONTINUED = re.compile(r"(?:[^\s:]+:)?\s{4,}(\S.*)")  # the linker names what it misses on lines of their own
_SUMMARY = re.compile(r"\d+ (?:compilation errors?|errors?)\b.*|.*: compilation terminated\s*")
_TOKEN = re.compile(r"'([^']+)' :")


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One error. `line` and `column` count from 1, 0 is unknown; `file` is a key of `Unit.files`."""

    file: int
    line: int
    column: int
    message: str


def parse(log: str) -> list[Diagnostic]:
    """The errors of a compiler's log, sorted by place, each once; warnings and summaries are left out."""
    found: list[Diagnostic] = []
    for text in log.splitlines():
        more = _CONTINUED.match(text)
        if more is not None and found:
            found[-1] = replace(found[-1], message=f"{found[-1].message} {more[1].strip()}")
            continue
        match = _GLSLANG.match(text) or _SHADERC.match(text)
        if match is None or _SUMMARY.fullmatch(match["message"]):
            continue
        number = match["file"] or ""
        place = int(number) if number.isdecimal() else MAIN
        column = match.groupdict().get("column")
        message = " ".join(match["message"].split())
        found.append(Diagnostic(place, int(match["line"] or 0), int(column or 0), message.removeprefix("'' : ")))
    return sorted(set(found))


def error(unit: Unit, log: str, compiler: str) -> CompileError:
    """The exception for a text that `compiler` (its name) refused with `log`."""
    found = parse(log)
    broken = [item for item in found if _include_failure(unit.failures, item)]
    found = broken or found  # what an absent include would have declared is missing too: only the cause is shown
    name = unit.files[MAIN].name
    if not found:
        return CompileError(f"{name}: {compiler} failed without naming an error; it wrote:\n{log.strip()[-2000:]}")
    shown = [_show(unit, item) for item in found[:MAX_SHOWN]]
    if len(found) > MAX_SHOWN:
        shown.append(f"... and {len(found) - MAX_SHOWN} more")
    return CompileError(f"{name} does not compile ({compiler}):\n" + "\n".join(shown))


def _include_failure(failures: Mapping[str, str], item: Diagnostic) -> str | None:
    return next((failures[word] for word in item.message.split() if word in failures), None)


def _show(unit: Unit, item: Diagnostic) -> str:
    file = unit.files.get(item.file, SourceFile(str(item.file), ""))
    message = _include_failure(unit.failures, item) or item.message
    if item.line == 0:
        return f"{file.name}: {message}"
    head = f"{file.name}:{item.line}:" + (f"{item.column}:" if item.column else "") + f" {message}"
    lines = file.text.split("\n")
    if item.line > len(lines) or not lines[item.line - 1].strip():
        return head
    source = lines[item.line - 1].rstrip()
    column = item.column or _column_of_token(source, item.message)
    if not 0 < column <= len(source):
        return f"{head}\n    {source}"
    indent = re.sub(r"[^\t]", " ", source[: column - 1])  # tabs stay, so that the caret stands below its character
    return f"{head}\n    {source}\n    {indent}^"


def _column_of_token(source: str, message: str) -> int:
    """Where the token that the message quotes stands, if it stands there once; else 0."""
    quoted = _TOKEN.match(message)
    if quoted is None:
        return 0
    word = re.escape(quoted[1])
    places = [match.start() + 1 for match in re.finditer(rf"(?<!\w){word}(?!\w)", source)]
    return places[0] if len(places) == 1 else 0
