"""Targets: what is known of the device for which a function is lowered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of a device that lowering depends on.

    Attributes:
        keeps_loop_results: True if the compiler keeps a loop's result that is the same value at all breaks. Others get
            one more exit of the loop, which is never taken.
        max_push_nbytes: the most bytes of push constants; Vulkan guarantees 128. Beyond them, all parameters are in a
            uniform buffer, which is bound last.
        max_storage_buffers: the most storage buffers that a kernel may bind; None for no limit.
        cuts_loops: True if the driver ends loops early, and a kernel may need one more buffer to detect that.
        max_texel_buffers: the most buffers that kernels load as texels; 0 where such loads are not the fastest.
        missing_types: names of the types that the device cannot store in buffers, or compute with. Those of 8 and 16
            bits are computed in 32 bits, and accessed by words (ir/small_types.py). Integers of 64 bits are pairs of
            words (ir/wide_types.py).
        preserved_floats: widths of floats whose infinities, NaN and signs of zeros the device can be told to keep.
        divides_exactly: True if quotients and square roots of float16 and float32 are rounded to the nearest, where
            neither they nor operands are subnormal. Otherwise they count as estimates (ir/float_division.py).
        recomputes_across_barriers: True if the compiler computes a value again at each use behind a barrier.
        declares_read_only: True if buffers that a kernel only reads are declared so. Some compilers then reuse what was
            loaded in a loop behind it, also in lanes that had left the loop before.
        broadcasts: True if a shuffle from a constant lane is to be a broadcast, which is faster on most GPUs.
        fences: True if fences are needed for their order, and wait for no other invocation. Otherwise atomic operations
            order memory by themselves.
        max_invocations: the most invocations of a workgroup; None for no limit. Larger ones are divided where possible.
    """

    keeps_loop_results: bool = False
    max_push_nbytes: int = 128
    max_storage_buffers: int | None = None
    cuts_loops: bool = False
    max_texel_buffers: int = 0
    missing_types: tuple[str, ...] = ()
    preserved_floats: tuple[int, ...] = ()
    declares_read_only: bool = True
    broadcasts: bool = True
    divides_exactly: bool = False
    recomputes_across_barriers: bool = False
    fences: bool = True
    max_invocations: int | None = None


ANY = Target()
"""The target of modules that run on any device with the features that their types need."""
