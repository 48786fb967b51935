"""Reflection: reads the interface of a compute entry point from a module."""

from __future__ import annotations

from collections.abc import Iterator

from vkcompute.errors import SpirvError
from vkcompute.spirv import enums
from vkcompute.spirv import opcodes as op
from vkcompute.spirv.bindings import Resources
from vkcompute.spirv.enums import BuiltIn, Decoration, ExecutionMode, ExecutionModel, StorageClass
from vkcompute.spirv.index import Index, literal, scalar_name
from vkcompute.spirv.instruction import Instruction, string_at
from vkcompute.spirv.interface import Interface, LocalSize, SpecConstant
from vkcompute.spirv.module import Module
from vkcompute.spirv.workgroup_memory import private_memory, workgroup_memory

# Built-in variables of compute shaders -> components.
_COMPONENTS = {
    **dict.fromkeys(range(BuiltIn.NumWorkgroups, BuiltIn.GlobalInvocationId + 1), 3),
    BuiltIn.LocalInvocationIndex: 1,
    **dict.fromkeys((BuiltIn.SubgroupSize, *range(BuiltIn.NumSubgroups, BuiltIn.SubgroupLocalInvocationId + 1)), 1),
}
_FLOAT_CONTROLS = {
    ExecutionMode.DenormPreserve: "DenormPreserve",
    ExecutionMode.DenormFlushToZero: "DenormFlushToZero",
    ExecutionMode.SignedZeroInfNanPreserve: "SignedZeroInfNanPreserve",
    ExecutionMode.RoundingModeRTE: "RoundingModeRTE",
    ExecutionMode.RoundingModeRTZ: "RoundingModeRTZ",
}
_COMPOSITES = (op.OpConstantComposite, op.OpSpecConstantComposite)


def reflect(module: Module, entry_point: str | None = None) -> Interface:
    """The interface of `module`'s compute entry point.

    Args:
        module: may be unvalidated.
        entry_point: its name; None selects the only one of the execution model GLCompute.

    Raises:
        SpirvError: no such entry point, several without a name given, or a malformed or unknown declaration.
    """
    entry, name = _entry_point(module, entry_point)
    index = Index(module)
    _check_inputs(module, index)
    resources = Resources(module, index, entry)
    return Interface(
        entry_point=name,
        version=module.version,
        local_size=_local_size(module, index, entry.operands[1]),
        workgroup_memory=workgroup_memory(module, index, entry),
        private_memory=private_memory(module, index, entry),
        bindings=resources.bindings(),
        push_constants=resources.push_constants(),
        spec_constants=_spec_constants(index),
        capabilities=tuple(enums.name(enums.Capability, capability.operands[0]) for capability in module.capabilities),
        extensions=tuple(string_at(extension.operands, 0, extension)[0] for extension in module.extensions),
        reads_num_workgroups=any(
            decorations.get(Decoration.BuiltIn) == (BuiltIn.NumWorkgroups,)
            for decorations in index.decorations.values()
        ),
        float_controls=tuple(_float_controls(module, entry.operands[1])),
    )


def _float_controls(module: Module, function: int) -> Iterator[str]:
    """Vulkan's properties that the execution modes for floats require, one per mode and width."""
    for mode in module.execution_modes:
        target, kind, *operands = mode.operands
        if target == function and kind in _FLOAT_CONTROLS and operands:
            yield f"shader{_FLOAT_CONTROLS[kind]}Float{operands[0]}"


def _entry_point(module: Module, wanted: str | None) -> tuple[Instruction, str]:
    """The selected OpEntryPoint, and its name."""
    named = [(entry_point, string_at(entry_point.operands, 2, entry_point)[0]) for entry_point in module.entry_points]
    compute = [pair for pair in named if pair[0].operands[0] == ExecutionModel.GLCompute]
    if not compute:
        models = [f"{enums.name(ExecutionModel, entry_point.operands[0])} {name!r}" for entry_point, name in named]
        raise SpirvError(f"no compute entry point; the module has {', '.join(models) or 'none'}")
    names = ", ".join(repr(name) for _, name in compute)
    if wanted is None and len(compute) > 1:
        raise SpirvError(f"{len(compute)} compute entry points: {names}; name one with entry_point=")
    for pair in compute:
        if wanted is None or pair[1] == wanted:
            if "\ufffd" in pair[1]:
                raise SpirvError(f"the name of the entry point is {pair[1]!r}; SPIR-V requires UTF-8")
            return pair
    raise SpirvError(f"no compute entry point {wanted!r}; the module has {names}")


