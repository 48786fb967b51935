"""One text out of a GLSL source, its includes and its defines, which any compiler takes without options.

Includes are pasted in here and not by the compiler, because glslc, glslangValidator and shaderc each look for them
in their own way and number the lines in their own way. A pasted file stands between `#line 1 NUMBER` and
`#line NEXT INCLUDER`, and `Unit.files` maps each number back to its file. What is not taken by the preprocessor may be
missing: an include that is not found becomes an `#error` at its place.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vkcompute.errors import CompileError

Define = str | int | float | bool | None

MAIN = 0  # the number of the user's own text
_FIRST_INCLUDE = 1000  # above the numbers that a user's own #line directives are likely to name
_DEFINES = 999
_MARKER = "vkcompute_include_error_"
_MAX_NBYTES = 16 << 20
_MAX_DEPTH = 100

# Comments and strings are matched so that a directive inside one is passed over.
_TOKEN = re.compile(
    r"""/\*.*?(?:\*/|\Z) | //(?:\\\n|[^\n])* | "(?:\\.|[^"\\\n])*"
    | ^[ \t]*\#[ \t]*(?P<word>version|include|pragma)\b(?P<rest>(?:"[^"\n]*"|<[^>\n]*>|(?!/[/*])[^\n])*)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'"(?P<quoted>[^"]+)"\Z|<(?P<angled>[^>]+)>\Z')
