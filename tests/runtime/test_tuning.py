"""Which figures a device gets, and the subgroups of its block programs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vkcompute.core.logical_device import LogicalDevice
from vkcompute.runtime.tuning import ON_CPU, ON_GPU, ON_INTEL, tuning_of
from vkcompute.tile import device as target

pytestmark = pytest.mark.pure

INTEL, AMD = 0x8086, 0x1002


def device(vendor_id: int, *, asks: bool = True, shuffles: bool = True, subgroups: int = 64) -> Any:
    """A device with subgroups of 8 to 32 invocations, as Intel's have."""
    physical = SimpleNamespace(
        kind="discrete",
        vendor_id=vendor_id,
        subgroup_size=32,
        min_subgroup_size=8,
        subgroup_operations=frozenset(["basic", "shuffle"] if shuffles else ["basic"]),
        limits={"maxComputeWorkGroupInvocations": 1024, "maxComputeWorkGroupSize": (1024, 1024, 64)},
        properties={"maxComputeWorkgroupSubgroups": subgroups},
        varies_subgroups=True,
    )
    made = SimpleNamespace(physical=physical, asks_for_subgroup_size=asks)
    made.has_one_subgroup_size = LogicalDevice.has_one_subgroup_size.fget(made)  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("kind", "vendor_id", "tuning"),
    [("cpu", INTEL, ON_CPU), ("integrated", INTEL, ON_INTEL), ("discrete", AMD, ON_GPU)],
)
def test_a_device_gets_the_figures_of_its_kind(kind: str, vendor_id: int, tuning: Any) -> None:
    physical: Any = SimpleNamespace(kind=kind, vendor_id=vendor_id)
    assert tuning_of(physical) == tuning


def test_block_programs_have_small_subgroups_on_intels_devices_only() -> None:
    assert target._subgroup_size(device(INTEL)) == 8
    assert target._subgroup_size(device(AMD)) == 32
    assert target._subgroup_size(device(INTEL, asks=False)) == 1, "sizes vary from program to program"
    assert target._subgroup_size(device(INTEL, shuffles=False)) == 1


def test_a_workgroup_has_no_more_subgroups_than_the_device_allows() -> None:
    assert target._max_invocations(device(INTEL), 8) == 512
    assert target._max_invocations(device(INTEL, subgroups=56), 8) == 256, "a power of two"
    assert target._max_invocations(device(INTEL), 32) == 1024
    assert target._max_invocations(device(INTEL), 1) == 1024, "without subgroups"
