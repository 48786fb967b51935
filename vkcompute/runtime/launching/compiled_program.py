"""Compiled programs: checked against the features and limits of a device, and compiled by its driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vkcompute.core.buffer_view import WORD
from vkcompute.core.descriptors import LayoutBinding, PipelineLayout
from vkcompute.core.executables import Executable, executables_of
from vkcompute.core.logical_device import LogicalDevice
from vkcompute.core.pipeline import ComputePipeline, ShaderModule
from vkcompute.core.quirks import quirks_of
from vkcompute.errors import MissingFeature
from vkcompute.runtime.launching.arguments import check_bindings
from vkcompute.runtime.launching.program import Program
from vkcompute.runtime.launching.rewriting import rewritten
from vkcompute.runtime.launching.statistics import KernelStatistics, assembly_of, statistics_of
from vkcompute.slow_work import announced
from vkcompute.spirv.capabilities import missing_features
from vkcompute.spirv.interface import Binding
from vkcompute.spirv.nesting import exceeds_depth

KINDS = ("storage_buffer", "uniform_buffer", "uniform_texel_buffer")


class CompiledProgram:
    """A program's pipeline on a device.

    Args:
        special: (id, bytes) of the specialization constants to set.
        kinds: the supported kinds of bindings.
        divided: allows dispatches that are parts of a larger grid, unless the shader reads the number of workgroups.

    Raises:
        MissingFeature: the device lacks something that the program requires.
        ValueError: the program exceeds a limit of the device.

    Attributes:
        local_size: invocations per workgroup along x, y and z.
        layout, pipeline: the driver's objects.
        divisible: True if dispatches may be parts of a larger grid.
    """

    def __init__(
        self,
        device: LogicalDevice,
        program: Program,
        special: Sequence[tuple[int, bytes]] = (),
        kinds: Collection[str] = KINDS,
        *,
        divided: bool = False,
    ) -> None:
        interface = program.interface
        self._device, self._program, self._special = device, program, special
        self._check_features(kinds)
        values = {key: int.from_bytes(value, "little") for key, value in special}
        self.local_size = interface.local_size.effective(values)
        self._check_limits(values)
        push = interface.push_constants
        bindings = [_layout_binding(binding) for binding in interface.bindings]
        self.layout = PipelineLayout(device, bindings, push.nbytes if push is not None else 0)
        self.divisible = divided and not interface.reads_num_workgroups
        self._spirv = rewritten(program, device.physical, values)
        with announced(f"the driver's compilation of {program.name} for {device.physical.name}"):
            self.pipeline = self._pipeline()

    def _pipeline(self, *, captured: bool = False) -> ComputePipeline:
        device, interface = self._device, self._program.interface
        uses_subgroups = any(name.startswith("GroupNonUniform") for name in interface.capabilities)
        size = self._program.subgroup_size or device.physical.subgroup_size
        asked = size if uses_subgroups and device.asks_for_subgroup_size else None
        self._check_subgroup_size(asked)
        with ShaderModule(device, self._spirv) as shader:
            return ComputePipeline(
                shader,
                self.layout,
                interface.entry_point,
                self._special,
                # Also if no launch is divided: NVIDIA's driver takes a pipeline of the same module from its cache, even
                # if that one is not divisible. Each part is then the first one (H200, driver 580.159).
                divisible=not interface.reads_num_workgroups,
                subgroup_size=asked,
                full_subgroups=uses_subgroups
                and "computeFullSubgroups" in device.features
                and self.local_size[0] % size == 0,
                captured=captured,
            )

    def statistics(self) -> KernelStatistics:
        """Compiles the program again, and returns the driver's statistics. See `Kernel.statistics`."""
        return statistics_of(self._device.physical, self._executable())

    def assembly(self) -> str:
        """Compiles the program again, and returns the assembly. See `Kernel.assembly`."""
        return assembly_of(self._device.physical, self._executable())

    def _executable(self) -> Executable:
        if "pipelineExecutableInfo" not in self._device.features:
            raise MissingFeature(
                f"{self._device} has no VK_KHR_pipeline_executable_properties, and does not tell how it compiled "
                f"{self._program.name}; `vkcompute compile FILE --statistics --on navi21` asks AMD's compiler instead"
            )
        with self._pipeline(captured=True) as pipeline:
            return executables_of(pipeline)[0]

    def _check_features(self, kinds: Collection[str]) -> None:
        device, program = self._device, self._program
        bindings, version = program.interface.bindings, device.physical.api_version[:2]
        capabilities = device.physical.capabilities(device.features)
        missing = missing_features(program.interface, capabilities, device.extensions, version)
        missing += [
            _unsupported(binding, kinds) for binding in bindings if binding.kind not in kinds or binding.count != 1
        ]
        if missing:
            raise MissingFeature(f"{device} cannot run {program.name}: {'; '.join(missing)}")

    def _check_limits(self, values: Mapping[int, int]) -> None:
        interface, name = self._program.interface, self._program.name
        self._check_local_size()
        push = interface.push_constants
        if push is not None:
            self._check_size(push.nbytes, "PushConstantsSize", "bytes of push constants", "pass the rest in an array")
        shared, remedy = (
            interface.workgroup_memory.effective(values),
            "make its shared arrays smaller, or use a device array",
        )
        self._check_size(shared, "ComputeSharedMemorySize", "or more bytes of shared memory per workgroup", remedy)
        quirks = quirks_of(self._device.physical)
        private, most = interface.private_memory.effective(values), quirks.max_private_nbytes
        if private > most:
            raise ValueError(
                f"{name} has {private} or more bytes of variables per invocation; {self._device} takes {most}; make "
                "its arrays smaller, or use a device array"
            )
        check_bindings(name, self._device, interface.bindings)
        if quirks.max_nesting is not None and exceeds_depth(self._program.spirv, quirks.max_nesting):
            raise ValueError(
                f"{name} has branches and loops nested deeper than {quirks.max_nesting}, which {self._device} ignores; "
                "nest fewer, or write a loop or a table"
            )

    def _check_local_size(self) -> None:
        limits = self._device.physical.limits
        most, sizes = limits["maxComputeWorkGroupInvocations"], limits["maxComputeWorkGroupSize"]
        x, y, z = self.local_size
        if x * y * z > most or not all(0 < n <= limit for n, limit in zip(self.local_size, sizes, strict=True)):
            raise ValueError(
                f"{self._program.name} has workgroups of {self.local_size}, {x * y * z} invocations; {self._device} "
                f"runs 1 to {most}, at most {sizes} along x, y and z; set another local size"
            )

    def _check_subgroup_size(self, asked: int | None) -> None:
        """Raises ValueError for a size outside of the device's range, where some drivers end the process."""
        physical = self._device.physical
        least, most = physical.min_subgroup_size, physical.max_subgroup_size
        if asked is not None and not least <= asked <= most:
            raise ValueError(
                f"{self._program.name} needs subgroups of {asked} invocations; {self._device} has {least} to {most}; "
                f"build it with a subgroup size from {least} to {most}"
            )

    def _check_size(self, nbytes: int, limit: str, what: str, remedy: str) -> None:
        most = self._device.physical.limits[f"max{limit}"]
        if nbytes > most:
            raise ValueError(f"{self._program.name} has {nbytes} {what}; {self._device} takes {most}; {remedy}")


def _unsupported(binding: Binding, kinds: Collection[str]) -> str:
    what = binding.kind
    if binding.count != 1:
        what = f"array of {binding.count or 'any number of'} {what}s"
    article = "an" if what[0] in "ai" else "a"
    return f"binding {binding.binding} is {article} {what}; kernels here take {', '.join(kinds)} bindings"


def _layout_binding(binding: Binding) -> LayoutBinding:
    texel = binding.texel
    key = "" if texel is None else WORD if texel.format == WORD else texel.dtype
    return binding.set, binding.binding, binding.kind, key
