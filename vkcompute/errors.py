"""The exception classes.

A caller's mistake raises a plain `TypeError` or `ValueError`, or a class below derived from one of them. A failed
Vulkan call raises a `VulkanError`. All classes of errors defined here derive from `VkComputeError`.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from opcode import opmap
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any

from vkcompute import deferred_calls

_PACKAGE = __name__.partition(".")[0]
_INTERNAL = (_PACKAGE, "IPython", "ipykernel")


def shorten_traceback(error: Exception) -> None:
    """Cuts this package's calls from the traceback of an error about the caller's program.

    Errors that no `raise` statement has raised, and those of the driver, keep all calls: they may be faults of this
    package. In IPython, they are shown as those of the classes defined here.
    """
    if _is_raised(error) and not isinstance(error, (IrError, VulkanError)):
        error.__traceback__ = _of_user(error.__traceback__)
    if not isinstance(error, VkComputeError):
        # Not bound to the error, which would keep its frames alive until the garbage collector runs.
        error._render_traceback_ = _current_traceback  # type: ignore[attr-defined]


def _is_raised(error: BaseException) -> bool:
    """True if a `raise` statement of this package has raised an error."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or not _is_internal(traceback.tb_frame):
        return False
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == opmap["RAISE_VARARGS"]


def is_of_library(error: BaseException) -> bool:
    """True if none of an error's calls, up to the one that catches it, is in a user's code, as of a passed function."""
    traceback = error.__traceback__
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if module not in (*_INTERNAL, "numpy", *sys.stdlib_module_names):
            return False
        traceback = traceback.tb_next
    return True


