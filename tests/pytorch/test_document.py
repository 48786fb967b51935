"""The programs of docs/pytorch.md run."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/pytorch.md"


def test_programs_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "page_of_pytorch.py").write_text("\n".join(blocks), encoding="utf-8")
    names: dict[str, Any] = vars(importlib.import_module("page_of_pytorch"))
    assert names["model"][0].weight.grad.shape == (512, 784)
    assert names["out"].tolist() == [2.0] * 8
