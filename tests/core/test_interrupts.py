"""Steps that a signal handler cannot divide."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

import pytest

from vkcompute.core.interrupts import call_into

pytestmark = pytest.mark.pure


def test_results_are_appended() -> None:
    results: list[Any] = []
    call_into(results, divmod, 7, 2)
    call_into(results, list)
    assert results == [(3, 1), []]


def test_an_error_leaves_the_results_as_they_are() -> None:
    results: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        call_into(results, divmod, 1, 0)
    assert results == []


@pytest.mark.skipif(os.name != "posix", reason="C's raise() is looked up in the process")
def test_a_handler_runs_after_the_result_is_stored() -> None:
    """The call itself makes the signal: its handler is due before the result is stored."""
    make = getattr(ctypes.CDLL(None), "raise")
    results: list[Any] = []
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        call_into(results, make, int(signal.SIGINT))
        len(results)  # a call, after which handlers run
    except KeyboardInterrupt:
        results.append("interrupted")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert results == [0, "interrupted"]
