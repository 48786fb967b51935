"""What is known of drivers is so of the driver under test, and of each version of it what was measured there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
from vkcompute import ir
from vkcompute.core import vk
from vkcompute.core.quirks import _TABLE, Quirks, quirks_of
from vkcompute.spirv import opcodes as spv
from vkcompute.spirv.conversions import CONVERSIONS
from vkcompute.spirv.module import Module

LONG = """
layout(local_size_x = 32) in;
layout(binding = 0) writeonly buffer Out { uint values[]; };
layout(push_constant) uniform P { uint n; };
void main() {
    uint value = gl_GlobalInvocationID.x;
    for (uint i = 0; i < n; i++) value = (value * 1664525u + 1013904223u) ^ (value >> 7);  // no closed form
    values[gl_GlobalInvocationID.x] = value;
}
"""
PRODUCT = """
layout(local_size_x = 4) in;
layout(binding = 0) readonly buffer A { double a[]; };
layout(binding = 1) readonly buffer B { double b[]; };
layout(binding = 2) writeonly buffer Out { double products[]; };
void main() { products[gl_LocalInvocationIndex] = a[gl_LocalInvocationIndex] * b[gl_LocalInvocationIndex]; }
"""
QUOTIENTS = """
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) writeonly buffer Q { float quotients[]; };
layout(binding = 3) writeonly buffer R { float roots[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    quotients[i] = x[i] / y[i];
    roots[i] = sqrt(x[i]);
}
"""

NARROW = "float64 to float32", "float32 to float16"


def iterated(values: np.ndarray[Any, np.dtype[np.uint32]], n: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    for _ in range(n):
        values = (values * np.uint32(1664525) + np.uint32(1013904223)) ^ (values >> np.uint32(7))
    return values


def test_loops_end_where_it_is_said(gpu: vc.Runtime) -> None:
    limit = quirks_of(gpu.device.physical).max_loop_iterations
    out, n = gpu.empty(32, np.uint32), 70_000
    gpu.kernel(vc.glsl(LONG))(out, n)
    assert np.array_equal(out.numpy(), iterated(np.arange(32, dtype=np.uint32), n if limit is None else limit))


def test_subnormals_are_flushed_where_it_is_said(gpu: vc.Runtime) -> None:
    if "shaderFloat64" not in gpu.device.features:
        pytest.skip("the device has no float64")
    tiny = np.finfo(np.float64).tiny
    a, b = np.array([tiny / 4, tiny, tiny / 2, 1.0]), np.array([4e10, 0.25, 2.0, 1.0])
    out = gpu.zeros(4, np.float64)
    gpu.kernel(vc.glsl(PRODUCT))(gpu.array(a), gpu.array(b), out)
    flushes = quirks_of(gpu.device.physical).flushes_float64
    assert np.array_equal(out.numpy(), [0, 0, 0, 1] if flushes else a * b)


def test_quotients_are_exact_where_it_is_said(gpu: vc.Runtime) -> None:
    if not quirks_of(gpu.device.physical).divides_exactly:
        pytest.skip("the device's quotients may be estimates")
    x, y = np.exp2(np.random.default_rng(0).uniform(-126, 126, (2, 1 << 14))).astype(np.float32)
    y = np.where(np.abs(np.log2(x) - np.log2(y)) < 125, y, np.float32(1))  # no subnormal results
    result = gpu.zeros((2, x.size))
    gpu.kernel(vc.glsl(QUOTIENTS))(gpu.array(x), gpu.array(y), result[0], result[1], grid=x.size // 64)
    np.testing.assert_array_equal(result.numpy(), [x / y, np.sqrt(x)])


def test_broken_features_are_not_enabled(gpu: vc.Runtime) -> None:
    broken = quirks_of(gpu.device.physical).broken_features
    assert not set(broken) & set(gpu.device.features)
    for feature in broken:
        with pytest.raises(vc.MissingFeature, match=feature):
            vc.Runtime(gpu.device.name, features=[feature])


@pytest.mark.pure
@pytest.mark.parametrize(
    ("info", "limit", "recomputes", "flushes"),
    [
        ("Mesa 22.3.6 (LLVM 15.0.6)", 65_535, False, False),
        ("Mesa 23.2.1-1ubuntu3.1~22.04.3 (LLVM 15.0.7)", 65_535, True, False),
        ("Mesa 24.2.8-1ubuntu1 (LLVM 19.1.1)", 65_535, True, False),
        ("Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", None, True, False),
        ("Mesa 26.1.6-1~bpo13+1 (LLVM 19.1.7)", None, False, True),
        ("", 65_535, False, False),
    ],
)
def test_what_a_version_does(info: str, limit: int | None, recomputes: bool, flushes: bool) -> None:
    narrow = NARROW if flushes else ()
    driver = vk.constant("VK_DRIVER_ID_MESA_LLVMPIPE")
    physical: Any = SimpleNamespace(properties={"driverID": driver, "driverInfo": info})
    assert quirks_of(physical) == Quirks(
        texel_loads=True,
        slow_broadcasts=True,
        scalar_loads=True,
        region_elements=64,
        reloads_wide_vectors=info == "" or int(info[5:7]) < 24,
        recomputes_across_barriers=recomputes,
        fences_wait=True,
        max_loop_iterations=limit,
        loses_loop_results=True,
        flushes_float64=flushes,
        survives_forks=True,
        wrong_conversions=(
            "int32 to int64",
            *narrow,
            "float64 to float16",
            "truncation of float64",
            "rounding of float64",
        ),
        max_nesting=80,
        checks_are_free=True,
        simplifies_zeros=True,
        divides_exactly=True,
        divides_by_known_lanes=True,
    )


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "conversions", "loses_signs"),
    [
        ("MESA_RADV", ("int32 to int64", "float64 to float16"), False),
        ("INTEL_OPEN_SOURCE_MESA", ("int32 to int64",), False),
        ("NVIDIA_PROPRIETARY", (), True),
    ],
)
def test_what_drivers_of_gpus_do(name: str, conversions: tuple[str, ...], loses_signs: bool) -> None:
    driver = vk.constant(f"VK_DRIVER_ID_{name}")
    for info in ("Mesa 22.3.6", "Mesa 26.1.6"):
        physical: Any = SimpleNamespace(properties={"driverID": driver, "driverInfo": info})
        result = quirks_of(physical).wrong_conversions
        assert {*result} == {*conversions, *(NARROW if conversions and "26" in info else ())}
        assert quirks_of(physical) == Quirks(wrong_conversions=result, loses_signs_of_zeros=loses_signs)


@pytest.mark.pure
def test_conversions_are_named_as_in_their_table() -> None:
    assert {item for *_, quirk in _TABLE for item in quirk.get("wrong_conversions", ())} == CONVERSIONS.keys()


@pytest.mark.pure
def test_slow_broadcasts_are_shuffles() -> None:
    function = ir.Function("lanes")
    x, b = function.buffer("x", ir.FLOAT32), ir.Builder(function)
    at = b.builtin("subgroup_local_id")
    b.store(x, at, b.subgroup("shuffle", b.load(x, at), b.const(3, ir.UINT32)))
    results = {}
    for broadcasts in (True, False):
        words = ir.lower(function, ir.Target(broadcasts=broadcasts)).spirv
        both = {spv.OpGroupNonUniformBroadcast, spv.OpGroupNonUniformShuffle}
        results[broadcasts] = both & {instruction.opcode for instruction in Module.parse(words).functions}
    assert results == {True: {spv.OpGroupNonUniformBroadcast}, False: {spv.OpGroupNonUniformShuffle}}
