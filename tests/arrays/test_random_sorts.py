"""Random cases of scripts/sorts.py: none differs, a fault is seen, and a run is continued."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sorts

import vkcompute as vc


@pytest.mark.rotates
@pytest.mark.parametrize("method", list(sorts.METHODS))
def test_cases_are_numpys(gpu: vc.Runtime, method: str) -> None:
    numbers = [k for k in range(200) if sorts.case_of(k, sorts.DTYPES[:3]).method == method][:4]
    for number in numbers:
        assert sorts.differences(gpu, sorts.case_of(number, sorts.DTYPES[:3])) == [], number


def test_an_unstable_sort_differs(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def unstable(x: vc.Array, axis: int, *, descending: bool) -> Any:
        order = np.flip(np.argsort(np.flip(x.numpy(), axis), axis, kind="stable"), axis)
        return gpu.array(np.ascontiguousarray(x.shape[axis] - 1 - order))

    monkeypatch.setattr(sorts, "argsort", unstable)
    number = next(k for k in range(99) if " few" in (text := sorts.case_of(k, ["int8"]).text) and "desc" not in text)
    assert "argsort" in sorts.differences(gpu, sorts.case_of(number, ["int8"]))


def test_a_run_is_continued(
    gpu: vc.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def differences(gpu: vc.Runtime, case: sorts.Case) -> list[str]:
        ran.append(case.text)
        return ["sort"] if len(ran) == 2 else []

    monkeypatch.setattr(sorts, "differences", differences)
    monkeypatch.setattr(vc, "default_runtime", lambda: gpu)
    for n, status in ((1, 0), (3, 1), (4, 1)):
        monkeypatch.setattr(sys, "argv", ["sorts.py", "--state", str(tmp_path / "state"), "--cases", str(n)])
        assert sorts.main() == status
    assert len(ran) == 4
    assert list(json.loads((tmp_path / "state").read_text()).values()) == [[4, 1]]
    assert "cases 0 to 3: 1 differ" in capsys.readouterr().out
