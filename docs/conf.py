"""The settings of Sphinx for the site, which `make docs` builds."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import reference  # noqa: E402

from vkcompute import __version__  # noqa: E402

REPOSITORY = "https://github.com/vkcompute/vkcompute"

project, author = "vkcompute", "the vkcompute developers"
copyright = author
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "myst_nb",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = f"vkcompute {version}"
html_static_path: list[str] = []
exclude_patterns = ["jupyter_execute"]
default_role = "code"
smartquotes = False
autodoc_preserve_defaults = True
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures of overloads, and of NumPy's types, are unreadable
napoleon_numpy_docstring = False
napoleon_use_ivar = True
nitpicky = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"  # the library may have changed, which a cache does not see
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True
linkcheck_timeout = 20
linkcheck_ignore = [f"{REPOSITORY}.*", r"https://ui.perfetto.dev.*"]
intersphinx_mapping: dict[str, tuple[str, None]] = {}  # the build needs no network

_SECTION = re.compile(r"(Args|Arguments|Attributes|Returns|Raises|Yields|Note|Notes|Example|Examples|Warns|Methods):$")
_CODE = re.compile(r"(`+)(.+?)\1")


def _converted(text: str) -> str:
    """Converts a line of a docstring to reStructuredText: code in single backticks, and no other markup."""
    parts, last = [], 0
    for match in _CODE.finditer(text):
        parts += [_escaped(text[last : match.start()]), f"``{match[2]}``"]
        if text[match.end() : match.end() + 1].isalnum():  # as in `Array`s
            parts.append("\\ ")
        last = match.end()
    return "".join([*parts, _escaped(text[last:])])


def _escaped(text: str) -> str:
    return re.sub(r"([*|]|(?<=\w)_(?=\W|$))", r"\\\1", text)


def docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Converts a docstring: indented blocks after an empty line are code, unless they are in a section."""
    converted: list[str] = []
    in_code = in_section = False
    for number, line in enumerate(lines):
        blank, indent = not line.strip(), len(line) - len(line.lstrip())
        if blank:
            converted.append(line)
            continue
        if indent == 0:
            in_code, in_section = False, bool(_SECTION.match(line))
        elif not in_code and not in_section and (number == 0 or not lines[number - 1].strip()):
            converted += [".. code-block:: python", ""]
            in_code = True
        is_text = not in_code and not (indent == 0 and in_section)
        converted.append(_converted(line) if is_text and not _is_field(line, in_section) else _field(line, in_section))
    lines[:] = converted


def _is_field(line: str, in_section: bool) -> bool:
    return in_section and line.startswith("    ") and not line.startswith("     ") and ": " in line


def _field(line: str, in_section: bool) -> str:
    """Converts the text after the name of an argument; napoleon converts the name."""
    if not _is_field(line, in_section):
        return line
    name, _, text = line.partition(": ")
    return f"{name}: {_converted(text)}"


_OWN_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def links(app: Any, name: str, source: list[str]) -> None:
    """Links files outside of docs/ to the repository, but for those that are pages of the site."""

    def target(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        return f"]({_OWN_PAGES.get(path) or f'{REPOSITORY}/blob/main/{path}'}{anchor})"

    if "/" not in name:
        source[0] = re.sub(r"\]\(\.\./([^)#]+)(#[^)]*)?\)", target, source[0])


def setup(app: Any) -> None:
    """Writes the pages of the API reference, and converts docstrings before napoleon does."""
    reference.write(HERE / "api")
    app.connect("source-read", links)
    app.connect("autodoc-process-docstring", docstring, priority=1)
