"""The interface of a compute shader, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from vkcompute.errors import SpirvError

_MAX_ITEMSIZE = 2**31 - 1  # of a numpy dtype: it is a C int


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a block, with its memory layout.

    Attributes:
        name: as in the source; "" in a stripped module.
        offset_bytes: from the start of the block, or of the enclosing structure.
        dtype: numpy's name of the scalar type; "uint64" for a buffer address; "" for a structure.
        shape: outermost dimension first, () for a scalar, (3,) for a vec3. A column-major matrix is (columns, rows), a
            row-major one (rows, columns). A first dimension of 0 is a runtime-sized array.
        strides_bytes: distance of neighbours along each dimension of `shape`.
        nbytes: from the first byte to the last. Includes the padding after the last structure of an array, excludes
            the elements of a runtime-sized array.
        members: of a structure, else ().
    """

    name: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    nbytes: int
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class InterfaceBlock:
    """The structure of a buffer or of push constants.

    Attributes:
        name: of the structure type, "" in a stripped module.
        members: in the order of declaration.
        nbytes: to the end of the last member, rounded up to 4 bytes; up to the start of a runtime-sized array.
    """

    name: str
    members: tuple[Member, ...]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[np.void]:
        """numpy's structured type of the block, with `itemsize` equal to `nbytes`.

        Raises:
            SpirvError: a member has gaps between scalars (an array of vec3 or of floats in std140, a mat3), is
                runtime-sized, or has a type that numpy lacks.
        """
        return _structured(self.members, self.nbytes, self.name or "block")


def _structured(members: tuple[Member, ...], nbytes: int, where: str) -> np.dtype[np.void]:
    seen: set[str] = set()
    names, formats = [], []
    for number, member in enumerate(members):
        name = member.name if member.name and member.name not in seen else f"f{number}"
        seen.add(name)
        names.append(name)
        formats.append(_format(member, f"{where}.{name}"))
    offsets = [member.offset_bytes for member in members]
    end = max((member.offset_bytes + member.nbytes for member in members), default=0)
    if not end <= nbytes <= _MAX_ITEMSIZE or len(set(names)) < len(names):
        raise SpirvError(f"{where}: members {names} up to byte {end} of {nbytes}: numpy has no structured type for it")
    description = {"names": names, "formats": formats, "offsets": offsets, "itemsize": nbytes}
    return cast("np.dtype[np.void]", np.dtype(cast(Any, description)))


def _format(member: Member, where: str) -> np.dtype[np.generic]:
    """numpy's type of one member: a scalar, a structure, or a subarray without gaps."""
    if 0 in member.shape:
        raise SpirvError(f"{where} is runtime-sized; a structured type has a fixed size")
    stride = member.strides_bytes[-1] if member.strides_bytes else member.nbytes
    base: np.dtype[np.generic]
    if member.members:
        base = _structured(member.members, stride, where)
    else:
        try:
            base = np.dtype(member.dtype)
        except TypeError:
            raise SpirvError(f"{where} is {member.dtype}, a type that numpy lacks; pass its bits as uint") from None
    expected = base.itemsize
    for length, stride in zip(reversed(member.shape), reversed(member.strides_bytes), strict=True):
        if stride != expected:
            raise SpirvError(
                f"{where}: the stride is {stride} bytes for elements of {expected} bytes; numpy's subarrays "
                "have no gaps; use vec4 or layout(scalar), or write the bytes at `offset_bytes` and `strides_bytes`"
            )
        expected *= length
    if max((expected, *member.shape)) > _MAX_ITEMSIZE:
        raise SpirvError(f"{where} has {expected} bytes; numpy's structured types have at most {_MAX_ITEMSIZE}")
    return np.dtype((base, member.shape)) if member.shape else base


@dataclass(frozen=True, slots=True)
class Element:
    """The element of a plain array in a storage buffer.

    Attributes:
        dtype: numpy's name of the scalar type.
        width: components, 4 for a vec4, 1 for a scalar.
        stride_bytes: distance of consecutive elements; more than the size of an element if there is padding.
    """

    dtype: str
    width: int
    stride_bytes: int


