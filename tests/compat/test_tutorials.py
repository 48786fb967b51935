"""Programs for Kompute 0.9 with shaders by `pyshader`; only their imports are changed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from runtimes import needs_bindings

import vkcompute as vc
import vkcompute.compat.kp as kp
import vkcompute.compat.pyshader as ps

pytestmark = pytest.mark.usefixtures("clean_handles")


def test_multiply() -> None:
    @ps.python2shader
    def compute_multiply(
        index=("input", "GlobalInvocationId", ps.ivec3),
        data1=("buffer", 0, ps.Array(ps.f32)),
        data2=("buffer", 1, ps.Array(ps.f32)),
        data3=("buffer", 2, ps.Array(ps.f32)),
    ):
        i = index.x
        data3[i] = data1[i] * data2[i]

    mgr = kp.Manager()
    params = [mgr.tensor(item) for item in ([2, 2, 2], [1, 2, 3], [0, 0, 0])]
    algorithm = mgr.algorithm(params, compute_multiply.to_spirv())
    (
        mgr.sequence()
        .record(kp.OpTensorSyncDevice(params))
        .record(kp.OpAlgoDispatch(algorithm))
        .record(kp.OpTensorSyncLocal([params[2]]))
        .eval()
    )
    assert params[2].data().tolist() == [2.0, 4.0, 6.0]
    mgr.destroy()


def test_workgroups() -> None:
    """Uses built-in inputs, and `f32` without an import."""

    @ps.python2shader
    def compute_places(
        place=("input", "GlobalInvocationId", ps.ivec3),
        group=("input", "WorkgroupId", ps.ivec3),
        n_groups=("input", "NumWorkgroups", ps.ivec3),
        data1=("buffer", 0, ps.Array(ps.f32)),
        data2=("buffer", 1, ps.Array(ps.f32)),
    ):
        i = group.x * n_groups.y + group.y
        data1[i] = f32(place.x)
        data2[i] = f32(place.y)

    mgr = kp.Manager(0)
    a, b = mgr.tensor(np.zeros([16, 8])), mgr.tensor(np.zeros([16, 8]))
    mgr.sequence().eval(kp.OpSyncDevice([a, b]))
    algorithm = mgr.algorithm([a, b], compute_places.to_spirv(), (16, 8, 1))
    mgr.sequence().record(kp.OpAlgoDispatch(algorithm)).record(kp.OpSyncLocal([a, b])).eval()
    x, y = np.indices((16, 8), np.float32)
    np.testing.assert_array_equal(a.data(), x.ravel())
    np.testing.assert_array_equal(b.data(), y.ravel())
    mgr.destroy()


def test_logistic_regression() -> None:
    """The weights agree with the same steps in float64."""
    with vc.Runtime() as gpu:
        needs_bindings(gpu, 7)

    @ps.python2shader
    def compute_gradient(
        index=("input", "GlobalInvocationId", ps.ivec3),
        x_i=("buffer", 0, ps.Array(ps.f32)),
        x_j=("buffer", 1, ps.Array(ps.f32)),
        y=("buffer", 2, ps.Array(ps.f32)),
        w_in=("buffer", 3, ps.Array(ps.f32)),
        w_out=("buffer", 4, ps.Array(ps.vec2)),
        b_in=("buffer", 5, ps.Array(ps.f32)),
        b_out=("buffer", 6, ps.Array(ps.f32)),
    ):
        i = index.x
        x = vec2(x_i[i], x_j[i])
        z = vec2(w_in[0], w_in[1]) @ x + b_in[0]
        d_z = (1.0 / (1.0 + exp(-z)) - y[i]) / 5.0
        w_out[i] = x * d_z
        b_out[i] = d_z

    rows, labels = np.array([[0, 0], [1, 0], [1, 0], [1, 1], [1, 1]], float), np.array([0, 0, 0, 1, 1], float)
    mgr = kp.Manager()
    sides = [rows[:, 0], rows[:, 1], labels, [0.001, 0.001], np.zeros(10), [0], np.zeros(5)]
    params = [mgr.tensor(side) for side in sides]
    w, w_out, b, b_out = params[3:]
    mgr.sequence().eval(kp.OpSyncDevice(params))
    step = mgr.sequence().record(kp.OpSyncDevice([w, b]))
    step.record(kp.OpAlgoDispatch(mgr.algorithm(params, compute_gradient.to_spirv(), (5, 1, 1))))
    step.record(kp.OpSyncLocal([w_out, b_out]))
    weights, bias = np.array([0.001, 0.001]), 0.0
    for _ in range(100):
        step.eval()
        w.data()[:] -= 0.1 * w_out.data().reshape(5, 2).sum(axis=0)
        b.data()[0] -= 0.1 * b_out.data().sum()
        d_z = (1 / (1 + np.exp(-(rows @ weights + bias))) - labels) / 5
        weights, bias = weights - 0.1 * d_z @ rows, bias - 0.1 * d_z.sum()
    np.testing.assert_allclose([*w.data(), b.data()[0]], [*weights, bias], atol=100 * np.finfo(np.float32).eps)
    mgr.destroy()


def test_importing_loads_no_driver(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_python(
        "import sys, vkcompute.compat.kp05, vkcompute.compat.pyshader as ps\n"
        "print([name for name in ('vulkan', 'vkcompute.core.vk') if name in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
