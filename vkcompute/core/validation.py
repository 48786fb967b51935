"""What the validation layer says: to `logging`, or raised at the caller's own line.

`VKCOMPUTE_VALIDATION` is "off" (the default), "log" or "error". Both of the latter switch the Khronos validation layer
and its synchronization validation on; "error" makes the call that provoked a message raise `ValidationError`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    """One objection of the layer: its VUID, its text, and the line of the caller's code that led to it."""

    vuid: str
    text: str
    where: str
    thread: int


_unraised: list[Message] = []
_said: list[Message] = []


def mode_from_environment() -> str:
    """The mode that `VKCOMPUTE_VALIDATION` asks for.

    Raises:
        ValueError: it is none of the modes.
    """
    mode = os.environ.get("VKCOMPUTE_VALIDATION", "") or "off"
    if mode not in MODES:
        raise ValueError(f"VKCOMPUTE_VALIDATION is one of {', '.join(MODES)}; got {mode!r}")
    return mode


def validation_messages() -> list[str]:
    """What the layer objected to since the last call of this function, raised or not."""
    texts = [f"{message.where}: {message.vuid}: {message.text}" for message in _said]
    _said.clear()
    _unraised.clear()
    return texts


def users_line() -> str:
    """ "file:line" of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _on_message(severity: int, types: int, data: Any, _user: Any) -> int:
    text = vk.ffi.string(data.pMessage).decode(errors="replace")
    vuid = vk.ffi.string(data.pMessageIdName).decode() if data.pMessageIdName != vk.NULL else ""
    logger.log(_SEVERITIES.get(severity, logging.INFO), "%s: %s", vuid, text)
    if types & _VALIDATION_TYPE and severity >= _WARNING:
        message = Message(vuid, text, users_line(), threading.get_ident())
        _said.append(message)
        _unraised.append(message)
    return 0


_callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", _on_message)


def messenger_info() -> Any:
    """The creation structure of a messenger that hears warnings and errors."""
    return vk.struct(
        "VkDebugUtilsMessengerCreateInfoEXT", messageSeverity=0x1100, messageType=0x7, pfnUserCallback=_callback
    )


def synchronization_info() -> Any:
    """The structure for VkInstanceCreateInfo.pNext that switches synchronization validation on."""
    enables = vk.ffi.new(
        "VkValidationFeatureEnableEXT[]",
        [vk.constant("VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")],
    )
    return vk.struct("VkValidationFeaturesEXT", enabledValidationFeatureCount=1, pEnabledValidationFeatures=enables)


def raise_unraised() -> None:
    """Raises what the layer has said on this thread and nobody has raised yet."""
    here = threading.get_ident()
    mine = [message for message in _unraised if message.thread == here]
    if mine:
        _unraised[:] = [message for message in _unraised if message.thread != here]
        raise ValidationError("\n".join(message.text for message in mine), mine[0].vuid, mine[0].where)


def raising(_name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A `vk.Wrapper`: the function, followed by an error if the layer objected to the call."""

    def call(*args: Any) -> Any:
        results: list[Any] = []
        step = map(function, *zip(args))
        results += step  # for a submit, the result is not to be lost to Ctrl-C: see Queue.submit
        if not _unraised:  # no jump, at which Python 3.10 looks for signals
            return results[0]
        raise_unraised()
        return results[0]

    return call