def _check_inputs(module: Module, index: Index) -> None:
    """Checks that each input of a compute shader is a built-in variable of its type (Vulkan, "Built-In Variables")."""
    if any(entry_point.operands[0] != ExecutionModel.GLCompute for entry_point in module.entry_points):
        return
    for variable in module.declarations:
        if variable.opcode == op.OpVariable and variable.operands[2] == StorageClass.Input:
            identifier = variable.operands[1]
            number = index.decoration(identifier, Decoration.BuiltIn)
            kind, count = index.pointee(variable.operands[0], "the type of an input"), 1
            if kind.opcode == op.OpTypeVector:
                kind, count = index.definition(kind.operands[1], "the component of a vector"), kind.operands[2]
            if (
                number is None
                or scalar_name(kind) not in ("int32", "uint32")
                or count != _COMPONENTS.get(number, count)
            ):
                raise SpirvError(f"input {index.name(identifier) or identifier} is no built-in variable of its type")


def _local_size(module: Module, index: Index, function: int) -> LocalSize:
    """The workgroup size. A constant decorated WorkgroupSize overrides the execution modes (SPIR-V, section 3.21)."""
    for identifier, decorations in index.decorations.items():
        if decorations.get(Decoration.BuiltIn) == (BuiltIn.WorkgroupSize,):
            composite = index.definition(identifier, "the workgroup size")
            if composite.opcode not in _COMPOSITES or len(composite.operands) != 5:
                raise SpirvError(f"the workgroup size is {composite}; Vulkan requires a constant of 3 components")
            return _size_of(index, composite.operands[2:])
    for mode in module.execution_modes:
        target, kind, *operands = mode.operands
        if target == function and kind in (ExecutionMode.LocalSize, ExecutionMode.LocalSizeId):
            if len(operands) != 3:
                raise SpirvError(f"{mode} has {len(operands)} sizes; a local size has 3")
            if kind == ExecutionMode.LocalSizeId:
                return _size_of(index, tuple(operands))
            return LocalSize((operands[0], operands[1], operands[2]), (None, None, None))
    raise SpirvError("the entry point has no local size; declare one, as in layout(local_size_x = 64) in;")


def _size_of(index: Index, components: tuple[int, ...]) -> LocalSize:
    x, y, z = components
    sizes = index.integer(x, "local_size_x"), index.integer(y, "local_size_y"), index.integer(z, "local_size_z")
    spec_ids = tuple(
        index.decoration(component, Decoration.SpecId)
        if index.definitions[component].opcode == op.OpSpecConstant
        else None
        for component in components
    )
    return LocalSize(sizes, (spec_ids[0], spec_ids[1], spec_ids[2]))


def _spec_constants(index: Index) -> tuple[SpecConstant, ...]:
    """Specialization constants by spec id. Of several with one id (a local size may share it), a named one."""
    constants: dict[int, SpecConstant] = {}
    for identifier, constant in index.definitions.items():
        spec_id = index.decoration(identifier, Decoration.SpecId)
        if spec_id is None:
            continue
        if spec_id not in constants or not constants[spec_id].name:
            dtype, default = _default(index, constant)
            constants[spec_id] = SpecConstant(spec_id, index.name(identifier), dtype, default)
    return tuple(constants[spec_id] for spec_id in sorted(constants))


def _default(index: Index, constant: Instruction) -> tuple[str, bool | int | float]:
    """The dtype of a specialization constant and its default."""
    if constant.opcode in (op.OpSpecConstantTrue, op.OpSpecConstantFalse):
        return "bool", constant.opcode == op.OpSpecConstantTrue
    if constant.opcode != op.OpSpecConstant:
        raise SpirvError(f"{constant} is decorated with SpecId, which only a scalar specialization constant may have")
    dtype = scalar_name(index.definition(constant.operands[0], "the type of a specialization constant"))
    return dtype, literal(constant.operands[2:], dtype, str(constant))
