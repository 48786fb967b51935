"""What is known of single drivers, in one table, each entry with its reason. Nothing else asks who made a driver."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    texel_loads: bool = False
    max_loop_iterations: int | None = None
    masks_branches: bool = False


_TABLE = {
    # A storage-buffer load is a bounds-checked scalar loop over the lanes, a texel load a vector gather: multiplying
    # 1M float32 takes 0.44 ms with texel loads and 64-bit stores, 1.0 ms with vec4 (Mesa 22.3.6). Loops end after
    # LP_MAX_TGSI_LOOP_ITERATIONS = 65,535 iterations.
    "VK_DRIVER_ID_MESA_LLVMPIPE": Quirks(texel_loads=True, max_loop_iterations=65_535),
    # With a second way to load rows, which is never taken, training on 100 features took 1.5 times as long.
    "VK_DRIVER_ID_GOOGLE_SWIFTSHADER": Quirks(masks_branches=True),
}
_BY_ID = {vk.constant(name): quirks for name, quirks in _TABLE.items()}
_NONE = Quirks()


def quirks_of(physical: PhysicalDevice) -> Quirks:
    """The quirks of a device's driver; those of none if it is not in the table."""
    return _BY_ID.get(physical.properties["driverID"], _NONE)
