"""Faults by design: any device function fails when it is told to, and what the driver holds is counted."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from vkcompute.core import vk

OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST = -1, -2, -4


class Faults:
    """Counts the calls, fails some of them, and knows which driver objects are alive."""

    def __init__(self) -> None:
        self.armed: tuple[str, int, int] | None = None  # function, after how many more of its calls, result
        self.times = 0
        self.calls: Counter[str] = Counter()
        self.alive: Counter[str] = Counter()

    def arm(self, name: str, after: int, result: int, times: int = 1) -> None:
        """Has `times` calls of a function fail, after `after` more that do not."""
        self.armed, self.times = (name, after, result), times

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An interceptor for `vk.interceptors`."""

        def call(*args: Any) -> Any:
            self.calls[name] += 1
            if self.armed is not None and self.armed[0] == name:
                if self.armed[1] == 0:
                    result, self.times = self.armed[2], self.times - 1
                    self.armed = self.armed if self.times else None
                    return result
                self.armed = (name, self.armed[1] - 1, self.armed[2])
            result = function(*args)
            self._note(name, result)
            return result

        return call

    def _note(self, name: str, result: int | None) -> None:
        kind = name.removeprefix("vkCreate").removeprefix("vkDestroy").replace("ComputePipelines", "Pipeline")
        if name.startswith("vkCreate") and result == 0:
            self.alive[kind] += 1
        elif name.startswith("vkDestroy") and kind != "Device":
            self.alive[kind] -= 1
        elif name in ("vkAllocateMemory", "vkFreeMemory"):
            self.alive["DeviceMemory"] += (
                1 if name == "vkAllocateMemory" and result == 0 else -1 if result is None else 0
            )


@contextmanager
def watched() -> Iterator[Faults]:
    """Watches the runtimes that are opened in the block; at its end nothing of theirs is left."""
    faults = Faults()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vk, "interceptors", [faults.wrap])
        yield faults
    gc.collect()
    assert +faults.alive == Counter(), "driver objects that nobody destroyed"
    assert -faults.alive == Counter(), "driver objects destroyed twice"


PACKAGE = os.path.dirname(vk.__file__).rpartition(os.sep)[0]


def finalizing(frame: Any) -> bool:
    """True inside a finalizer, where Python discards exceptions."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@contextmanager
def handled(after: int, handler: Callable[[], object]) -> Iterator[list[bool]]:
    """Calls a handler after so many of the moments in the block when one may be called; gives whether it was."""
    come: list[bool] = []
    left = itertools.count(after, -1)

    def at(frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if not finalizing(frame) and next(left) == 0:
            come.append(True)
            handler()

    sys.setprofile(at)
    try:
        yield come
    finally:
        sys.setprofile(None)


@contextmanager
def interrupted(after: int, error: type[BaseException] = KeyboardInterrupt) -> Iterator[list[bool]]:
    """Ctrl-C, or another error of a handler, after so many of the moments in the block; gives whether it has come."""

    def fail() -> None:
        raise error

    come: list[bool] = []
    try:
        with handled(after, fail) as come:
            yield come
    except error as caught:
        assert come
        caught.__traceback__ = None
