"""Work of seconds is announced while it goes on; quick work and its failures are not."""

from __future__ import annotations

import logging
import time

import pytest

from vkcompute import slow_work
from vkcompute.slow_work import announced

pytestmark = pytest.mark.pure


def test_slow_work_is_announced_again_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slow_work, "_FIRST_S", 0.01)
    until = time.monotonic() + 20
    with announced("compiling scale"):
        while len(caplog.messages) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert caplog.messages[0] == "compiling scale has taken 0 s, and goes on; the result is kept for later runs"
    assert len(caplog.messages) >= 2


def test_quick_work_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="wrong"), announced("compiling scale"):
        raise ValueError("wrong")
    assert caplog.messages == []
