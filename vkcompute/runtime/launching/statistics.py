"""Statistics of a compiled kernel, as the driver states them, under common names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkcompute.core.executables import Executable, Figure
from vkcompute.core.physical import PhysicalDevice
from vkcompute.errors import MissingFeature

# Per figure, the names that drivers give it, where its unit is the same; those of one driver are added. They are of
# radv (Subgroups per SIMD), anv (Cycle Count), turnip (Max Waves Per Core), panvk and honeykrisp (Spills), v3dv (Spill
# Size), nvk (Number of GPRs), NVIDIA (Register Count). v3dv's "TMU Spills" are the bytes of Spill Size once more, as
# Mesa 25.0.7 writes the same variable.
_NAMES: dict[str, tuple[str, ...]] = {
    "registers": ("VGPRs", "Registers used", "Register Count", "GPRs", "Number of GPRs"),
    "spills": ("Spilled SGPRs", "Spilled VGPRs", "Spill Count", "Spills", "Spills to memory"),
    "occupancy": ("Subgroups per SIMD", "Max Waves Per Core"),
    "shared_nbytes": ("LDS size", "Workgroup Memory Size"),
    "scratch_nbytes": ("Scratch size", "Scratch Memory Size", "Scratch", "SLM size", "Spill Size"),
    "instructions": ("Instructions", "Instruction Count", "Instruction count"),
    "latency": ("Latency", "Cycle Count"),
    "busy_cycles": ("Inverse Throughput",),
}


@dataclass(frozen=True)
class KernelStatistics:
    """Figures of a compiled kernel, by its driver; None for those that the driver does not give.

    Attributes:
        device: its name.
        driver: its name and version.
        subgroup_size: invocations per subgroup.
        registers: (vector) registers per invocation.
        spills: registers moved to memory, as too few are free.
        occupancy: the most subgroups that a SIMD unit runs at a time.
        shared_nbytes: shared memory per workgroup.
        scratch_nbytes: memory for spills and private arrays, per subgroup on AMD.
        instructions: their number in the code; those of loops count once.
        latency: the estimated cycles of a subgroup from its start to its end.
        busy_cycles: the estimated cycles for which a subgroup occupies its unit; the inverse of the throughput.
        figures: everything by the driver's own names, in its order.
        descriptions: the driver's explanations, by the same names.
    """

    device: str
    driver: str
    subgroup_size: int | None
    registers: Figure | None
    spills: Figure | None
    occupancy: Figure | None
    shared_nbytes: Figure | None
    scratch_nbytes: Figure | None
    instructions: Figure | None
    latency: Figure | None
    busy_cycles: Figure | None
    figures: Mapping[str, Figure] = field(repr=False)
    descriptions: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        rows = [("subgroup size", self.subgroup_size), *[(name, getattr(self, name)) for name in _NAMES]]
        known = [
            (name.replace("_nbytes", " bytes").replace("_", " "), value) for name, value in rows if value is not None
        ]
        return "\n".join([f"{self.device}, {self.driver}", *[f"{name:17}{value:>8}" for name, value in known]])


def statistics_of(device: PhysicalDevice, executable: Executable) -> KernelStatistics:
    """Returns the statistics of an executable on a device."""
    figures = executable.figures
    common: dict[str, Any] = {name: _sum(figures, names) for name, names in _NAMES.items()}
    size = executable.subgroup_size or None
    return KernelStatistics(
        device.name, device.driver, size, figures=figures, descriptions=executable.descriptions, **common
    )


def _sum(figures: Mapping[str, Figure], names: Sequence[str]) -> Figure | None:
    values = [figures[name] for name in names if name in figures]
    return sum(values) if values else None


def assembly_of(device: PhysicalDevice, executable: Executable) -> str:
    """Returns the assembly of an executable.

    Raises:
        MissingFeature: the driver shows none.
    """
    listings = [text for name, text in executable.texts.items() if "assembl" in name.lower()]
    if not listings:
        shown = ", ".join(executable.texts) or "nothing"
        raise MissingFeature(f"the driver of {device} shows no assembly of its kernels; it shows {shown}")
    return listings[-1]
