"""Specialization constants by name and by id, and the local sizes that they set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vkcompute as vc

SOURCE = """
layout(local_size_x_id = 0, local_size_y_id = 7) in;
layout(constant_id = 1) const int N = 3;
layout(constant_id = 2) const float SCALE = 0.5;
layout(constant_id = 3) const bool FLAG = true;
layout(constant_id = 9) const uint BIG = 4000000000u;
layout(binding = 0) writeonly buffer O { uint o[]; };
void main() {
    if (gl_LocalInvocationIndex != 0) return;
    o[0] = uint(N); o[1] = floatBitsToUint(SCALE); o[2] = FLAG ? 1 : 0; o[3] = BIG;
    o[4] = gl_WorkGroupSize.x; o[5] = gl_WorkGroupSize.y;
}
"""


def run(runtime: vc.Runtime, constants: dict[int | str, Any]) -> tuple[Any, ...]:
    kernel = runtime.kernel(vc.glsl(SOURCE), constants=constants)
    out = runtime.zeros(6, np.uint32)
    kernel(out, grid=1)
    n, scale, flag, big, x, y = out.numpy()
    assert kernel.local_size == (x, y, 1)
    return n.view(np.int32).item(), scale.view(np.float32).item(), bool(flag), big.item(), x.item(), y.item()


@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        ({}, (3, 0.5, True, 4000000000, 1, 1)),
        ({"N": -7, "SCALE": 2.25, "FLAG": False, "BIG": 0}, (-7, 2.25, False, 0, 1, 1)),
        ({1: 2147483647, 2: -1, 3: True, 9: 4294967295}, (2147483647, -1.0, True, 4294967295, 1, 1)),
        ({0: 32, 7: 4, "N": 1}, (1, 0.5, True, 4000000000, 32, 4)),
        ({"N": np.int64(5), "SCALE": np.float32(1.5), "FLAG": np.bool_(False), 0: np.int32(8)},
         (5, 1.5, False, 4000000000, 8, 1)),
        ({"FLAG": 0}, (3, 0.5, False, 4000000000, 1, 1)),
        ({"SCALE": np.inf}, (3, np.inf, True, 4000000000, 1, 1)),
    ],
)  # fmt: skip
def test_by_name_and_by_id(gpu: vc.Runtime, constants: dict[int | str, Any], expected: tuple[Any, ...]) -> None:
    assert run(gpu, constants) == expected


def test_zero_has_a_sign(gpu: vc.Runtime) -> None:
    """Values that compare equal are not the same constants: each gives a kernel of its own."""
    signs = [np.signbit(run(gpu, {"SCALE": zero})[1]) for zero in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    assert run(gpu, {"N": 1, "BIG": 2}) == run(gpu, {"BIG": 2, "N": 1})


@pytest.mark.parametrize(
    ("constants", "kind", "match"),
    [
        ({"M": 1}, ValueError, r"no specialization constant 'M'; it has .*N \(id 1\)"),
        ({4: 1}, ValueError, "no specialization constant 4"),
        ({"N": 1.0}, TypeError, "N .*int32; got 1.0"),
        ({"N": "1"}, TypeError, "N .*int32"),
        ({"N": 1 << 31}, ValueError, "N .*int32; got 2147483648"),
        ({"BIG": -1}, ValueError, "BIG .*uint32; got -1"),
        ({"SCALE": 1e300}, ValueError, "SCALE .*float32"),
        ({"SCALE": "x"}, TypeError, "SCALE .*float32"),
        ({"FLAG": "no"}, TypeError, "FLAG .*bool; got 'no'"),
        ({"FLAG": 2}, ValueError, "FLAG .*bool; got 2"),
        ({0: 0}, ValueError, "local size"),
        ({0: 1 << 30}, ValueError, "invocations"),
        ({0: 1024, 7: 1024}, ValueError, "invocations"),
        ({"N": 1, 1: 2}, ValueError, "N .*twice"),
    ],
)
def test_what_is_refused(gpu: vc.Runtime, constants: dict, kind: type[Exception], match: str) -> None:
    run(gpu, {"N": 1, "FLAG": True})  # what is cached as equal must not let a wrong type through
    with pytest.raises(kind, match=match):
        gpu.kernel(vc.glsl(SOURCE), constants=constants)


def test_wide_and_narrow_constants(gpu: vc.Runtime) -> None:
    if not {"shaderFloat64", "shaderInt64", "shaderInt8", "shaderInt16"} <= gpu.device.features:
        pytest.skip("the device lacks 8-, 16- or 64-bit types")
    source = """
    #extension GL_EXT_shader_explicit_arithmetic_types : require
    layout(local_size_x = 1) in;
    layout(constant_id = 0) const int8_t A = int8_t(0);
    layout(constant_id = 1) const double B = 0;
    layout(constant_id = 2) const uint16_t C = uint16_t(0);
    layout(constant_id = 3) const int64_t D = 0;
    layout(binding = 0) writeonly buffer O { double o[]; };
    void main() { o[0] = double(int(A)); o[1] = B; o[2] = double(uint(C)); o[3] = double(D); }
    """
    out = gpu.zeros(4, np.float64)
    gpu.kernel(vc.glsl(source), constants={"A": -128, "B": 1e300, "C": 65535, "D": -(1 << 40)})(out, grid=1)
    assert out.numpy().tolist() == [-128, 1e300, 65535, -(1 << 40)]
