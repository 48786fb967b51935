"""Compilation for AMD GPUs that this machine may lack, by the compiler in Mesa's driver radv.

With RADV_FORCE_FAMILY, radv imitates a GPU of that family. It ends the process for a family that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from vkcompute.errors import NoDevice, VkComputeError
from vkcompute.runtime.launching.imitated_gpu import Compilation, ImitatedGPU, Outcome, Shader, outcomes_on

_FAMILIES = "vega10, navi10 or navi21"


def compile_for(family: str, shaders: Sequence[Shader]) -> list[Compilation]:
    """Compiles shaders for a family of AMD GPUs, such as "navi21", in a process of its own.

    Raises:
        NoDevice: radv is not installed.
        ValueError: radv does not know the family.
        MissingFeature: the GPU lacks something that a shader needs, or has too little of it.
        VkComputeError: the compiler fails.
    """
    compiled = []
    for outcome in outcomes_for(family, shaders):
        if isinstance(outcome, VkComputeError):
            raise outcome
        compiled.append(outcome)
    return compiled


def outcomes_for(family: str, shaders: Sequence[Shader]) -> list[Outcome]:
    """Compiles shaders as `compile_for`; one that fails has its error in the place of its compilation.

    Raises:
        NoDevice, ValueError: as of `compile_for`.
        VkComputeError: the compiler ends before the first shader.
    """
    if not family.isalnum():
        raise ValueError(_unknown(family))
    try:
        return outcomes_on(ImitatedGPU(family, f"RADV {family}", {"RADV_FORCE_FAMILY": family}), shaders)
    except NoDevice:
        raise NoDevice(
            "AMD's compiler is a part of Mesa's driver radv, which is not installed; install it (Debian and Ubuntu: "
            "`apt install mesa-vulkan-drivers`)"
        ) from None
    except VkComputeError as error:
        if "Unknown family" in str(error):
            raise ValueError(_unknown(family)) from None
        raise


def _unknown(family: str) -> str:
    return f"the installed radv knows no family of GPUs called {family!r}; take {_FAMILIES}, or another of Mesa's names"
