"""Random calls of functions of arrays beside NumPy, a few; `scripts/values.py` makes many."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import vkcompute as vc

sys.path[:0] = [str(Path(__file__).parents[2] / "scripts")]

import values  # noqa: E402
from value_calls import Call, Drawn  # noqa: E402


@pytest.mark.parametrize("seed", range(5228, 5248))
def test_values_are_numpys(gpu: vc.Runtime, seed: int) -> None:
    call: Call = Drawn(seed).call()
    if values.lacks(call, vc.default_runtime().device.features):
        pytest.skip("the device lacks a dtype")
    verdict, wanted, result = values.judged(call)
    assert verdict in ("alike", "refused"), (call, wanted, result)
