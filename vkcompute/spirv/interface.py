"""What the outside sees of a compute shader, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vkcompute.errors import SpirvError

_MAX_ITEMSIZE = 2**31 - 1  # of a numpy dtype: it is a C int


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a block, as its bytes lie in memory.

    Attributes:
        name: as in the source; "" in a stripped module.
        offset_bytes: from the start of the block, or of the structure that it is a member of.
        dtype: numpy's name of the scalar type; "uint64" for a buffer address; "" for a structure.
        shape: outermost dimension first, () for a scalar, (3,) for a vec3. A column-major matrix is (columns, rows), a
            row-major one (rows, columns). A first dimension of 0 is a runtime-sized array.
        strides_bytes: distance of neighbours along each dimension of `shape`.
        nbytes: from the first byte to the last; the padding after the last structure of an array counts as well, the
            elements of a runtime-sized array do not.
        members: those of a structure, () otherwise.
    """

    name: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    nbytes: int
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The structure behind a buffer or the push constants.

    Attributes:
        name: of the structure type, "" in a stripped module.
        members: in the order of declaration.
        nbytes: to the end of the last member, rounded up to 4 bytes; of a runtime-sized array, only what precedes it.
    """

    name: str
    members: tuple[Member, ...]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[np.void]:
        """numpy's structured type of the block: `itemsize` is `nbytes`, offsets are the block's.

        Raises:
            SpirvError: a member's stride leaves gaps between scalars (an array of vec3 or of floats in std140, a mat3),
                is runtime-sized, or has a type that numpy lacks.
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
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": nbytes})


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
            raise SpirvError(f"{where} is {member.dtype}, which numpy has no type for; pass its bits as uint") from None
    expected = base.itemsize
    for length, stride in zip(reversed(member.shape), reversed(member.strides_bytes), strict=True):
        if stride != expected:
            raise SpirvError(
                f"{where}: neighbours lie {stride} bytes apart and are {expected} bytes long, and numpy's subarrays "
                "have no gaps; use vec4 or layout(scalar), or write the bytes at `offset_bytes` and `strides_bytes`"
            )
        expected *= length
    if max((expected, *member.shape)) > _MAX_ITEMSIZE:
        raise SpirvError(f"{where} has {expected} bytes; numpy's structured types have at most {_MAX_ITEMSIZE}")
    return np.dtype((base, member.shape)) if member.shape else base


@dataclass(frozen=True, slots=True)
class Element:
    """What a plain array in a storage buffer is made of.

    Attributes:
        dtype: numpy's name of the scalar type.
        width: components, 4 for a vec4, 1 for a scalar.
        stride_bytes: distance of neighbouring elements; more than the element's own size where there is padding.
    """

    dtype: str
    width: int
    stride_bytes: int


@dataclass(frozen=True, slots=True)
class Texel:
    """What an image or texel buffer is made of.

    Attributes:
        dtype: numpy's name of the type that a component is read as.
        dim: SPIR-V's name of the dimensionality: "Dim1D", "Dim2D", "Dim3D", "Cube", "Buffer" and so on.
        format: SPIR-V's name of the texel format, e.g. "Rgba32f"; "Unknown" where the shader leaves it open.
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
        set, binding: its address.
        name: of the variable; of an unnamed block, of its only member, or else of its type; "" in a stripped module.
        kind: "storage_buffer", "uniform_buffer", "storage_texel_buffer", "uniform_texel_buffer", "storage_image",
            "sampled_image", "sampler", "combined_image_sampler", "input_attachment" or "acceleration_structure".
        count: descriptors in the array, 1 where it is none, 0 where the array is runtime-sized.
        reads, writes: whether the entry point may read or write the memory behind it.
        element: of a storage buffer that is nothing but one runtime-sized array of scalars or vectors; None otherwise,
            and where two variables see the same binding through different element types.
        block: of a buffer, else None; the first one where several variables share the binding.
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
    block: Block | None = None
    texel: Texel | None = None


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """One specialization constant.

    Attributes:
        spec_id: the number that a VkSpecializationMapEntry names.
        name: "" where the module has none, as for local sizes.
        dtype: "bool" (a VkBool32 of 4 bytes to the driver), or numpy's name of the scalar type.
        default: its value when it is not specialized.
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
        spec_ids: of each axis, the specialization constant that it is, or None where it is fixed.
    """

    default: tuple[int, int, int]
    spec_ids: tuple[int | None, int | None, int | None]

    def effective(self, specialization: Mapping[int, int]) -> tuple[int, int, int]:
        """The size with the constants of `specialization` (spec id -> value) set."""
        sizes = [
            default if spec_id is None else int(specialization.get(spec_id, default))
            for default, spec_id in zip(self.default, self.spec_ids, strict=True)
        ]
        return sizes[0], sizes[1], sizes[2]


@dataclass(frozen=True, slots=True)
class SharedPart:
    """One summand of a workgroup's memory: `nbytes` times the values of specialization constants.

    Attributes:
        nbytes: bytes per element of the arrays that it stands for; all of them where `lengths` is ().
        lengths: (spec id, default value) of every constant to multiply it by.
    """

    nbytes: int
    lengths: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WorkgroupMemory:
    """What the invocations of a workgroup share (GLSL's `shared`), as `workgroup.workgroup_memory` counts it.

    A lower bound, without the padding that a driver may add. An array whose length is computed from specialization
    constants in other ways than by multiplication counts as one element.
    """

    parts: tuple[SharedPart, ...]

    def effective(self, specialization: Mapping[int, int]) -> int:
        """Bytes that a workgroup needs at least, with the constants of `specialization` (spec id -> value) set."""
        return sum(
            part.nbytes * math.prod(int(specialization.get(spec_id, default)) for spec_id, default in part.lengths)
            for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Interface:
    """All of one compute entry point.

    What a shader reaches through buffer addresses (capability PhysicalStorageBufferAddresses) shows in no binding.

    Attributes:
        entry_point: its name, which the pipeline is created with.
        version: of SPIR-V, (major, minor).
        local_size: invocations of a workgroup.
        workgroup_memory: what they share.
        bindings: ordered by (set, binding).
        push_constants: their block, or None.
        spec_constants: ordered by spec id.
        capabilities: names as in the SPIR-V specification, e.g. "Float64", in the order of declaration.
        extensions: names of the SPIR-V extensions, e.g. "SPV_KHR_storage_buffer_storage_class".
        counts_groups: whether it may look at the number of workgroups.
    """

    entry_point: str
    version: tuple[int, int]
    local_size: LocalSize
    workgroup_memory: WorkgroupMemory
    bindings: tuple[Binding, ...]
    push_constants: Block | None
    spec_constants: tuple[SpecConstant, ...]
    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]
    counts_groups: bool
