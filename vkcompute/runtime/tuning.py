"""Tuning: what is only faster on a kind of device, in one table with the measurements.

Results are the same with the figures of any other kind, but for the rounding of sums in another order. What a driver
does wrongly, or lacks, is in `core/quirks.py`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from vkcompute.core.physical import PhysicalDevice

_INTEL = 0x8086  # by the PCI-SIG


class Tuning(NamedTuple):
    """The figures of a kind of device. A CPU runs few invocations, each with much work, and its barriers are slow.

    Attributes:
        few_runs: runs of bytes of a view up to which it is copied by regions. An H200 takes 1.7 us per region; see also
            `Quirks.region_elements`.
        scan_part, segment_part, selection_part, radix_part: the most elements that an invocation takes.
        dense_selection: the share of true elements above which a selection stores every element, where the next
            selected one replaces the others. On lavapipe, half of 16 Mi indices take 28 ms of CPU time so. Loops over
            the true bits of words, in which lanes wait for the longest, take 38.
        radix_own: elements of an invocation where workgroups sort tiles; 0 for a radix sort by parts. For navi21, AMD's
            compiler needs 40 registers with 8 elements, and 299 cycles per element; with 16, 56 and 412.
        sums_in_tables: an invocation sums the values of up to 256 indices in memory of its own. For 1M float32 and 100
            indices that takes 6 ms of CPU time on lavapipe, and 51 by sorting them.
        digit_bits: of a digit of a selection.
        searched_chunk: the most elements of a line's chunk whose extreme is computed apart. `argmin` of 16 Mi float32
            takes 3.9 ms of CPU time on lavapipe with 65,536, and 4.3 with 16,384.
        hashed_rows: rows per key from which equal rows are those of a hash table, and not of a sort: for keys of one
            word, and of several. Groups of 1M int32 with 10,000 keys take 76 ms of CPU time on lavapipe by a table, and
            114 by a sort; with 100,000 keys, 149 and 109. Of int64 they take 104 and 214, and 177 and 213.
        counts_on_host: 0 to n - 1 are made by NumPy and uploaded, rather than by a kernel.
        transposes_by_blocks: copies of transposed views are a block program.
        reduces_by_workgroups: invocations of a workgroup reduce together. On lavapipe that takes 2 to 20 times as long.
        mixes_blocks: elements are computed in blocks also where some arrays are accessed singly. A store of an element,
            and the division that finds its place, take longer on a CPU than the rest of most functions.
        own_elements: elements of a block that an invocation holds before a block program takes another subgroup.
            Softmax of 4096 x 1024 takes 11 ms of CPU time on lavapipe with 128, and 26 ms with 32.
        smallest_subgroups: block programs have the smallest subgroups for which a pipeline may ask. Intel's compilers
            give a subgroup 128 registers, each of as many words as the smallest subgroup has invocations. For an Arc
            A770M, Mesa 22.3.6 spills 1,336 registers of a product with 64 sums in subgroups of 32, and compiles for a
            minute. Of attention with 16 sums, it spills 457 in subgroups of 16, and none in those of 8.
        sums: sums of a product that an invocation holds. A product of 1024^3 takes 100 ms of CPU time on lavapipe with
            128, and 150 ms with 64.
        stages: operands of products pass through workgroup memory, which is no faster than the caches of a CPU.
        shuffles: changes of layout within a subgroup are shuffles, and do not pass through workgroup memory. Attention
            in blocks of 16 x 16 takes 0.30 ms of CPU time on lavapipe so, and 0.72 through memory.
        product_sums, product_columns, product_terms: the most sums and columns of a block of a product by a block
            program, and the terms that are loaded together. On a CPU, a subgroup holds the sums in its first cache. A
            product of 1024^3 takes 86 ms of CPU time on lavapipe; with 128 columns and 8 terms, 117. For navi21, AMD's
            compiler spills nothing, and 87 % of the instructions of the loop are fused multiply-adds.
        moment_lengths: elements of a part of a line whose moments a block program computes, the best first if as few
            elements are left over.
        fewest_moments: the fewest elements of an array whose lines have several such parts. To combine them takes four
            launches. These cost the host a millisecond beside an H200, which reads 2**30 elements in that time.
        moments_need_texels: float16, and elements that are not loaded as texels, are read twice for a variance. The
            block program takes up to twice as long, for float16 on lavapipe, for others on SwiftShader.
        weight_blocks: blocks of lines of a program that loads weights once. Layer norm takes 8.9 ms of CPU time on
            lavapipe with 16, and 10.4 with one.
        takes_matrices: products use cooperative matrices.
        row_lanes: local size of the shaders that reduce over rows (shaders/include/logistic_columns.glsl).
        busy_groups: workgroups that keep the whole device busy. A CPU runs one per core at a time; several per core
            even out cores that are interrupted.
        submit_limit_s: the default of `Runtime`. Desktops kill work that occupies their GPU for seconds.
        submits_early: an idle queue gets its first launch at once, so that the device works while Python enqueues. On a
            CPU the driver runs on the cores that Python needs.
        sequence_rows: the largest batch of which one workgroup makes several steps of training.
        sequence_products: the same in multiplications, where rows alone do not tell; 0 elsewhere. On lavapipe a launch
            costs as much as some 30,000 multiplications by weights, and each row as much as four more.
    """

    few_runs: int = 16
    scan_part: int = 32
    segment_part: int = 32
    selection_part: int = 32
    dense_selection: float = 1.0
    radix_part: int = 32
    radix_own: int = 8
    sums_in_tables: bool = False
    digit_bits: int = 4
    searched_chunk: int = 1 << 14
    hashed_rows: tuple[int, int] = (32, 2)
    counts_on_host: bool = False
    transposes_by_blocks: bool = False
    reduces_by_workgroups: bool = True
    mixes_blocks: bool = False
    own_elements: int = 1
    smallest_subgroups: bool = False
    sums: int = 64
    stages: bool = True
    shuffles: bool = False
    product_sums: int = 8192
    product_columns: int = 128
    product_terms: int = 8
    moment_lengths: tuple[int, ...] = (4096, 2048, 1024, 512)
    fewest_moments: int = 1 << 28
    moments_need_texels: bool = False
    weight_blocks: int = 1
    takes_matrices: bool = True
    row_lanes: int = 64
    busy_groups: int = 1024
    submit_limit_s: float | None = 0.5
    submits_early: bool = True
    sequence_rows: int = 2048
    sequence_products: int = 0


ON_GPU = Tuning()
ON_INTEL = ON_GPU._replace(smallest_subgroups=True, sums=16, product_sums=4096)
ON_CPU = Tuning(
    few_runs=64,
    scan_part=256,
    segment_part=256,
    selection_part=1024,
    dense_selection=0.35,
    radix_part=2064,
    radix_own=0,
    sums_in_tables=True,
    digit_bits=8,
    searched_chunk=1 << 16,
    counts_on_host=True,
    transposes_by_blocks=True,
    reduces_by_workgroups=False,
    mixes_blocks=True,
    own_elements=128,
    sums=128,
    stages=False,
    shuffles=True,
    product_sums=1024,
    product_columns=64,
    product_terms=4,
    moment_lengths=(1024, 512),
    fewest_moments=1 << 23,
    moments_need_texels=True,
    weight_blocks=16,
    takes_matrices=False,
    row_lanes=8,
    busy_groups=8 * (os.cpu_count() or 1),
    submit_limit_s=None,
    submits_early=False,
    sequence_products=1 << 16,
)


def tuning_of(device: PhysicalDevice) -> Tuning:
    """Returns the figures of the kind of a device."""
    if device.kind == "cpu":
        return ON_CPU
    return ON_INTEL if device.vendor_id == _INTEL else ON_GPU
