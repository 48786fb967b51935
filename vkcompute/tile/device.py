"""The target of a device, for block programs."""

from __future__ import annotations

import math
from functools import partial

from vkcompute.compiled.blocks import block_of
from vkcompute.compiled.target import target_of
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.runtime.memory.context import cached
from vkcompute.runtime.runtime import Runtime
from vkcompute.runtime.tuning import tuning_of
from vkcompute.tile.registers import ADJACENT
from vkcompute.tile.target import MatrixShape, Target

_FEATURES = "cooperativeMatrix", "vulkanMemoryModel"
_LAYOUT = "workgroupMemoryExplicitLayout"
_OVERLAY_FEATURES = _LAYOUT, f"{_LAYOUT}8BitAccess", f"{_LAYOUT}16BitAccess"
_BRAIN_FEATURES = "shaderBFloat16Type", "shaderBFloat16CooperativeMatrix"


def block_target(runtime: Runtime) -> Target:
    """Returns the target of block programs on a device."""
    return cached(runtime, Target, partial(_target, runtime))


def _target(runtime: Runtime) -> Target:
    physical = runtime.device.physical
    tuning, words = tuning_of(physical), block_of(runtime, [4])
    size = _subgroup_size(runtime.device)
    return Target(
        size,
        _max_invocations(runtime.device, size),
        physical.limits["maxComputeSharedMemorySize"],
        runtime.device.features.issuperset(_OVERLAY_FEATURES),
        words.texels,
        words.word,
        tuning.own_elements,
        tuning.sums,
        stages=tuning.stages,
        shuffles=tuning.shuffles and size > 1,
        matrices=matrices_of(runtime) if tuning.takes_matrices else (),
    )


def _subgroup_size(device: LogicalDevice) -> int:
    physical = device.physical
    if "shuffle" not in physical.subgroup_operations or not device.has_one_subgroup_size:
        return 1
    is_small = tuning_of(physical).smallest_subgroups and device.asks_for_subgroup_size
    return physical.min_subgroup_size if is_small else physical.subgroup_size


def _max_invocations(device: LogicalDevice, subgroup_size: int) -> int:
    """Returns the most invocations of a workgroup of full subgroups, a power of two."""
    limits, properties = device.physical.limits, device.physical.properties
    most = min(limits["maxComputeWorkGroupInvocations"], limits["maxComputeWorkGroupSize"][0])
    if subgroup_size > 1 and device.asks_for_subgroup_size:
        most = min(most, subgroup_size * properties["maxComputeWorkgroupSubgroups"])
    return 1 << int(most).bit_length() - 1


def matrices_of(runtime: Runtime) -> tuple[MatrixShape, ...]:
    """Returns the cooperative matrices of a device for products of which both operands have one type, largest first."""
    device = runtime.device
    if not (device.features.issuperset(_FEATURES) and device.has_one_subgroup_size):
        return ()
    missing = {*target_of(runtime).missing_types}
    if "uint16" in missing or not device.features.issuperset(_BRAIN_FEATURES):
        missing.add("bfloat16")
    shapes = [
        MatrixShape(*product[:3], product.left, product.sums)
        for product in device.physical.matrix_products
        if not {product.left, product.sums}.intersection(missing)
        and product.left == product.right
        and product.sums == product.result
        and min(product[:3]) >= ADJACENT
    ]
    return tuple(sorted(shapes, key=lambda shape: -math.prod(shape[:3])))
