"""The preprocessor: one text from a GLSL source, its includes and its defines, for any compiler without options.

glslc, glslangValidator and shaderc differ in how they find includes and number lines, so includes are resolved here. An
included file is enclosed by `#line 1 NUMBER` and `#line NEXT INCLUDER`; `TranslationUnit.files` maps each number to its
file. An `#if` may exclude an include, so a missing file becomes an `#error` in its place.
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
_FIRST_INCLUDE = 1000  # above the numbers that users' #line directives are likely to have
_DEFINES = 999
_MARKER = "vkcompute_include_error_"
_MAX_NBYTES = 16 << 20
_MAX_DEPTH = 100

# The time of each pattern grows with the text's length, not with its square. No two parts of it can match the same
# characters, and a comment or a string may lack its end.
# Matches comments and strings too, so that directives inside of them are skipped.
_TOKEN = re.compile(
    r"""/\*.*?(?:\*/|\Z) | //(?:\\\n|[^\n])* | "(?:\\.|[^"\\\n])*"?
    | ^[ \t]*\#[ \t]*(?P<word>version|include|pragma)\b
      (?P<rest>[ \t]*(?:"[^"\n]*"|<[^>\n]*>)?(?:(?!/[/*])[^\n])*)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'"(?P<quoted>[^"]+)"\Z|<(?P<angled>[^>]+)>\Z')
_BLANK = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_GUARD = re.compile(r"#[ \t]*ifndef[ \t]+(\w+)\b[^\n]*\n\s*#[ \t]*define[ \t]+\1\b")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file for error messages: the name that the user gave it, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """The input of a compiler, and the files that its errors refer to.

    Attributes:
        text: GLSL that begins with #version and has no #include.
        files: by their number in `#line` directives; `MAIN` is the user's text.
        failures: word of an `#error` directive -> the reason why the include in its place failed.
    """

    text: str
    files: Mapping[int, SourceFile]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Directive:
    word: str
    rest: str
    start: int  # index of its line in the text
    end: int  # index past its last word; a comment or the newline follows
    line: int  # counted from 1

    @property
    def once(self) -> bool:
        return self.word == "pragma" and self.rest == "once"


def preprocess(
    main: SourceFile,
    folder: str | None,
    defines: Mapping[str, Define] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
) -> TranslationUnit:
    """The translation unit of a source.

    Args:
        main: the user's text; `#version 460` is added if it has no #version.
        folder: the folder of `main`, searched first for its includes; None for a text without a file.
        defines: name -> value; None or True give 1, False gives 0.
        include_dirs: folders to search for includes, in order, after the including file's own.

    Raises:
        ValueError: a define that is no preprocessor name, or with a value of several lines.
        CompileError: a file that is not text, or includes that expand beyond 16 MiB.
    """
    text = _checked(main)
    version = next((item for item in _directives(text) if item.word == "version"), None)
    unit = _Preprocessor([os.fspath(item) for item in include_dirs])
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
    return TranslationUnit("".join(unit.parts), unit.files, unit.failures)


@dataclass(slots=True)
class _Preprocessor:
    include_dirs: list[str]
    parts: list[str] = field(default_factory=list)
    files: dict[int, SourceFile] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    open_paths: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    nbytes: int = 0

    def paste(self, text: str, number: int, folder: str | None, start: int = 0) -> None:
        """Appends `text` from `start` on with its includes resolved; `folder` holds its file."""
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
            self._fail(f"the include {name!r} is nested {_MAX_DEPTH} deep, the limit; nest fewer includes")
            return
        folders = [*([] if folder is None else [folder]), *self.include_dirs]
        for searched_folder in [""] if os.path.isabs(name) else folders:
            path = os.path.normpath(os.path.join(searched_folder, name))
            if os.path.isfile(path):
                self._include_file(path)
                return
        searched = ", ".join(folders) or "no folder: a text has none; name some with include_dirs"
        self._fail(f"cannot find the include {name!r}" + ("" if os.path.isabs(name) else f"; searched {searched}"))

    def _include_file(self, path: str) -> None:
        number = self.numbers.get(path)
        if number is None:
            number = self.numbers[path] = _FIRST_INCLUDE + len(self.numbers)
            file = read(Path(path))
            self.files[number] = SourceFile(path, _checked(file))
        text = self.files[number].text
        once = any(item.once for item in _directives(text))
        if path in self.open_paths:
            if not once and not _is_guarded(text):
                chain = " -> ".join([*self.open_paths[self.open_paths.index(path) :], path])
                self._fail(f"circular include: {chain}; put #pragma once into {path}")
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


def _is_guarded(text: str) -> bool:
    """True if a text begins with an include guard, behind comments."""
    at = 0
    while blank := _BLANK.match(text, at):
        at = blank.end()
    return _GUARD.match(text, at) is not None


def read(path: Path) -> SourceFile:
    """The text of a GLSL file, with any line endings.

    Raises:
        OSError: the file cannot be read.
        CompileError: the file is not UTF-8.
    """
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CompileError(
            f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None


def main_text(source: str | os.PathLike[str], name: str) -> tuple[SourceFile, str | None]:
    """The user's text and the folder of its file, or None. A str of one line that ends in .comp is a path."""
    if isinstance(source, str) and not (source.endswith(".comp") and "\n" not in source):
        return SourceFile(name, source), None
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source is GLSL text or a path; got {type(source).__name__}")
    path = Path(source)
    return read(path), str(path.parent)


def _checked(file: SourceFile) -> str:
    text = file.text
    if "\0" in text:  # C compilers would silently stop here
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CompileError(f"{file.name}:{line}: a NUL character; GLSL is plain text")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise CompileError(
                f"{file.name}:{line}: {text[error.start]!r} is a lone surrogate, not a character"
            ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _define(name: str, value: Define) -> str:
    if not isinstance(name, str) or _NAME.match(name) is None:
        raise ValueError(f"a define's name is a letter or _, then letters, digits and _; got {name!r}")
    if value is None or isinstance(value, bool):
        value = int(value is None or value)
    text = str(value)
    if "\n" in text or "\r" in text or "\0" in text or text.endswith("\\"):
        raise ValueError(f"a define's value has one line; {name} is {text!r}")
    return f"#define {name} {text}\n"


@functools.lru_cache(maxsize=128)
def _directives(text: str) -> tuple[_Directive, ...]:
    """The version, include and pragma directives of `text`, in order. Cached: the same text is compiled many times."""
    directives = []
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        if match["word"] is None:
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        directives.append(_Directive(match["word"], match["rest"].strip(), match.start(), match.end(), line))
    return tuple(directives)
