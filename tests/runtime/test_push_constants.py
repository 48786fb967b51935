"""Push constants arrive in the shader as they were given: typed, in order or by name, or not at all."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkcompute as vc
from shaders import MULTIPLY
from vkcompute.runtime.launching.push_constants import PushConstants
from vkcompute.spirv.interface import InterfaceBlock, Member

INT32, UINT32 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, (1 << 32) - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)

SCALARS = """
layout(local_size_x = 1) in;
layout(binding = 0) writeonly buffer O { uint o[]; };
layout(push_constant) uniform P { int a; uint b; float c; int d; };
void main() { o[0] = uint(a); o[1] = b; o[2] = floatBitsToUint(c); o[3] = uint(d); }
"""
MIXED = """
layout(local_size_x = 1) in;
layout(binding = 0) writeonly buffer O { uint o[]; };
layout(push_constant) uniform P { vec3 a; uint b; ivec2 c; float d[3]; int e; uvec4 f; mat2 g; };
void main() {
    for (int i = 0; i < 3; i++) { o[i] = floatBitsToUint(a[i]); o[6 + i] = floatBitsToUint(d[i]); }
    o[3] = b; o[4] = uint(c.x); o[5] = uint(c.y); o[9] = uint(e);
    for (int i = 0; i < 4; i++) { o[10 + i] = f[i]; o[14 + i] = floatBitsToUint(g[i / 2][i % 2]); }
}
"""
WIDE = """
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(binding = 0) writeonly buffer O { uint o[]; };
layout(push_constant) uniform P { float a; double b; int64_t c; uint64_t d; int e; };
void main() {
    uvec2 two = unpackDouble2x32(b);
    o[0] = floatBitsToUint(a); o[1] = two.x; o[2] = two.y; o[7] = uint(e);
    o[3] = uint(c); o[4] = uint(c >> 32); o[5] = uint(d); o[6] = uint(d >> 32);
}
"""


def received(runtime: vc.Runtime, source: str, n: int, *values: Any, **named: Any) -> bytes:
    out = runtime.zeros(n, np.uint32)
    runtime.kernel(vc.glsl(source))(out, *values, grid=1, **named)
    return out.numpy().tobytes()


@given(a=INT32, b=UINT32, c=FLOAT32, d=INT32)
def test_scalars(gpu: vc.Runtime, a: int, b: int, c: float, d: int) -> None:
    expected = struct.pack("<iIfi", a, b, c, d)
    assert received(gpu, SCALARS, 4, a, b, c, d) == expected
    assert received(gpu, SCALARS, 4, a, b, d=d, c=c) == expected
    assert received(gpu, SCALARS, 4, np.int32(a), np.uint32(b), np.float32(c), np.int64(d)) == expected


def vector(element: st.SearchStrategy, n: int) -> st.SearchStrategy:
    return st.lists(element, min_size=n, max_size=n)


@given(
    a=vector(FLOAT32, 3), b=UINT32, c=vector(INT32, 2), d=vector(FLOAT32, 3), e=INT32, f=vector(UINT32, 4),
    g=vector(FLOAT32, 4),
)  # fmt: skip
def test_vectors_arrays_and_matrices(gpu: vc.Runtime, **values: Any) -> None:
    a, b, c, d, e, f, g = (values[name] for name in "abcdefg")
    expected = struct.pack("<3fI2i3fi4I4f", *a, b, *c, *d, e, *f, *g)
    g = [g[:2], g[2:]]
    assert received(gpu, MIXED, 18, a, b, c, d, e, f, g) == expected
    assert received(gpu, MIXED, 18, np.float32(a), b, tuple(c), g=g, f=np.uint32(f), e=e, d=d) == expected


@given(
    a=FLOAT32,
    b=st.floats(allow_nan=False),
    c=st.integers(-(1 << 63), (1 << 63) - 1),
    d=st.integers(0, (1 << 64) - 1),
    e=INT32,
)
def test_numbers_of_64_bits(gpu: vc.Runtime, a: float, b: float, c: int, d: int, e: int) -> None:
    if not {"shaderFloat64", "shaderInt64"} <= gpu.device.features:
        pytest.skip("the device lacks 64-bit types")
    assert received(gpu, WIDE, 8, a, b, c, d, e) == struct.pack("<fdqQi", a, b, c, d, e)


WRONG: list[tuple[tuple, dict, type[Exception], str]] = [
    ((1, 2, 3.0), {}, TypeError, r"takes 4 push constants \(a, b, c, d\) after its arrays; got 3"),
    ((1, 2, 3.0, 4, 5), {}, TypeError, "got 5"),
    ((), {}, TypeError, "got 0"),
    ((1, 2, 3.0), {"x": 4}, TypeError, "x is unknown.*d is missing"),
    ((1, 2, 3.0), {"a": 4}, TypeError, "a is unknown or given twice; d is missing"),
    ((1, 2, 3.0, 4), {"d": 4}, TypeError, "d is unknown or given twice"),
    ((1.0, 2, 3.0, 4), {}, TypeError, r"a .* is int32, .*; got 1\.0 \(float\)"),
    ((1, 2, "3", 4), {}, TypeError, r"c .* is float32; got '3' \(str\)"),
    ((1, 2, 3.0, None), {}, TypeError, r"d .* is int32, .*; got None"),
    ((1, 2, 1j, 4), {}, TypeError, "c .* is float32"),
    ((1, 2, [3.0], 4), {}, ValueError, r"c .* has shape \(\); got \(1,\)"),
    ((1 << 31, 2, 3.0, 4), {}, ValueError, "a .* is int32, .*; got 2147483648"),
    ((1, -2, 3.0, 4), {}, ValueError, "b .* is uint32, .*; got -2"),
    ((1, 2, 1e300, 4), {}, ValueError, r"c .* is float32; got 1e\+300"),
    ((1, 2, 10**400, 4), {}, ValueError, "c .* is float32"),
]


@pytest.mark.parametrize(("values", "named", "kind", "match"), WRONG)
def test_what_does_not_fit(gpu: vc.Runtime, values: tuple, named: dict, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        received(gpu, SCALARS, 4, *values, **named)


GOOD = {"a": (1, 2, 3), "b": 4, "c": (5, 6), "d": (7, 8, 9), "e": 10, "f": (1, 2, 3, 4), "g": ((1, 2), (3, 4))}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("a", (1, 2), ValueError),
        ("a", 1.0, ValueError),
        ("a", ("x", "y", "z"), TypeError),
        ("a", (1e300, 0, 0), ValueError),
        ("b", -1, ValueError),
        ("b", 1 << 32, ValueError),
        ("b", 10**30, ValueError),
        ("b", 1.0, TypeError),
        ("c", (1.0, 2.0), TypeError),
        ("c", (0, 1 << 31), ValueError),
        ("c", (0, None), TypeError),
        ("g", (1, 2, 3, 4), ValueError),
        ("g", ((1, 2), (3,)), (TypeError, ValueError)),
    ],
)
def test_what_does_not_fit_a_vector(gpu: vc.Runtime, name: str, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"push constant {name} of"):
        received(gpu, MIXED, 18, **(GOOD | {name: value}))


def test_the_bytes_of_the_block_are_taken_as_they_are(gpu: vc.Runtime) -> None:
    block = struct.pack("<iIII", -5, 7, 0x7FA00001, 9)  # a signaling NaN, which Python's float would make a quiet one
    assert received(gpu, SCALARS, 4, block) == block
    with pytest.raises(TypeError, match="takes 4 push constants"):
        received(gpu, SCALARS, 4, block[:-1])


def test_infinities_and_nans_are_floats(gpu: vc.Runtime) -> None:
    for value in (np.inf, -np.inf, np.nan, np.float32(-0.0)):
        assert received(gpu, SCALARS, 4, 0, 0, value, 0) == struct.pack("<iIfi", 0, 0, value, 0)
        result = received(gpu, MIXED, 18, **(GOOD | {"a": (value, 0, 0)}))
        assert result[:4] == struct.pack("<f", value)


def test_a_kernel_without_push_constants_takes_none(gpu: vc.Runtime) -> None:
    source = "layout(local_size_x=1) in; layout(binding=0) writeonly buffer O { uint o[]; }; void main() { o[0] = 1; }"
    kernel, out = gpu.kernel(vc.glsl(source)), gpu.zeros(1, np.uint32)
    for args, named in (((out, 1), {}), ((out,), {"s": 1})):
        with pytest.raises(TypeError, match=r"takes.* push constants"):
            kernel(*args, **named)


@pytest.mark.pure
def test_members_in_any_order_of_offsets_and_gaps() -> None:
    """A module need not declare its members by ascending offset (GLSL must, SPIR-V need not)."""
    members = (
        Member("last", 12, "float32", (), (), 4),
        Member("first", 0, "int32", (), (), 4),
        Member("", 6, "uint16", (), (), 2),
    )
    push = PushConstants("k", InterfaceBlock("P", members, 20))
    assert push.names == ("last", "first", "f2")
    packed = push.pack((1.5, -2, 3), {})
    assert packed == struct.pack("<i2xH4xf4x", -2, 3, 1.5)
    assert push.pack((1.5,), {"f2": 3, "first": -2}) == packed


@pytest.mark.pure
def test_small_members() -> None:
    members = tuple(
        Member(dtype, 8 * i, dtype, (), (), np.dtype(dtype).itemsize)
        for i, dtype in enumerate(("int8", "uint8", "int16", "uint16", "float16"))
    )
    push = PushConstants("k", InterfaceBlock("P", members, 40))
    values = (-128, 255, -32768, 65535, 65504.0)
    assert push.pack(values, {}) == struct.pack("<b7xB7xh6xH6xe6x", *values)
    for position, value in enumerate((128, 256, 1 << 15, 1 << 16, 1e6)):
        with pytest.raises(ValueError, match=members[position].name):
            push.pack((*values[:position], value, *values[position + 1 :]), {})


def test_too_many_arrays_are_called_arrays(rt: vc.Runtime) -> None:
    kernel, a = rt.kernel(MULTIPLY), rt.zeros(4)
    with pytest.raises(TypeError, match=r"multiply\.comp takes 3 arrays; got more"):
        kernel(a, a, a, a)
    with pytest.raises(TypeError, match=r"multiply\.comp takes 0 push constants"):
        kernel(a, a, a, 1)
