"""The README's programs run, in the order in which a reader meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkcompute.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_python_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X @ [1.0, -2.0, 0.5] > 0).astype(int)
    names: dict[str, Any] = {"X_train": X, "y_train": y, "X_test": X, "y_test": y}
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert np.array_equal(names["c"], names["a"] * names["b"])
    assert names["model"].score(X, y) > 0.95
    assert (tmp_path / "model.npz").exists()
    assert "multiply float32" in names["profile"].table()


def test_every_command_of_the_shell_block_exists(capsys: pytest.CaptureFixture[str]) -> None:
    shell = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    commands = re.findall(r"^vkcompute ([a-z]+)(?: (train|predict))?", shell, re.MULTILINE)
    assert len(commands) >= 6
    for words in commands:
        assert main([*filter(None, words), "--help"]) == 0
        assert "usage: vkcompute" in capsys.readouterr().out
