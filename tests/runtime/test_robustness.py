"""Accesses beyond an array: with `Runtime(robust=True)`, other arrays keep their values."""

from __future__ import annotations

import numpy as np
import pytest

import vkcompute as vc
from vkcompute.core import features
from vkcompute.core.quirks import quirks_of

HEAD = "layout(local_size_x = 64) in;\nlayout(push_constant) uniform P { uint first; };\n"
MAIN = "void main() { uint i = first + gl_GlobalInvocationID.x; %s; }\n"
WRITES = {
    "array": "layout(binding = 0) buffer A { uint a[]; };\n" + MAIN % "a[i] = 77u",
    "array of a fixed length": "layout(binding = 0) buffer A { uint a[16]; };\n" + MAIN % "a[i] = 77u",
    "vectors": "layout(binding = 0) buffer A { uvec4 a[]; };\n" + MAIN % "a[i] = uvec4(77u)",
}
READS = {
    "buffer": "layout(binding = 0) readonly buffer A { uint a[]; };\n",
    "texels": "layout(binding = 0) uniform usamplerBuffer a;\n",
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_beyond_an_array_spares_its_neighbours(kind: str) -> None:
    with vc.Runtime(robust=True) as gpu:
        arrays = [gpu.full(64, value, np.uint32) for value in range(8)]
        kernel = gpu.kernel(vc.glsl(HEAD + WRITES[kind]))
        for first in (64, 1 << 20):
            kernel(arrays[3], first, grid=2)
        for value, array in enumerate(arrays):
            assert value == 3 or set(array.numpy().tolist()) == {value}


def test_a_write_beyond_a_view_spares_the_rest() -> None:
    with vc.Runtime(robust=True) as gpu:
        whole = gpu.zeros(512, np.uint32)
        gpu.kernel(vc.glsl(HEAD + WRITES["array"]))(whole[128:192], 64, grid=1)
        assert not whole.numpy().any()


@pytest.mark.parametrize("kind", READS)
def test_a_read_beyond_an_array_does_not_see_its_neighbours(kind: str) -> None:
    load = "texelFetch(a, int(i)).x" if kind == "texels" else "a[i]"
    source = READS[kind] + "layout(binding = 1) buffer O { uint o[]; };\n" + MAIN % f"o[i % 64] = {load}"
    with vc.Runtime(robust=True) as gpu:
        arrays = [gpu.full(64, value, np.uint32) for value in range(1, 9)]
        out = gpu.zeros(64, np.uint32)
        gpu.kernel(vc.glsl(HEAD + source))(arrays[3], out, 64, grid=1)
        assert set(out.numpy().tolist()) <= {0, 4}  # its own elements, or none


def test_checks_are_on_where_they_are_free(gpu: vc.Runtime) -> None:
    for robust in (None, False, True):
        with vc.Runtime(gpu.device.name, robust=robust) as other:
            wanted = quirks_of(other.device.physical).checks_are_free if robust is None else robust
            present = {name for name in features.ROBUST if other.device.physical.features.get(name)}
            assert other.device.features & features.ROBUST == (present if wanted else set())
