"""`tl.target_info`: questions about NVIDIA's and AMD's devices, which are False on all devices of Vulkan."""

from __future__ import annotations

__all__ = ["cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3", "is_hip_cdna4"]


def current_target() -> None:
    """Returns None."""


def is_cuda() -> bool:
    """Returns False."""
    return False


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Returns False."""
    return False


is_hip = is_hip_cdna3 = is_hip_cdna4 = is_cuda
