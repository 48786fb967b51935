"""Errors cross the boundaries of processes: pickled, they keep their type, message and attributes."""

from __future__ import annotations

import pickle

import pytest

from vkcompute import errors

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "error",
    [
        errors.VulkanError("VK_ERROR_UNKNOWN", "vkCreateComputePipelines", "llvmpipe", "detail"),
        errors.OutOfDeviceMemory(1 << 40, 5, 10),
        errors.ValidationError("the message", "VUID-vkCmdDispatch-groupCountX-00386", "a.py:3"),
        errors.MissingFeature("the device lacks shaderFloat64"),
        errors.KernelError("a.py:1:2: no"),
        errors.DataError("a wrong file"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_pickled(error: errors.VkComputeError) -> None:
    restored = pickle.loads(pickle.dumps(error))
    assert (type(restored), str(restored), vars(restored)) == (type(error), str(error), vars(error))
