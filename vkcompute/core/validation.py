"""Messages of the validation layer: logged, or raised as errors at the user's line.

`VKCOMPUTE_VALIDATION` is "off" (the default), "log" or "error". The latter two enable the Khronos validation layer and
its synchronization validation. With "error", the call that caused a message raises `ValidationError`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from vkcompute import deferred_calls
from vkcompute.core import vk
from vkcompute.errors import ValidationError

LAYER = "VK_LAYER_KHRONOS_validation"
MODES = ("off", "log", "error")
logger = logging.getLogger("vkcompute.validation")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SEVERITIES = {0x1: logging.DEBUG, 0x10: logging.INFO, 0x100: logging.WARNING, 0x1000: logging.ERROR}
_VALIDATION_TYPE = 0x2
_WARNING = 0x100


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its VUID, its text, the user's line that caused it, and the thread."""

    vuid: str
    text: str
    where: str
    thread: int


_pending: list[Message] = []
_unread: list[Message] = []


def mode_from_environment() -> str:
    """Returns the value of `VKCOMPUTE_VALIDATION`.

    Raises:
        ValueError: it is none of `MODES`.
    """
    mode = os.environ.get("VKCOMPUTE_VALIDATION", "") or "off"
    if mode not in MODES:
        raise ValueError(f"VKCOMPUTE_VALIDATION is one of {', '.join(MODES)}; got {mode!r}")
    return mode


def validation_messages() -> list[str]:
    """Returns the layer's messages since the last call of this function, raised or not."""
    texts = [f"{message.where}: {message.vuid}: {message.text}" for message in _unread]
    _unread.clear()
    _pending.clear()
    return texts


def users_line() -> str:
    """Returns "file:line" of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _on_message(severity: int, types: int, data: Any, raises: Any) -> int:
    text = vk.ffi.string(data.pMessage).decode(errors="replace")
    vuid = vk.ffi.string(data.pMessageIdName).decode() if data.pMessageIdName != vk.NULL else ""
    deferred_calls.call(partial(logger.log, _SEVERITIES.get(severity, logging.INFO), "%s: %s", vuid, text))
    if types & _VALIDATION_TYPE and severity >= _WARNING:
        message = Message(vuid, text, users_line(), threading.get_ident())
        _unread.append(message)
        if raises != vk.NULL:
            _pending.append(message)
    return 0


_callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", _on_message)


def messenger_info(mode: str) -> Any:
    """Returns the creation structure of a messenger for warnings and errors."""
    raises = vk.ffi.cast("void*", mode == "error")
    return vk.struct(
        "VkDebugUtilsMessengerCreateInfoEXT",
        messageSeverity=0x1100,
        messageType=0x7,
        pfnUserCallback=_callback,
        pUserData=raises,
    )


def synchronization_info() -> Any:
    """Returns the structure for VkInstanceCreateInfo.pNext that enables synchronization validation."""
    enables = vk.ffi.new(
        "VkValidationFeatureEnableEXT[]",
        [vk.constant("VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")],
    )
    return vk.struct("VkValidationFeaturesEXT", enabledValidationFeatureCount=1, pEnabledValidationFeatures=enables)


def raise_pending() -> None:
    """Raises the messages on this thread that have not been raised yet."""
    if not _pending:
        return
    here = threading.get_ident()
    mine = [message for message in _pending if message.thread == here]
    if mine:
        _pending[:] = [message for message in _pending if message.thread != here]
        raise ValidationError("\n".join(message.text for message in mine), mine[0].vuid, mine[0].where)


def raise_objections(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a driver's function (a `vk.Wrapper`): it raises ValidationError if the layer objects to the call.

    Functions that destroy objects are left alone: what calls them raises once it has noted the destruction.
    """
    if name.startswith(("vkDestroy", "vkFree")):
        return function

    def call(*args: Any) -> Any:
        results: list[Any] = []
        step = map(function, *zip(args))
        results += step  # inline, not by `interrupts.call_into`: the result of a submit must not be lost on return
        if not _pending:  # without a backward jump, at which Python 3.10 looks for signals
            return results[0]
        raise_pending()
        return results[0]

    return call
