"""Quirks of single drivers, in one table with reasons. No other code depends on a driver's identity."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice


@dataclass(frozen=True, slots=True)
class Quirks:
    """The quirks of one driver.

    Attributes:
        texel_loads: loads through texel buffers are faster than through storage buffers.
        max_loop_iterations: total iterations after which all loops of an invocation silently end; None if unlimited.
        masks_branches: branches that specialization constants rule out are executed with all lanes masked.
        flushes_float64: arithmetic flushes float64 subnormals to 0, as operands and as results.
        survives_forks: a forked child may open devices while its parent has one open.
    """

    texel_loads: bool = False
    max_loop_iterations: int | None = None
    masks_branches: bool = False
    flushes_float64: bool = False
    survives_forks: bool = False


_TABLE = {
    # A storage-buffer load is a bounds-checked scalar loop over the lanes; a texel load is a vector gather. To multiply
    # 1M float32 takes 0.44 ms with texel loads and 64-bit stores, 1.0 ms with vec4 (Mesa 22.3.6, 25.0.7 and 26.1.6).
    # Loops end after LP_MAX_TGSI_LOOP_ITERATIONS = 65,535 iterations before Mesa _UNLIMITED.
    # Each device has threads of its own. SwiftShader's devices share threads: launches in a forked child would hang.
    "VK_DRIVER_ID_MESA_LLVMPIPE": Quirks(texel_loads=True, max_loop_iterations=65_535, survives_forks=True),
    # With a second branch to load rows, never taken, training on 100 features took 1.5 times as long.
    "VK_DRIVER_ID_GOOGLE_SWIFTSHADER": Quirks(masks_branches=True),
}
_LAVAPIPE = vk.constant("VK_DRIVER_ID_MESA_LLVMPIPE")
_BY_ID = {vk.constant(name): quirks for name, quirks in _TABLE.items()}
# Major versions of Mesa. Of 24 the loop limit is unknown; 25.0.7 keeps subnormals. All of them report
# shaderDenormPreserveFloat64 = 0.
_UNLIMITED, _FLUSHING = 25, 26


def quirks_of(physical: PhysicalDevice) -> Quirks:
    """Returns the quirks of a device's driver; no quirks if it is not in the table."""
    return _quirks(physical.properties["driverID"], physical.properties["driverInfo"])


@cache
def _quirks(driver: int, info: str) -> Quirks:
    quirks, mesa = _BY_ID.get(driver, Quirks()), re.search(r"Mesa (\d+)", info)
    if driver != _LAVAPIPE or mesa is None:
        return quirks
    version = int(mesa[1])
    limit = None if version >= _UNLIMITED else quirks.max_loop_iterations
    return replace(quirks, max_loop_iterations=limit, flushes_float64=version >= _FLUSHING)
