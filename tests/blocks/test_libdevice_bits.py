"""Functions of libdevice on the bits of floats, and conversions to integers."""

from __future__ import annotations

import numpy as np
from block_programs import run

import vkcompute
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl
from vkcompute.compat.triton.language.extra import libdevice

X = np.array([2.5, -2.5, 3.7, -0.0], np.float32)


@triton.jit
def converted(x_ptr, int_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    bits = libdevice.float_as_int(x)
    tl.store(int_ptr + at, bits)
    tl.store(int_ptr + N + at, libdevice.float2int_rn(x))
    tl.store(int_ptr + 2 * N + at, libdevice.float2int_rz(x))
    tl.store(out_ptr + at, libdevice.int_as_float(bits))
    tl.store(out_ptr + N + at, libdevice.fdim(x, 1.0))


def test_bits_and_integers(machine: vkcompute.Runtime | None) -> None:
    _, ints, floats = run(machine, converted, (1,), (X, np.zeros(12, np.int32), np.zeros(8, np.float32)), N=4)
    assert ints.tolist() == [*X.view(np.int32), 2, -2, 4, 0, 2, -2, 3, 0]
    assert floats[:4].tobytes() == X.tobytes()
    assert np.array_equal(floats[4:], np.maximum(X - 1, 0))
