"""Programs run on the device and interpreted. Every kernel and module that they are compiled to is verified."""

from __future__ import annotations

import pytest
from barriers import verify_all

import vkcompute


@pytest.fixture(params=["gpu", "like_a_gpu", pytest.param("interpreted", marks=pytest.mark.pure)])
def machine(request: pytest.FixtureRequest) -> vkcompute.Runtime | None:
    """The runtime under test, as it is and with the programs of a GPU, or None for the interpreter."""
    result: vkcompute.Runtime | None = (
        None if request.param == "interpreted" else request.getfixturevalue(request.param)
    )
    return result


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    verify_all(monkeypatch)
