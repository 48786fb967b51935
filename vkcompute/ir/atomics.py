"""The table of atomic operations on an element of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vkcompute.ir.types import Scalar
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.enums import Capability

_ADD_EXTENSION, _MIN_MAX_EXTENSION = "SPV_EXT_shader_atomic_float_add", "SPV_EXT_shader_atomic_float_min_max"


class Atomic(NamedTuple):
    """One row of the table.

    Attributes:
        opcodes: by kind of element: "i" int, "u" uint, "f" float.
        float_feature: the end of the name of Vulkan's feature for floats.
        float_capabilities: by bits of a float, beyond those of its type.
        extension: the SPIR-V extension that defines the operation on floats.
        emulation_only: True if kernels do not call it; the emulation of float atomics does.
    """

    opcodes: Mapping[str, int]
    float_feature: str = ""
    float_capabilities: Mapping[int, int] = {}
    extension: str = ""
    emulation_only: bool = False

    def takes(self, element: Scalar) -> bool:
        """True if the operation takes elements of this type."""
        return element.kind in self.opcodes


ATOMICS = {
    "add": Atomic(
        {"i": spv.OpAtomicIAdd, "u": spv.OpAtomicIAdd, "f": spv.OpAtomicFAddEXT},
        "AtomicAdd",
        {32: Capability.AtomicFloat32AddEXT, 64: Capability.AtomicFloat64AddEXT},
        _ADD_EXTENSION,
    ),
    "min": Atomic(
        {"i": spv.OpAtomicSMin, "u": spv.OpAtomicUMin, "f": spv.OpAtomicFMinEXT},
        "AtomicMinMax",
        {32: Capability.AtomicFloat32MinMaxEXT, 64: Capability.AtomicFloat64MinMaxEXT},
        _MIN_MAX_EXTENSION,
    ),
    "max": Atomic(
        {"i": spv.OpAtomicSMax, "u": spv.OpAtomicUMax, "f": spv.OpAtomicFMaxEXT},
        "AtomicMinMax",
        {32: Capability.AtomicFloat32MinMaxEXT, 64: Capability.AtomicFloat64MinMaxEXT},
        _MIN_MAX_EXTENSION,
    ),
    "and": Atomic({"i": spv.OpAtomicAnd, "u": spv.OpAtomicAnd}),
    "or": Atomic({"i": spv.OpAtomicOr, "u": spv.OpAtomicOr}),
    "xor": Atomic({"i": spv.OpAtomicXor, "u": spv.OpAtomicXor}),
    "exchange": Atomic(dict.fromkeys("iuf", spv.OpAtomicExchange), "Atomics"),
    # Of unsigned integers, compared as signed ones.
    "signed_min": Atomic({"u": spv.OpAtomicSMin}, emulation_only=True),
    "signed_max": Atomic({"u": spv.OpAtomicSMax}, emulation_only=True),
}
