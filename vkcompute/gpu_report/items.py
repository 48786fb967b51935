"""Items of a part: functions of a session, which return figures, raise AssertionError, or cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

import vkcompute as vc


class Unavailable(Exception):
    """An item cannot run on this machine; the message has the reason."""


class Session:
    """A process's device: a runtime, opened by the first item that needs one.

    Args:
        device: its index, a part of its name, or None for the default.
    """

    def __init__(self, device: int | str | None) -> None:
        self.device = device

    @cached_property
    def gpu(self) -> vc.Runtime:
        """The runtime."""
        return vc.Runtime(self.device)

    def require(self, *features: str) -> None:
        """Raises Unavailable unless the device has these features."""
        missing = sorted({*features}.difference(self.gpu.device.features))
        if missing:
            raise Unavailable(f"the device lacks {', '.join(missing)}")


Item = Callable[[Session], Any]
"""Returns a dict of figures, or None."""
Items = Mapping[str, Item]


def equal(result: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raises AssertionError with the first element that differs by more than a tolerance, and the number of these.

    Args:
        result: a device array, or what NumPy takes.
        expected: NumPy's.
        rtol: relative to the largest expected absolute value.
    """
    actual = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
    wanted = np.asarray(expected)
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        raise AssertionError(f"a result {actual.shape} of {actual.dtype}, not {wanted.shape} of {wanted.dtype}")
    if actual.dtype.kind in "fc":
        exact = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
        with np.errstate(all="ignore"):
            finite = np.abs(wanted[np.isfinite(wanted)].astype(np.complex128))
            limit = atol + rtol * finite.max(initial=0)
            wrong = ~exact & ~(np.abs(actual.astype(np.complex128) - wanted) <= limit)
    else:
        wrong = actual != wanted
    if wrong.any():
        at = int(np.argmax(wrong))
        element, other = actual.reshape(-1)[at], wanted.reshape(-1)[at]
        raise AssertionError(
            f"{np.count_nonzero(wrong)} of {wrong.size} elements differ, first at {at}: {element!r}, not {other!r}"
        )


def equal_integers(result: Any, expected: Any) -> None:
    """Compares integers whose size depends on the device: indices and counts have 32 bits where it lacks int64."""
    actual = np.asarray(result.numpy())
    if actual.dtype.kind not in "iu":
        raise AssertionError(f"a result of {actual.dtype}, not of integers")
    equal(actual.astype(np.int64), np.asarray(expected).astype(np.int64))
