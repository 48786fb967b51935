"""What is known of single drivers, in one table, each entry with its reason. Nothing else asks who made a driver."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice


@dataclass(frozen=True, slots=True)
class Quirks:
    """How a driver differs.

    Attributes:
        texel_loads: kernels had better load through texel buffers than through storage buffers.
        max_loop_iterations: iterations after which an invocation's loops end without a word, all its loops together;
            None where they do not.
        masks_branches: what a specialization constant rules out is run all the same, with all lanes masked.
        flushes_float64: arithmetic takes float64 subnormals for 0, and gives 0 for them.
        survives_forks: forked children may open devices while their parent has one open.
    """

    texel_loads: bool = False
    max_loop_iterations: int | None = None
    masks_branches: bool = False
    flushes_float64: bool = False
    survives_forks: bool = False


_TABLE = {
    # A storage-buffer load is a bounds-checked scalar loop over the lanes, a texel load a vector gather: multiplying
    # 1M float32 takes 0.44 ms with texel loads and 64-bit stores, 1.0 ms with vec4 (Mesa 22.3.6; 25.0.7 and 26.1.6
    # alike). Loops end after LP_MAX_TGSI_LOOP_ITERATIONS = 65,535 iterations, but not in _UNLIMITED and later.
    # Its threads belong to a device. All of SwiftShader's share some: launches in a forked child would wait for ever.
    "VK_DRIVER_ID_MESA_LLVMPIPE": Quirks(texel_loads=True, max_loop_iterations=65_535, survives_forks=True),
    # With a second way to load rows, which is never taken, training on 100 features took 1.5 times as long.
    "VK_DRIVER_ID_GOOGLE_SWIFTSHADER": Quirks(masks_branches=True),
}
_LAVAPIPE = vk.constant("VK_DRIVER_ID_MESA_LLVMPIPE")
_BY_ID = {vk.constant(name): quirks for name, quirks in _TABLE.items()}
# Mesa's major versions: of 24 it is not known; 25.0.7 keeps subnormals. shaderDenormPreserveFloat64 is 0 in all.
_UNLIMITED, _FLUSHING = 25, 26


def quirks_of(physical: PhysicalDevice) -> Quirks:
    """The quirks of a device's driver; those of none if it is not in the table."""
    return _quirks(physical.properties["driverID"], physical.properties["driverInfo"])


@cache
def _quirks(driver: int, info: str) -> Quirks:
    quirks, mesa = _BY_ID.get(driver, Quirks()), re.search(r"Mesa (\d+)", info)
    if driver != _LAVAPIPE or mesa is None:
        return quirks
    version = int(mesa[1])
    limit = None if version >= _UNLIMITED else quirks.max_loop_iterations
    return replace(quirks, max_loop_iterations=limit, flushes_float64=version >= _FLUSHING)