def _of_user(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the calls of this package."""
    trace, calls = None, []
    while traceback is not None:
        calls.append(traceback)
        traceback = traceback.tb_next
    for call in reversed(calls):
        if not _is_internal(call.tb_frame):
            trace = TracebackType(trace, call.tb_frame, call.tb_lasti, call.tb_lineno)
    return trace


def _current_traceback() -> list[str]:
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    return [] if error is None else _user_traceback(error)


def _user_traceback(error: BaseException) -> list[str]:
    """Returns the lines of a traceback with the calls in the user's code only."""
    import traceback  # not at import: seldom needed

    calls = [call for call in traceback.walk_tb(error.__traceback__) if not _is_internal(call[0])]
    lines = traceback.StackSummary.extract(iter(calls)).format()
    text = "\n".join(["".join([*lines, f"{type(error).__name__}: {error}"]), *getattr(error, "__notes__", ())])
    for file in dict.fromkeys(frame.f_code.co_filename for frame, _ in calls):
        if cell := _cell(file):
            text = text.replace(f'File "{file}"', cell).replace(file, cell)
    return ["Traceback (most recent call last):", *text.split("\n")]


def _cell(file: str) -> str:
    """Returns IPython's name of a cell, as "Cell In[3]"; "" for a file."""
    shell = sys.modules.get("IPython.core.interactiveshell")
    if shell is None or not shell.InteractiveShell.initialized():
        return ""
    names = getattr(shell.InteractiveShell.instance().compile, "_filename_map", {})
    return f"Cell In[{names[file]}]" if file in names else ""


def _is_internal(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _INTERNAL


class VkComputeError(Exception):
    """Base class of all errors defined by vkcompute."""

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython shows: of the calls those in the user's code, and the message."""
        return _user_traceback(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__  # constructors take other arguments


def _restored(kind: type[VkComputeError], args: tuple[Any, ...]) -> VkComputeError:
    """Returns an unpickled error without its attributes."""
    return kind.__new__(kind, *args)


class VulkanError(VkComputeError, RuntimeError):
    """A Vulkan call failed.

    Attributes:
        result: the name of the VkResult, e.g. "VK_ERROR_DEVICE_LOST".
        call: the Vulkan function, e.g. "vkQueueSubmit".
        target: a description of the object that it was called for.
    """

    def __init__(self, result: str, call: str, target: str = "", detail: str = "") -> None:
        self.result, self.call, self.target = result, call, target
        on = f" on {target}" if target else ""
        super().__init__(f"{call}{on} returned {result}" + (f": {detail}" if detail else ""))


OUT_OF_MEMORY = ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY")


class OutOfDeviceMemory(VulkanError, MemoryError):
    """Device memory is exhausted, also after garbage collection and a second attempt.

    Attributes:
        asked: bytes of the allocation.
        free: bytes free within the budget.
        total: bytes of the heap.
    """

    def __init__(
        self,
        asked: int,
        free: int,
        total: int,
        target: str = "",
        call: str = "vkAllocateMemory",
        remedy: str = "free arrays or stream the data in chunks",
    ) -> None:
        self.asked, self.free, self.total = asked, free, total
        detail = f"asked for {asked} bytes, {free} of {total} are free; {remedy}"
        super().__init__("VK_ERROR_OUT_OF_DEVICE_MEMORY", call, target, detail)


class DeviceLost(VulkanError):
    """The device was lost. Close its runtime and open a new one."""


class ValidationError(VkComputeError, RuntimeError):
    """The validation layer reported an error, with `VKCOMPUTE_VALIDATION=error`.

    Attributes:
        vuid: the valid-usage ID of the first message, e.g. "VUID-vkCmdDispatch-groupCountX-00386".
        where: "file:line" of the caller's code.
    """

    def __init__(self, message: str, vuid: str, where: str) -> None:
        self.vuid, self.where = vuid, where
        super().__init__(f"{where}: {vuid}: {message}")


_ending: list[int] = []
"""The thread that ends the process, once it closes objects that others may still use."""


def end_other_threads() -> None:
    """Makes daemon threads end silently at the end of the process, instead of by a `ClosedError`."""
    _ending[:] = [get_ident()]


def closed(what: str) -> BaseException:
    """Returns the error to raise for the use of something that is closed; SystemExit in threads that are to end."""
    return SystemExit() if _ending and _ending != [get_ident()] else ClosedError(what)


def refusal(error: Exception) -> BaseException:
    """Returns the error to raise for the use of what ended with an error: a copy, or as `closed`."""
    return closed(str(error)) if isinstance(error, ClosedError) else again(error)


def again(error: Exception) -> Exception:
    """A copy of an error to raise. Raising one object several times would keep the frames of every raise alive."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


class HostCopyWarning(UserWarning):
    """Arrays are copied implicitly between host and device; the message names the cause and the remedy."""


class SpillWarning(UserWarning):
    """Device memory is full, and the least recently used arrays move to host memory until they are used again."""


class UnlikeDevicesWarning(UserWarning):
    """The devices of a cluster differ in dtypes; the message names what its workers do without."""


class CPUFallbackWarning(UserWarning):
    """A runtime computes on a CPU that nobody asked for; the message gives the likely reason."""


_CALLED_THROUGH = {_PACKAGE, "contextlib", "dask", "numpy"}


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warns at the user's line that led here, outside of this package and of those that call it for the user.

    The warning waits until this thread holds no lock of the library.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _CALLED_THROUGH:
        frame = frame.f_back
    names, code = frame.f_globals, frame.f_code
    registry = names.setdefault("__warningregistry__", {})
    module = str(names.get("__name__", "<unknown>"))
    where = code.co_filename, frame.f_lineno, module, registry
    deferred_calls.call(partial(warnings.warn_explicit, message, category, *where))


def caller_location() -> str:
    """Returns ", at FILE, line N" for the user's line that led here; "" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _CALLED_THROUGH:
        frame = frame.f_back
    return (
        ""
        if frame is None
        else f", at {_cell(frame.f_code.co_filename) or frame.f_code.co_filename}, line {frame.f_lineno}"
    )


class NoVulkanLoader(VkComputeError, ImportError):
    """The Vulkan loader library is missing; the message says how to install it."""


class NoDevice(VkComputeError, RuntimeError):
    """No physical device satisfies the request; the message gives the reasons for each device."""


class MissingFeature(VkComputeError, ValueError):
    """The device lacks a feature, extension or capability that was requested or that a kernel needs."""


class DtypeError(VkComputeError, TypeError):
    """A function does not compute with the dtype of its arguments, on any device; the message says what to convert."""


class ClosedError(VkComputeError, ValueError):
    """An object was used after `close()`, or in a forked child process."""


class SpirvError(VkComputeError, ValueError):
    """SPIR-V is truncated, malformed, of the wrong version, or not supported."""


class CompileError(VkComputeError, ValueError):
    """GLSL source does not compile; the message shows file, line and source text of each error."""


class KernelError(CompileError):
    """A function cannot be compiled by `vc.kernel`, or a run-time check of a launch failed.

    The message shows file, line, column, source and a caret.
    """

    @property
    def error_message(self) -> str:
        """The message without file, line, column and source."""
        first = str(self).partition("\n")[0]
        return re.sub(r"^.*?:\d+:\d+: ", "", first)


def hides_calls(raised: Any) -> bool:
    """The `__tracebackhide__` of modules on the way to the compiler: pytest hides their calls for a KernelError."""
    return isinstance(getattr(raised, "value", None), KernelError)


class NoCompiler(VkComputeError, RuntimeError):
    """No GLSL compiler was found; the message lists the attempts and how to install one."""


class DataError(VkComputeError, ValueError):
    """Input data is invalid; the message gives its position (file, line, row, column) and the value."""


class IrError(VkComputeError, ValueError):
    """A kernel in the IR is malformed: a bug of the front end that built it."""

    def _render_traceback_(self) -> list[str]:
        """All calls."""
        import traceback  # not at import: seldom needed

        return "".join(traceback.format_exception(self)).splitlines()


class KomputeError(VkComputeError, ValueError, RuntimeError):
    """Invalid use of `vkcompute.compat.kp` or `kp05`; a RuntimeError, as Kompute's errors are."""
