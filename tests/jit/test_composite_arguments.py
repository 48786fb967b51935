"""Tuples, named tuples and dataclasses of arrays and numbers as arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkcompute as vc

N = 70
X = np.arange(N, dtype=np.float32)


class Affine(NamedTuple):
    scale: Any
    bias: Any = None


@dataclass
class Model:
    weights: Any
    layer: Affine
    count: int = 3  # the name of a method of tuples
    extra: Any = None
    _hidden: float = field(default=0.5)


@vc.kernel
def combined(inputs, out):
    i = vc.global_id(0)
    if i < out.size:
        (x, factor), y = inputs
        out[i] = x[i] * factor + y[i]


def test_nested_tuples(gpu):
    x, y, out = gpu.array(X), gpu.array(X + 1), gpu.zeros(N)
    for factor in (2, 2.5, np.float32(3), 4):
        combined(((x, factor), y), out)
        assert np.array_equal(out.numpy(), X * np.float32(factor) + X + 1)


@vc.kernel
def forward(model, out):
    i = vc.global_id(0)
    if i < out.size:
        v = model.weights[i] * model.layer.scale
        if model.layer.bias is not None:
            v += model.layer.bias[i]
        if model.extra is None:
            v += model.count
        out[i] = v + model._hidden


def test_fields_by_name(gpu):
    w = gpu.array(X)
    for bias, extra in [(None, None), (w, None), (None, 1), (w, 1)] * 2:  # the second time by plans
        out = gpu.zeros(N)
        forward(Model(w, Affine(2.0, bias), extra=extra), out)
        wanted = X * 2 + (0 if bias is None else X) + (3 if extra is None else 0) + 0.5
        assert np.array_equal(out.numpy(), wanted)


@vc.kernel
def structured(p, out):
    out[0] = len(p)
    total = 0.0
    for part in p:
        total += part[0]
    out[1] = total
    out[2] = p[-1][0]


def test_other_structures_are_other_kernels(gpu):
    """The leaves of some are the same."""
    x, y = gpu.array(X[1:4]), gpu.array(X[5:8])
    for _ in range(2):
        for p, wanted in [
            ((x, y), [2, 6, 5]),
            ((y, x), [2, 6, 1]),
            ((x, y, (7, x)), [3, 13, 7]),
            ((x, (y, 7), x), None),
            (((3.0, x), y), [2, 8, 5]),
            (((x[1:]), y), [2, 7, 5]),
        ]:
            out = gpu.zeros(3)
            if wanted is None:
                with pytest.raises((vc.KernelError, TypeError)):
                    structured[1, 1](p, out)
                continue
            structured[1, 1](p, out)
            assert out.numpy().tolist() == wanted


@vc.kernel
def swapped(pair, out):
    out[0], out[1] = pair.scale, pair.bias


class Reversed(NamedTuple):
    bias: Any
    scale: Any


def test_classes_with_other_fields(gpu):
    for kind, wanted in [(Affine, [2, 3]), (Reversed, [3, 2])] * 2:
        out = gpu.zeros(2)
        swapped[1, 1](kind(2.0, 3.0), out)
        assert out.numpy().tolist() == wanted


@vc.kernel
def stored(outs, n):
    i = vc.global_id(0)
    if i < n:
        for k, out in enumerate(outs):
            out[i] = 10 * k + i


def test_arrays_are_written(gpu):
    outs = [gpu.zeros(3, np.int32) for _ in range(3)]
    stored((*outs,), 3)
    assert [out.numpy().tolist() for out in outs] == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]
    stored((outs[0], outs[0]), 2)
    assert outs[0].numpy().tolist() == [10, 11, 2]


@vc.kernel
def defaults(out, pair=(1.5, 2)):
    out[0], out[1] = pair


def test_default(gpu):
    out = gpu.zeros(2)
    defaults[1, 1](out)
    assert out.numpy().tolist() == [1.5, 2]


@vc.kernel
def chosen(out, p, q, flag):
    r = p if flag else q
    if flag:
        p = q
    out[0], out[1] = r.scale, p.scale


def test_chosen_by_a_number(gpu):
    for flag, wanted in [(True, [1, 2]), (False, [2, 1])]:
        out = gpu.zeros(2)
        chosen[1, 1](out, Affine(1, 1.0), Affine(2, 1.0), flag)
        assert out.numpy().tolist() == wanted


@vc.kernel
def indexed(model, out):
    out[0] = model[0]


@vc.kernel
def annotated(x: vc.float32[:], a: vc.float32, out: vc.float32[:]):
    out[0] = x[0] * a


def test_refusals(gpu):
    x, out = gpu.array(X), gpu.zeros(2)
    for launch, error, text in [
        (lambda: forward(Model("w", Affine(1.0)), out), TypeError, "str for model.weights"),
        (lambda: combined(((x, "f"), x), out), TypeError, r"str for inputs\[0\]\[1\]"),
        (lambda: indexed[1, 1](Model(1.0, Affine(1.0)), out), vc.KernelError, "the fields of Model are read by name"),
        (lambda: annotated[1, 1]((x,), 1.0, out), TypeError, r"x is annotated as float32\[:\]; got a tuple"),
        (lambda: swapped[1, 1](Model(1.0, Affine(1.0)), out), vc.KernelError, "Model has no attribute scale"),
    ]:
        with pytest.raises(error, match=text):
            launch()


@pytest.mark.device_only
def test_host_arrays(gpu):
    out = np.zeros(N, np.float32)
    with pytest.warns(vc.HostCopyWarning):
        combined(((X, 2.0), X), out)
    assert np.array_equal(out, 3 * X)


@pytest.mark.device_only
def test_numbers_of_a_graph(gpu):
    x, out = gpu.array(X), gpu.zeros(N)
    with gpu.record(scale=2.0) as graph:
        combined(((x, graph["scale"]), x), out)
    for scale in (2.0, 3.0):
        graph.run(scale=scale)
        assert np.array_equal(out.numpy(), X * scale + X)
