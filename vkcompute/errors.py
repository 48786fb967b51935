"""The exception tree: what the caller did wrong, what the driver refused, what the machine lacks.

A caller's mistake is a plain `TypeError` or `ValueError`, or a class below that is also one of them. What a driver
refuses is a `VulkanError`. Everything of our own derives from `VkComputeError`, so one `except` catches it all.
"""

from __future__ import annotations


class VkComputeError(Exception):
    """Base class of every error that vkcompute defines."""


class VulkanError(VkComputeError, RuntimeError):
    """A Vulkan call failed.

    Attributes:
        result: the name of the VkResult, e.g. "VK_ERROR_DEVICE_LOST".
        call: the function that returned it, e.g. "vkQueueSubmit".
        target: the object it was called on or for, in words.
    """

    def __init__(self, result: str, call: str, target: str = "", detail: str = "") -> None:
        self.result, self.call, self.target = result, call, target
        on = f" on {target}" if target else ""
        super().__init__(f"{call}{on} returned {result}" + (f": {detail}" if detail else ""))


OUT_OF_MEMORY = ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY")


class OutOfDeviceMemory(VulkanError, MemoryError):
    """An allocation does not fit, after what was dead had been collected and the allocation tried once more.

    Attributes (bytes): asked, free (within the budget), total (of the heap).
    """

    def __init__(self, asked: int, free: int, total: int, target: str = "", call: str = "vkAllocateMemory") -> None:
        self.asked, self.free, self.total = asked, free, total
        detail = f"asked for {asked} bytes, {free} of {total} are free; free tensors or stream the data in chunks"
        super().__init__("VK_ERROR_OUT_OF_DEVICE_MEMORY", call, target, detail)


class DeviceLost(VulkanError):
    """The device stopped working; its runtime can only be closed, and a new one opened."""


class ValidationError(VkComputeError, RuntimeError):
    """The validation layer objected, with `VKCOMPUTE_VALIDATION=error`.

    Attributes:
        vuid: the valid-usage ID of the first message, e.g. "VUID-vkCmdDispatch-groupCountX-00386".
        where: "file:line" of the caller's own code.
    """

    def __init__(self, message: str, vuid: str, where: str) -> None:
        self.vuid, self.where = vuid, where
        super().__init__(f"{where}: {vuid}: {message}")


def again(error: Exception) -> Exception:
    """The same error as a new object: raised from several places, one would keep the frames of all of them alive."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


class NoVulkanLoader(VkComputeError, ImportError):
    """No Vulkan loader library on this machine; the message says how to install one."""


class NoDevice(VkComputeError, RuntimeError):
    """No physical device fits the request; the message gives each device's reasons."""


class MissingFeature(VkComputeError, ValueError):
    """The device lacks a feature, an extension or a capability that was asked for or that a kernel needs."""


class ClosedError(VkComputeError, ValueError):
    """The object was used after its `close()`, or in a child process that inherited it by `fork`."""


class SpirvError(VkComputeError, ValueError):
    """SPIR-V that is truncated, malformed, of the wrong version, or outside of what the library supports."""


class CompileError(VkComputeError, ValueError):
    """A GLSL source does not compile; the message shows file, line and source text of each error."""


class KernelError(CompileError):
    """A function cannot be compiled by `vc.kernel`, or did what a check of its launch found.

    The message shows file, line and column, the source and a caret.
    """


class NoCompiler(VkComputeError, RuntimeError):
    """No GLSL compiler on this machine; the message lists what was tried and how to install one."""


class DataError(VkComputeError, ValueError):
    """Input data is unusable; the message gives the place (file, line, row, column) and the value."""


class IrError(VkComputeError, ValueError):
    """A kernel in the intermediate form is malformed: the fault of the front end that built it."""


class KomputeError(VkComputeError, ValueError, RuntimeError):
    """`vkcompute.compat.kp` or `kp05` is used against its rules; a RuntimeError, as Kompute's own errors are."""
