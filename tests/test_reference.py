"""The API reference: each public name is on a page, with a docstring that its page can show."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.pure

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("reference")
    finally:
        sys.path.remove(str(DOCS))


def test_every_public_name_has_an_entry(reference: ModuleType) -> None:
    for module in reference.PUBLIC_MODULES:
        public = set(reference.public_names(module))
        assert len(public) >= 2
        assert public - reference.documented(module) == set(), f"give them a place in docs/reference.py: {module}"


def test_entries_name_what_exists_and_has_a_docstring(reference: ModuleType) -> None:
    for _, sections in reference.PAGES.values():
        for section in sections:
            module = importlib.import_module(section.module)
            for name in section.public():
                value = getattr(module, name)
                if callable(value) and not isinstance(value, type):
                    assert inspect.getdoc(value), f"{section.module}.{name}"


def test_pages_are_written_once(reference: ModuleType, tmp_path: Path) -> None:
    reference.write(tmp_path / "api")
    pages = {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "api").iterdir()}
    assert set(pages) == set(reference.PAGES)
    assert ".. autoclass:: vkcompute.Runtime\n" in (tmp_path / "api/devices.rst").read_text()
    assert ".. autofunction:: vkcompute.numpy.sin\n" in (tmp_path / "api/numpy.rst").read_text()
    reference.write(tmp_path / "api")
    assert {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "api").iterdir()} == pages


def test_every_page_is_in_the_index(reference: ModuleType) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8").split()
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")]}
    pages |= {f"api/{name}" for name in reference.PAGES}
    assert pages - {"index"} <= set(index)
