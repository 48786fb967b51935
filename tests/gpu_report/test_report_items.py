"""Items of reports: names without a device, checks that can fail, figures of devices of any speed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.gpu_report import report
from vkcompute.gpu_report.checks import kernels
from vkcompute.gpu_report.child import outcome_of
from vkcompute.gpu_report.figures import rates
from vkcompute.gpu_report.items import Session, Unavailable, equal
from vkcompute.gpu_report.parts import PARTS

MODULES = sorted({part.module for part in PARTS})


@pytest.mark.pure
@pytest.mark.parametrize("module", MODULES)
def test_items_have_names_before_a_device_is_opened(module: str) -> None:
    items = importlib.import_module(module, "vkcompute.gpu_report").items()
    assert items
    assert all(map(callable, items.values()))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("result", "expected", "rtol"),
    [
        ([1, 2], [1, 3], 0.0),
        ([1.0, np.nan], [1.0, 2.0], 0.1),
        ([1.0, 2.0], [1.0, np.nan], 0.1),
        ([1.0, np.inf], [1.0, 2.0], 0.1),
        ([1.0, 2.3], [1.0, 2.0], 0.1),
        ([1.0], [1.0, 2.0], 0.1),
        ([1.0], [1], 0.1),
    ],
)
def test_differences_are_reported(result: list[float], expected: list[float], rtol: float) -> None:
    with pytest.raises(AssertionError):
        equal(np.array(result), np.array(expected), rtol)


@pytest.mark.pure
def test_what_is_near_is_equal() -> None:
    equal(np.array([1.0, np.nan, np.inf, 2.1]), np.array([1.0, np.nan, np.inf, 2.0]), 0.1)
    with pytest.raises(Unavailable, match="noSuchFeature"):
        _Without().require("noSuchFeature")


class _Without(Session):
    """A session on a device without features."""

    def __init__(self) -> None:
        super().__init__(None)
        self.__dict__["gpu"] = type("Gpu", (), {"device": type("Device", (), {"features": frozenset()})})


ITEMS = (
    (".figures.devices", "chosen"), (".figures.rates", "launch"), (".figures.rates", "arithmetic int32"),
    (".figures.functions", "add"), (".figures.calls", "sum"), (".figures.overlap", "stream"),
    (".figures.statistics", "Python: loops"), (".checks.kernels", "barriers"), (".checks.arrays", "scans int32"),
    (".checks.tables", "groups, many"), (".checks.tables", "sorted segments"), (".checks.blocks", "loops"),
    (".checks.shaders", "multiply float32"), (".checks.scheduling", "a graph"), (".checks.integers", "integers 0"),
    (".checks.matrices", "int8 to int32, 16 x 16 x 16"),
    pytest.param(".figures.overlap", "copy beside a kernel", marks=pytest.mark.queues),
    pytest.param(".figures.overlap", "two chains of 8 workgroups", marks=pytest.mark.queues),
)  # fmt: skip


@pytest.mark.rotates
@pytest.mark.parametrize(("module", "name"), ITEMS)
def test_items_are_right_on_this_device(gpu: vc.Runtime, module: str, name: str) -> None:
    session = Session(None)
    session.__dict__["gpu"] = gpu
    item = importlib.import_module(module, "vkcompute.gpu_report").items()[name]
    outcome = outcome_of(item, session)
    assert outcome["outcome"] in ("right", "missing"), outcome
    report.text({"parts": [{"name": "a part", "items": [outcome]}]})


def test_a_wrong_kernel_is_wrong(gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    @vc.kernel
    def wrong(x: Any, out: Any) -> None:
        out[vc.group_id(0)] = x[vc.global_id(0)]

    monkeypatch.setattr(kernels, "_tree", wrong)
    session = Session(None)
    session.__dict__["gpu"] = gpu
    outcome = outcome_of(kernels.items()["barriers"], session)
    assert outcome["outcome"] == "wrong"
    assert "elements differ" in outcome["text"]


def test_matrices_of_a_device_that_no_size_keeps_busy_have_a_rate(
    gpu: vc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The growing work reaches no limit of the driver: lavapipe cuts loops after 65,535 iterations."""
    monkeypatch.setattr(rates, "device_seconds", lambda call, gpu: rates._GOAL_S / 2)
    session = Session(None)
    session.__dict__["gpu"] = gpu
    outcome = outcome_of(rates.items()["matrices float32"], session)
    assert outcome["outcome"] == "right", outcome
