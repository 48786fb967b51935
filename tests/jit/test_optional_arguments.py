"""None as an argument: a kernel is compiled for each choice of what is left out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import vkcompute as vc

N = 70
X = np.arange(N, dtype=np.float32)
MASK = X % 3 == 0


@vc.kernel
def affine(x, bias, out, scale, mask=None):
    i = vc.global_id(0)
    if i < out.size:
        v = x[i] * (1 if scale is None else scale)
        if bias is not None:
            v += bias[i]
        out[i] = -1.0 if mask is not None and not mask[i] else v


@vc.kernel
def annotated(x: vc.float32[:], bias: vc.float32[:] | None, out: vc.float32[:], scale: vc.float32 | None = None):
    i = vc.global_id(0)
    if i < out.size:
        out[i] = x[i]
        if bias is not None:
            out[i] += bias[i]
        if scale is not None:
            out[i] *= scale


def expected(bias: Any, scale: Any, mask: Any) -> Any:
    v = X * (1 if scale is None else scale) + (0 if bias is None else bias)
    return v if mask is None else np.where(mask, v, -1)


CHOICES = [*itertools.product((None, X), (None, 2.5, 3, np.float32(2)), (None, MASK))]


def test_each_choice(gpu: vc.Runtime) -> None:
    x, mask = gpu.array(X), gpu.array(MASK)
    for bias, scale, chosen in [*CHOICES, *CHOICES[::-1]]:  # the second time by plans
        out = gpu.zeros(N)
        affine(x, None if bias is None else x, out, scale, *([] if chosen is None else [mask]))
        assert np.array_equal(out.numpy(), expected(bias, scale, chosen))


@pytest.mark.pure
def test_simulated() -> None:
    for bias, scale, mask in CHOICES:
        out = np.zeros(N, np.float32)
        affine.simulate(X, bias, out, scale, mask)
        assert np.array_equal(out, expected(bias, scale, mask))


def test_in_a_graph_and_a_group(gpu: vc.Runtime) -> None:
    x, out = gpu.array(X), gpu.zeros(N)
    with gpu.record() as graph:
        affine(x, None, out, 3.0)
    graph.run()
    assert np.array_equal(out.numpy(), 3 * X)
    with vc.DeviceGroup([gpu]) as group:
        everywhere, result = group.array(X), group.array(X)
        affine(everywhere, None, result, 2.0)
        assert np.array_equal(result.numpy(), 2 * X)


def test_annotations(gpu: vc.Runtime) -> None:
    x, out = gpu.array(X), gpu.zeros(N)
    for bias, scale in itertools.product((None, x), (None, 2)):
        annotated(x, bias, out, scale)
        assert np.array_equal(out.numpy(), X * (1 if bias is None else 2) * (scale or 1))
    with pytest.raises(TypeError, match=r"annotated: x is annotated as float32\[:\]; got None; pass a value, or annot"):
        annotated(None, None, out)
    with pytest.raises(TypeError, match=r"bias is annotated as float32\[:\]; got int32\[:\]"):
        annotated(x, gpu.zeros(N, np.int32), out)
    assert annotated.spirv()
    assert (None | vc.float32[:]) == (vc.float32[:] | None)


def test_what_none_cannot_do(gpu: vc.Runtime) -> None:
    x = gpu.zeros(4)
    with pytest.raises(vc.KernelError, match="only arrays, vectors and tuples are indexed; got None"):
        affine[1, 64](None, None, x, 1)
    with pytest.raises(TypeError, match="got NoneType"):
        vc.elementwise("x + y")(x, None)
