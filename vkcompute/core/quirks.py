"""Quirks of single drivers, in one table with reasons, and of the processor that executes the kernels of some.

No other code depends on a driver's identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from vkcompute.core import vk
from vkcompute.core.physical import PhysicalDevice


@dataclass(frozen=True, slots=True)
class Quirks:
    """The quirks of one driver.

    Attributes:
        texel_loads: loads through texel buffers are faster than through storage buffers.
        slow_broadcasts: a shuffle from a constant lane is faster than a broadcast of it.
        recomputes_across_barriers: a value that is used behind a barrier is computed again there, and all before it.
        scalar_loads: a load from a storage buffer takes as long for 64 bits as for 8.
        reloads_wide_vectors: a store of 64-bit numbers writes those of all lanes to the stack, and reloads them one by
            one. Processors whose store-to-load forwarding fails there are slow (`fails_store_forwarding`).
        max_loop_iterations: total iterations after which all loops of an invocation silently end; None if unlimited.
        max_nesting: depth of branches and loops beyond which they are silently ignored; None if unlimited.
        loses_loop_results: a result that all breaks of a loop have in common is that of the last lane to leave it.
        loses_functions_of_constants: a variable that branches set to constants, and to functions of constants, may keep
            the constant in all branches.
        reuses_masked_loads: what a loop has loaded from memory that is declared read-only is used behind the loop, too.
            Lanes that had left the loop have loaded 0.
        masks_branches: branches that specialization constants rule out are executed with all lanes masked.
        flushes_float64: arithmetic flushes float64 subnormals to 0, as operands and as results.
        survives_forks: a forked child may open devices while its parent has one open.
        loses_signs_of_zeros: a product with a selection between constants may be 0 where it is -0.
        wrong_conversions: conversions of numbers that it computes wrongly, by their names in `spirv/conversions.py`.
        simplifies_zeros: folds arithmetic with a constant 0 for all x: x * 0 to 0, x + 0 to x, x / 0 to undefined.
        divides_exactly: quotients and square roots of float16 and float32 are rounded to the nearest.
        divides_by_known_lanes: divides all lanes by the other arm of a selection if an integer divisor is known for
            each lane, and 0 in some.
        fences_wait: a memory barrier lets the other subgroups of the workgroup run first. One that waits in a loop for
            the subgroup at the barrier never ends.
        checks_are_free: bounds checks of buffers by the driver cost less than 2 %.
        region_elements: elements that a kernel copies in the time of one region of a copy command.
        max_private_nbytes: the most bytes of variables per invocation that its compiler takes.
        broken_features: features that it reports, but whose use may crash its compiler.
    """

    texel_loads: bool = False
    slow_broadcasts: bool = False
    recomputes_across_barriers: bool = False
    scalar_loads: bool = False
    reloads_wide_vectors: bool = False
    max_loop_iterations: int | None = None
    max_nesting: int | None = None
    loses_loop_results: bool = False
    loses_functions_of_constants: bool = False
    reuses_masked_loads: bool = False
    masks_branches: bool = False
    flushes_float64: bool = False
    survives_forks: bool = False
    loses_signs_of_zeros: bool = False
    wrong_conversions: tuple[str, ...] = ()
    simplifies_zeros: bool = False
    divides_exactly: bool = False
    divides_by_known_lanes: bool = False
    fences_wait: bool = False
    checks_are_free: bool = False
    region_elements: float = inf
    max_private_nbytes: int = 64 << 20
    broken_features: tuple[str, ...] = ()


_EVERY = 0, inf
# Drivers that share Mesa's compiler, NIR. Venus passes SPIR-V on to the driver of a host, perhaps one of these.
_MESA = (
    "INTEL_OPEN_SOURCE_MESA", "MESA_RADV", "MESA_LLVMPIPE", "MESA_TURNIP", "MESA_V3DV", "MESA_PANVK", "MESA_VENUS",
    "MESA_DOZEN", "MESA_NVK", "MESA_AGXV", "IMAGINATION_OPEN_SOURCE_MESA",
)  # fmt: skip
# Driver, the major versions that have the quirk (from the first up to the second, not included), and the quirk.
_TABLE: tuple[tuple[str, tuple[float, float], dict[str, Any]], ...] = (
    # A storage-buffer load is a bounds-checked scalar loop over the lanes; a texel load is a vector gather. To multiply
    # 1M float32 takes 0.44 ms with texel loads and 64-bit stores, 1.0 ms with vec4 (Mesa 22.3.6, 25.0.7 and 26.1.6).
    # For the same reason vectors of 64-bit integers are loaded and stored in half the time of those of 32 bits.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"texel_loads": True, "scalar_loads": True}),
    # LLVM 15 writes 64 bytes to the stack per lane. On a Xeon, a copy of 16 MiB takes 8.3 ms of CPU time by words of 64
    # bits, and 4.6 ms by words of 32 (Mesa 22.3.6). With LLVM 19 (25.0.7) it takes 3.4 to 4.4 ms and 4.6 ms, with LLVM
    # 22 (26.2.6) 2.0 ms and 3.0 ms. Mesa 23.2 of Ubuntu 22.04 has LLVM 15.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", (0, 24), {"reloads_wide_vectors": True}),
    # Kernels with barriers are coroutines, and LLVM 17 and later computes again behind them what depends on operands.
    # A softmax of 1024 numbers compiled in minutes; with shuffles from the own lane it takes 2 s (25.0.7 with LLVM 19;
    # 22.3.6 and 26.2.6 need none).
    ("VK_DRIVER_ID_MESA_LLVMPIPE", (23, 26), {"recomputes_across_barriers": True}),
    # A region takes 0.18 us, in a kernel an element 2 to 3 ns, of 1 to 8 bytes (Mesa 22.3.6).
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"region_elements": 64}),
    # A broadcast is a loop over the lanes, in search of an active one; a shuffle of 32 bits is one instruction. With
    # broadcasts, a matrix product of 1024^3 takes 190 ms of CPU time, with shuffles 95 (Mesa 22.3.6).
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"slow_broadcasts": True}),
    # LP_MAX_TGSI_LOOP_ITERATIONS. The limit of Mesa 24 is unknown.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", (0, 25), {"max_loop_iterations": 65_535}),
    # LP_MAX_TGSI_NESTING, in all versions.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"max_nesting": 80}),
    # Mesa 25.0.7 keeps subnormals. All versions report shaderDenormPreserveFloat64 = 0.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", (26, inf), {"flushes_float64": True}),
    # Each device has threads of its own. SwiftShader's devices share threads: launches in a forked child would hang.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"survives_forks": True}),
    # nir_opt_algebraic turns int64(x) < constant into comparisons of x. Its lower bound of int32 is the C literal
    # -0x80000000, which is positive: lavapipe and RADV of Mesa 22.3.6 find int64(x) < 5 always False. A later version
    # writes another literal; it is not known which was the first.
    *[(f"VK_DRIVER_ID_{name}", _EVERY, {"wrong_conversions": ("int32 to int64",)}) for name in _MESA],
    # A conversion to a narrower float and back is left out (lavapipe of Mesa 26.2.6; 25.0.7 computes it), as if nothing
    # were rounded. With NoContraction it is not.
    *[
        (f"VK_DRIVER_ID_{name}", (26, inf), {"wrong_conversions": ("float64 to float32", "float32 to float16")})
        for name in _MESA
    ],
    # LLVM, and RADV of Mesa 22.3.6, convert float64 to float16 by way of float32, and so round twice.
    *[
        (f"VK_DRIVER_ID_MESA_{name}", _EVERY, {"wrong_conversions": ("float64 to float16",)})
        for name in ("LLVMPIPE", "RADV")
    ],
    # Where the processor has no AVX-512, results of 2**24 and above keep their fractions, and 1.5 is rounded to 1 (Mesa
    # 22.3.6). Rounding up and down is right.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"wrong_conversions": ("truncation of float64", "rounding of float64")}),
    # lp_build_mul, lp_build_add, lp_build_sub and lp_build_div compare operands with the constant 0 (Mesa 22.3.6).
    # Other versions are assumed to do the same.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"simplifies_zeros": True}),
    # select(x < y, a * 1, a + -0) with a = -1 * select(x < y, 1, 0) is 0 (H200, driver 580.159). The module asks for
    # signs of zeros. It is not known whether hidden zeros (spirv/zeros.py) would help. They would take registers.
    ("VK_DRIVER_ID_NVIDIA_PROPRIETARY", _EVERY, {"loses_signs_of_zeros": True}),
    # Quotients and roots compile to the instructions of CPUs. Vulkan allows quotients to be off by 2.5 ulp, as on GPUs.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"divides_exactly": True}),
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"divides_exactly": True}),
    # LLVM 15 simplifies x / select(c, d, 1) to x for a vector d of constants with a 0 (Mesa 22.3.6). Lanes know their
    # constants from the index in the subgroup. Other versions are assumed to do the same.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"divides_by_known_lanes": True}),
    # Above 2**31 it rounds twice: 8 % of all values are 1 ulp off.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"wrong_conversions": ("uint32 to float32",)}),
    # Storage buffers are always checked. SwiftShader takes 9 to 14 % longer for kernels that mostly load and store.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"checks_are_free": True}),
    # Seen on Mesa 22.3.6. Its atomic operations, which are sequentially consistent, order memory without a barrier.
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"fences_wait": True}),
    # They replace the phi of the result by the value itself, which the lanes that are left in the loop change. Seen on
    # lavapipe 22.3.6, for kernels in GLSL, too; other versions are taken to do the same.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"loses_loop_results": True}),
    ("VK_DRIVER_ID_MESA_LLVMPIPE", _EVERY, {"loses_loop_results": True}),
    # It runs SPIRV-Tools' optimizer: see spirv/constant_operands.py.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"loses_functions_of_constants": True}),
    # SPIRV-Tools' elimination of redundancies, which it runs, uses a value of a loop's body behind the loop.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"reuses_masked_loads": True}),
    # With a second branch to load rows, never taken, training on 100 features took 1.5 times as long.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"masks_branches": True}),
    # A region takes 0.06 us, in a kernel an element 6 ns, of 8 bytes half as much.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"region_elements": 8}),
    # The compiler aborts the process at 512 KiB of variables per four invocations.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"max_private_nbytes": (128 << 10) - 1}),
    # vkCreateComputePipelines crashes if a branch or a loop chooses between two addresses.
    ("VK_DRIVER_ID_GOOGLE_SWIFTSHADER", _EVERY, {"broken_features": ("bufferDeviceAddress",)}),
)


def quirks_of(physical: PhysicalDevice) -> Quirks:
    """Returns the quirks of a device's driver; no quirks if it is not in the table."""
    return _quirks(physical.properties["driverID"], physical.properties["driverInfo"])


@cache
def _quirks(driver: int, info: str) -> Quirks:
    """Returns the quirks of a version; one that `info` does not tell counts as 0."""
    number = re.search(r"\d+", info)
    version = int(number[0]) if number else 0
    settings: dict[str, Any] = {}
    for name, (first, stop), quirk in _TABLE:
        if vk.constant(name) == driver and first <= version < stop:
            for key, value in quirk.items():
                settings[key] = (*settings.get(key, ()), *value) if isinstance(value, tuple) else value
    return Quirks(**settings)


CPUINFO = Path("/proc/cpuinfo")  # Linux


@cache
def fails_store_forwarding() -> bool:
    """True if a load of part of a 64-byte vector stalls after its store: on Intel's processors with AVX-512.

    Their store-to-load forwarding fails there: a Xeon (family 6, model 167) takes 12 cycles per load. False for an
    unknown processor.
    """
    try:
        fields = [line.split() for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    is_intel = ["vendor_id", ":", "GenuineIntel"] in fields
    return is_intel and any(field[:1] == ["flags"] and "avx512f" in field for field in fields)
