"""Hides paths, identifiers, addresses and names in what a report has from drivers, errors and the system."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HIDDEN = "[hidden]"
_COMMON = {"", "~", "root", "user", "localhost"}  # names that tell nothing, and are words of messages
_STRUCTURE = "name", "title", "state", "outcome", "left"
"""Entries of a report whose texts are this package's words, as a name of a user may be."""
_PACKAGE = Path(__file__).resolve().parents[1]
_ANSI = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033)(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Codes of terminals, such as colours, which separate no words."""
_ROOTS = "home|Users|root|usr|opt|etc|tmp|var|mnt|media|srv|data|run|proc|dev|lib|nix|snap|private|Volumes|hidden"
_START = rf"""(?:
    (?<=[)\]])/(?:{_ROOTS})(?=/)                                     # after brackets, which end operands, too
  | (?:(?<![\w.)\]/\\~])|(?<=-[IL])|(?<=\\[nrt]))/+(?=[^\s/*="'`])   # POSIX: no fraction, no relative path, no comment
  | (?<![\w~])~\w*[/\\]                                             # a home folder
  | (?<![A-Za-z0-9])[A-Za-z]:[/\\]                                  # Windows: a drive
  | (?<!\\)\\{{2,}}[^\s/\\"'`]+[/\\]                                  # Windows: a share
)"""
_WORD = r"""[(]?\w[^\s"'`/\\:,;=]*"""
_REST = r"""(?:[^\s"'`]|(?<=\w)'(?=\w))*"""  # an apostrophe inside a word is no quote
_PATH = re.compile(
    rf"""
    (?P<url>\b(?:https?|ftp)://[^\s"'`]+)
  | (?P<quote>["'`]){_START}(?:(?!(?P=quote)).|(?<=\w)(?P=quote)(?=\w))*(?P=quote)
  | {_START}{_REST}(?<![:,;.)\]])
    (?:(?:[ ]{_WORD}){{0,2}}[ ]{_WORD}[/\\]{_REST}(?<![:,;.)\]]))*   # folders with spaces
    """,
    re.VERBOSE,
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IDENTIFIER = re.compile(
    rf"""                                                              # a UUID, at first
    (?<![^\W_])(?:(?:GPU|MIG)-)?[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}(?![^\W_])
  | \b(?:GPU|MIG)-[0-9a-f]{{8}}[0-9a-f-]*…?                          # those that are cut
  | (?:(?<=uuid[=:])|(?<=uuid[=:][ ])|(?<=luid[=:])|(?<=luid[=:][ ])|(?<=serial[=:])|(?<=serial[=:][ ]))[{{]?[\w-]{{6,}}
  | (?<![\w:-])(?:[0-9a-f]{{2}}[:-]){{5}}[0-9a-f]{{2}}(?![\w:-])       # MAC
  | (?<![\w.])(?<!version[ ])(?![01]\.){_OCTET}(?:\.{_OCTET}){{3}}(?![\w]|\.\d)  # IPv4; versions begin with 1
  | (?<![\w:])(?:(?:[0-9a-f]{{1,4}}:){{7}}[0-9a-f]{{1,4}}
      |(?:fe80|f[cd][0-9a-f]{{2}}|2[0-9a-f]{{3}}):(?:[0-9a-f]{{0,4}}:){{1,6}}[0-9a-f]{{0,4}})(?![\w:])  # IPv6
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Anonymizer:
    """Hides absolute paths but those of this package, which become relative; identifiers, addresses, and names.

    Values are those of JSON. Names are hidden in any case, and where `_` joins them to other words.
    """

    def __init__(self) -> None:
        self._folders = sorted({folder for folder in _folders() if " " in folder}, key=len, reverse=True)
        names = "|".join(map(re.escape, sorted({*_names()} - _COMMON, key=len, reverse=True)))
        self._names = re.compile(rf"(?<![^\W_])(?:{names})(?![^\W_])", re.IGNORECASE) if names else None
        self._known: dict[tuple[str, bool], str] = {}

    def __call__(self, value: Any, *, with_names: bool = True) -> Any:
        """Returns a value without paths and identifiers; without names, too, but in what this package names itself."""
        if isinstance(value, str):
            return self._text(value, with_names)
        if isinstance(value, dict):
            return {
                self._text(key, False): self(entry, with_names=with_names and key not in _STRUCTURE)
                for key, entry in value.items()
            }
        return [self(entry, with_names=with_names) for entry in value] if isinstance(value, (list, tuple)) else value

    def _text(self, text: str, with_names: bool) -> str:
        key = text, with_names
        if key not in self._known:
            text = _IDENTIFIER.sub(HIDDEN, _ANSI.sub("", text))
            text = text.replace(f"{_PACKAGE}{os.sep}", f"{_PACKAGE.name}{os.sep}")
            for folder in self._folders:
                text = text.replace(folder, "/hidden" if os.sep == "/" else "C:\\hidden")
            text = _PATH.sub(_without_path, text)
            self._known[key] = self._names.sub(HIDDEN, text) if with_names and self._names else text
        return self._known[key]


def _without_path(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return match["url"] or f"{quote}{HIDDEN}{quote}"


def _folders() -> Iterator[str]:
    """Yields folders that messages may name: with spaces, their end is not known from a text."""
    yield from (os.path.expanduser("~"), sys.prefix, sys.base_prefix, str(_PACKAGE.parent))
    with contextlib.suppress(OSError):  # a working folder that was deleted
        yield os.getcwd()
    with contextlib.suppress(OSError):  # none can be written
        yield tempfile.gettempdir()
    for variable in os.environ.values():  # such as the files of drivers
        yield from filter(os.path.isabs, variable.split(os.pathsep))


def _names() -> Iterator[str]:
    """Yields names of the user and the host."""
    yield from (platform.node(), platform.node().partition(".")[0])
    yield os.path.basename(os.path.expanduser("~"))  # "~" if the system knows none
    with contextlib.suppress(OSError, KeyError, ImportError):  # a user without an entry
        yield getpass.getuser()
