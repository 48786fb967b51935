"""Descriptor sets and the buffer views that they point at."""

from __future__ import annotations

import itertools
import sys

import pytest
from faults import interrupted, watched

import vkcompute as vc
from vkcompute.core.descriptors import DescriptorSets, PipelineLayout

pytestmark = pytest.mark.usefixtures("clean_handles")


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer of its own is at work")
def test_an_interrupted_deletion_destroys_no_newer_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers reuse handles: a view created after Ctrl-C may have the handle of one that was destroyed before it."""
    monkeypatch.setenv("VKCOMPUTE_VALIDATION", "off")  # the layer hands out handles of its own, and never reuses them
    with watched() as faults, vc.Runtime() as runtime:
        device, buffer = runtime.device, runtime.device.buffer(64)
        layout = PipelineLayout(device, [(0, binding, "uniform_texel_buffer", "float32") for binding in range(2)], 0)
        ranges = [(buffer, 0, 64)] * 2
        for after in itertools.count():
            DescriptorSets(layout, ranges)
            with interrupted(after) as come:
                device.collect()
            kept = DescriptorSets(layout, ranges)
            device.collect()
            assert faults.alive["BufferView"] == 2, after
            del kept
            device.collect()
            assert faults.alive["BufferView"] == 0, after
            if not come:
                break
        assert after > 3
        layout.close()
        del runtime, device, buffer, layout, ranges