_GUARD = re.compile(
    r"(?:\s|//[^\n]*|/\*.*?\*/)*^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n\s*#[ \t]*define[ \t]+\1\b",
    re.MULTILINE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it is shown in an error: the name that the user knows it by, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """What a compiler gets, and what its complaints refer to.

    Attributes:
        text: GLSL that begins with a #version and includes nothing.
        files: by the number that the `#line` directives give them; `MAIN` is the user's text.
        failures: by the word that stands in an `#error` directive, what is wrong with the include at that place.
    """

    text: str
    files: Mapping[int, SourceFile]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Directive:
    word: str
    rest: str
    start: int  # of its line, an index into the text
    end: int  # past its last word: what follows is a comment or the newline
    line: int  # counted from 1

    @property
    def once(self) -> bool:
        return self.word == "pragma" and self.rest == "once"


def assemble(
    main: SourceFile,
    folder: str | None,
    defines: Mapping[str, Define] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
) -> Unit:
    """The text to compile.

    Args:
        main: the user's text; `#version 460` is put before it where it has none.
        folder: where `main` lies, the first place of its includes; None for a text that is in no file.
        defines: name -> value; None or True give 1, False gives 0.
        include_dirs: where includes are looked for after the including file's own folder, in this order.

    Raises:
        ValueError: a define that is no preprocessor name, or whose value has several lines.
        CompileError: a file that is not text, or includes that expand beyond 16 MiB.
    """
    text = _checked(main)
    version = next((item for item in _directives(text) if item.word == "version"), None)
    unit = _Assembly([os.fspath(item) for item in include_dirs])
    unit.files[MAIN] = SourceFile(main.name, text)
    if version is None:
        unit.parts.append("#version 460\n")
    else:
        unit.parts.append(text[: version.end] + "\n")
    if defines:
        lines = "".join(_define(name, value) for name, value in defines.items())
        unit.files[_DEFINES] = SourceFile("<defines>", lines)
        unit.parts.append(f"#line 1 {_DEFINES}\n{lines}")
    start, line = (0, 1) if version is None else (version.end, version.line)
    unit.parts.append(f"#line {line} {MAIN}\n")
    unit.paste(text, MAIN, folder, start)
    return Unit("".join(unit.parts), unit.files, unit.failures)


@dataclass(slots=True)
class _Assembly:
    include_dirs: list[str]
    parts: list[str] = field(default_factory=list)
    files: dict[int, SourceFile] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    open_paths: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    nbytes: int = 0

    def paste(self, text: str, number: int, folder: str | None, start: int = 0) -> None:
        """Append `text` from `start` on, its includes resolved; `folder` is where it lies."""
        self.nbytes += len(text)
        if self.nbytes > _MAX_NBYTES:
            raise CompileError(f"the includes of {self.files[MAIN].name} expand to more than {_MAX_NBYTES >> 20} MiB")
        for item in _directives(text):
            match = _INCLUDE.match(item.rest) if item.word == "include" else None
            if item.start < start or (match is None and not item.once):
                continue
            self.parts.append(text[start : item.start])
            if match is not None:
                self._include(match["quoted"] or match["angled"], folder)
                self.parts.append(f"#line {item.line} {number}\n")
            start = item.end
        self.parts.append(text[start:])
        if not text.endswith("\n"):
            self.parts.append("\n")

    def _include(self, name: str, folder: str | None) -> None:
        if len(self.open_paths) == _MAX_DEPTH:
            self._fail(f"the include {name!r} stands {_MAX_DEPTH} includes deep; no more are followed")
            return
        looked_in = [*([] if folder is None else [folder]), *self.include_dirs]
        for place in [""] if os.path.isabs(name) else looked_in:
            path = os.path.normpath(os.path.join(place, name))
            if os.path.isfile(path):
                self._include_file(path)
                return
        places = ", ".join(looked_in) or "no folder: a text lies in none, so name some with include_dirs"
        self._fail(f"cannot find the include {name!r}" + ("" if os.path.isabs(name) else f"; looked in {places}"))

    def _include_file(self, path: str) -> None:
        number = self.numbers.get(path)
        if number is None:
            number = self.numbers[path] = _FIRST_INCLUDE + len(self.numbers)
            file = read(Path(path))
            self.files[number] = SourceFile(path, _checked(file))
        text = self.files[number].text
        once = any(item.once for item in _directives(text))
        if path in self.open_paths:
            if not once and _GUARD.match(text) is None:
                chain = " -> ".join([*self.open_paths[self.open_paths.index(path) :], path])
                self._fail(f"the include never ends: {chain}; put #pragma once into {path}")
            return
        self.open_paths.append(path)
        if once:
            self.parts.append(f"#ifndef VKCOMPUTE_ONCE_{number}\n#define VKCOMPUTE_ONCE_{number}\n")
        self.parts.append(f"#line 1 {number}\n")
        self.paste(text, number, os.path.dirname(path))
        if once:
            self.parts.append("#endif\n")
        self.open_paths.pop()

    def _fail(self, message: str) -> None:
        marker = f"{_MARKER}{len(self.failures)}"
        self.failures[marker] = message
        self.parts.append(f"#error {marker}\n")


def read(path: Path) -> SourceFile:
    """The text of a GLSL file, with any kind of line ends.

    Raises:
        OSError: it cannot be read.
        CompileError: it is not UTF-8.
    """
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CompileError(
            f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None


def main_text(source: str | os.PathLike[str], name: str) -> tuple[SourceFile, str | None]:
    """The user's text, and the folder that it lies in if it has one; a str of one line that ends in .comp is a path."""
    if isinstance(source, str) and not (source.endswith(".comp") and "\n" not in source):
        return SourceFile(name, source), None
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source is GLSL text or a path; got {type(source).__name__}")
    path = Path(source)
    return read(path), str(path.parent)


def _checked(file: SourceFile) -> str:
    text = file.text
    if "\0" in text:  # compilers written in C would silently stop there
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CompileError(f"{file.name}:{line}: a NUL character; GLSL is plain text")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise CompileError(f"{file.name}:{line}: {text[error.start]!r} is half of a character") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _define(name: str, value: Define) -> str:
    if not isinstance(name, str) or _NAME.match(name) is None:
        raise ValueError(f"a define is named by a letter or _, then letters, digits and _; got {name!r}")
    if value is None or isinstance(value, bool):
        value = int(value is None or value)
    text = str(value)
    if "\n" in text or "\r" in text or "\0" in text or text.endswith("\\"):
        raise ValueError(f"the value of a define is one line; {name} is {text!r}")
    return f"#define {name} {text}\n"


@functools.lru_cache(maxsize=128)
def _directives(text: str) -> tuple[_Directive, ...]:
    """The version, include and pragma directives of `text`, in order. Cached: most texts are compiled many times."""
    found = []
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        if match["word"] is None:
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        found.append(_Directive(match["word"], match["rest"].strip(), match.start(), match.end(), line))
    return tuple(found)
