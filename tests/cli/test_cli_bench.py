"""`vkcompute bench`: every figure is there, positive, and between its quartiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cli_done import Done

import vkcompute
from vkcompute.cli import measurement

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes: the results do not matter here, and the validation layer checks every launch."""
    monkeypatch.setattr(measurement, "_LAUNCHES", 3)
    monkeypatch.setattr(measurement, "_TRANSFER_NBYTES", 1 << 16)
    monkeypatch.setattr(measurement, "_SIZES", (("1k", 1000), ("2k", 2000)))


def test_json(vk: Run, gpu: vkcompute.Runtime, clean_handles: None) -> None:
    done = vk("bench", "--quick", "--json")
    assert done.err == ""
    report: dict[str, Any] = json.loads(done.out)
    assert report["device"] == gpu.device.name
    assert report["numpy"] == np.__version__
    assert len(report["results"]) == 10
    for result in report["results"]:
        assert 0 < result["low"] <= result["median"] <= result["high"]
        assert result["n_samples"] == 5
        assert result["unit"] in ("us", "GB/s")


def test_text(vk: Run, gpu: vkcompute.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = vk("bench", "--quick")
    lines = done.out.splitlines()
    assert lines[0].startswith(gpu.device.name)
    assert len(lines) == 2 + 1 + 10
    assert max(map(len, lines)) <= 80


def test_progress_ends_at_the_total(gpu: vkcompute.Runtime) -> None:
    seen: list[tuple[int, int]] = []
    measurement.measure(gpu, 2, lambda done, total: seen.append((done, total)))
    assert seen == [(i, 8) for i in range(1, 9)]


def test_a_device_that_is_not_there(vk: Run) -> None:
    assert "no such thing" in vk("bench", "--device", "no such thing").error()