@dataclass(frozen=True, slots=True)
class Texel:
    """The texel of an image or texel buffer.

    Attributes:
        dtype: numpy's name of the type of a component in the shader.
        dim: SPIR-V's name of the dimensionality: "Dim1D", "Dim2D", "Dim3D", "Cube", "Buffer" etc.
        format: SPIR-V's name of the texel format, e.g. "Rgba32f"; "Unknown" if the shader does not declare it.
        arrayed, multisampled: as in the type.
    """

    dtype: str
    dim: str
    format: str
    arrayed: bool
    multisampled: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """One descriptor binding.

    Attributes:
        set, binding: numbers in the shader's layout.
        name: of the variable. For an unnamed block, of its only member, else of its type; "" in a stripped module.
        kind: "storage_buffer", "uniform_buffer", "storage_texel_buffer", "uniform_texel_buffer", "storage_image",
            "sampled_image", "sampler", "combined_image_sampler", "input_attachment" or "acceleration_structure".
        count: descriptors in the array; 1 for no array, 0 for a runtime-sized one.
        reads, writes: True if the entry point may read or write the bound memory.
        element: of a storage buffer that is a single runtime-sized array of scalars or vectors, else None; None too if
            two variables have this binding with different element types.
        block: of a buffer, else None. If several variables have this binding, the first one's.
        texel: of an image or texel buffer, else None.
    """

    set: int
    binding: int
    name: str
    kind: str
    count: int
    reads: bool
    writes: bool
    element: Element | None = None
    block: InterfaceBlock | None = None
    texel: Texel | None = None


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """One specialization constant.

    Attributes:
        spec_id: the constantID of a VkSpecializationMapEntry.
        name: "" without an OpName, as for local sizes.
        dtype: "bool" (a VkBool32 of 4 bytes to the driver), or numpy's name of the scalar type.
        default: its value without specialization.
    """

    spec_id: int
    name: str
    dtype: str
    default: bool | int | float


@dataclass(frozen=True, slots=True)
class LocalSize:
    """Invocations of a workgroup along x, y and z.

    Attributes:
        default: without specialization.
        spec_ids: the specialization constant of each axis, or None for a fixed size.
    """

    default: tuple[int, int, int]
    spec_ids: tuple[int | None, int | None, int | None]

    def effective(self, specialization: Mapping[int, int]) -> tuple[int, int, int]:
        """The size with the constants in `specialization` (spec id -> value)."""
        sizes = [
            default if spec_id is None else int(specialization.get(spec_id, default))
            for default, spec_id in zip(self.default, self.spec_ids, strict=True)
        ]
        return sizes[0], sizes[1], sizes[2]


@dataclass(frozen=True, slots=True)
class SharedMemoryTerm:
    """One term of a workgroup's memory: `nbytes` times the values of specialization constants.

    Attributes:
        nbytes: bytes to multiply; the whole term if `lengths` is ().
        lengths: (spec id, default value) of every factor.
    """

    nbytes: int
    lengths: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WorkgroupMemory:
    """A lower bound of the memory of a workgroup (GLSL's `shared`) or of an invocation.

    It is the sum of `terms`, without a driver's padding. An array counts as one element if its length is an expression
    of specialization constants other than a product.
    """

    terms: tuple[SharedMemoryTerm, ...]

    def effective(self, specialization: Mapping[int, int]) -> int:
        """The bytes with the constants in `specialization` (spec id -> value)."""
        return sum(
            term.nbytes * math.prod(int(specialization.get(spec_id, default)) for spec_id, default in term.lengths)
            for term in self.terms
        )


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface of one compute entry point.

    Memory accessed through buffer addresses (capability PhysicalStorageBufferAddresses) has no binding.

    Attributes:
        entry_point: its name, for the creation of a pipeline.
        version: of SPIR-V, (major, minor).
        local_size: invocations of a workgroup.
        workgroup_memory: the size of its shared memory.
        private_memory: the size of its variables per invocation.
        bindings: ordered by (set, binding).
        push_constants: the block, or None.
        spec_constants: ordered by spec id.
        capabilities: names as in the SPIR-V specification, e.g. "Float64", in the order of declaration.
        extensions: names of the SPIR-V extensions, e.g. "SPV_KHR_storage_buffer_storage_class".
        reads_num_workgroups: True if it may read the number of workgroups.
        float_controls: properties of devices that its modes for floats require, e.g. "shaderDenormPreserveFloat32".
    """

    entry_point: str
    version: tuple[int, int]
    local_size: LocalSize
    workgroup_memory: WorkgroupMemory
    private_memory: WorkgroupMemory
    bindings: tuple[Binding, ...]
    push_constants: InterfaceBlock | None
    spec_constants: tuple[SpecConstant, ...]
    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]
    reads_num_workgroups: bool
    float_controls: tuple[str, ...] = ()
