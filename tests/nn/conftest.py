"""Every kernel and module that block programs of these tests are compiled to is verified."""

from __future__ import annotations

import pytest
from barriers import verify_all


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    verify_all(monkeypatch)
