"""Work of seconds is announced while it goes on; quick work and its failures are not."""

from __future__ import annotations

import logging
import time

import pytest

from vkcompute.slow_work import announced

pytestmark = pytest.mark.pure


def test_slow_work_is_announced_again_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("VKCOMPUTE_ANNOUNCE_AFTER_S", "0.01")
    until = time.monotonic() + 20
    with announced("compiling scale"):
        while len(caplog.messages) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert caplog.messages[0] == "compiling scale has taken 0 s so far; the result is kept for later runs"
    assert len(caplog.messages) >= 2


def test_quick_work_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="wrong"), announced("compiling scale"):
        raise ValueError("wrong")
    assert caplog.messages == []


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_the_setting_is_a_number_of_seconds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_ANNOUNCE_AFTER_S", text)
    rule = f"VKCOMPUTE_ANNOUNCE_AFTER_S is a number of seconds above 0; got '{text}'; unset it for 3 s"
    with pytest.raises(ValueError, match=rule), announced("compiling scale"):
        pass
