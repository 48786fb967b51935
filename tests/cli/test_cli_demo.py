"""`vkcompute demo`, with all extras and with none."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_done import Done

import vkcompute as vc
from vkcompute.cli import demo

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_N", 1 << 16)
    monkeypatch.setattr(demo, "_BEST_OF", 1)


@pytest.mark.pure
def test_with_scikit_learn_and_matplotlib(vk: Run, gpu: vc.Runtime, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    done = vk("demo", "--output", tmp_path / "out")
    assert (done.status, done.err) == (0, "")
    assert gpu.device.name in done.out
    for fact in ("65,536 float32: equal to NumPy, bit for bit", "patients, 30 features", "LogisticRegression: 0.9"):
        assert fact in done.out
    assert (tmp_path / "out/loss.png").read_bytes().startswith(b"\x89PNG")


def test_without_any_extra(vk: Run, monkeypatch: pytest.MonkeyPatch, listing: Callable[[], list[str]]) -> None:
    extras = ("sklearn", "matplotlib")
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name in extras else find_spec(name))
    done = vk("demo")
    assert (done.status, done.err) == (0, "")
    assert "equal to NumPy, bit for bit" in done.out
    [accuracy] = [line.split()[-1] for line in done.out.splitlines() if "accuracy" in line]
    assert float(accuracy) > 0.9
    assert "pip install 'vkcompute[plot]'" in done.out
    assert listing() == []
